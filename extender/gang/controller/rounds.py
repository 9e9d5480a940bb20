"""Loops that look after preemptions and waiting gangs, and show that they live."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from extender.gang.controller.heartbeats import Heartbeats
from extender.model.errors import NotReady

log = structlog.get_logger("gang")


async def run_rounds(
    rounds: Mapping[str, Callable[[], Awaitable[None]]],
    stop: asyncio.Event,
    period: float,
    heartbeats: Heartbeats,
) -> None:
    """Run each of the named rounds every ``period`` seconds until ``stop`` is set."""
    await asyncio.gather(
        *(_every(period, stop, name, work, heartbeats) for name, work in rounds.items())
    )


async def _every(
    period: float,
    stop: asyncio.Event,
    name: str,
    work: Callable[[], Awaitable[None]],
    heartbeats: Heartbeats,
) -> None:
    while not stop.is_set():
        heartbeats.beat(name)
        try:
            await work()
        except NotReady as why:  # the term ends, and nothing is wrong
            log.info("a round was not finished", loop=name, why=str(why))
        except Exception:  # one bad gang must not end the loop for all others
            log.exception("a round failed", loop=name)
        try:
            async with asyncio.timeout(period):
                await stop.wait()
        except TimeoutError:
            continue
    heartbeats.rest(name)
