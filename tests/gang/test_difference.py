"""What a change makes of an answer (gang.tell.difference)."""

from __future__ import annotations

import pytest

from extender.gang.tell.difference import LevelDifference, difference, told
from extender.model.objects import GangKey
from extender.model.plan import Code, Cost, Plan, Refusal, Victim
from extender.settings.cost_order import order_of

GANG = GangKey("pod-group", "team", "new")
REFUSED = Refusal(gang=GANG, code=Code.INFEASIBLE, message="no room")


def victim(name: str, priority: int, gang: str = "") -> Victim:
    return Victim(
        uid=name, namespace="team", name=name, node=f"node-of-{name}", priority=priority, gang=gang
    )


def plan(*victims: Victim, **costs: int) -> Plan:
    levels = tuple(Cost(level.replace("_", "@"), value, value) for level, value in costs.items())
    return Plan(gang=GANG, priority=100, seats=(), victims=victims, costs=levels)


WORK = ("default",)
COUNTS = ("gangs-by-priority", "fewest-pods", "fewest-gangs")


@pytest.mark.parametrize(
    ("level", "orders"),
    [
        ("work_1", WORK),
        ("grace_1", WORK),
        ("gangs_1", WORK + COUNTS),
        ("pods_1", WORK + COUNTS),
        ("work", COUNTS),
        ("pods", ("fewest-pods",)),
        ("gangs", ("fewest-gangs",)),
        ("waits", WORK + COUNTS),
        ("luck", ()),
    ],
)
@pytest.mark.parametrize("other", WORK + COUNTS)
def test_a_level_is_compared_where_both_orders_count_it_or_none_does(
    level: str, orders: tuple[str, ...], other: str
) -> None:
    """What a level costs in one order is no difference to another that does not count it."""
    for order in WORK + COUNTS:
        found = difference(
            plan(**{level: 2}), plan(), order_of(order, {}), order_of(other, {})
        ).levels
        same = (order in orders) == (other in orders)
        assert found == [LevelDifference(level.replace("_", "@"), 2, 0)] * same, order


def test_both_sides_of_a_difference_in_work_say_as_many_digits_as_it_takes() -> None:
    before, after = plan(victim("a", 1), work_1=1_000_080), plan(victim("b", 1), work_1=1_000_000)
    said = told(difference(before, after, *[order_of("default", {})] * 2))[-1]
    assert said == "  work@1: 277.80 GPU-hours before, 277.78 GPU-hours changed"


def test_who_goes_as_well_and_who_stays() -> None:
    before = plan(victim("a", 1), victim("b", 1, "pod-group:team/low"), pods_1=2)
    after = plan(victim("c", 5), pods_5=1)
    found = difference(before, after)
    assert found.words == "1 pod more and 2 fewer would be evicted: 1 instead of 2."
    assert told(found) == [
        "what the change makes of it: 1 pod more and 2 fewer would be evicted: 1 instead of 2.",
        "  + team/c on node-of-c (priority 5)",
        "  - team/a on node-of-a (priority 1)",
        "  - team/b on node-of-b (priority 1, pod-group:team/low)",
        "  pods@1: 2 before, 0 changed",
        "  pods@5: 0 before, 1 changed",
    ]


def test_levels_that_one_order_does_not_count_are_no_zeros() -> None:
    before, after = plan(victim("a", 1), pods_1=1), plan(victim("a", 1), pods=1, pods_1=1)
    orders = order_of("default", {}), order_of("fewest-pods", {})
    assert difference(before, after, *orders).levels == []
    own = order_of("own", {"own": ("gangs",)})
    assert difference(before, plan(gangs=1), orders[0], own).levels == []


def test_refusals() -> None:
    going = plan(victim("a", 1))
    assert difference(REFUSED, REFUSED).words == "Refused either way."
    assert difference(going, REFUSED).words == "It would not run any more."
    made = difference(REFUSED, going)
    assert made.words == "It would run, and 1 pod would be evicted for it."
    assert difference(going, going).words == "The same 1 pod would be evicted."
