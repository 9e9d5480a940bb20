"""Watches without sockets: each change reaches a watcher later, in order, or not at all."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import lru_cache

import msgspec

from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.list_selectors import Match, parse
from extender.sandbox.requests import Route
from extender.sandbox.storage import ADDED, DELETED, MODIFIED, Storage, StorageChange
from tests.simulation.loop import SimLoop

BOOKMARK_SECONDS = 20.0
LATEST = 0.8
"""Seconds after which it is told at the latest that an accepted watch's version is too old. One
that is open for a second, and quiet, counts as one that has missed nothing."""
_encode = msgspec.json.encode
_matcher = lru_cache(maxsize=64)(parse)


class Broken(Exception):  # noqa: N818 - reads as what has happened
    """The connection of the stream is lost."""


class Stream:
    """One open watch. ``lag`` says how many seconds the next change takes to the watcher.

    It is accepted whatever version it goes on from: that one is too old is told afterwards, by an
    event, as kube-apiserver does. ``away``: what is told instead of any change while the storage
    is not there.
    """

    def __init__(
        self,
        loop: SimLoop,
        storage: Storage,
        route: Route,
        query: dict[str, str],
        lag: Callable[[], float],
        *,
        away: StatusError | None = None,
    ) -> None:
        self.resource = route.resource
        self.key = route.resource.key
        self.opened = loop.time()
        self.silent_until = 0.0
        """Until then nothing is sent, and nobody is told."""
        self._loop = loop
        self._storage = storage
        self._namespace = route.namespace
        self._match: Match = _matcher(
            query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        self._lag = lag
        self._due: deque[tuple[float, bytes]] = deque()
        self._last = loop.time()
        self._waiting: asyncio.Future[None] | None = None
        self._ended: Exception | bool = False
        self._ends_at = 0.0
        """When the watcher learns that it has ended."""
        self.ended_at: float | None = None
        """Since when no change is sent any more."""
        self._bookmark = loop.time() + BOOKMARK_SECONDS
        self._end_at = loop.time() + float(query.get("timeoutSeconds") or 1800)
        version = query.get("resourceVersion", "")
        self._after = int(version) if version.isdecimal() else 0
        """Changes up to this version are known to the watcher. It is told none of them, though
        the storage may have been put back below it since: then it is shown nothing for a while, as
        by kube-apiserver (kubernetes/kubernetes#107457)."""
        if away is not None:
            self.too_old(away.document)
        elif query.get("sendInitialEvents") == "true" or version in ("", "0"):
            for obj in storage.all(self.key, self._namespace):
                if self._match(obj):
                    self._send(ADDED, obj)
            if query.get("sendInitialEvents") == "true":
                self._send_bookmark({"k8s.io/initial-events-end": "true"})
        else:
            self._go_on(int(version))

    def _go_on(self, version: int) -> None:
        """Send what came after ``version``, or that it is too old."""
        try:
            changes = self._storage.since(self.key, version)
        except StatusError as error:
            self.too_old(error.document)
            return
        for change in changes:
            self.change(change)

    # -- the server's side ------------------------------------------------------------------

    def change(self, change: StorageChange) -> None:
        """Send a change as this watch's selectors see it: leaving them is a deletion."""
        new = change.new
        if change.version <= self._after:
            return
        if self._namespace and new["metadata"].get("namespace") != self._namespace:
            return
        before = change.old is not None and self._match(change.old)
        if change.type != DELETED and self._match(new):
            self._send(MODIFIED if before else ADDED, new)
        elif before:
            self._send(DELETED, new)

    def too_old(self, status: Obj) -> None:
        """End a watch that was just accepted: the watcher is told so a moment later."""
        self.end(status, after=min(self._lag(), LATEST))

    def end(self, status: Obj | None = None, *, broken: bool = False, after: float = 0.0) -> None:
        """End the watch: with an ERROR event, by a lost connection, or in good order."""
        self._ends_at = self._loop.time() + after
        if status is not None:
            self._due.append((self._ends_at, _line("ERROR", status)))
        self._ended = Broken() if broken else True
        self.over()
        self._wake()

    @property
    def blind(self) -> bool:
        """Whether it goes on from a version that the storage does not have (yet)."""
        return self._after > self._storage.version

    def over(self) -> None:
        """Note that no change is sent any more."""
        if self.ended_at is None:
            self.ended_at = self._loop.time()

    def _send(self, kind: str, obj: Obj) -> None:
        at = max(self._last, self._loop.time() + self._lag(), self.silent_until)
        self._last = at
        self._due.append((at, _line(kind, obj)))
        if self._waiting is not None:
            self._loop.call_at(at, self._wake)

    def _send_bookmark(self, annotations: dict[str, str] | None = None) -> None:
        meta: Obj = {"resourceVersion": str(self._storage.version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        kind = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        self._send("BOOKMARK", {**kind, "metadata": meta})

    # -- the watcher's side -----------------------------------------------------------------

    def unread(self, now: float) -> float:
        """Return since when a change is here that the watcher has not looked at, else ``now``."""
        return min(now, self._due[0][0]) if self._due else now

    async def lines(self, idle: float) -> list[bytes]:
        """Wait for the next lines; none: the watch has ended in good order.

        Raises TimeoutError when nothing comes for ``idle`` seconds, Broken.
        """
        loop = self._loop
        until = loop.time() + idle
        while True:
            now = loop.time()
            found = []
            while self._due and self._due[0][0] <= now:
                found.append(self._due.popleft()[1])
            if found:
                return found
            if self._ended is not False and now >= self._ends_at:
                if isinstance(self._ended, Broken):
                    raise self._ended
                return []
            if now >= until:
                raise TimeoutError
            if now >= self._end_at:
                return []
            if now >= self._bookmark:
                self._bookmark = now + BOOKMARK_SECONDS
                self._send_bookmark()
                continue
            await self._wait(min(until, self._bookmark, self._end_at))

    async def _wait(self, until: float) -> None:
        loop = self._loop
        self._waiting = loop.create_future()
        if self._due:
            until = min(until, self._due[0][0])
        timer = loop.call_at(until, self._wake)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _line(kind: str, obj: Obj) -> bytes:
    return b'{"type":"%b","object":%b}' % (kind.encode(), _encode(obj))
