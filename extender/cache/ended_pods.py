"""Members of gangs that have succeeded, for as long as their pods exist.

They hold no room and are in no index of the pods; only how many of a gang are done counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extender.cache.feed import ChangeKind, Feed
from extender.groups.ended_members import MOST_ENDED, counts_as_ended, slim
from extender.model.objects import GangKey, Pod


class EndedMembers:
    """One event loop. The last MOST_ENDED that were heard of are kept."""

    def __init__(
        self, member_key: Callable[[Pod], GangKey | None], feed: Feed, most: int = MOST_ENDED
    ) -> None:
        self._member_key = member_key
        self._feed = feed
        self._most = most
        self._by_uid: dict[str, tuple[GangKey, Pod]] = {}
        self._by_gang: dict[GangKey, dict[str, Pod]] = {}
        self._by_name: dict[tuple[str, str], str] = {}
        self._view: dict[GangKey, tuple[Pod, ...]] = {}
        self._dirty: set[GangKey] = set()

    def held(self) -> Iterable[Pod]:
        """Return every pod."""
        return [pod for _, pod in self._by_uid.values()]

    def put(self, record: Pod, *, force: bool = False) -> None:
        """Take a pod that has finished; who had its name before is gone."""
        named = self._by_name.get((record.namespace, record.name), "")
        known = self._by_uid.get(named)
        if known is not None and record.version < known[1].version and not force:
            return
        key = self._member_key(record) if counts_as_ended(record) else None
        if key is None:
            self.remove(named)
            return
        pod = slim(record)
        if known is not None and known[1] == pod:
            return
        self._forget(named)
        if len(self._by_uid) >= self._most:
            self._forget(next(iter(self._by_uid)))
        self._by_uid[pod.uid] = (key, pod)
        self._by_gang.setdefault(key, {})[pod.uid] = pod
        self._by_name[pod.namespace, pod.name] = pod.uid
        self._changed(key)

    def remove(self, uid: str) -> None:
        """Take a pod's end, known or not."""
        if (known := self._forget(uid)) is not None:
            self._changed(known[0])

    def came(self, record: Pod, *, force: bool) -> bool:
        """Take that a pod is there; return False where it is known to be done since."""
        known = self._by_uid.get(record.uid)
        if known is not None and record.version < known[1].version and not force:
            return False
        self.remove(self._by_name.get((record.namespace, record.name), ""))
        return True

    def view(self) -> dict[GangKey, tuple[Pod, ...]]:
        """Return gang key -> its pods by (created, uid), as a copy that stays as it is."""
        if self._dirty:
            self._view = dict(self._view)
            for key in self._dirty:
                pods = self._by_gang.get(key)
                if pods is None:
                    self._view.pop(key, None)
                else:
                    found = sorted(pods.values(), key=lambda pod: (pod.created, pod.uid))
                    self._view[key] = tuple(found)
            self._dirty.clear()
        return self._view

    def _forget(self, uid: str) -> tuple[GangKey, Pod] | None:
        known = self._by_uid.pop(uid, None)
        if known is not None:
            key, pod = known
            del self._by_name[pod.namespace, pod.name]
            del self._by_gang[key][uid]
            if not self._by_gang[key]:
                del self._by_gang[key]
            self._dirty.add(key)
        return known

    def _changed(self, key: GangKey) -> None:
        self._dirty.add(key)
        self._feed.emit(ChangeKind.ENDED_MEMBER, None, None)
