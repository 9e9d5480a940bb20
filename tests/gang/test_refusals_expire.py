"""A refused seat, or eviction, is remembered for a while, and asked for again after it."""

from __future__ import annotations

from extender.gang.core.refusals import REFUSAL_SECONDS, REHEARSED_SECONDS, Refusals
from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view.node_lists import REFUSED_SECONDS, NodeLists
from tests.gang.world import pod


def test_what_is_remembered_and_forgotten_makes_another_answer_possible() -> None:
    """Else a gang refused for a refused seat is never searched for again on a calm cluster."""
    now = [0.0]
    evidence = NodeLists(Clocks(lambda: now[0]))
    member, twin = pod("a-0"), pod("a-1")
    versions = [evidence.version()]

    def changed() -> bool:
        versions.append(evidence.version())
        return versions[-1] > versions[-2]

    evidence.refuses(member, "n0")
    assert changed()
    assert not changed()
    now[0] = REFUSED_SECONDS / 2
    evidence.refuses(twin, "n1")
    assert changed()
    now[0] = REFUSED_SECONDS + 1
    assert changed()  # the first is forgotten
    now[0] = 2 * REFUSED_SECONDS
    assert changed()
    assert not changed()


def refused(refusals: Refusals, uid: str, *, rehearsed: bool = False) -> None:
    refusals.note(
        uid,
        "no",
        passing=False,
        unclear=False,
        budgeted=False,
        readable=True,
        rehearsed=rehearsed,
    )


def remembered(refusals: Refusals, now: list[float]) -> float:
    """Return for how many more seconds a pod is left alone; ``now`` goes on by as much."""
    began = now[0]
    while refusals.unevictable():
        now[0] += 1.0
    return now[0] - began


def test_a_rehearsal_that_is_refused_is_tried_again_soon_and_ever_later() -> None:
    """An API server that has just started forbids for some seconds what it allows later."""
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    waits = []
    for _ in range(6):
        refusals.note(
            "a", "no", passing=False, unclear=False, budgeted=False, readable=True, rehearsed=True
        )
        waits.append(remembered(refusals, now))
    assert waits == [REHEARSED_SECONDS, 20.0, 40.0, 80.0, REFUSAL_SECONDS, REFUSAL_SECONDS]
    refusals.forget("a")
    refusals.note(
        "a", "no", passing=False, unclear=False, budgeted=False, readable=True, rehearsed=True
    )
    assert remembered(refusals, now) == REHEARSED_SECONDS
    refused(refusals, "b")
    assert remembered(refusals, now) == REFUSAL_SECONDS, "a real one takes from a gang each time"
