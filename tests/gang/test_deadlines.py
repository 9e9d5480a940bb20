"""How long a plan waits for its evictions, and for what comes between them and its seats."""

from __future__ import annotations

from extender.gang.core.preemption import late
from extender.gang.core.reservations import Preemption
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GangKey
from extender.model.plan import Plan, Seat, Victim
from extender.settings.settings import SeatSettings

SETTINGS = SeatSettings(victim_slack_seconds=2.0, bind_seconds=30.0)


def preemption(state: PreemptionState, victims: int) -> Preemption:
    """A plan whose state was entered at 100 s and whose victims have a grace of 5 s."""
    named = tuple(
        Victim(uid=f"v{i}", namespace="ns", name=f"v{i}", node="n", priority=0, grace=5)
        for i in range(3)
    )
    plan = Plan(GangKey("pod-group", "ns", "g"), 10, (Seat("m", "ns", "m", "n"),), named)
    return Preemption(
        plan=plan,
        pods={},
        seats={"m": "n"},
        state=state,
        since=100.0,
        victims={v.uid: v for v in named[:victims]},
    )


def test_victims_have_their_grace_and_some_seconds() -> None:
    waiting = preemption(PreemptionState.WAITING, 2)
    assert late(waiting, 107.0, SETTINGS) is None
    assert "v0, v1 did not go away" in (late(waiting, 107.1, SETTINGS) or "")


def test_each_accepted_eviction_is_progress() -> None:
    """Accepted one by one, they would else be given up in the middle, every time."""
    evicting = preemption(PreemptionState.EVICTING, 3)
    assert late(evicting, 107.1, SETTINGS) is not None
    evicting.progress_at = 106.0
    assert late(evicting, 113.0, SETTINGS) is None
    assert late(evicting, 113.1, SETTINGS) is not None


def test_room_that_more_urgent_pods_are_on_their_way_to_is_not_waited_for_without_end() -> None:
    for state in (PreemptionState.EVICTING, PreemptionState.WAITING):
        empty = preemption(state, 0)
        assert late(empty, 137.0, SETTINGS) is None
        assert "more urgent pods" in (late(empty, 137.1, SETTINGS) or "")
