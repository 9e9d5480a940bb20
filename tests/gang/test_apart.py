"""A defect that shows in one plan does not keep the others from their deadlines."""

from __future__ import annotations

import pytest

from extender.gang.core import preemption as machine
from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from tests.gang.rig import Rig


async def test_a_plan_that_cannot_be_looked_at_delays_no_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        await rig.gang(name, 1, "high")
        await rig.coordinator.ensure(rig.resolver_key(f"{name}-0"), Verb.FILTER)
    await rig.until(lambda: len(rig.coordinator.reservations) == 2, "both have seats")

    def broken(preemption: Preemption, *rest: object) -> str | None:
        if preemption.key.name == "first":
            raise ZeroDivisionError
        return "its time is over"

    monkeypatch.setattr(machine, "late", broken)
    await rig.until(lambda: "gave-up" in rig.outcomes("second"), "the other one ends")
    assert [preemption.key.name for preemption in rig.coordinator.reservations] == ["first"]
