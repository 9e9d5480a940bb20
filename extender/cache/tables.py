"""Objects of one kind by name, with the rules of when an event counts.

- An event about a state older than the one held for the same UID is ignored.
- The same name with another UID means that the first object is gone: delete, then add.
- An update that changes nothing we keep is stored (for its version) but not announced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from msgspec import structs

from extender.cache.feed import ChangeKind, Feed
from extender.cache.stats import CacheStats
from extender.model.extended_resources import NONE, of_node
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    Namespace,
    Node,
    PriorityClass,
)

Key = TypeVar("Key", bound=Hashable)
Small = TypeVar("Small", bound=Node | Namespace | DisruptionBudget | PriorityClass | GroupObject)
Kept = TypeVar("Kept")

CHUNK = 1000
"""Objects handled between two looks at what else the loop has to do."""


class Sink(Protocol[Kept]):
    """Where a reflector puts what it reads."""

    def put(self, record: Kept, *, force: bool = False) -> None:
        """Take an added or changed object; ``force``: even when it looks older."""

    def remove(self, record: Kept) -> None:
        """Take an object's end."""

    def held(self) -> Iterable[Kept]:
        """Return everything held; not to be changed while iterating."""


class Versioned(Protocol):
    """What every record has."""

    @property
    def uid(self) -> str:
        """Identity."""

    @property
    def version(self) -> int:
        """resourceVersion."""


Row = TypeVar("Row", bound=Versioned)


async def replace(sink: Sink[Row], records: dict[str, Row]) -> None:
    """Make ``sink`` hold exactly ``records`` (by uid), as one step for whoever reads it.

    Comparing yields to the loop; then all differences are applied without a pause,
    deletions first. The caller alone feeds this sink, so nothing changes in between.
    The records come from a read at least as new as anything held, hence ``force``.
    """
    gone: list[Row] = []
    held: dict[str, Row] = {}
    for count, record in enumerate(list(sink.held()), start=1):
        if record.uid in records:
            held[record.uid] = record
        else:
            gone.append(record)
        if count % CHUNK == 0:
            await asyncio.sleep(0)
    if not held and not gone:
        # The first time nobody can be reading yet.
        for count, record in enumerate(records.values(), start=1):
            sink.put(record)
            if count % CHUNK == 0:
                await asyncio.sleep(0)
        return
    changed: list[Row] = []
    for count, record in enumerate(records.values(), start=1):
        if held.get(record.uid) != record:
            changed.append(record)
        if count % CHUNK == 0:
            await asyncio.sleep(0)
    for record in gone:
        sink.remove(record)
    for record in changed:
        sink.put(record, force=True)


class ObjectTable(Generic[Key, Small]):
    """A kind with few objects."""

    def __init__(
        self,
        kind: ChangeKind,
        key: Callable[[Small], Key],
        feed: Feed,
        stats: CacheStats,
        changed: Callable[[Small | None, Small | None], None] = lambda old, new: None,
    ) -> None:
        self.rows: dict[Key, Small] = {}
        self.view: dict[Key, Small] | None = None
        self._kind = kind
        self._key = key
        self._feed = feed
        self._stats = stats
        self._changed = changed

    def held(self) -> Iterable[Small]:
        """Return every object."""
        return self.rows.values()

    def put(self, record: Small, *, force: bool = False) -> None:
        """Take an added or changed object."""
        key = self._key(record)
        old = self.rows.get(key)
        if old is not None:
            if record.version < old.version and not force:
                self._stats.outdated_events += 1
                return
            if old.uid != record.uid:
                self._gone(key, old)
                old = None
            elif structs.replace(old, version=record.version) == record:
                self.rows[key] = record
                return
        self.rows[key] = record
        self._announce(old, record)

    def remove(self, record: Small) -> None:
        """Take an object's end; of another object with the same name it says nothing."""
        key = self._key(record)
        old = self.rows.get(key)
        if old is None or old.uid != record.uid:
            return
        self._gone(key, old)

    def clear(self) -> None:
        """Drop everything: the API no longer serves this kind."""
        for key, old in list(self.rows.items()):
            self._gone(key, old)

    def snapshot(self) -> dict[Key, Small]:
        """Return a copy that stays as it is; the same one while nothing changes."""
        if self.view is None:
            self.view = dict(self.rows)
        return self.view

    def _gone(self, key: Key, old: Small) -> None:
        del self.rows[key]
        self._announce(old, None)

    def _announce(self, old: Small | None, new: Small | None) -> None:
        self.view = None
        self._changed(old, new)
        self._feed.emit(self._kind, old, new)


class NodeTable(ObjectTable[str, Node]):
    """The nodes, each with the resources for which kube-scheduler allocates devices there."""

    _devices: frozenset[str] = NONE

    def put(self, record: Node, *, force: bool = False) -> None:
        """Take an added or changed node."""
        super().put(of_node(record, self._devices), force=force)

    def name_devices(self, names: frozenset[str]) -> None:
        """Take which resources DeviceClasses name now."""
        self._devices = names
        for record in list(self.rows.values()):
            self.put(record, force=True)
