"""The bind barrier once a first binding was posted: read back, tried again, told, rolled back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from extender.sandbox.faults import Fault
from extender.settings.settings import SeatSettings
from tests.gang.held_binds import GANG, HELD, REAL, bind, bound_to, holding, nodes_of, seated
from tests.gang.rig import Rig

ROLLBACK = replace(
    HELD, seats=SeatSettings(bind_seconds=30.0, victim_slack_seconds=1.0, rollback="delete")
)
ENDS = replace(
    HELD, seats=SeatSettings(bind_seconds=2.5, victim_slack_seconds=1.0, rollback="delete")
)


@pytest.fixture
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with holding(getattr(request, "param", HELD)) as one:
        yield one


@pytest.mark.parametrize("drop", ["before", "after"])
async def test_a_lost_answer_is_read_back(rig: Rig, drop: Any) -> None:
    seats = await seated(rig)
    fault = rig.server.faults.plan(
        Fault(times=1, method="POST", path=REAL.format("g-1"), drop=drop)
    )
    assert await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG]) == ["", "", ""]
    assert fault.hits == 1
    assert await nodes_of(rig) == seats


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_passes_is_tried_again(rig: Rig, status: int) -> None:
    seats = await seated(rig)
    fault = rig.server.faults.plan(
        Fault(times=2, method="POST", path=REAL.format("g-1"), status=status)
    )
    assert await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG]) == ["", "", ""]
    assert fault.hits == 2


async def test_a_lasting_refusal_is_told_and_those_bound_are_kept(rig: Rig) -> None:
    seats = await seated(rig)
    fault = rig.server.faults.plan(
        Fault(times=100, method="POST", path=REAL.format("g-1"), status=403, reason="Forbidden")
    )
    errors = await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG])
    assert errors[0] == errors[2] == ""
    assert "Forbidden" in errors[1]
    assert await nodes_of(rig) == bound_to(seats, "g-0", "g-2")
    assert "in-part" in rig.outcomes("g")
    assert "bound so far: g-0, g-2" in rig.messages("g")
    # The gang sits in part: whoever comes now is not held.
    fault.times = 0
    assert await bind(rig, "g-1", seats["g-1"]) == ""
    await rig.until(lambda: rig.outcomes("g")[-1] == "done", "the plan is done")


@pytest.mark.parametrize("rig", [ROLLBACK], indirect=True)
async def test_a_lasting_refusal_is_rolled_back_where_that_is_configured(rig: Rig) -> None:
    seats = await seated(rig)
    await rig.pod("other", cpu="1", on=seats["g-0"])
    rig.server.faults.plan(
        Fault(times=100, method="POST", path=REAL.format("g-1"), status=403, reason="Forbidden")
    )
    errors = await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG])
    assert "Forbidden" in errors[1]
    await rig.until_names("g-1", "other")
    assert {"in-part", "gave-up"} <= set(rig.outcomes("g"))
    assert rig.coordinator.partly_bound.counted["rolled-back"] == 2


@pytest.mark.parametrize("rig", [ROLLBACK], indirect=True)
async def test_a_gang_that_sits_whole_is_never_rolled_back(rig: Rig) -> None:
    seats = await seated(rig)
    assert await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG]) == ["", "", ""]
    await rig.until(lambda: rig.outcomes("g")[-1] == "done", "the plan is done")
    await rig.remove("g-1")
    await rig.until_names("g-0", "g-2")
    assert "in-part" not in rig.outcomes("g")


async def test_two_clusters_of_callers_do_not_bind_twice(rig: Rig) -> None:
    """Repeated calls while bindings are posted end the same way."""
    seats = await seated(rig)
    rig.server.faults.plan(Fault(times=1, method="POST", path=REAL.format("g-1"), delay=0.3))
    first = [bind(rig, name, seats[name]) for name in GANG]
    await rig.until(lambda: rig.coordinator.bindings.barriers["opened"] == 1, "opened")
    second = [bind(rig, name, seats[name]) for name in GANG]
    assert await asyncio.gather(*first, *second) == [""] * 6
    assert await nodes_of(rig) == seats


@pytest.mark.parametrize("rig", [ENDS], indirect=True)
async def test_a_plan_that_ends_in_part_is_rolled_back(rig: Rig) -> None:
    """The API server does not take one binding, without ever saying no."""
    seats = await seated(rig)
    rig.server.faults.plan(
        Fault(times=1000, method="POST", path=REAL.format("g-1"), status=503, reason="Unavailable")
    )
    errors = await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG])
    assert errors[0] == errors[2] == ""
    assert "not accepted within 1 s" in errors[1]
    assert "in-part" not in rig.outcomes("g")
    await rig.until_names("g-1")
    assert {"in-part", "gave-up"} <= set(rig.outcomes("g"))
