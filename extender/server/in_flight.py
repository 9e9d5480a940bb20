"""Requests that are being answered: how many, which of them wait, and what a stop changes."""

from __future__ import annotations

import asyncio

from extender.server.limits import Load
from extender.server.responses import CLOSE, HOLDING, Receive, Scope


class InFlight:
    """One a server; ``load`` is shared with the other transport, if there is one."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self.number = 0
        """Requests that are being answered now."""
        self._held = 0
        """Answers among them that are held (binds, events): they wait, and keep nobody busy."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False
        """Callers are asked, answer by answer, to close their connections."""

    @property
    def busy(self) -> int:
        """How many requests are worked on: those that are held are not."""
        return self.number - self._held

    def begin(self) -> None:
        """Count a request, until ``end``."""
        self.number += 1
        self._load.working += 1
        self._idle.clear()

    def end(self) -> None:
        """Count a request no more."""
        self.number -= 1
        self._load.working -= 1
        if not self.number:
            self._idle.set()

    async def idle(self) -> None:
        """Return once no request is under way."""
        await self._idle.wait()

    async def gone(self, scope: Scope, receive: Receive) -> None:
        """Return when the caller has left. Its answer is held until then, and keeps nobody busy."""
        self._held += 1
        self._load.working -= 1
        scope["state"][HOLDING](now=True)
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._held -= 1
            self._load.working += 1
            scope["state"][HOLDING](now=False)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return what goes along with every answer."""
        return [CLOSE] if self.draining else []
