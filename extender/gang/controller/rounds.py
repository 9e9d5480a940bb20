"""Loops that look after preemptions and waiting gangs, and show that they live."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from extender.gang.runtime.clocks import Clocks
from extender.model.errors import NotReady

BOUND_SECONDS = 60.0
"""How long any of them may be silent unless it says otherwise."""


class Heartbeats:
    """Who has to show life, and since when each has not. ``beat`` may be called by any thread."""

    def __init__(
        self,
        bounds: Mapping[str, float] | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        self._bounds = dict(bounds or {})
        self._clocks = clocks or Clocks()
        self._last: dict[str, float] = {}
        self._dead: dict[str, str] = {}

    def beat(self, name: str) -> None:
        """Show life; from the first time on it is expected again and again."""
        self._last[name] = self._clocks.monotonic()

    def rest(self, name: str) -> None:
        """Expect nothing more until the next beat: the work is done or waits for its turn."""
        self._last.pop(name, None)

    def died(self, name: str, why: str) -> None:
        """Note an end that was not to be; only a restart repairs it."""
        self._dead[name] = why

    def late(self) -> list[str]:
        """Return, for a person, what is dead or has been silent for too long."""
        now = self._clocks.monotonic()
        texts = [f"{name} has ended: {why}" for name, why in sorted(self._dead.items())]
        for name, last in sorted(self._last.items()):
            if name not in self._dead and now - last > self._bounds.get(name, BOUND_SECONDS):
                texts.append(f"{name} has made no progress for {now - last:.0f} s")
        return texts


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
