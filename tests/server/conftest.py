"""One server and one client session per test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
import structlog
import uvloop
from structlog.testing import capture_logs

from tests.server.doubles import Running, running


@pytest.fixture(scope="session")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """Run this room on the loop that production runs on."""
    policy: asyncio.AbstractEventLoopPolicy = uvloop.EventLoopPolicy()
    return policy


@pytest.fixture
async def site() -> AsyncIterator[Running]:
    async with running() as one:
        yield one


@pytest.fixture
async def web() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as caught:
        yield caught


@pytest.fixture
def scrape(site: Running) -> Callable[[], str]:
    return lambda: site.metrics.render("")[0].decode()
