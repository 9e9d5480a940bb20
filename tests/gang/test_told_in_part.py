"""A gang that runs in part says who runs, also where this life has not seen them bound."""

from __future__ import annotations

import pytest

from tests.gang.rig import Rig


@pytest.mark.parametrize("lives", [1, 2])
async def test_a_gang_that_runs_in_part_says_who_runs(rig: Rig, lives: int) -> None:
    await rig.gang("g", 2, "high")
    seat: list[str] = []
    while not seat:
        await rig.rounds(1)
        seat = list((await rig.filter("g-0", "n0", "n1")).node_names or ())
    await rig.bind("g-0", seat[0])
    await rig.until(lambda: bool(rig.cached("g-0").node), "it is seen bound")
    if lives > 1:
        await rig.restart()
    await rig.remove("g-1")
    await rig.until(lambda: "in-part" in rig.outcomes("g"), "it is told")
    assert "bound so far: g-0" in rig.messages("g")
