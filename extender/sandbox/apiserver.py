"""The HTTP face of the sandbox's API server: requests (see ``requests``), faults, watches.

Plain HTTP on a free loopback port. List and watch follow the API server's
contract as reflectors rely on it: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

import msgspec
from aiohttp import web

from extender.sandbox.api_status import Obj, StatusError, bad_request, expired, invalid
from extender.sandbox.faults import Fault, Faults
from extender.sandbox.list_selectors import Match, parse
from extender.sandbox.requests import ApiRequests, Route
from extender.sandbox.resources import ServedResource, served
from extender.sandbox.rest import Api
from extender.sandbox.storage import ADDED, DELETED, MODIFIED, Storage, StorageChange

BOOKMARK, ERROR = "BOOKMARK", "ERROR"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_encode = msgspec.json.encode


class _Dropped(Exception):  # noqa: N818 - an outcome, not an error to report
    """The connection is to be cut instead of answered."""


class ApiServer:
    """Serve an Api; ``url`` is known after ``start``. Closing ends every watch.

    ``minor`` is the Kubernetes minor version spoken ("1.36" or "1.37");
    ``bookmark_seconds`` is how often a quiet watch gets a bookmark; ``extra`` is served as well.
    """

    def __init__(
        self,
        minor: str = "1.37",
        *,
        bookmark_seconds: float = 2.0,
        storage: Storage | None = None,
        extra: Iterable[ServedResource] = (),
    ) -> None:
        self.minor = minor
        self.api = Api(storage or Storage(), (*served(minor), *extra))
        self.faults = Faults()
        self.url = ""
        self.requests: list[tuple[str, str]] = []
        """(method, path with query, but for who writes) of every request, oldest first."""
        self._bookmark_seconds = bookmark_seconds
        self._requests = ApiRequests(self.api, minor)
        self._streams: set[_WatchStream] = set()
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        """Listen on 127.0.0.1; port 0 takes a free one."""
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"

    async def close(self) -> None:
        """Stop listening and end every open request."""
        self.faults.clear()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def expire_watches(self) -> None:
        """Compact, and tell every open watch that its version is too old (410)."""
        self.api.storage.compact()
        self._requests.forget_pages()
        for stream in self._streams:
            stream.expire()

    def end_watches(self) -> None:
        """End every open watch as a server does after some minutes: the next goes on from there."""
        for stream in self._streams:
            stream.end()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        asked = str(request.rel_url.without_query_params("fieldManager"))
        self.requests.append((request.method, asked))
        fault = self.faults.take(request.method, asked)
        try:
            await self.faults.until_serving()
            if fault is not None:
                await _suffer(fault)
            answer = await self._answer(request)
            if fault is not None and fault.drop == "after":
                raise _Dropped
        except StatusError as error:
            headers = {}
            if error.retry_after is not None:
                headers["Retry-After"] = str(error.retry_after)
            answer = _json(error.document, error.code, headers)
        except _Dropped:
            if request.transport is not None:
                request.transport.abort()
            answer = web.Response(status=500)
        return answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        if parts and parts[0] in ("healthz", "livez", "readyz"):
            return web.Response(text="ok")
        if request.method == "GET":
            if request.query.get("watch") in ("true", "1"):
                return await self._watch(request, self._requests.route(parts))
            return _json(self._requests.read(parts, request.query))
        route = self._requests.route(parts)
        answer, code = self._requests.write(
            request.method, route, request.query, await _body(request), request.content_type
        )
        return _json(answer, code)

    async def _watch(self, request: web.Request, route: Route) -> web.StreamResponse:
        query = request.query
        match = parse(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        if route.namespace:
            match = _inside(route.namespace, match)
        initial = query.get("sendInitialEvents") in ("true", "1")
        if initial:
            if self.faults.refuse_watch_list:
                why = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch"
                raise invalid("ListOptions.meta.k8s.io", "", why)
            if query.get("resourceVersionMatch") != "NotOlderThan":
                why = "resourceVersionMatch: Forbidden: must be NotOlderThan with sendInitialEvents"
                raise invalid("ListOptions.meta.k8s.io", "", why)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        stream = _WatchStream(
            response, self.faults, route.resource, self.api.storage, bookmarks=bookmarks
        )
        self._streams.add(stream)
        try:
            async with asyncio.timeout(float(query.get("timeoutSeconds") or 1800)):
                version = query.get("resourceVersion", "")
                await self._play(stream, route, version, match, initial=initial)
                await stream.follow(match, self._bookmark_seconds)
        except StatusError as error:
            with contextlib.suppress(ConnectionError):
                await stream.send(ERROR, error.document)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._streams.discard(stream)
            stream.close()
        return response

    async def _play(
        self, stream: _WatchStream, route: Route, version: str, match: Match, *, initial: bool
    ) -> None:
        """Bring a watch up to the present: the whole state, or the changes since a version."""
        storage, key = self.api.storage, route.resource.key
        stream.version = storage.version
        if initial or version in ("", "0"):
            for obj in storage.all(key, route.namespace):
                if match(obj):
                    await stream.send(ADDED, obj)
            if initial:
                await stream.bookmark({INITIAL_EVENTS_END: "true"})
            return
        if not version.isdigit():
            raise bad_request(f"invalid resource version {version!r}")
        for change in storage.since(key, int(version)):
            await stream.change(change, match)


class _WatchStream:
    """One open watch; it collects changes from the moment it is made."""

    def __init__(
        self,
        response: web.StreamResponse,
        faults: Faults,
        resource: ServedResource,
        storage: Storage,
        *,
        bookmarks: bool,
    ) -> None:
        self.version = 0
        """Changes up to here are sent (or were before the watch)."""
        self._response = response
        self._faults = faults
        self._resource = resource
        self._storage = storage
        self._subscription = storage.subscribe(resource.key)
        self._bookmarks = bookmarks
        self._expired = False
        self._ended = False

    def end(self) -> None:
        """End the watch without an error as soon as its task runs."""
        self._ended = True
        self._subscription.wake()

    def expire(self) -> None:
        """End the watch with 410 as soon as its task runs."""
        self._expired = True
        self._subscription.wake()

    def close(self) -> None:
        """Collect no more changes."""
        self._subscription.close()

    async def send(self, kind: str, obj: Obj) -> None:
        await self._faults.until_flowing()
        await self._response.write(_encode({"type": kind, "object": obj}) + b"\n")

    async def change(self, change: StorageChange, match: Match) -> None:
        """Send a change as this watch's selectors see it: leaving them is a deletion."""
        before = change.old is not None and match(change.old)
        after = change.type != DELETED and match(change.new)
        if after:
            await self.send(MODIFIED if before else ADDED, change.new)
        elif before:
            await self.send(DELETED, change.new)

    async def bookmark(self, annotations: dict[str, str] | None = None) -> None:
        meta: Obj = {"resourceVersion": str(self.version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        kind = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        await self.send(BOOKMARK, {**kind, "metadata": meta})

    async def follow(self, match: Match, quiet: float) -> None:
        """Send changes as they come, and a bookmark after ``quiet`` seconds without one."""
        while not self._expired:
            if self._ended:
                return
            change = self._subscription.take()
            if change is not None:
                if change.version > self.version:
                    self.version = change.version
                    await self.change(change, match)
                continue
            try:
                async with asyncio.timeout(quiet):
                    await self._subscription.wait()
            except TimeoutError:
                # A change that came in the same moment is sent first: a bookmark past it
                # would make it look sent.
                if self._bookmarks and not self._subscription.pending:
                    self.version = self._storage.version
                    await self.bookmark()
        raise expired("The resourceVersion for the provided watch is too old.")


def _inside(namespace: str, match: Match) -> Match:
    return lambda obj: obj["metadata"].get("namespace") == namespace and match(obj)


async def _suffer(fault: Fault) -> None:
    if fault.delay:
        await asyncio.sleep(fault.delay)
    if fault.released is not None:
        await fault.released.wait()
    if fault.drop == "before":
        raise _Dropped
    if fault.status and fault.drop != "after":
        raise StatusError(
            fault.status, fault.reason, "a fault was planned here", retry_after=fault.retry_after
        )


async def _body(request: web.Request) -> Obj:
    try:
        body = msgspec.json.decode(await request.read() or b"{}")
    except msgspec.DecodeError as error:
        raise bad_request(f"the request body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise bad_request("the request body is no JSON object")
    return body


def _json(document: Obj, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=_encode(document), status=code, content_type="application/json", headers=headers
    )
