"""What a change makes of an answer (gang.tell.difference)."""

from __future__ import annotations

from extender.gang.tell.difference import difference, told
from extender.model.cost_order import order_of
from extender.model.objects import GangKey
from extender.model.plan import Code, Cost, Plan, Refusal, Victim

GANG = GangKey("pod-group", "team", "new")
REFUSED = Refusal(gang=GANG, code=Code.INFEASIBLE, message="no room")


def victim(name: str, priority: int, gang: str = "") -> Victim:
    return Victim(
        uid=name, namespace="team", name=name, node=f"node-of-{name}", priority=priority, gang=gang
    )


def plan(*victims: Victim, **costs: int) -> Plan:
    levels = tuple(Cost(level.replace("_", "@"), value, value) for level, value in costs.items())
    return Plan(gang=GANG, priority=100, seats=(), victims=victims, costs=levels)


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
