"""Passing requests on to an API server: what every proxy in front of one has in common.

Plain HTTP in front; behind it whatever a kubeconfig says (TLS, token).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from extender.kube.credentials import Access

CONNECT_SECONDS = 10.0
_HOP_BY_HOP = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "host",
        "keep-alive",
        "transfer-encoding",
    }
)


class Forwarder:
    """Hands every request to ``serve``; ``url`` is known after ``start`` and stays."""

    def __init__(
        self,
        access: Access,
        serve: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> None:
        self.url = ""
        self._access = access
        self._serve = serve
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free loopback port."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False
        )
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve)
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

    @asynccontextmanager
    async def answer_to(self, request: web.Request) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """Send a request on as it is, with the credentials; yield the answer.

        Raises aiohttp.ClientError, ConnectionError or TimeoutError when there is none.
        """
        assert self._session is not None
        headers = _kept(request.headers.items())
        headers["Accept-Encoding"] = "identity"
        if self._access.authorization is not None:
            header = await self._access.authorization()
            if header:
                headers["Authorization"] = header
        async with self._session.request(
            request.method,
            self._access.server + request.path_qs,
            headers=headers,
            data=await request.read() or None,
            ssl=self._access.tls if self._access.tls is not None else True,
            server_hostname=self._access.server_hostname,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            allow_redirects=False,
        ) as answer:
            yield answer


async def whole(answer: aiohttp.ClientResponse) -> web.Response:
    """Return an answer once all of it is there."""
    headers = _kept(answer.headers.items())
    return web.Response(status=answer.status, headers=headers, body=await answer.read())


def piecewise(answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Return the head of an answer that is passed on as it comes (``pour``)."""
    return web.StreamResponse(status=answer.status, headers=_kept(answer.headers.items()))


async def pour(answer: aiohttp.ClientResponse, into: web.StreamResponse) -> None:
    """Pass on what comes until it ends."""
    async for chunk in answer.content.iter_any():
        await into.write(chunk)


def cut(request: web.Request) -> web.Response:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.close()
    return web.Response(status=502)


def _kept(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _HOP_BY_HOP}
