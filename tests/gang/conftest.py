from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from extender.settings.settings import EvictionSettings, SeatSettings
from tests.gang.rig import FAST, Rig

QUICK = replace(
    FAST,
    eviction=EvictionSettings(attempts=2),
    seats=SeatSettings(bind_seconds=30.0, victim_slack_seconds=0.5),
)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100, top=1000)
        yield rig


@pytest.fixture
async def wide() -> AsyncIterator[Rig]:
    """Four nodes, and settings that give up soon."""
    async with Rig(QUICK) as rig:
        await rig.nodes(4)
        await rig.classes(low=1, mid=20, high=100, top=1000)
        yield rig


@pytest.fixture
async def patient() -> AsyncIterator[Rig]:
    """Who cannot be evicted now is waited for: plans end when a test says so."""
    settings = replace(FAST, seats=SeatSettings(bind_seconds=300.0, victim_slack_seconds=300.0))
    async with Rig(settings) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        yield rig
