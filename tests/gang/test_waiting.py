"""How long a gang waits after a plan that was given up."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.controller.waiting import MAX_PENALTY, Waiting
from extender.gang.plan.fair_turns import Turn
from extender.gang.runtime.clocks import Clocks
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Refusal
from tests.gang.world import NOW, pod

KEY = GangKey("jobset", "ns", "g")


def leaves_in_time(member: Pod, wall: float) -> bool:
    return member.deleting > wall


def gang(*members: Pod) -> Gang:
    return Gang(KEY, members, len(members), size_known=False)


def test_a_gang_whose_plans_fail_for_days_waits_a_minute_each_time() -> None:
    """After 1,023 in a row the doubled pause was beyond a float, and every end raised."""
    now = 0.0
    waiting = Waiting(Clocks(lambda: now), 2.0, 1.0, 30.0, leaves_in_time)
    gang = Gang(GangKey("pod-group", "ns", "g"), (), 1)
    for _ in range(2000):
        waiting.failed(gang.key)
        assert waiting.must_wait(gang, 0.0) is not None
        now += MAX_PENALTY
        assert waiting.must_wait(gang, 0.0) is None


def test_half_of_a_gang_that_is_made_anew_one_by_one_is_no_gang() -> None:
    """Three of size unknown went, each at its own time; the first that was back got a seat."""
    waiting = Waiting(Clocks(lambda: 100.0), 2.0, 1.0, 30.0, leaves_in_time)
    old = [pod(f"g-{i}", on=f"n{i}") for i in range(3)]
    leaving = [replace(member, deleting=NOW + 30) for member in old]
    new = [pod(f"h-{i}") for i in range(3)]
    for members in ((*leaving[1:], new[0]), (*leaving[2:], *new[:2])):
        refusal = waiting.must_wait(gang(*members), NOW)
        assert refusal is not None
        assert "some of its members terminate" in refusal.message
    assert waiting.must_wait(gang(*new), NOW) is None
    # All of it is there before the last of the old ones is gone.
    assert waiting.must_wait(gang(*leaving, *new), NOW) is None
    # Who does not go in time is not waited for.
    assert waiting.must_wait(gang(*leaving[2:], *new[:2]), NOW + 31) is None


def test_a_dear_refusal_is_kept_while_the_cluster_changes() -> None:
    """Ten times as long as it took to find (docs/security.md, row 6)."""
    now = [0.0]
    waiting = Waiting(Clocks(lambda: now[0]), 2.0, 1.0, 30.0, leaves_in_time)
    refusal = Refusal(gang=KEY, code=Code.INFEASIBLE, message="no room")
    waiting.refuse(refusal, (1, 1, 1), 1.5, NOW)
    for now[0], stands in ((14.9, True), (15.1, False)):
        assert (waiting.kept(KEY, (2, 2, 2)) is refusal) is stands
    assert waiting.kept(KEY, (1, 1, 1)) is refusal, "nothing has changed"


def test_a_refusal_ends_with_the_protection_that_it_rests_on() -> None:
    """Nothing happens in the cluster when a pod has run for its least time."""
    now = [0.0]
    waiting = Waiting(Clocks(lambda: now[0]), 2.0, 1.0, 30.0, leaves_in_time)
    refusal = Refusal(gang=KEY, code=Code.INFEASIBLE, message="no room", until=NOW + 60)
    waiting.refuse(refusal, (1, 1, 1), 0.01, NOW)
    for now[0], stands in ((59.0, True), (61.0, False)):
        assert (waiting.kept(KEY, (1, 1, 1)) is refusal) is stands


def test_a_gang_comes_before_a_younger_one_where_time_alone_has_made_room() -> None:
    """Its refusal is of the present state, in which its victims had started a moment ago."""
    now = [0.0]
    waiting = Waiting(Clocks(lambda: now[0]), 2.0, 1.0, 30.0, leaves_in_time)
    refusal = Refusal(gang=KEY, code=Code.INFEASIBLE, message="no room", until=NOW + 60)
    waiting.refuse(refusal, (1, 1, 1), 0.01, NOW, Turn("ns", 5, 10.0, "g"))
    young = Turn("ns", 5, 20.0, "young")
    for now[0], first in ((59.0, []), (61.0, [KEY])):
        assert waiting.ahead(young, (1, 1, 1), 8, 1.0) == first
