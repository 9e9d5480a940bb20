"""Seats that kube-scheduler refuses while another plan waits for room beside them.

It adds the seats nominated to others to the pods that go, and we count those as gone.
"""

from __future__ import annotations

import pytest

from extender.gang.core.refused_seats import MISSED_SECONDS, MOST_UNHEARD
from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view.node_lists import MAX_REFUSED_WHILE, NodeLists
from extender.model.gang import Gang
from tests.gang.open_seats import Seats
from tests.gang.world import gang_key, pod


@pytest.mark.parametrize("heard", [True, False])
def test_what_is_refused_once_another_plan_is_over_is_no_fault_of_it(*, heard: bool) -> None:
    """It was forgotten at once: another plan had waited there when the seat was missed first."""
    seats = Seats()
    seats.waits_on("n2", 50)
    for over in (False, True):
        if over:
            seats.reservations.close(gang_key("another"))
        for _ in range(MOST_UNHEARD):
            seats.now += 0.9 * MISSED_SECONDS / MOST_UNHEARD
            if heard:
                seats.misses("n9")
            else:
                seats.clears(seats.other)
        assert not seats.changed
    seats.now += MISSED_SECONDS
    if heard:
        seats.misses("n9")
    else:
        seats.clears(seats.other)
    assert seats.changed
    assert set(seats.masked.values()) == {frozenset({"n2"})}
    seats.reservations.pod_left("n2", "going")
    assert seats.left_out() == {"n2"}


def test_who_has_not_asked_since_another_plan_is_over_is_called() -> None:
    """Its silence is the end of what kept it off the seat, and no refusal."""
    seats = Seats()
    seats.waits_on("n2", 50)
    seats.misses("n9")
    seats.reservations.close(gang_key("another"))
    for changed in (False, True):
        seats.now += MISSED_SECONDS
        seats.refused.look(seats.preemption)
        assert seats.called == [seats.other.uid]
        assert bool(seats.changed) is changed


def test_a_refusal_does_not_outlive_the_plan_that_is_the_reason() -> None:
    """Anybody who was waited for there, by however little urgent a plan, kept it up."""
    seats = Seats()
    seats.waits_on("n2", 50)
    seats.misses("n9")
    seats.now += MISSED_SECONDS
    seats.refused.look(seats.preemption)
    assert seats.left_out() == {"n2"}
    assert not seats.masked, "the search may come when that plan is over (872730 with sparing)"
    seats.waits_on("n2", -5, gang="less-urgent")
    assert seats.left_out() == {"n2"}
    seats.reservations.close(gang_key("another"))
    assert seats.left_out() == frozenset()


def test_refusals_for_now_are_few() -> None:
    """All of them are looked at for each question, and each kind of pod of a tenant is another."""
    evidence = NodeLists(Clocks(lambda: 0.0))
    others = [pod("p", cpu=cpu) for cpu in range(MAX_REFUSED_WHILE + 2)]
    version = evidence.version()
    for other in others:
        evidence.refuses(other, "n1", lambda: True)
        assert evidence.version() > version
        version = evidence.version()
    gang = Gang(key=gang_key("g"), members=(others[-1],), min_count=1)
    assert evidence.masks(gang, ("n1",)) == {others[-1].uid: {"n1"}}
    assert len(evidence._refused_while) == MAX_REFUSED_WHILE
