"""A plan that completes a start, and one that begins one: whose seats may be taken over."""

from __future__ import annotations

import pytest

from extender.gang.core.reservations import Preemption
from extender.gang.tell.preemption_state import PreemptionState
from tests.gang.rig import Rig


@pytest.mark.parametrize("restarted", [False, True])
async def test_seats_of_who_completes_a_start_are_not_taken_over(
    rig: Rig, *, restarted: bool
) -> None:
    """One member sat, the other's node was closed, and the plan for another seat counted as one of
    which nobody sits: a more urgent gang took it, and half a gang ran (seed 155609)."""
    await rig.nodes(2, first=2)
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1", "n2", "n3")
    (preemption,) = rig.coordinator.reservations
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    sat, lost = (preemption.seats[rig.cached(f"high-{i}").uid] for i in range(2))
    assert (await rig.filter("high-0", sat)).node_names == [sat]
    await rig.bind("high-0", sat)
    await rig.until(lambda: len(preemption.seats) == 1, "one sits")
    await rig.client.patch(f"/api/v1/nodes/{lost}", {"spec": {"unschedulable": True}})

    def changed() -> bool:
        preemptions: list[Preemption] = list(rig.coordinator.reservations)
        return [(f.state, lost in f.seats.values()) for f in preemptions] == [
            (PreemptionState.OPEN, False)
        ]

    await rig.until(changed, "the other has another seat")
    if restarted:
        await rig.kill()
        await rig.start()
        (preemption,) = rig.coordinator.reservations
        rig.coordinator.reservations.not_coming(preemption, preemption.presumed)
    await rig.gang("top", 2, "top")
    await rig.preempt("top-0")
    assert "are being bound" in rig.messages("top")
    assert [preemption.key.name for preemption in rig.coordinator.reservations] == ["high"]
