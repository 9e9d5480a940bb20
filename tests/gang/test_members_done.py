"""Gangs of which a member has succeeded, its pod still there, on the sandbox's API server.

Four ran together and one is done. The three are one victim; one of them that is lost and made
anew starts again, although four will never be there.
"""

from __future__ import annotations

import time

import pytest

from extender.gang.tell.preemption_state import PreemptionState
from extender.model.texts import rfc3339
from tests.gang.rig import PODS, Rig
from tests.gang.test_systems import NODES, bed, gang, member, until_left
from tests.groups import recorded

SYSTEMS = [*(name for name in recorded.STATED if "leader" not in name), *recorded.OBJECTS]
"""But LeaderWorkerSets, whose pods do not end."""


async def one_is_done(rig: Rig, system: str) -> None:
    """low-0-3 has succeeded; its node is taken by somebody who stays."""
    await gang(rig, system, "low-0", "low", bound=True)
    status = {"phase": "Succeeded", "startTime": rfc3339(time.time())}
    await rig.client.patch(f"{PODS}/low-0-3/status", {"status": status})
    await rig.until(lambda: rig.cache.pod_named("default", "low-0-3") is None, "it is done")
    await rig.pod("keep", cls="top", on="n3")


@pytest.mark.parametrize("system", SYSTEMS)
async def test_the_three_go_together(system: str) -> None:
    async with bed(system) as rig:
        await one_is_done(rig, system)
        await rig.pod("urgent", cls="high")
        await until_left(rig, "urgent", "keep", "urgent", "low-0-3")


@pytest.mark.parametrize("system", SYSTEMS)
async def test_one_made_anew_takes_room_like_any_member(system: str) -> None:
    """Nobody of its gang goes, nor is it told to wait for one that is done."""
    async with bed(system) as rig:
        await rig.classes(least=-1)
        await one_is_done(rig, system)
        await rig.remove("low-0-2")
        await rig.pod("filler", cls="least", on="n2")
        await rig.client.create(PODS, member(system, 2, 4, "low-0", "low", bound=False))
        await until_left(rig, "low-0-2", "low-0-0", "low-0-1", "low-0-2", "low-0-3", "keep")
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        assert (await rig.filter("low-0-2", *NODES)).node_names == ["n2"]
