"""Follows one resource: reads its whole state, then every change, for ever.

The rules are those of client-go's tools/cache/reflector.go, with these choices:

- The whole state is always read as "most recent" (no resourceVersion): a WatchList
  where the server has it (KEP-3157), else a LIST in pages. resourceVersion=0 would make
  the server ignore the page size, and could show a state older than one seen before.
- A watch that was open for some seconds resets the back-off: a connection that is cut every
  12 s costs no pauses, where one that opens and ends at once does.
- A watch that is accepted and ends at once, or with "too old", has shown nothing: the state is as
  old as it was before. So it is until its first event, or until it has been open for a second.
- A version below one already seen means that the server's storage was restored from a backup:
  everything is read again. kube-apiserver accepts a watch from a version it does not have, and
  shows nothing but a bookmark a minute later (kubernetes/kubernetes#107457). So after a connection
  was lost a list of one object is asked for its version first (``_ask_version``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
import structlog

from extender.cache.backoff import BRIEF, STABLE, Backoff
from extender.cache.clock import Clock
from extender.cache.followed_resources import FollowedResource
from extender.cache.reader import CHANGES, DELETED, EXPECTED, Malformed, ResourceReader
from extender.cache.stats import WatchStats
from extender.cache.tables import Sink, Versioned, replace
from extender.kube.api import KubeApi
from extender.kube.api_errors import (
    ApiError,
    Forbidden,
    Gone,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from extender.model.errors import InvalidInput
from extender.settings.settings import CacheSettings

log = structlog.get_logger("cache")

Row = TypeVar("Row", bound=Versioned)

WATCH_SECONDS = (300.0, 600.0)
"""The server is asked to end a watch after a random time in between."""
ERROR_BUDGET = 5
"""Failed answers (5xx) in a row before the whole state is read again."""
EVENTS_PER_TURN = 64
"""Events applied between two looks at what else the loop has to do."""
PAGE_SECONDS, VERSION_SECONDS = 60.0, 10.0
"""How long a page, and one object, may take."""
SILENT, SHORT = ("Timeout", "ConnectionLost"), "ShortWatch"
"""Reasons of a stream's end that mean: nothing more came since what was heard last."""
LONGEST_ASKED = 60.0
"""A longer Retry-After is cut to this: whoever sends it must not blind us for an hour."""


class Reflector(Generic[Row]):
    """The loop of one resource. ``run`` ends only by being cancelled."""

    def __init__(
        self,
        client: KubeApi,
        resource: FollowedResource[Row],
        sink: Sink[Row],
        stats: WatchStats,
        settings: CacheSettings,
        clock: Clock,
        random: Callable[[], float],
        *,
        known_at: Callable[[], float],
        on_synced: Callable[[], None] = lambda: None,
        on_left_out: Callable[[], None] = lambda: None,
        on_missing: Callable[[], None] = lambda: None,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        """``known_at`` gives until when all that had come was read (see Pulse). ``on_left_out`` is
        called when other objects than before may be left out as malformed."""
        self.resource = resource
        self.stats = stats
        self._client = client
        self._reader = ResourceReader(resource, stats)
        self._sink = sink
        self._settings = settings
        self._clock = clock
        self._random = random
        self._known_at = known_at
        self._backoff = Backoff(clock.monotonic, random)
        self._on_synced = on_synced
        self._on_left_out = on_left_out
        self._on_missing = on_missing
        self._on_refused = on_refused
        self._watch_list = settings.watch_list
        self._version = ""
        """Where a watch goes on from; "" = the whole state has to be read first."""
        self._budget = ERROR_BUDGET
        self._lost = False
        """Another storage may answer."""
        self._restarts = 0
        """Paged lists that expired half-way, in a row."""

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        stats, clock = self.stats, self._clock
        stats.down_since = clock.monotonic()
        while True:
            try:
                if self._version:
                    if self._lost:
                        await self._ask_version()
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
                stats.closed(self._known_at())
            await clock.sleep(delay)

    # -- after a failure --------------------------------------------------------------------

    def _failed(self, error: ApiError) -> float:
        """Decide how to go on after ``error``; return the seconds to wait before."""
        self._note(str(error))
        self._lost |= isinstance(error, Unavailable) and error.reason != SHORT
        if error.reason in SILENT:
            # Nothing was heard since then, so nothing was known since then.
            self.stats.closed(self.stats.last_contact)
        if isinstance(error, (TooManyRequests, Unavailable, Unauthorized, Forbidden)):
            # None of these says anything about the version we would go on from.
            if isinstance(error, Forbidden):
                self._on_refused()
            if error.status >= 500:
                self._budget -= 1
                if self._budget <= 0:
                    self._read_again()
        elif self._watch_list and not self._version and error.status in (400, 405, 422):
            self._without_watch_list(str(error))
            return 0.0
        else:
            if isinstance(error, Gone) and self._version:
                self._backoff.too_old()
            self._read_again()
            if error.status == 404:
                self._on_missing()
        return max(self._backoff.delay(), min(error.retry_after or 0.0, LONGEST_ASKED))

    def _without_watch_list(self, why: str) -> None:
        """Use paged lists from now on: this server, or a proxy before it, has no WatchList."""
        log.info("no WatchList, paged LIST instead", resource=self.resource.name, why=why)
        self._watch_list = False

    def _read_again(self) -> None:
        self._version = ""
        self._budget = ERROR_BUDGET

    def _was_open(self, seconds: float) -> None:
        """Judge by how long the watch was open and heard from how to meet its end."""
        self._backoff.was_open(seconds)
        if seconds >= STABLE:
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
            except Unavailable:
                # Perhaps it was too much in one piece.
                self._restarts = 0
                raise
            version, more = self._reader.page(body, records)
            if not more:
                break
            params["continue"] = more
            await asyncio.sleep(0)
        self._restarts = 0
        await self._replace(records, version, started)

    async def _read_by_watch(self) -> None:
        """Read the whole state as a WatchList and go on watching in the same stream."""
        params = {
            **self._watch_params(),
            "sendInitialEvents": True,
            "resourceVersionMatch": "NotOlderThan",
        }
        await self._stream(params, started=self._begin())

    def _begin(self) -> float:
        self.stats.forget_left_out()
        return self._clock.monotonic()

    async def _replace(self, records: dict[str, Row], version: str, started: float) -> None:
        if not version:
            raise Malformed(f"GET {self.resource.path}: the list has no resourceVersion")
        await replace(self._sink, records)
        stats = self.stats
        stats.relists += stats.synced
        stats.sync_seconds = self._clock.monotonic() - started
        stats.last_contact = stats.shown_at = self._clock.monotonic()
        stats.version = self._version = version
        self._lost = False
        self._on_left_out()
        if not stats.synced:
            stats.synced = True
            self._on_synced()

    async def _ask_version(self) -> None:
        """Look whether the server still has what was seen of it. Raises Gone where it has not.

        One object a kind, and only after a connection was lost and its pause. No resourceVersion is
        the version that etcd has: of a quorum read, or of a watch cache that waits for it
        (ConsistentListFromCache); "0" is whatever a cache has. No selectors: else one that matches
        is searched for, and a cache that is not ready refuses. It cannot tell of an API server that
        went on while etcd was put back (kubernetes.io forbids that: its cache of before passes for
        new enough), nor once versions have caught up with what was seen (hence --bump-revision).
        """
        body = await self._client.request(
            "GET", self.resource.path, params={"limit": 1}, timeout=VERSION_SECONDS
        )
        self._reader.not_below(self._reader.version(body), self._version)
        self._lost = False

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
        opened: float | None = None
        """Since when changes are shown, after the whole state."""
        before = stats.down_since
        silent = gone = False
        batches = self._client.batches(
            self.resource.path, params, idle_seconds=self._settings.stall_seconds
        )
        first = True
        try:
            async for lines in batches:
                if first:
                    first = False
                    stats.watches += 1
                    if initial is None:
                        opened = clock.monotonic()
                        stats.opened(opened)
                stats.last_contact = clock.monotonic()
                at = 0
                while at < len(lines):
                    turn = lines[at : at + EVENTS_PER_TURN]
                    if initial is None:
                        self._apply(turn)
                        at += len(turn)
                    else:
                        used, version = self._reader.initial(turn, initial)
                        at += used
                        if version:
                            await self._replace(initial, version, started or 0.0)
                            initial = None
                            opened = stats.shown_at
                            stats.opened(opened)
                    if at < len(lines):
                        await asyncio.sleep(0)
        except Unavailable as error:
            silent = error.reason in SILENT
            if initial is not None and not first and error.reason == "Timeout":
                self._without_watch_list("the end of the initial events never came")
            raise
        except Gone:
            gone = True
            raise
        finally:
            lived = 0.0
            if opened is not None:
                lived = (stats.last_contact if silent else clock.monotonic()) - opened
                self._was_open(lived)
                if (gone or lived < BRIEF) and stats.shown_at < opened:
                    # A server that accepts a watch and then says that its version is too old, or
                    # hangs up, has shown nothing of what was missed before.
                    stats.closed(before)
            await batches.aclose()
        self._judge_end(lived, whole=initial is None)

    def _judge_end(self, lived: float, *, whole: bool) -> None:
        """Say what is wrong with a stream that ended in good order after ``lived`` seconds;
        ``whole``: the whole state was read. Raises Unavailable."""
        path = self.resource.path
        if not whole:
            self._without_watch_list("the watch ended before its initial events did")
            raise Unavailable(0, "Truncated", f"GET {path}: the initial events broke off")
        if lived < BRIEF:
            # client-go lets one pass that has shown something; a server that sends a bookmark
            # and hangs up would then be asked without any pause.
            raise Unavailable(0, SHORT, f"GET {path}: the watch ended at once")

    def _apply(self, lines: list[bytes]) -> None:
        """Apply events in order. Raises ApiError when the state cannot be continued."""
        resource, sink, stats = self.resource, self._sink, self.stats
        decode, reduce = resource.decode_event, resource.reduce
        for line in lines:
            try:
                event = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if not self._without(line, error):
                    self._advance(self._reader.bookmark(line, error))
                continue
            kind = event.type
            if kind == "BOOKMARK" or kind == "ERROR":
                self._advance(self._reader.bookmark(line, None))
                continue
            try:
                record = reduce(event.object)
                if not record.uid:
                    raise InvalidInput("metadata.uid: is missing")
                if kind not in CHANGES:
                    raise InvalidInput(f"event type {kind[:64]!r} is unknown")
            except Exception as error:  # ours about this one included: reading again mends nothing
                if self._without(line, error):
                    continue
                if isinstance(error, EXPECTED):
                    raise self._reader.malformed(line, error) from error
                raise
            if kind == DELETED or not resource.kept(record):
                sink.remove(record)
            else:
                sink.put(record)
            stats.events += 1
            if stats.undecodable and self._reader.mended(event.object.metadata):
                self._on_left_out()
            version = event.object.metadata.resource_version
            if version:
                self._version = stats.changed = version
        stats.version = self._version
        stats.shown_at = stats.last_contact
        self._budget = ERROR_BUDGET

    def _without(self, line: bytes, cause: Exception) -> bool:
        """Go on without the object of a change, where that keeps others from nothing."""
        meta = self._reader.without(line, cause)
        if meta is None:
            return False
        for held in [each for each in self._sink.held() if each.uid == meta.uid]:
            self._sink.remove(held)
        self.stats.events += 1
        self._version = meta.resource_version or self._version
        self._on_left_out()
        return True

    def _advance(self, version: str) -> None:
        self._reader.not_below(version, self._version)
        self._version = version
