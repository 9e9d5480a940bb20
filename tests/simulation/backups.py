"""etcd that can be put back to what it was, as ``etcdutl snapshot restore`` does."""

from __future__ import annotations

from msgspec import Struct

from extender.sandbox.api_status import Obj
from extender.sandbox.storage import ADDED, DELETED, Storage, StorageChange

GAP = 10_000
"""How many versions a storage that is put back lies behind the one that is lost, at least: what
else is in a cluster (leases, events) is written all the time."""


class Backup(Struct, frozen=True):
    """All objects of one moment; the storage never changes one in place."""

    version: int
    objects: dict[str, dict[tuple[str, str], Obj]]


class RestorableStorage(Storage):
    """A Storage of which backups are made."""

    _highest = 0
    """The highest version that was ever lost."""

    def back_up(self) -> Backup:
        """Return what is there; what comes after it has versions of its own."""
        backup = Backup(self.version, {key: dict(table) for key, table in self._objects.items()})
        self.version += GAP
        return backup

    def restore(self, backup: Backup, *, bumped: bool) -> None:
        """Be as it was. Who observes is told the difference; watches are the server's to end.

        ``bumped``: versions go on above all that were ever lost, and those are compacted
        (``--bump-revision --mark-compacted``). Else they go back.
        """
        self._highest = max(self._highest, self.version)
        lost, self._objects = self._objects, {k: dict(t) for k, t in backup.objects.items()}
        self.version = self._highest + GAP if bumped else backup.version
        self.compact()
        gone: list[StorageChange] = []
        back: list[StorageChange] = []
        for resource in sorted(lost.keys() | backup.objects.keys()):
            now, then = lost.get(resource, {}), backup.objects.get(resource, {})
            gone += [
                StorageChange(self.version, resource, DELETED, now[key], now[key])
                for key in sorted(now)
                if then.get(key) is not now[key]
            ]
            back += [
                StorageChange(self.version, resource, ADDED, then[key], None)
                for key in sorted(then)
                if now.get(key) is not then[key]
            ]
        for change in (*gone, *back):
            for callback in self._observers:
                callback(change)
