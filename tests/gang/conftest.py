from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.gang.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100, top=1000)
        yield rig
