"""Follows one resource: reads its whole state, then every change, for ever.

The rules are those of client-go's tools/cache/reflector.go, with these choices:

- The whole state is always read as "most recent" (no resourceVersion): a WatchList
  where the server has it (KEP-3157), else a LIST in pages. resourceVersion=0 would make
  the server ignore the page size, and could show a state older than one seen before.
- A watch that reports a version below one already seen means that the server's
  storage was restored from a backup: everything is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
import structlog
from msgspec import Raw

from extender.cache.backoff import Backoff
from extender.cache.clock import Clock
from extender.cache.resources import LooseEvent, Page, Resource
from extender.cache.stats import WatchStats
from extender.cache.tables import Sink, Versioned, replace
from extender.kube.client import KubeClient
from extender.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    from_status,
)
from extender.model.apishape import RawMeta, RawNamespace
from extender.model.decode import describe
from extender.model.errors import InvalidInput
from extender.model.settings import CacheSettings

log = structlog.get_logger("cache")

Row = TypeVar("Row", bound=Versioned)

WATCH_SECONDS = (300.0, 600.0)
"""The server is asked to end a watch after a random time in between."""
SHORT_WATCH_SECONDS = 1.0
"""A watch that ends sooner, without any event, counts as a failure."""
ERROR_BUDGET = 5
"""Failed answers (5xx) in a row before the whole state is read again."""
EVENTS_PER_TURN = 64
"""Events applied between two looks at what else the loop has to do."""
PAGE_SECONDS = 60.0
INITIAL_EVENTS_END = b'"k8s.io/initial-events-end"'

_loose_event = msgspec.json.Decoder(LooseEvent)
_loose_page = msgspec.json.Decoder(Page[Raw])  # type: ignore[type-var] # items stay raw
_only_meta = msgspec.json.Decoder(RawNamespace)


class Malformed(ApiError):  # noqa: N818 - named as the condition it is
    """An event cannot be understood: the state held may be wrong from here on."""

    def __init__(self, message: str) -> None:
        super().__init__(200, "Malformed", message)


class Reflector(Generic[Row]):
    """The loop of one resource. ``run`` ends only by being cancelled."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[Row],
        sink: Sink[Row],
        stats: WatchStats,
        settings: CacheSettings,
        clock: Clock,
        random: Callable[[], float],
        *,
        on_synced: Callable[[], None] = lambda: None,
        on_missing: Callable[[], None] = lambda: None,
    ) -> None:
        self.resource = resource
        self.stats = stats
        self._client = client
        self._sink = sink
        self._settings = settings
        self._clock = clock
        self._random = random
        self._backoff = Backoff(clock.monotonic, random)
        self._on_synced = on_synced
        self._on_missing = on_missing
        self._watch_list = settings.watch_list
        self._version = ""
        """Where a watch goes on from; "" = the whole state has to be read first."""
        self._budget = ERROR_BUDGET
        self._restarts = 0
        """Paged lists that expired half-way, in a row."""

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        stats, clock = self.stats, self._clock
        stats.down_since = clock.monotonic()
        while True:
            try:
                if self._version:
                    await self._watch()
                elif self._watch_list:
                    await self._read_by_watch()
                else:
                    await self._read_by_list()
            except ApiError as error:
                delay = self._failed(error)
            except Exception as error:
                # A mistake of ours must not end the loop: the safe way on is a fresh start.
                log.exception("reflector failed", resource=self.resource.name)
                self._note(f"{type(error).__name__}: {error}")
                self._version = ""
                delay = self._backoff.delay()
            else:
                continue
            finally:
                stats.closed(clock.monotonic())
            await clock.sleep(delay)

    # -- after a failure --------------------------------------------------------------------

    def _failed(self, error: ApiError) -> float:
        """Decide how to go on after ``error``; return the seconds to wait before."""
        self._note(str(error))
        if error.reason == "Timeout":
            # Nothing was heard since then, so nothing was known since then.
            self.stats.closed(self.stats.last_contact)
        if isinstance(error, (TooManyRequests, Unavailable, Unauthorized, Forbidden)):
            # None of these says anything about the version we would go on from.
            if error.status >= 500:
                self._budget -= 1
                if self._budget <= 0:
                    self._read_again()
        elif self._watch_list and not self._version and error.status in (400, 405, 422):
            self._without_watch_list(str(error))
            return 0.0
        else:
            self._read_again()
            if error.status == 404:
                self._on_missing()
        return max(self._backoff.delay(), error.retry_after or 0.0)

    def _without_watch_list(self, why: str) -> None:
        """Use paged lists from now on: this server, or a proxy before it, has no WatchList."""
        log.info("no WatchList, paged LIST instead", resource=self.resource.name, why=why)
        self._watch_list = False

    def _read_again(self) -> None:
        self._version = ""
        self._budget = ERROR_BUDGET

    def _note(self, text: str) -> None:
        self.stats.errors += 1
        self.stats.last_error = text
        log.warning("watch interrupted", resource=self.resource.name, error=text)

    # -- the whole state --------------------------------------------------------------------

    async def _read_by_list(self) -> None:
        """Read the whole state page by page; leave the version to watch from."""
        started = self._begin()
        self.stats.lists += 1
        records: dict[str, Row] = {}
        params: dict[str, str | int | bool] = dict(self.resource.params)
        # Pages of one list share a version that the server may forget half-way. A list
        # that keeps being forgotten is read in one piece, whatever that costs.
        if self._restarts < 2:
            params["limit"] = self._settings.page_size
        while True:
            try:
                body = await self._client.request(
                    "GET", self.resource.path, params=params, timeout=PAGE_SECONDS
                )
            except Gone:
                self._restarts += 1
                raise
            version, more = self._take_page(body, records)
            if not more:
                break
            params["continue"] = more
            await asyncio.sleep(0)
        self._restarts = 0
        await self._replace(records, version, started)

    def _take_page(self, body: bytes, records: dict[str, Row]) -> tuple[str, str]:
        """Add a page's records; return the list's version and the next page's token."""
        resource = self.resource
        try:
            page = resource.decode_page(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._take_page_singly(body, records)
        for item in page.items or ():
            try:
                self._keep(resource.reduce(item), records)
            except (InvalidInput, OverflowError, ValueError) as error:
                meta = item.metadata or RawMeta()
                name = "/".join(part for part in (meta.namespace, meta.name) if part)
                self._left_out(f"{resource.kind} {name}", error)
        return page.metadata.resource_version, page.metadata.continue_ or ""

    def _take_page_singly(self, body: bytes, records: dict[str, Row]) -> tuple[str, str]:
        """As above for a page with an object of the wrong shape: the others still count."""
        resource = self.resource
        try:
            page = _loose_page.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.stats.decode_errors += 1
            raise Malformed(f"GET {resource.path}: not a list: {error}") from error
        for raw in page.items or ():
            try:
                self._keep(resource.reduce(resource.decode_item(raw)), records)
            except (msgspec.DecodeError, InvalidInput, OverflowError, ValueError) as error:
                self._left_out(describe(resource.kind, raw), error)
        return page.metadata.resource_version, page.metadata.continue_ or ""

    async def _read_by_watch(self) -> None:
        """Read the whole state as a WatchList and go on watching in the same stream."""
        params = {
            **self._watch_params(),
            "sendInitialEvents": True,
            "resourceVersionMatch": "NotOlderThan",
        }
        await self._stream(params, started=self._begin())

    def _begin(self) -> float:
        self.stats.undecodable.clear()
        return self._clock.monotonic()

    def _keep(self, record: Row, records: dict[str, Row]) -> None:
        if not record.uid:
            raise InvalidInput("metadata.uid: is missing")
        records[record.uid] = record

    def _left_out(self, name: str, error: Exception) -> None:
        """Leave a malformed object out of the state, visibly: reading again cannot mend it."""
        text = f"{name}: {error}"
        self.stats.left_out(name, text)
        log.error("object left out", resource=self.resource.name, error=text)

    async def _replace(self, records: dict[str, Row], version: str, started: float) -> None:
        if not version:
            raise Malformed(f"GET {self.resource.path}: the list has no resourceVersion")
        await replace(self._sink, records)
        stats = self.stats
        stats.relists += stats.synced
        stats.sync_seconds = self._clock.monotonic() - started
        stats.last_contact = self._clock.monotonic()
        stats.version = self._version = version
        if not stats.synced:
            stats.synced = True
            self._on_synced()

    # -- changes ----------------------------------------------------------------------------

    def _watch_params(self) -> dict[str, str | int | bool]:
        low, high = WATCH_SECONDS
        return {
            **self.resource.params,
            "watch": True,
            "allowWatchBookmarks": True,
            "timeoutSeconds": int(low + (high - low) * self._random()),
        }

    async def _watch(self) -> None:
        await self._stream({**self._watch_params(), "resourceVersion": self._version}, started=None)

    async def _stream(self, params: dict[str, str | int | bool], started: float | None) -> None:
        """Apply a stream's events until it ends; ``started``: it begins with the whole state.

        Returns when the server has ended the watch in good order.
        """
        stats, clock = self.stats, self._clock
        initial: dict[str, Row] | None = None if started is None else {}
        opened = clock.monotonic()
        heard = 0
        batches = self._client.batches(
            self.resource.path, params, idle_seconds=self._settings.stall_seconds
        )
        first = True
        try:
            async for lines in batches:
                if first:
                    first = False
                    stats.watches += 1
                    opened = clock.monotonic()
                    if initial is None:
                        stats.opened(opened)
                heard += len(lines)
                stats.last_contact = clock.monotonic()
                at = 0
                while at < len(lines):
                    turn = lines[at : at + EVENTS_PER_TURN]
                    if initial is None:
                        self._apply(turn)
                        at += len(turn)
                    else:
                        used, version = self._collect(turn, initial)
                        at += used
                        if version:
                            await self._replace(initial, version, started or opened)
                            initial = None
                            stats.opened(clock.monotonic())
                    if at < len(lines):
                        await asyncio.sleep(0)
        except Unavailable as error:
            if initial is not None and not first and error.reason == "Timeout":
                self._without_watch_list("the end of the initial events never came")
            raise
        finally:
            await batches.aclose()
        if initial is not None:
            self._without_watch_list("the watch ended before its initial events did")
            raise Unavailable(
                0, "Truncated", f"GET {self.resource.path}: the initial events broke off"
            )
        if not heard and clock.monotonic() - opened < SHORT_WATCH_SECONDS:
            raise Unavailable(
                0,
                "ShortWatch",
                f"GET {self.resource.path}: the watch ended at once, without events",
            )

    def _apply(self, lines: list[bytes]) -> None:
        """Apply events in order. Raises ApiError when the state cannot be continued."""
        resource, sink, stats = self.resource, self._sink, self.stats
        decode, reduce = resource.decode_event, resource.reduce
        for line in lines:
            try:
                event = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self._advance(self._bookmark(line, error))
                continue
            kind = event.type
            if kind == "BOOKMARK" or kind == "ERROR":
                self._advance(self._bookmark(line, None))
                continue
            try:
                record = reduce(event.object)
                if not record.uid:
                    raise InvalidInput("metadata.uid: is missing")
                if kind == "MODIFIED" or kind == "ADDED":
                    sink.put(record)
                elif kind == "DELETED":
                    sink.remove(record)
                else:
                    raise InvalidInput(f"event type {kind[:64]!r} is unknown")
            except (InvalidInput, OverflowError, ValueError) as error:
                raise self._malformed(line, error) from error
            stats.events += 1
            version = event.object.metadata.resource_version
            if version:
                self._version = version
        stats.version = self._version
        self._budget = ERROR_BUDGET

    def _collect(self, lines: list[bytes], initial: dict[str, Row]) -> tuple[int, str]:
        """Collect initial events; return the lines used and, once at their end, the version."""
        resource, stats = self.resource, self.stats
        for used, line in enumerate(lines, start=1):
            try:
                event = resource.decode_event(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                loose = self._loose(line, error)
                if loose.type not in ("BOOKMARK", "ERROR"):
                    self._left_out(describe(resource.kind, loose.object), error)
                    continue
                kind = loose.type
            else:
                kind = event.type
            if kind == "BOOKMARK" or kind == "ERROR":
                version = self._bookmark(line, None)
                if INITIAL_EVENTS_END in line:
                    return used, version
                continue
            stats.events += 1
            try:
                record = resource.reduce(event.object)
                self._keep(record, initial)
                if kind == "DELETED":
                    del initial[record.uid]
            except (InvalidInput, OverflowError, ValueError) as error:
                self._left_out(describe(resource.kind, _loose_event.decode(line).object), error)
        return len(lines), ""

    # -- what is not an object ----------------------------------------------------------------

    def _bookmark(self, line: bytes, cause: Exception | None) -> str:
        """Return a bookmark's version. Raises what an ERROR event says, Malformed for the rest."""
        event = self._loose(line, cause)
        if event.type == "ERROR":
            try:
                status = msgspec.json.decode(event.object)
            except msgspec.DecodeError as error:
                raise self._malformed(line, error) from error
            raise from_status(status if isinstance(status, dict) else {})
        if event.type != "BOOKMARK":
            raise self._malformed(line, cause or ValueError("unexpected event"))
        try:
            meta = _only_meta.decode(event.object).metadata
        except msgspec.DecodeError as error:
            raise self._malformed(line, error) from error
        version = meta.resource_version if meta is not None else None
        if not version:
            raise self._malformed(line, ValueError("a bookmark without resourceVersion"))
        self.stats.bookmarks += 1
        return version

    def _advance(self, version: str) -> None:
        if version.isdecimal() and self._version.isdecimal() and int(version) < int(self._version):
            raise Gone(
                410,
                "WentBack",
                f"GET {self.resource.path}: version {version} after {self._version}; "
                "the server's storage was put back",
            )
        self._version = version

    def _loose(self, line: bytes, cause: Exception | None) -> LooseEvent:
        try:
            return _loose_event.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._malformed(line, cause or error) from error

    def _malformed(self, line: bytes, cause: Exception) -> Malformed:
        self.stats.decode_errors += 1
        try:
            name = describe(self.resource.kind, _loose_event.decode(line).object)
        except (msgspec.DecodeError, UnicodeDecodeError):
            name = repr(line[:80])
        return Malformed(f"watch {self.resource.path}: event for {name}: {cause}")
