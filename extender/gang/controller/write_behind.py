"""What is in memory, brought to the API behind what happens: again until it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from extender.gang.leader_election.leadership import Leadership
from extender.kube.api_errors import ApiError, Conflict

log = structlog.get_logger("gang")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class WriteBehind:
    """One write at a time, and only while this process leads.

    ``save`` writes what is in memory at that moment, and raises ApiError; then ``failed`` is
    logged.
    """

    def __init__(
        self,
        save: Callable[[], Awaitable[None]],
        leadership: Leadership,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        failed: str,
    ) -> None:
        self._save = save
        self._leadership = leadership
        self._spawn = spawn
        self._failed = failed
        self._dirty = False
        self._busy = False

    def changed(self) -> None:
        """What is in memory differs from what is written."""
        self._dirty = True
        if not self._busy:
            self._busy = True
            self._spawn(self._bring_up())

    async def _bring_up(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._dirty and self._leadership.acts:
                self._dirty = False
                try:
                    await self._save()
                except ApiError as error:
                    self._dirty = True
                    if not isinstance(error, Conflict):
                        log.warning(self._failed, error=str(error))
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            self._busy = False
