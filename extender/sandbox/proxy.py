"""A forwarding proxy between the extender and an API server, for killing at the right moment.

Plain HTTP in front; behind it whatever a kubeconfig says (TLS, token). Evictions
(DELETE of a pod, or the eviction subresource) pass one at a time, so that "after
the first" means that no second one has reached the API server.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web

from extender.kube.credentials import Access
from extender.sandbox.forwarding import Forwarder, cut, piecewise, pour, whole

_POD = re.compile(r"^/api/v1/namespaces/[^/]+/pods/[^/]+(?P<evict>/eviction)?$")


class ApiProxy:
    """Forwards everything; ``url`` is known after ``start``."""

    def __init__(self, access: Access) -> None:
        self.evictions = 0
        """How many have gone through."""
        self.methods: Counter[str] = Counter()
        """How many requests have come, by method, whatever became of them."""
        self.eviction_seconds = 0.0
        """How long each takes on its way."""
        self._forwarder = Forwarder(access, self._forward)
        self._gate = asyncio.Lock()
        self._left: int | None = None
        self._then: Callable[[], Awaitable[None]] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._forwarder.url

    async def start(self) -> None:
        """Listen on a free loopback port."""
        await self._forwarder.start()

    async def close(self) -> None:
        """Cut every connection."""
        await self._forwarder.close()

    def strike_after(self, evictions: int, then: Callable[[], Awaitable[None]]) -> None:
        """Call ``then`` when this many more have gone through, before anybody is told of it."""
        self._left, self._then = evictions, then

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        self.methods[request.method] += 1
        found = _POD.match(request.path)
        deletes = (
            found is not None
            and request.method == ("POST" if found["evict"] else "DELETE")
            and "dryRun" not in request.query
        )
        if not deletes:
            return await self._pass(request)
        async with self._gate:
            await asyncio.sleep(self.eviction_seconds)
            if request.transport is None or request.transport.is_closing():
                # Whoever wanted this eviction died while it waited for its turn.
                return web.Response(status=502)
            answer = await self._pass(request, at_once=True)
            if answer.status < 300:
                self.evictions += 1
                await self._strike()
            return answer

    async def _strike(self) -> None:
        if self._left is None or self._then is None:
            return
        self._left -= 1
        if self._left == 0:
            then, self._left, self._then = self._then, None, None
            await then()
            # Let the loop see the dead client's connections close before the next in line.
            await asyncio.sleep(0.05)

    async def _pass(self, request: web.Request, *, at_once: bool = False) -> web.StreamResponse:
        begun = False
        try:
            async with self._forwarder.answer_to(request) as answer:
                if at_once:
                    return await whole(answer)
                response = piecewise(answer)
                await response.prepare(request)
                begun = True
                await pour(answer, response)
                return response
        except (ConnectionError, TimeoutError, aiohttp.ClientError) as error:
            # An answer cut short behind us is cut short in front of us as well.
            return cut(request) if begun else web.Response(status=502, text=str(error))
