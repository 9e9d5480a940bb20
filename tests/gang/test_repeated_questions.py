"""A question that comes twice, as from a proxy that sends it again, is one attempt of a pod's."""

from __future__ import annotations

import pytest

from extender.gang.core.reservations import Preemption
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from tests.gang.rig import FAST, Rig


async def test_a_seat_given_twice_at_once_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three attempts that end without a binding cost the seat its node for five minutes."""
    now = 100.0
    async with Rig(FAST) as rig:
        await rig.nodes(2)
        await rig.classes(high=100)
        await rig.gang("high", 2, "high")
        preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
        assert isinstance(preemption, Preemption)
        await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
        seats = rig.coordinator.refused_seats
        monkeypatch.setattr(seats, "_clocks", Clocks(monotonic=lambda: now))
        pod = rig.cached("high-0")
        for attempt in range(3):
            now = 100.0 + 10 * attempt
            assert seats.seat_given(preemption, pod)
            now += 0.02
            assert seats.seat_given(preemption, pod), "the same attempt"
        now += 10.0
        assert not seats.seat_given(preemption, pod)
