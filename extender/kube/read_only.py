"""A client that cannot write: every request but GET is refused before it leaves.

Observe mode has no other client. Whoever gets hold of it, by whichever method, ends in ``_send``,
the one place that talks. Reviews of tokens are requests that create something too, and are refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from extender.kube.api import Params
from extender.kube.api_errors import ApiError
from extender.kube.client import KubeClient


class WriteRefused(ApiError):  # noqa: N818 - named like the answers of the API
    """A request that is no GET was asked of a client that only reads; nothing was sent."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__(
            0, "ReadOnly", f"{method} {path}: refused, in observe mode nothing is written"
        )


class ReadOnlyClient(KubeClient):
    """A KubeClient whose writing methods raise WriteRefused and send nothing."""

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        data: bytes | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        # GET in exactly this spelling: a proxy or server may read another one as it likes.
        if method != "GET" or data is not None:
            raise WriteRefused(method, path)
        async with super()._send(method, path, params, data, content_type, limits) as answer:
            yield answer
