"""The extender's connection to the simulated API server: extender.kube.api.KubeApi.

A request that has left is carried out whether its sender waits for it or not, as one that a
killed process had sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import Context
from typing import Any

import msgspec
from msgspec import Struct

from extender.kube.api import Params, PatchKind
from extender.kube.api_errors import ApiError, Unavailable, from_status
from extender.kube.client import dry_run_query, query_of
from extender.sandbox.api_status import StatusError
from tests.simulation.faults import TIMEOUT, Fate, Faults
from tests.simulation.loop import SimLoop
from tests.simulation.server import Server
from tests.simulation.shown import Shown
from tests.simulation.watches import Broken, Stream

_PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_WORLD = Context()
"""What the server does belongs to no process."""


class Request(Struct, frozen=True):
    """One request as it was sent."""

    number: int
    method: str
    path: str
    query: dict[str, str]
    body: Any = None
    kind: str = ""
    age: float = 0.0
    """Seconds for which its sender had been shown nothing when it was sent."""

    @property
    def dry(self) -> bool:
        """Whether it is a rehearsal."""
        return self.query.get("dryRun") == "All"

    @property
    def evicts(self) -> bool:
        """Whether a pod would go by it."""
        return self.budgeted or ("/pods/" in self.path and self.method == "DELETE")

    @property
    def budgeted(self) -> bool:
        """Whether it asks the Eviction API."""
        return self.path.endswith("/eviction")

    @property
    def pod_name(self) -> str:
        """Of the pod in its path."""
        return self.path.split("/pods/")[1].split("/")[0]

    @property
    def uid(self) -> str:
        """Of the pod that it must meet, "" where it says nothing of that."""
        body = self.body or {}
        options = body.get("deleteOptions") or body
        uid: str = (options.get("preconditions") or {}).get("uid", "")
        return uid


class Listener:
    """Is told of every request of one client. Does nothing itself."""

    def sent(self, request: Request, fate: Fate) -> None:
        """A request leaves."""

    underway = 0
    """Requests that are going to be carried out."""

    def arrives(self, request: Request) -> None:
        """A request is about to be carried out."""

    def answered(self, request: Request, fate: Fate, result: object) -> None:
        """A request was carried out or refused; ``result`` is a document or an error."""


class SimClient:
    """KubeApi on a Server. ``lag`` is how late watches are; ``die`` is the end of its process."""

    def __init__(
        self,
        loop: SimLoop,
        server: Server,
        faults: Faults,
        listener: Listener,
        lag: Callable[[], float],
    ) -> None:
        self.dead = False
        self._loop = loop
        self._server = server
        self._faults = faults
        self._listener = listener
        self._lag = lag
        self._number = 0
        self.streams: list[Stream] = []
        self.shown = Shown(loop.time)

    def die(self) -> None:
        """Send nothing any more."""
        self.dead = True
        for stream in self.streams:
            if stream in self._server.streams:
                self._server.streams.remove(stream)

    # -- one request ------------------------------------------------------------------------

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any = None,
        kind: str = "",
        timeout: float = TIMEOUT,
    ) -> Any:
        if self.dead:
            raise asyncio.CancelledError
        loop = self._loop
        self._number += 1
        request = Request(self._number, method, path, query, body, kind, self.shown.age())
        stream = f"{method} {path}"
        fate = self._faults.fate(loop.time(), method, path, dry=request.dry, stream=stream)
        self._listener.sent(request, fate)
        answer: asyncio.Future[Any] = loop.create_future()
        if fate.before >= 0:
            self._listener.underway += 1
            loop.call_later(fate.before, self._arrive, request, fate, answer, context=_WORLD)
        if fate.cut >= 0:
            lost = Unavailable(0, "ConnectionBroken", f"{stream}: the connection was lost")
            loop.call_later(fate.cut, _settle, answer, lost, context=_WORLD)
        elif fate.before < 0 or fate.after < 0 or fate.before + fate.after >= timeout:
            late = Unavailable(0, "Timeout", f"{stream}: no answer in time")
            loop.call_later(timeout, _settle, answer, late, context=_WORLD)
        return await answer

    def _arrive(self, request: Request, fate: Fate, answer: asyncio.Future[Any]) -> None:
        result: Any
        self._listener.underway -= 1
        try:
            if fate.refuse is not None:
                code, reason, pause = fate.refuse
                raise StatusError(
                    code,
                    reason,
                    "a fault was planned here",
                    retry_after=None if pause is None else int(pause),
                )
            self._listener.arrives(request)
            result = self._server.answer(
                request.method, request.path, request.query, request.body, request.kind
            )
            if request.method == "GET":
                self.shown.listed(request.path)
        except StatusError as error:
            result = from_status(error.document)
        self._listener.answered(request, fate, result)
        if fate.failed and not isinstance(result, ApiError):
            result = Unavailable(500, "InternalError", "a fault was planned here")
        if fate.after >= 0:
            self._loop.call_later(fate.after, _settle, answer, result, context=_WORLD)

    # -- KubeApi ----------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = TIMEOUT,
    ) -> bytes:
        """See KubeApi."""
        answer = await self._send(method, path, query_of(params), body, content_type, timeout)
        return msgspec.json.encode(answer)

    async def get(self, path: str, *, params: Params | None = None) -> dict[str, Any]:
        """See KubeApi."""
        answer: dict[str, Any] = await self._send("GET", path, query_of(params))
        return answer

    async def create(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """See KubeApi."""
        answer: dict[str, Any] = await self._send(
            "POST", path, dry_run_query(dry_run=dry_run), body
        )
        return answer

    async def replace(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """See KubeApi."""
        answer: dict[str, Any] = await self._send("PUT", path, dry_run_query(dry_run=dry_run), body)
        return answer

    async def patch(
        self,
        path: str,
        patch: Any,
        kind: PatchKind = "merge",
        *,
        params: Params | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """See KubeApi."""
        query = {**query_of(params), **dry_run_query(dry_run=dry_run)}
        answer: dict[str, Any] = await self._send("PATCH", path, query, patch, _PATCHES[kind])
        return answer

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """See KubeApi."""
        options = _options(uid, version, grace)
        answer: dict[str, Any] = await self._send(
            "DELETE", path, dry_run_query(dry_run=dry_run), options
        )
        return answer

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """See KubeApi."""
        body = {
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _options(uid, None, grace),
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        answer: dict[str, Any] = await self._send(
            "POST", path, dry_run_query(dry_run=dry_run), body
        )
        return answer

    async def batches(
        self,
        path: str,
        params: Params | None = None,
        *,
        idle_seconds: float | None = None,
        connect_seconds: float = 10.0,
    ) -> AsyncGenerator[list[bytes], None]:
        """See KubeApi."""
        if self.dead:
            raise asyncio.CancelledError
        loop = self._loop
        fate = self._faults.fate(loop.time(), "GET", path, dry=False, stream=f"WATCH {path}")
        lost = Unavailable(0, "ConnectionBroken", f"GET {path}: the connection was lost")
        await asyncio.sleep(max(0.0, fate.before if fate.cut < 0 else fate.cut))
        if fate.refuse is not None:
            raise from_status({"code": fate.refuse[0], "reason": fate.refuse[1]})
        if fate.kind:
            raise lost
        try:
            stream = self._server.open(path, query_of(params), self._lag)
        except StatusError as error:
            raise from_status(error.document) from error
        self.streams.append(stream)
        goes_on = self.shown.begins(path, stream, query_of(params))
        try:
            yield []
            while True:
                lines = await stream.lines(idle_seconds or 3600.0)
                if not lines:
                    return
                goes_on = goes_on or self.shown.told(path, stream, lines)
                yield lines
        except TimeoutError as error:
            raise Unavailable(0, "Timeout", f"GET {path}: no answer in time") from error
        except Broken as error:
            raise lost from error
        finally:
            stream.over()
            self.streams.remove(stream)
            if stream in self._server.streams:
                self._server.streams.remove(stream)


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _options(uid: str | None, version: str | None, grace: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"kind": "DeleteOptions"}
    wanted = {"uid": uid, "resourceVersion": version}
    preconditions = {name: value for name, value in wanted.items() if value is not None}
    if preconditions:
        options["preconditions"] = preconditions
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options
