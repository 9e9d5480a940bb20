"""A forwarding proxy between the extender and an API server, for killing at the right moment.

Plain HTTP in front; behind it whatever a kubeconfig says (TLS, token). Evictions
(DELETE of a pod, or the eviction subresource) pass one at a time, so that "after
the first" means that no second one has reached the API server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web

from extender.kube.credentials import Access

_POD = re.compile(r"^/api/v1/namespaces/[^/]+/pods/[^/]+(?P<evict>/eviction)?$")
_HOP_BY_HOP = {
    "connection",
    "content-encoding",
    "content-length",
    "host",
    "keep-alive",
    "transfer-encoding",
}


class ApiProxy:
    """Forwards everything; ``url`` is known after ``start``."""

    def __init__(self, access: Access) -> None:
        self.url = ""
        self.evictions = 0
        """How many have gone through."""
        self.eviction_seconds = 0.0
        """How long each takes on its way."""
        self._access = access
        self._gate = asyncio.Lock()
        self._left: int | None = None
        self._then: Callable[[], Awaitable[None]] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free loopback port."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False
        )
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        """Cut every connection."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def strike_after(self, evictions: int, then: Callable[[], Awaitable[None]]) -> None:
        """Call ``then`` when this many more have gone through, before anybody is told of it."""
        self._left, self._then = evictions, then

    async def _forward(self, request: web.Request) -> web.StreamResponse:
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
            answer = await self._pass(request, whole=True)
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

    async def _pass(self, request: web.Request, *, whole: bool = False) -> web.StreamResponse:
        assert self._session is not None
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        if self._access.authorization is not None:
            header = await self._access.authorization()
            if header:
                headers["Authorization"] = header
        begun = False
        try:
            async with self._session.request(
                request.method,
                self._access.server + request.path_qs,
                headers=headers,
                data=await request.read() or None,
                ssl=self._access.tls if self._access.tls is not None else True,
                server_hostname=self._access.server_hostname,
                timeout=aiohttp.ClientTimeout(total=None),
                allow_redirects=False,
            ) as answer:
                back = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
                if whole:
                    return web.Response(
                        status=answer.status, headers=back, body=await answer.read()
                    )
                response = web.StreamResponse(status=answer.status, headers=back)
                await response.prepare(request)
                begun = True
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                return response
        except (ConnectionError, aiohttp.ClientError) as error:
            # An answer cut short behind us is cut short in front of us as well.
            if begun and request.transport is not None:
                request.transport.close()
            return web.Response(status=502, text=str(error))
