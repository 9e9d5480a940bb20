"""The sandbox's etcd: objects by resource, one version counter, a log that watches replay.

Objects are never changed in place: a write stores a new dict, so whoever holds
an object (a watch that is slow, a page of a list) keeps what it was given.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from extender.sandbox.api_status import Obj, expired

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class StorageChange(NamedTuple):
    """One write. ``new`` is the last state for DELETED, with the version of the deletion."""

    version: int
    resource: str
    type: str
    new: Obj
    old: Obj | None


class Subscription:
    """Changes of some resources from the moment of subscribing, in the order of writes."""

    def __init__(self, storage: Storage, resources: tuple[str, ...]) -> None:
        self.resources = resources
        self._storage = storage
        self._changes: deque[StorageChange] = deque()
        self._arrived = asyncio.Event()

    @property
    def pending(self) -> bool:
        """Whether changes wait to be taken."""
        return bool(self._changes)

    def take(self) -> StorageChange | None:
        """Return the next change without waiting, or None."""
        if self._changes:
            return self._changes.popleft()
        self._arrived.clear()
        return None

    async def wait(self) -> None:
        """Wait until there may be a change, or until somebody calls ``wake``."""
        await self._arrived.wait()

    async def next(self) -> StorageChange:
        """Wait for the next change."""
        while (change := self.take()) is None:
            await self.wait()
        return change

    def push(self, change: StorageChange) -> None:
        """Hand a change over (called by the storage)."""
        self._changes.append(change)
        self._arrived.set()

    def wake(self) -> None:
        """End a ``wait`` without a change."""
        self._arrived.set()

    def close(self) -> None:
        """Stop getting changes."""
        self._storage.unsubscribe(self)


class Storage:
    """Objects keyed by (namespace, name) for each resource.

    ``keep`` is how many changes the log holds; a watch from before the log's
    first change is told that its version is too old, as after a compaction.
    """

    def __init__(self, keep: int = 50_000) -> None:
        self.version = 1
        self.dry = False
        """While set, writes are computed and returned but neither stored nor told."""
        self.compacted = 0
        self._keep = keep
        self._objects: dict[str, dict[tuple[str, str], Obj]] = {}
        self._log: deque[StorageChange] = deque()
        self._subscribers: dict[str, list[Subscription]] = {}
        self._observers: list[Callable[[StorageChange], None]] = []

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        """Return one object or None."""
        return self._objects.get(resource, {}).get((namespace, name))

    def all(self, resource: str, namespace: str = "") -> list[Obj]:
        """Return the objects of a resource ("" = of every namespace), sorted by key."""
        table = self._objects.get(resource)
        if not table:
            return []
        return [table[key] for key in sorted(table) if not namespace or key[0] == namespace]

    def put(self, resource: str, obj: Obj) -> Obj:
        """Store a new or changed object under the next version and tell who watches."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        table = self._objects.setdefault(resource, {})
        old = table.get(key)
        if self.dry:
            return obj
        self.version += 1
        obj = {**obj, "metadata": {**meta, "resourceVersion": str(self.version)}}
        table[key] = obj
        self._publish(StorageChange(self.version, resource, MODIFIED if old else ADDED, obj, old))
        return obj

    def remove(self, resource: str, namespace: str, name: str) -> Obj:
        """Remove an object that exists; return its last state."""
        if self.dry:
            return self._objects[resource][namespace, name]
        old = self._objects[resource].pop((namespace, name))
        self.version += 1
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self._publish(StorageChange(self.version, resource, DELETED, last, old))
        return last

    def since(self, resource: str, version: int) -> list[StorageChange]:
        """Return a resource's changes after a version; 410 Expired when it is compacted."""
        if version < self.compacted:
            raise expired(f"too old resource version: {version} ({self.compacted})")
        return [c for c in self._log if c.version > version and c.resource == resource]

    def subscribe(self, *resources: str) -> Subscription:
        """Start getting changes of these resources."""
        subscription = Subscription(self, resources)
        for resource in resources:
            self._subscribers.setdefault(resource, []).append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscription; harmless when it is gone."""
        for resource in subscription.resources:
            listeners = self._subscribers.get(resource, [])
            if subscription in listeners:
                listeners.remove(subscription)

    def observe(self, callback: Callable[[StorageChange], None]) -> None:
        """Call ``callback`` with every change of every resource, as part of the write."""
        self._observers.append(callback)

    def compact(self) -> None:
        """Forget the log: every version before the present one is too old to watch from."""
        self.compacted = self.version
        self._log.clear()

    def _publish(self, change: StorageChange) -> None:
        self._log.append(change)
        while len(self._log) > self._keep:
            self.compacted = self._log.popleft().version
        for subscription in self._subscribers.get(change.resource, ()):
            subscription.push(change)
        for callback in self._observers:
            callback(change)
