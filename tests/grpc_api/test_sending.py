"""What is being sent while the server stops: it arrives whole, or its connection is cut."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import grpc
import pytest

from extender.grpc_api import decision_watch
from extender.settings.settings import ServerSettings, Settings
from tests.grpc_api.site import LOCAL, Callers, Site, calling, serving
from tests.grpc_api.test_calls import until
from tests.grpc_api.test_decisions import made
from tests.grpc_api.test_seats import Terms, ended
from tests.server.doubles import Echo

LARGE = b"x" * (1 << 20)
"""More than the window that a reader has who does not read."""
Code = grpc.StatusCode
_sent: list[bytes] = []
"""What was encoded to be sent."""


def _large(*_: object) -> bytes:
    _sent.append(LARGE)
    return LARGE


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    _sent.clear()
    monkeypatch.setattr(decision_watch, "_encoded", _large)
    settings = Settings(grpc=LOCAL, server=ServerSettings(drain_seconds=0.1))
    async with serving(Echo(), settings, Terms()) as found:
        yield found


async def first_of(site: Site, callers: Callers) -> Any:
    """A watch whose first message is being sent and cannot arrive."""
    call = callers.raw_stream("/podgroup.v1.WatchService/WatchDecisions")(b"")
    await until(site.server.calls.streams)
    # A call that is counted is not yet one that waits for decisions.
    deadline = time.monotonic() + 60
    for number in count(1):
        site.feed.add(made(number))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await until(lambda: bool(_sent))
            break
        assert time.monotonic() < deadline, "nothing is sent"
    # The window is full long before this is over; nothing tells when.
    await asyncio.sleep(0.1)
    return call


@pytest.fixture(autouse=True)
def _no_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_first_message_that_is_being_sent_arrives_before_the_end(site: Site) -> None:
    async with calling(site.target) as callers:
        call = await first_of(site, callers)
        site.stop.set()
        await asyncio.sleep(0.05)
        assert await asyncio.wait_for(call.read(), 60) == LARGE
        assert await ended(call) == (Code.UNAVAILABLE, "stopping")


async def test_a_reader_that_does_not_read_is_cut_off(site: Site) -> None:
    async with calling(site.target) as callers:
        call = await first_of(site, callers)
        site.stop.set()
        await until(lambda: not site.server.calls.streams())
        assert (await ended(call))[0] in (Code.UNAVAILABLE, Code.CANCELLED)


@pytest.mark.parametrize("turns", range(20))
async def test_a_stop_between_a_message_and_the_news_that_it_is_sent(turns: int) -> None:
    async with serving(Echo(), context=Terms()) as site, calling(site.target) as callers:
        watch = callers.raw_stream("/podgroup.v1.WatchService/WatchSeats")
        calls = [watch(b"") for _ in range(8)]
        for _ in range(turns):
            await asyncio.sleep(0)
        site.stop.set()
        for call in calls:
            # The library cancels what it had not handed over yet.
            assert (await ended(call))[0] in (Code.UNAVAILABLE, Code.CANCELLED)
