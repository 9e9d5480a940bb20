"""Health, metrics and debug: what is asked with GET, pages apart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec
import structlog

from extender.model.errors import InvalidInput
from extender.server.access_rules import Rules
from extender.server.authorization import Authorization
from extender.server.in_flight import InFlight
from extender.server.metrics import Metrics
from extender.server.responses import (
    JSON,
    TEXT,
    Headers,
    Scope,
    Send,
    error_body,
    header,
    method_not_allowed,
    respond,
)


def _nothing() -> list[str]:
    return []


@dataclass(frozen=True)
class Health:
    """What is wrong, for each of the health pages; an empty list is good."""

    ready: Callable[[], list[str]] = _nothing
    """/readyz: verbs are answered."""
    alive: Callable[[], list[str]] = _nothing
    """/livez: no restart is needed."""
    caches: Callable[[], list[str]] = _nothing
    """/readyz/caches: the state of the cluster is known and fresh, leading or not."""


class Diagnostics:
    """One a server. ``verbs`` are the names that are served, to be told to who asks for another."""

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        debug: DebugSource,
        authorization: Authorization,
        requests: InFlight,
        verbs: Sequence[str],
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._debug = debug
        self._authorization = authorization
        self._requests = requests
        self._verbs = verbs

    async def serve(self, rules: Rules, scope: Scope, send: Send) -> None:
        """Answer a request that is for no verb and no page of the console."""
        path: str = scope["path"]
        page = self._page(path)
        if page is None:
            verbs = [f"/{verb}" for verb in self._verbs] if rules.verbs else []
            there = f"there are {', '.join(verbs)}" if verbs else "none is served on this port"
            message = f"no verb {path[:100]!r}, {there}"
            await respond(
                send,
                404,
                error_body(message, "path", verbs=verbs),
                headers=self._requests.headers(),
            )
            return
        if scope["method"] not in ("GET", "HEAD"):
            await method_not_allowed(send, "GET", self._requests.headers())
            return
        try:
            if await self._authorization.admitted(rules, scope, send):
                await page(scope, send)
        except InvalidInput as error:
            body = error_body(error.message, error.where)
            await respond(send, 400, body, headers=self._requests.headers())
        except Exception:
            structlog.get_logger().exception("internal error", path=path)
            await respond(
                send,
                500,
                error_body("internal error, see the log"),
                headers=self._requests.headers(),
            )

    def _page(self, path: str) -> Callable[[Scope, Send], Awaitable[None]] | None:
        if path in ("/healthz", "/livez"):
            return self._alive
        if path == "/readyz":
            return self._readiness
        if path == "/readyz/caches":
            return self._caches
        if path == "/metrics":
            return self._scrape
        if path == "/debug" or path.startswith("/debug/"):
            return self._serve_debug
        return None

    async def _alive(self, scope: Scope, send: Send) -> None:
        await self._report(send, "not alive", self._health.alive(), 500)

    async def _readiness(self, scope: Scope, send: Send) -> None:
        reasons = ["stopping"] if self._requests.draining else self._health.ready()
        await self._report(send, "not ready", reasons, 503)

    async def _caches(self, scope: Scope, send: Send) -> None:
        """Whether a standby could take over: all of readiness but leading."""
        reasons = ["stopping"] if self._requests.draining else self._health.caches()
        await self._report(send, "not ready", reasons, 503)

    async def _report(self, send: Send, what: str, reasons: list[str], status: int) -> None:
        if reasons:
            body = error_body(f"{what}: " + "; ".join(reasons), reasons=reasons)
            await respond(send, status, body, headers=self._requests.headers())
        else:
            await respond(send, 200, b"ok", TEXT, headers=self._requests.headers())

    async def _scrape(self, scope: Scope, send: Send) -> None:
        accept = (header(scope, b"accept") or b"").decode("latin-1")
        body, content_type = self._metrics.render(accept)
        await respond(send, 200, body, content_type.encode(), headers=self._requests.headers())

    async def _serve_debug(self, scope: Scope, send: Send) -> None:
        path: str = scope["path"]
        if not await serve_debug(
            self._debug, path, scope["query_string"], send, self._requests.headers()
        ):
            body = error_body(f"no debug page {path[:100]!r}, see /debug/", "path")
            await respond(send, 404, body, headers=self._requests.headers())


INDEX = {
    "/debug/decisions": "recent decisions and their reasons, newest first (?limit=N)",
    "/debug/reservations": "seats held, for which gang and until when",
    "/debug/evictions": "victim groups that are being evicted, what is left of each, and what "
    "refuses",
    "/debug/binds": "members whose bind is held, and which members they wait for",
    "/debug/limits": "gangs suspended and why; planning time and evictions by namespace; "
    "booked starts",
    "/debug/gangs": "the gangs as resolved, with problems and notes",
    "/debug/pods?name=NAME": "unfinished pods of a name, or of a NAMESPACE/NAME, with what "
    "decisions see of them",
    "/debug/watches": "what is followed of the cluster, how fresh it is, and what cannot be read",
    "/debug/observe": "in observe mode: what would have been done, beside what was done, by week",
    "/debug/snapshot": "the cluster as decisions see it, for offline replay "
    "(?generation=N: as a decision among the last saw it)",
}
MAX_NAME = 512
"""Above any NAMESPACE/NAME."""
SLICE = 500
"""Items encoded without a pause: verbs must not wait behind a big download."""
MADE = 10
"""Items made without a pause, where each is made as it is sent: a gang takes half a millisecond."""


class DebugSource(Protocol):
    """Where the debug API gets its values.

    Every method is called on the event loop and returns JSON-able values (dicts
    with text keys, sequences, msgspec Structs) that nobody changes afterwards:
    the snapshot is encoded piece by piece while other calls go on.

    A decision reads ``{"time", "gang", "verb", "outcome", "message", "victims":
    [{"namespace", "name", "uid", "node", "priority", "gang", "reason"}], "seats":
    [{"namespace", "name", "uid", "node"}], "costs": [{"level", "value", "bound"}],
    "proof", "explanation": [...], "spared"}``.
    """

    def decisions(self) -> Sequence[object]:
        """Return the decisions kept, newest first."""

    def reservations(self) -> Sequence[object]:
        """Return the seats held."""

    def evictions(self) -> Sequence[object]:
        """Return the units that are being evicted, broken ones with the reason."""

    def binds(self) -> Sequence[object]:
        """Return the binds that are held, by gang."""

    def limits(self) -> Mapping[str, object]:
        """Return who is suspended, and what namespaces have used lately."""

    def gangs(self) -> Iterable[object]:
        """Return the gangs as resolved, each one made as it is asked for."""

    def pods_named(self, name: str) -> Sequence[object]:
        """Return the unfinished pods of this name, or of this namespace/name."""

    def watches(self) -> Sequence[object]:
        """Return what is followed of the cluster, by resource."""

    def observed(self) -> Mapping[str, object] | None:
        """Return what observe mode has counted; None when it does not observe."""

    def snapshot(self, generation: int | None) -> object | None:
        """Return the dump that ``plan`` replays: the present one, or the one that a
        decision of this generation was made on; None when it is no longer kept.
        """


async def serve_debug(
    source: DebugSource, path: str, query: bytes, send: Send, headers: Headers
) -> bool:
    """Answer a debug path; False when there is no such path.

    Raises InvalidInput for a bad ``limit`` or ``generation``, and for a missing ``name``.
    """
    if path in ("/debug", "/debug/"):
        await respond(send, 200, _encode(INDEX), headers=headers)
    elif path == "/debug/decisions":
        kept = list(islice(source.decisions(), _number(query, b"limit")))
        await respond(send, 200, _encode({"decisions": kept}), headers=headers)
    elif path == "/debug/reservations":
        held = source.reservations()
        await respond(send, 200, _encode({"reservations": held}), headers=headers)
    elif path == "/debug/evictions":
        await respond(send, 200, _encode({"evictions": source.evictions()}), headers=headers)
    elif path == "/debug/binds":
        await respond(send, 200, _encode({"binds": source.binds()}), headers=headers)
    elif path == "/debug/limits":
        await respond(send, 200, _encode(source.limits()), headers=headers)
    elif path == "/debug/gangs":
        await _stream({"gangs": iter(source.gangs())}, send, headers)
    elif path == "/debug/pods":
        await respond(
            send, 200, _encode({"pods": source.pods_named(_name(query))}), headers=headers
        )
    elif path == "/debug/watches":
        await respond(send, 200, _encode({"watches": source.watches()}), headers=headers)
    elif path == "/debug/observe":
        found = source.observed()
        if found is None:
            raise InvalidInput("is there with mode: observe only", path)
        await respond(send, 200, _encode(found), headers=headers)
    elif path == "/debug/snapshot":
        generation = _number(query, b"generation")
        dump = source.snapshot(generation)
        if dump is None:
            raise InvalidInput(f"{generation} is not among the last decisions'", "generation")
        file = (b"content-disposition", b'attachment; filename="snapshot.json"')
        await _stream(dump, send, [file, *headers])
    else:
        return False
    return True


async def _stream(value: object, send: Send, headers: Headers) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", JSON), *headers],
        }
    )
    for chunk in chunks(value):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def chunks(value: object) -> Iterator[bytes]:
    """Encode a value as JSON in pieces: long sequences SLICE items at a time, iterators MADE."""
    if isinstance(value, Mapping):
        yield b"{"
        for position, (key, inner) in enumerate(value.items()):
            yield (b"," if position else b"") + _encode(key) + b":"
            yield from chunks(inner)
        yield b"}"
    elif isinstance(value, Iterator) or (isinstance(value, list | tuple) and len(value) > SLICE):
        size = MADE if isinstance(value, Iterator) else SLICE
        left, before = iter(value), b"["
        while part := list(islice(left, size)):
            yield before + _encode(part)[1:-1]
            before = b","
        yield b"]" if before == b"," else b"[]"
    else:
        yield _encode(value)


def _number(query: bytes, wanted: bytes) -> int | None:
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name == wanted:
            if not value.isdigit() or len(value) > 18:
                raise InvalidInput("must be a whole number", wanted.decode())
            return int(value)
    return None


def _name(query: bytes) -> str:
    found = parse_qs(query.decode("latin-1")).get("name", [""])[0]
    if not found or len(found) > MAX_NAME:
        raise InvalidInput("must be a pod's NAME or NAMESPACE/NAME", "name")
    return found


def _plain(value: Any) -> Any:
    """Encode hook: read-only mappings and other sequences, as they come out of a snapshot."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"a debug value has the type {type(value).__name__}, which is no JSON")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
