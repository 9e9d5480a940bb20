"""A site on the training cluster, and a client that is no browser: it runs no script."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.console.site import Site, serving
from tests.console.stage import training_cluster


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving(training_cluster()) as one:
        yield one


@pytest.fixture
async def web() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
