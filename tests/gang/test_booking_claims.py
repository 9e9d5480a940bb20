"""What booked starts claim of a node: room that comes free is counted on once."""

from __future__ import annotations

from collections.abc import Mapping

from extender.gang.plan.booking import Booking, claims
from extender.model.objects import Pod
from tests.gang.world import gang_key


def booking(name: str, cores: int, *awaited: str, priority: int = 5, made: float = 0.0) -> Booking:
    return Booking(
        gang=gang_key(name),
        priority=priority,
        made=made,
        start=None,
        seats={f"{name}-0": "n0"},
        requests={f"{name}-0": (("cpu", cores),)},
        awaited=frozenset(awaited),
        domain=frozenset({"n0"}),
    )


def running(uid: str, cores: int) -> Pod:
    requests = (("cpu", cores), ("memory", 7))
    return Pod(uid=uid, namespace="default", name=uid, node="n0", requests=requests)


def kept(
    *bookings: Booking, pods: tuple[Pod, ...], promised: tuple[str, ...] = ()
) -> Mapping[str, tuple[int, dict[str, int]]]:
    """By gang: cores kept now, and the cores of each awaited pod that are counted on."""
    return {
        made.gang.name: (
            amounts.get("cpu", 0),
            {uid: dict(part).get("cpu", 0) for uid, part in awaited},
        )
        for made, amounts, awaited in claims(bookings, "n0", pods, lambda pod: None, promised)
    }


def test_nothing_is_kept_of_what_is_still_with_others() -> None:
    """Nor is more of a pod counted on than is asked for, and nothing of what is not."""
    one = booking("one", 3, "old")
    assert kept(one, pods=(running("old", 4),)) == {"one": (0, {"old": 3})}
    assert kept(one, pods=(running("old", 2),)) == {"one": (1, {"old": 2})}
    assert kept(one, pods=()) == {"one": (3, {})}
    [(_, _, awaited)] = claims([one], "n0", (running("old", 4),), lambda pod: None, ())
    assert awaited == (("old", (("cpu", 3),)),)


def test_two_that_wait_for_one_pod_count_its_room_once() -> None:
    """Three cores each, of which the pod has four: two more are theirs already."""
    first, second = booking("first", 3, "old"), booking("second", 3, "old", made=1.0)
    pods = (running("old", 4),)
    expected = {"first": (0, {"old": 3}), "second": (2, {"old": 1})}
    assert kept(first, second, pods=pods) == expected
    assert kept(second, first, pods=pods) == expected, "whoever is looked at first"
    urgent = booking("urgent", 3, "old", made=2.0, priority=6)
    assert kept(first, urgent, pods=pods) == {"urgent": (0, {"old": 3}), "first": (2, {"old": 1})}


def test_room_that_a_plan_counts_on_is_not_counted_on() -> None:
    """The pod is waited for all the same, and its room is the plan's when it has gone."""
    pods = (running("old", 4),)
    assert kept(booking("one", 3, "old"), pods=pods, promised=("old",)) == {"one": (3, {"old": 0})}
