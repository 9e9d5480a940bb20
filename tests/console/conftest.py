"""A site on the training cluster, a client that runs no script, and one that is a browser."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.console.browser import chromium
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


@pytest.fixture(scope="module")
def pictures(request: pytest.FixtureRequest) -> Path:
    """Where screenshots are kept: CONSOLE_SHOTS, or test-logs/console."""
    given = os.environ.get("CONSOLE_SHOTS")
    folder = Path(given) if given else request.config.rootpath / "test-logs" / "console"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    """One for all tests of a file: its start costs more than most of them."""
    async with chromium() as one:
        yield one
