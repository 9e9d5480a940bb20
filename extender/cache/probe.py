"""Whether the API server still answers: a silent watch alone does not tell.

A watch that is open brings nothing while nothing changes, and a bookmark about once a minute.
A server that hangs, or a proxy whose other side is gone, looks the same from here. So something
small is asked every few seconds, and what is held is as old as the last question that was
answered. That age also tells of ourselves: a process that was stopped, or whose loop did not
run, has missed what happened meanwhile and knows so before it has read any of it.
"""

from __future__ import annotations

import asyncio
from math import isinf

import structlog

from extender.cache.clock import Clock
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError

log = structlog.get_logger("cache")

PATH = "/version"
"""Everybody may ask for it (ClusterRole system:public-info-viewer)."""


class Probe:
    """Asks every ``seconds`` and waits as long for each answer; infinity: never, all is well."""

    def __init__(self, client: KubeApi, clock: Clock, seconds: float) -> None:
        self._client = client
        self._clock = clock
        self._seconds = seconds
        self._answered = clock.monotonic()
        """When the last question was sent that has been answered."""

    def silent_for(self) -> float:
        """Return the age of the last answer once a question must have gone without one, else 0."""
        age = self._clock.monotonic() - self._answered
        # A pause and an answer that takes as long as it may are no silence yet.
        return age if age > 2.5 * self._seconds else 0.0

    def begin(self) -> None:
        """Count from now on."""
        self._answered = self._clock.monotonic()

    async def run(self) -> None:
        """Ask until cancelled."""
        if isinf(self._seconds):
            return
        while True:
            await asyncio.sleep(self._seconds)
            asked = self._clock.monotonic()
            try:
                answered = await self._ask()
            except Exception:
                # It must go on asking: without it every gang would be refused for good.
                log.exception("probe failed")
                continue
            if answered:
                self._answered = asked

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(self._seconds):
                await self._client.get(PATH)
        except ApiError as error:
            # A refusal is an answer; a 5xx may come from a proxy with nothing behind it.
            return 0 < error.status < 500
        except TimeoutError:
            return False
        return True
