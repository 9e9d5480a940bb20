"""A small asynchronous API client: dictionaries for single objects, raw bytes for bulk.

Every method raises a subclass of kube.api_errors.ApiError; nothing is retried here,
because only the caller knows whether a second try is safe.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import aiohttp
import msgspec
from aiohttp.connector import Connection

from extender.kube.api import Params, PatchKind
from extender.kube.api_errors import Unavailable, from_answer
from extender.kube.credentials import Access, find_access
from extender.kube.gate import Gate, leaves
from extender.kube.lines import LineSplitter
from extender.kube.sockets import watchful
from extender.model.errors import InvalidInput
from extender.settings.settings import ApiSettings

_PATCH_TYPES: dict[str, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_READ_BUFFER = 1 << 20
"""Bytes buffered per connection: a batch of some 200 pods per wake-up."""
_CONNECT_SECONDS = 10.0
_USER_AGENT = "podgroup-extender"
FIELD_MANAGER = "podgroup-extender"
"""Whose an object's fields are that we wrote (metadata.managedFields)."""
_WRITES = ("POST", "PUT", "PATCH")


class _Asked(aiohttp.ClientRequest):
    """Asks whether it may leave once it has a connection: getting one may take seconds."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        leaves()
        return await super().send(conn)


class KubeClient:
    """One API server, one set of credentials, one connection pool."""

    def __init__(self, access: Access, limits: ApiSettings | None = None) -> None:
        self._access = access
        self.gate = Gate(limits or ApiSettings())
        # No limit: each watch holds a connection for minutes and must not starve the rest. How
        # many there are of everything else is the gate's.
        # Identity encoding: inflating costs more time than the bytes it saves.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, socket_factory=watchful),
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": _USER_AGENT,
            },
            read_bufsize=_READ_BUFFER,
            request_class=_Asked,
        )

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        *,
        context: str | None = None,
        server: str | None = None,
        limits: ApiSettings | None = None,
    ) -> Self:
        """Return a client; nothing is sent yet.

        An explicit ``kubeconfig`` (path) wins, then ``server`` alone (a base URL such as
        http://127.0.0.1:8001, no credentials), then the pod's service account, then
        the default kubeconfig. Raises InvalidInput when the configuration is unusable.
        """
        # Exec plugins and the package's import block for a noticeable while.
        return cls(await asyncio.to_thread(find_access, kubeconfig, context, server), limits)

    @property
    def namespace(self) -> str:
        """Our own namespace in a cluster, else the context's, else "default"."""
        return self._access.namespace

    @property
    def server(self) -> str:
        """Base URL, for messages."""
        return self._access.server

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- bulk ---------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
    ) -> bytes:
        """Send one request and return the whole answer's body.

        ``body`` is sent as it is when bytes, else as JSON. ``timeout`` covers the whole
        exchange, in seconds. Raises ApiError.
        """
        if method in _WRITES:
            params = {"fieldManager": FIELD_MANAGER, **(params or {})}
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
        async with self._send(method, path, params, data, content_type, limits) as answer:
            return await answer.read()

    async def batches(
        self,
        path: str,
        params: Params | None = None,
        *,
        idle_seconds: float | None = None,
        connect_seconds: float = _CONNECT_SECONDS,
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the lines of a streamed answer, as many at a time as have arrived.

        The first batch is empty and comes as soon as the server has accepted the request:
        a quiet watch is open long before its first event.
        Raises Unavailable when nothing arrives for ``idle_seconds`` (None: wait for
        ever), when the connection breaks, or when it ends in the middle of a line.
        """
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=connect_seconds, sock_read=idle_seconds
        )
        splitter = LineSplitter()
        async with self._send("GET", path, params, None, "", limits) as answer:
            yield []
            async for chunk in answer.content.iter_any():
                lines = splitter.feed(chunk)
                if lines:
                    yield lines
            if splitter.pending:
                raise Unavailable(
                    0, "Truncated", f"GET {path}: the stream ended in the middle of a line"
                )

    async def stream(
        self,
        path: str,
        params: Params | None = None,
        *,
        idle_seconds: float | None = None,
        connect_seconds: float = _CONNECT_SECONDS,
    ) -> AsyncIterator[bytes]:
        """Yield the lines of a streamed answer one by one; see ``batches``."""
        async for lines in self.batches(
            path, params, idle_seconds=idle_seconds, connect_seconds=connect_seconds
        ):
            for line in lines:
                yield line

    # -- single objects -------------------------------------------------------------------

    async def get(self, path: str, *, params: Params | None = None) -> dict[str, Any]:
        """Return the object (or list) at ``path``."""
        return json_of(await self.request("GET", path, params=params))

    async def create(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """POST ``body`` to the collection at ``path``; Conflict when the name is taken."""
        return json_of(
            await self.request("POST", path, params=dry_run_query(dry_run=dry_run), body=body)
        )

    async def replace(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """PUT ``body``; Conflict when its metadata.resourceVersion is not the present one."""
        return json_of(
            await self.request("PUT", path, params=dry_run_query(dry_run=dry_run), body=body)
        )

    async def patch(
        self,
        path: str,
        patch: Any,
        kind: PatchKind = "merge",
        *,
        params: Params | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Patch the object at ``path`` (a subresource such as .../status too)."""
        return json_of(
            await self.request(
                "PATCH",
                path,
                params={**(params or {}), **dry_run_query(dry_run=dry_run)},
                body=patch,
                content_type=_PATCH_TYPES[kind],
            )
        )

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Delete the object at ``path``.

        Conflict when another object has the name (``uid``) or it has changed (``version``,
        its resourceVersion). ``grace`` None leaves the object's own grace period.
        """
        options = _delete_options(uid, grace, dry_run=dry_run, version=version)
        return json_of(
            await self.request("DELETE", path, params=dry_run_query(dry_run=dry_run), body=options)
        )

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Ask the Eviction API (policy/v1) to delete a pod within its disruption budgets.

        TooManyRequests means a budget does not allow it now; Conflict that the name
        belongs to a pod with another UID; the API server tries such an eviction again for
        some 10 s before it says so (EvictionsRetry in pkg/registry/core/pod/storage).
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, grace, dry_run=dry_run),
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        return json_of(
            await self.request("POST", path, params=dry_run_query(dry_run=dry_run), body=body)
        )

    # -- the one place that talks ----------------------------------------------------------

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
        """Yield a successful answer; turn every failure, late ones too, into an ApiError."""
        access = self._access
        headers = {"Content-Type": content_type} if data is not None else {}
        what = f"{method} {path}"
        if access.authorization is not None:
            try:
                header = await access.authorization()
            except (InvalidInput, OSError, ValueError) as error:
                # A token being swapped right now is as passing as a server being restarted.
                raise Unavailable(0, "Credentials", f"{what}: {error}") from error
            if header:
                headers["Authorization"] = header
        try:
            async with (
                self.gate.place(method, path),
                self._session.request(
                    method,
                    access.server + path,
                    params=query_of(params),
                    data=data,
                    headers=headers,
                    timeout=limits,
                    ssl=access.tls if access.tls is not None else True,
                    server_hostname=access.server_hostname,
                    **proxied(access),
                    allow_redirects=False,
                ) as answer,
            ):
                if not 200 <= answer.status < 300:
                    body = await answer.read()
                    raise from_answer(answer.status, body, what, answer.headers.get("Retry-After"))
                yield answer
        except TimeoutError as error:
            raise Unavailable(0, "Timeout", f"{what}: no answer in time") from error
        except aiohttp.ClientConnectorError as error:
            raise Unavailable(0, "ConnectionFailed", f"{what}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            if _lost(error):
                raise Unavailable(
                    0, "ConnectionLost", f"{what}: the other end closed the connection"
                ) from error
            text = str(error) or type(error).__name__
            raise Unavailable(0, "ConnectionBroken", f"{what}: {text}") from error


def proxied(access: Access) -> dict[str, Any]:
    """Return what aiohttp is told of the proxy. Its errors quote the address, which has no user and
    no password therefore."""
    if access.proxy is None:
        return {}
    parts = urlsplit(access.proxy)
    user, at, host = parts.netloc.rpartition("@")
    name, _, password = map(unquote, user.partition(":"))
    return {
        "proxy": parts._replace(netloc=host).geturl(),
        "proxy_auth": aiohttp.BasicAuth(name, password, "utf-8") if at else None,
    }


def _lost(error: Exception) -> bool:
    """Whether the kernel gave the connection up because nothing came back (kube.sockets)."""
    # In the middle of a body aiohttp keeps the cause only as text.
    cause = f"TimeoutError({errno.ETIMEDOUT},"
    return getattr(error, "errno", None) == errno.ETIMEDOUT or cause in str(error)


def query_of(params: Params | None) -> dict[str, str]:
    """Return parameters as they stand in a request's query."""
    if not params:
        return {}
    return {
        key: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for key, value in params.items()
    }


def dry_run_query(*, dry_run: bool) -> dict[str, str]:
    """Return the query that makes a request a dry run, or an empty one."""
    return {"dryRun": "All"} if dry_run else {}


def _delete_options(
    uid: str | None, grace: int | None, *, dry_run: bool, version: str | None = None
) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": uid, "resourceVersion": version}
    wanted = {name: value for name, value in preconditions.items() if value is not None}
    if wanted:
        options["preconditions"] = wanted
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def json_of(body: bytes) -> dict[str, Any]:
    """Return an answer's JSON object, {} for an empty one. Raises Unavailable for anything else."""
    if not body:
        return {}
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(0, "Malformed", f"the answer is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Unavailable(0, "Malformed", "the answer is not a JSON object")
    return document
