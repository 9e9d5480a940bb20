"""Gangs that kube-scheduler has tried to place and could not, kept per pod event.

The controller loop looks here several times a second; walking over all pending
pods for it would cost more the busier the cluster is.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod


class PendingGangs:
    """Gang keys with at least one tried, unbound, ungated member."""

    def __init__(
        self, member_key: Callable[[Pod], GangKey | None], schedulers: tuple[str, ...]
    ) -> None:
        self._member_key = member_key
        self._schedulers = schedulers
        self._uids: dict[GangKey, set[str]] = {}
        self._key_of: dict[str, GangKey] = {}

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event."""
        pod = new if new is not None else old
        if pod is None:
            return
        key = self._member_key(pod) if pod is new and self._seeks(pod) else None
        before = self._key_of.get(pod.uid)
        if key == before:
            return
        if before is not None:
            del self._key_of[pod.uid]
            self._uids[before].discard(pod.uid)
            if not self._uids[before]:
                del self._uids[before]
        if key is not None:
            self._uids.setdefault(key, set()).add(pod.uid)
            self._key_of[pod.uid] = key

    def keys(self) -> list[GangKey]:
        """Return the gangs, in no order."""
        return list(self._uids)

    def _seeks(self, pod: Pod) -> bool:
        ours = not self._schedulers or pod.shape.scheduler in self._schedulers
        waits = not pod.node and not pod.gated and not pod.deleting and not pod.finished
        return pod.tried and waits and ours


def can_be_planned(gang: Gang) -> bool:
    """Whether it lacks seats and no members."""
    return bool(gang.starts_whole and gang.missing and gang.complete)
