"""The API server of the simulation: the sandbox's, reached without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender.sandbox.api_status import Obj, StatusError, expired
from extender.sandbox.requests import ApiRequests, Route
from extender.sandbox.resources import served
from extender.sandbox.rest import Api
from extender.sandbox.storage import StorageChange
from tests.simulation.backups import RestorableStorage
from tests.simulation.chance import Chance
from tests.simulation.loop import SimLoop
from tests.simulation.objects import MINOR
from tests.simulation.watches import Stream

EPOCH = 1_800_000_000.0
"""Wall clock at the start."""


NO_LEADER = StatusError(500, "InternalError", "etcdserver: no leader")


class QuietApi(Api):
    """Keeps no Events: nobody here reads the world's own."""

    def event(self, about: Obj, *, reason: str, message: str, kind: str = "Normal") -> None:
        """Drop the event."""


class Server:
    """Answers requests at the moment they arrive, and feeds the watches."""

    def __init__(self, loop: SimLoop, chance: Chance) -> None:
        self.loop = loop
        self.storage = RestorableStorage()
        self._number = 0
        self._chance = chance
        self.api = QuietApi(
            self.storage,
            served(MINOR),
            clock=lambda: EPOCH + loop.time(),
            names=lambda prefix: f"{prefix}{self._next():05d}",
            uids=self._uid,
        )
        self.requests = ApiRequests(self.api, MINOR, token=lambda: str(self._next()))
        self.streams: list[Stream] = []
        self.events: list[Obj] = []
        """What autoscalers have said, in all namespaces."""
        self._unreadable = (0.0, "")
        """Until when the storage of a resource ("" = all) is away."""
        self._routes: dict[str, Route] = {}
        self.storage.observe(self._tell)

    def _tell(self, change: StorageChange) -> None:
        for stream in self.streams:
            if stream.key == change.resource:
                stream.change(change)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _uid(self) -> str:
        """A uid that says nothing about age: order by uid must not be order by creation."""
        return f"{int(self._chance.draw('uid') * 2**32):08x}-{self._next()}"

    def route(self, path: str) -> Route:
        """Return what a path leads to."""
        found = self._routes.get(path)
        if found is None:
            found = self._routes[path] = self.requests.route(path.strip("/").split("/"))
        return found

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, kind: str) -> Obj:
        """Carry a request out. Raises StatusError."""
        events = path.endswith("/events")
        if events and method != "GET":
            return {}  # told to who listens to the client, and kept nowhere
        if method == "GET":
            if self._away(path) and path != "/version":
                raise NO_LEADER
            if events:
                return {"items": self.events}
            return self.requests.read(path.strip("/").split("/"), query)
        return self.requests.write(method, self.route(path), query, body or {}, kind)[0]

    def open(self, path: str, query: dict[str, str], lag: Callable[[], float]) -> Stream:
        """Open a watch. Raises StatusError."""
        away = self._away(path)
        if away and not query.get("resourceVersion"):
            raise NO_LEADER
        route = self.route(path)
        if away:
            why = expired("the storage is away")
            return Stream(self.loop, self.storage, route, query, lag, away=why)
        stream = Stream(self.loop, self.storage, route, query, lag)
        self.streams.append(stream)
        return stream

    def expire(self) -> None:
        """Compact: watches are told 410, versions before now are too old to go on from."""
        self.storage.compact()
        self.requests.forget_pages()
        gone = StatusError(410, "Expired", "The resourceVersion for the provided watch is too old.")
        for stream in self.streams:
            stream.end(gone.document)
        self.streams.clear()

    def lose_storage(self, seconds: float, resource: str = "") -> None:
        """Lose what reads need for a while: a watch is accepted, and told that it is too old.

        ``resource``: of one kind only, whose objects have a storage of their own; "" for all.
        """
        self._unreadable = (self.loop.time() + seconds, resource)
        self.storage.compact()
        self.requests.forget_pages()
        self.cut(resource, broken=True)

    def _away(self, path: str) -> bool:
        until, resource = self._unreadable
        return self.loop.time() < until and path.endswith(resource)

    def cut(self, resource: str = "", *, broken: bool = False) -> None:
        """End the watches of one resource ("" = all), in good order or by a lost connection."""
        for stream in list(self.streams):
            if resource in ("", stream.resource.plural):
                stream.end(broken=broken)
                self.streams.remove(stream)
