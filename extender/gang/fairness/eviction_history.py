"""Evictions counted by lineage, and who is spared for it now; plan/evicted_before.py has the rule.

It outlives the process in one ConfigMap beside the plan records, where tenants do not write,
signed as those are. Nothing on tenants' own objects is believed. It is written behind what happens:
an eviction within the last moments before a crash may not be counted, which costs one doubling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import msgspec
import structlog
from msgspec.structs import replace

from extender.gang.core.last_check import KeptGangs
from extender.gang.core.victim_group import Sent
from extender.gang.fairness.kept_list import ConfigMapList, WrittenBehind
from extender.gang.leader_election.lease import Leadership
from extender.gang.plan.evicted_before import (
    BARE,
    OWNER,
    Evicted,
    comes_after,
    counted,
    lineages,
    over,
    spared,
    undisturbed,
)
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.signature import Signer, digest_of
from extender.kube.api import KubeApi
from extender.model.objects import Pod
from extender.model.snapshot import EMPTY, SparedPod
from extender.model.texts import rfc3339
from extender.settings.fairness import ProtectionSettings

log = structlog.get_logger("gang")

NAME = "podgroup-extender-evicted"
KEY = "evicted.json"
SIGNATURE = "podgroup-extender.io/signature"
MOST_BYTES = 900_000
"""An object may have 1 MiB or so; who was evicted longest ago is left out."""
CLOCK_SECONDS = 300.0
"""What was written further in the future was written before the clock was set back."""
MOST = 1000
"""Lineages kept."""
LATE_SECONDS = 120.0
"""So long after a pod is gone the answer to its eviction may come."""
AWAITED_SECONDS = 3600.0
"""So long after it was begun an eviction may be accepted: budgets keep it waiting."""
MOST_OF_NAMESPACE = 100
"""Names are a tenant's to make up: it forgets its own first."""


class EvictedBefore(TypedDict):
    """A workload that was evicted before, as the debug API shows it. Times are RFC 3339."""

    what: str
    """The workload: its owner, or the pod itself."""
    namespace: str
    evicted: int
    """By how many plans it was evicted."""
    lastAt: str
    """When it was evicted last."""
    lastPriority: int
    """Priority of the last gang that it was evicted for."""
    undisturbedUntil: str | None
    """Until then it is spared; null while it does not run again."""


class EvictedStore(WrittenBehind):
    """One ConfigMap beside the plan records, signed as they are."""

    def __init__(
        self,
        client: KubeApi,
        namespace: str,
        signer: Signer,
        leadership: Leadership,
        background: Background,
    ) -> None:
        super().__init__(leadership, background, "the history of evictions is not written")
        self._list = ConfigMapList(client, namespace, NAME, KEY)
        self._signer = signer
        self._wanted: Sequence[Evicted] = ()
        """What is to be written."""

    async def load(self, now: float) -> list[Evicted]:
        """Return what is written; what is not ours, or cannot be read, is told in the log and
        left out. Raises ApiError."""
        found = await self._list.load()
        if found is None:
            return []
        text, annotations = found
        signature = annotations.get(SIGNATURE, "")
        why = self._signer.problem(NAME, 0, digest_of([text.encode()]), signature)
        if why:
            log.warning("the history of evictions is not known", config_map=NAME, why=why)
            return []
        try:
            kept = msgspec.json.decode(text, type=list[Evicted])
        except msgspec.DecodeError as error:
            log.warning(
                "the history of evictions cannot be read", config_map=NAME, error=str(error)
            )
            return []
        latest = now + CLOCK_SECONDS
        return [each for each in kept if max(each.at, each.resumed) <= latest and each.times > 0]

    def write(self, kept: Sequence[Evicted]) -> None:
        """Replace what is written, as soon as that can be done."""
        self._wanted = kept
        self.changed()

    async def save(self) -> None:
        """Write them signed, unless records are not."""
        text = _text(self._wanted)
        signature = self._signer.sign(NAME, 0, digest_of([text.encode()]))
        await self._list.save(text, {SIGNATURE: signature} if signature else {})


def _text(kept: Sequence[Evicted]) -> str:
    """Return them as JSON; who was evicted longest ago stands first, and is left out first."""
    text = msgspec.json.encode(list(kept))
    while len(text) > MOST_BYTES:
        kept = kept[max(1, len(kept) // 10) :]
        text = msgspec.json.encode(list(kept))
    return text.decode()


class EvictionHistory:
    """One event loop only."""

    def __init__(
        self,
        settings: ProtectionSettings,
        store: EvictedStore | None,
        clocks: Clocks,
        gangs: KeptGangs,
    ) -> None:
        """``store`` None: nothing is written."""
        self._settings = settings
        self._store = store
        self._clocks = clocks
        self._unit_key = gangs.unit_key
        self._kept: dict[str, Evicted] = {}
        self._going: dict[str, Pod] = {}
        """Pods that are evicted, until a while after they are gone: that may be seen before the
        answer to their eviction."""
        self._left: dict[str, float] = {}
        """When they were gone."""
        self._awaited: dict[str, float] = {}
        """Lineages of pods that are evicted, since when ..."""
        self._early: dict[str, dict[str, Pod]] = {}
        """... and pods of them that run again before that answer, by uid."""
        self._running: dict[str, dict[str, Pod]] = {}
        """Lineage -> uid -> pod that runs again."""
        self._spared: Mapping[str, SparedPod] = EMPTY
        self._changed = False
        self._soonest = 0.0

    async def recover(self, pods: Iterable[Pod]) -> None:
        """Take in what a life before has written; ``pods`` are all that have a node. Raises
        ApiError."""
        if not self._settings.enabled:
            return
        now = self._clocks.wall()
        if self._store is not None:
            for each in await self._store.load(now):
                if not over(each, now, self._settings):
                    self._kept[each.lineage] = each
        for pod in pods:
            self._look(pod)

    # -- what happens ---------------------------------------------------------------------

    def taken(self, pods: Iterable[Pod]) -> None:
        """These pods are about to be evicted."""
        if not self._settings.enabled:
            return
        now = self._clocks.wall()
        self._tidy(now)
        for pod in pods:
            self._going[pod.uid] = pod
            for lineage in lineages(pod, self._unit_key(pod)):
                self._awaited.pop(lineage, None)
                self._awaited[lineage] = now

    def _tidy(self, now: float) -> None:
        """Forget what was long ago; the oldest stands first."""
        while self._left and now - next(iter(self._left.values())) > LATE_SECONDS:
            uid = next(iter(self._left))
            del self._left[uid]
            self._going.pop(uid, None)
        while self._awaited and now - next(iter(self._awaited.values())) > AWAITED_SECONDS:
            lineage = next(iter(self._awaited))
            del self._awaited[lineage]
            self._early.pop(lineage, None)

    def sent(self, sent: Sent) -> None:
        """The API server has accepted an eviction."""
        claim = sent.claim
        pod = self._going.get(sent.victim.uid)
        own = claim.preemptor.namespace == sent.victim.namespace
        if pod is None or (own and not self._settings.same_namespace):
            return
        lineage = sent.name if sent.whole else lineages(pod, None)[0]
        before = self._kept.pop(lineage, None)  # who was evicted last stands last
        self._kept[lineage] = counted(
            before, lineage, pod, claim.priority, claim.plan_id, self._clocks.wall(), self._settings
        )
        there = {**self._running.pop(lineage, {}), **self._early.pop(lineage, {})}
        for each in there.values():
            self._runs(lineage, each)
        self._forget()
        self._write()

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event."""
        if not self._kept and not self._going:
            return
        if old is not None and (new is None or new.finished or new.deleting):
            if old.uid in self._going and (new is None or new.finished):
                self._left.setdefault(old.uid, self._clocks.wall())
            for lineage in lineages(old, self._unit_key(old)):
                self._early.get(lineage, {}).pop(old.uid, None)
                if self._running.get(lineage, {}).pop(old.uid, None) is not None:
                    self._changed = True
        elif new is not None and new.node:
            self._look(new)

    def _look(self, pod: Pod) -> None:
        for lineage in lineages(pod, self._unit_key(pod)):
            if self._runs(lineage, pod):
                return
            if lineage in self._awaited and pod.uid not in self._going:
                self._early.setdefault(lineage, {})[pod.uid] = pod

    def _runs(self, lineage: str, pod: Pod) -> bool:
        """Take note of a pod of the lineage if it runs after its eviction."""
        evicted = self._kept.get(lineage)
        gone = pod.uid in self._going or pod.finished
        if evicted is None or gone or not comes_after(evicted, pod):
            return False
        running = self._running.setdefault(lineage, {})
        if running.get(pod.uid) is not pod:
            running[pod.uid] = pod
            self._changed = True
        if not evicted.resumed:
            at = max(evicted.at, pod.started or self._clocks.wall())
            self._kept[lineage] = replace(evicted, resumed=at)
            self._write()
        return True

    # -- who is spared --------------------------------------------------------------------

    def spared(self) -> Mapping[str, SparedPod]:
        """Return who is not evicted again yet; the same object while that is unchanged."""
        if self._changed or (self._spared and self._clocks.wall() >= self._soonest):
            self._changed = False
            now = self._clocks.wall()
            found: dict[str, SparedPod] = {}
            for lineage, running in self._running.items():
                evicted = self._kept[lineage]
                whole = not lineage.startswith((OWNER, BARE))
                each = spared(evicted, running.values(), whole=whole, settings=self._settings)
                found.update((uid, one) for uid, one in each.items() if now < one.until)
            if found != self._spared:
                self._spared = found or EMPTY
            self._soonest = min((one.until for one in self._spared.values()), default=0.0)
        return self._spared

    def describe(self) -> list[EvictedBefore]:
        """Return, for a person, what is remembered."""
        return [
            {
                "what": each.lineage,
                "namespace": each.namespace,
                "evicted": each.times,
                "lastAt": rfc3339(each.at),
                "lastPriority": each.priority,
                "undisturbedUntil": None
                if not each.resumed
                else rfc3339(each.resumed + undisturbed(each.times, self._settings)),
            }
            for each in self._kept.values()
        ]

    # -- bounds ---------------------------------------------------------------------------

    def _forget(self) -> None:
        """Keep no more than may be; the last one stands last."""
        now = self._clocks.wall()
        for lineage in [name for name, e in self._kept.items() if over(e, now, self._settings)]:
            self._drop(lineage)
        newest = self._kept[next(reversed(self._kept))] if self._kept else None
        while newest is not None:
            of = Counter(each.namespace for each in self._kept.values())
            most = max(of, key=lambda name: (of[name], name))
            crowded = newest.namespace if of[newest.namespace] > MOST_OF_NAMESPACE else most
            if of[crowded] <= MOST_OF_NAMESPACE and len(self._kept) <= MOST:
                return
            self._drop(next(n for n, each in self._kept.items() if each.namespace == crowded))

    def _drop(self, lineage: str) -> None:
        del self._kept[lineage]
        if self._running.pop(lineage, None):
            self._changed = True

    def _write(self) -> None:
        self._changed = True
        if self._store is not None:
            self._store.write(list(self._kept.values()))
