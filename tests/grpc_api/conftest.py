from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.gang.rig import Rig
from tests.grpc_api.asking import One
from tests.grpc_api.site import calling, serving_rig


@pytest.fixture
async def one() -> AsyncIterator[One]:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        async with serving_rig(rig) as site, calling(site.target) as callers:
            rig.listener.feed = site.feed.add
            yield One(rig, site, callers)
