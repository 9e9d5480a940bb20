"""Gangs that were refused for their definition: tried again as soon as that is repaired.

kube-scheduler does not look at PodGroups. A pod that it was given no node for, because its PodGroup
did not exist, is put aside until something happens to pods or nodes: on a quiet cluster for five
minutes, with a reason that is not true any more. So its members are woken, and asked about again;
and the refusal, which stands for as long as it was dear to find, is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cachetools import TTLCache

from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.tell.decisions import Decision
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code
from extender.model.snapshot import Snapshot

PAUSE_SECONDS = 60.0
"""A gang is woken once in so long: a tenant that takes its PodGroup away and brings it back must
not cause a write to each of its pods each time."""
MOST_GANGS = 4096


class RepairedGangs:
    """One event loop. ``resolve(key, snapshot)`` gives a gang as it is.

    Of a gang that was refused and is in order now ``forget(key)`` is told, and ``wake(key, pods)``
    with its members that have no node.
    """

    def __init__(
        self,
        clocks: Clocks,
        source: ClusterSource,
        resolve: Callable[[GangKey, Snapshot], Gang],
        forget: Callable[[GangKey], None],
        wake: Callable[[GangKey, Sequence[Pod]], None],
    ) -> None:
        self._source = source
        self._resolve = resolve
        self._forget = forget
        self._wake = wake
        self._refused: dict[str, None] = {}
        self._woken: TTLCache[str, bool] = TTLCache(
            MOST_GANGS, PAUSE_SECONDS, timer=clocks.monotonic
        )

    def refused(self, decision: Decision) -> None:
        """Take note of a refusal."""
        if decision.code != Code.CONFLICT:
            self._refused.pop(decision.gang, None)
        elif len(self._refused) < MOST_GANGS:
            self._refused[decision.gang] = None

    def round(self) -> None:
        """Look which of them are in order now. Waits for nothing."""
        if not self._refused:
            return
        snapshot = self._source.snapshot()
        for name in list(self._refused):
            gang = self._resolve(GangKey.read(name), snapshot)
            if gang.members and not gang.in_order:
                continue
            self._forget(gang.key)
            if name in self._woken:
                continue
            del self._refused[name]
            waiting = [pod for pod in gang.members if not pod.node and not pod.deleting]
            if waiting:
                self._woken[name] = True
                self._wake(gang.key, waiting)
