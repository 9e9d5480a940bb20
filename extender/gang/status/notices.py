"""Events: what pods and their owners are told in the course of a plan. A failure is passed over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import structlog
from cachetools import LRUCache
from msgspec import Struct

from extender.gang.controller.notifier import EventType, Notifier
from extender.gang.controller.records import RejectedRecord
from extender.gang.core.reservations import Preemption
from extender.gang.core.victim_group import Refused, Sent
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.status.owner_warnings import OwnerWarnings, words_of
from extender.gang.tell.decisions import Decision
from extender.gang.tell.gang_status import status_of_plan
from extender.groups.composite import SUFFIX
from extender.groups.jobset import LABEL as JOBSET
from extender.groups.pod_group import SOURCE, PodGroupDialect
from extender.model.objects import GangKey, Pod
from extender.model.owner_kinds import COMPOSITE, OTHER_KINDS
from extender.model.plan import Victim
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")

MAX_TOLD = 64
"""Members that get an event of their own; the rest of a big gang can read theirs."""
MAX_WARNED = 4
"""Members of a refused gang that get an event each time the words change: they all wait for the
same. The others are told once of each reason, so that the description of any pod has it."""
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
MOST_MAKERS = 4
"""Jobs, and JobSets, of one gang that are told: all of them wait for the same."""
LOOKED_AT = 64
"""Members whose makers are looked for: a refusal is told often, and a gang may be of thousands."""
MAX_UNITS = 4096
RECORD_ASIDE = "PlanRecordKeptAside"
MAP = "ConfigMap"


class GangObject(Struct, frozen=True):
    """An object that stands for a gang beside its pods, where people look what became of it."""

    kind: str
    api_version: str
    """Empty where its version is of no interest: PodGroups come in several."""
    namespace: str
    name: str
    uid: str


class Notices:
    """Tells what preemptions do."""

    def __init__(
        self,
        notifier: Notifier,
        source: ClusterSource,
        clocks: Clocks,
        background: Background,
        gate: asyncio.Semaphore,
    ) -> None:
        """``gate`` bounds all events, with all hints."""
        self._notifier = notifier
        self._source = source
        self._clocks = clocks
        self.warnings = OwnerWarnings(clocks)
        self._spawn = background.spawn
        self._units_told: LRUCache[tuple[str, str], bool] = LRUCache(MAX_UNITS)
        """Plan and unit of which the gang's objects know."""
        self._gate = gate

    # -- events ---------------------------------------------------------------------------

    def evicted(self, sent: Sent, preemption: Preemption | None, *, first: bool) -> None:
        """Tell a victim why it goes, and with a plan's first victim its members."""
        claim, victim = sent.claim, sent.victim
        why = f": {victim.reason}" if victim.reason else ""
        note = f"{claim.message}; this pod (priority {victim.priority}){why}"
        self._event(victim, "Preempted", note)
        if sent.whole and (claim.plan_id, sent.name) not in self._units_told:
            self._units_told[claim.plan_id, sent.name] = True
            self._tell_objects(
                GangKey.read(sent.name), "Preempted", f"{claim.message}; it is evicted as a whole"
            )
        if first and preemption is not None:
            self._tell_members(preemption)

    def broken(self, refused: Refused, preemption: Preemption | None) -> None:
        """Warn both gangs that a unit has gone in part and the rest cannot be evicted."""
        left, victim, why = len(refused.left), refused.victim, refused.failure.why
        name, preemptor = refused.name, refused.claim.preemptor
        note = (
            f"{name} was to be evicted as a whole for {preemptor}, and {left} of its pods "
            f"{'is' if left == 1 else 'are'} still there: the eviction of "
            f"{victim.namespace}/{victim.name} is refused: {why}"
        )
        log.error(
            "a gang is evicted in part",
            gang=name,
            preemptor=str(preemptor),
            left=left,
            pod=f"{victim.namespace}/{victim.name}",
            why=why,
        )
        for left_over in refused.left[:MAX_TOLD]:
            self._event(left_over, "GangBroken", note, EventType.WARNING)
        members = [] if preemption is None else list(preemption.pods.values())
        for pod in members[:MAX_TOLD]:
            self._event(pod, "PreemptionIncomplete", note, EventType.WARNING)
        self._tell_objects(GangKey.read(name), "GangBroken", note, EventType.WARNING)
        self._tell_objects(preemptor, "PreemptionIncomplete", note, EventType.WARNING)

    def warn(self, pods: Iterable[Pod], reason: str, note: str) -> None:
        """Warn the owners of some pods, whatever they were told a moment ago."""
        for pod in islice(pods, MAX_TOLD):
            self.warnings.told[reason] += 1
            self._spawn(self._write(pod.uid, pod.namespace, pod.name, reason, note))

    def warned(self, pod: Pod, reason: str, note: str) -> None:
        """Warn a pod's owner, who may have been warned a moment ago."""
        self._event(pod, reason, note, EventType.WARNING)

    def refused(self, decision: Decision) -> None:
        """Warn a gang's owner of a refusal that is theirs to mend, or to know of."""
        words = words_of(decision)
        if words is None:
            return
        reason, note = words
        key = GangKey.read(decision.gang)
        members = self._source.snapshot().members.get(key, ())
        self._tell_objects(key, reason, note, EventType.WARNING)
        waiting = (pod for pod in members if not pod.node and not pod.deleting)
        for place, pod in enumerate(islice(waiting, MAX_TOLD)):
            if place < MAX_WARNED or not self.warnings.said(pod.uid, reason):
                self._event(pod, reason, note, EventType.WARNING)

    def record_aside(self, namespace: str, aside: RejectedRecord) -> None:
        """Warn of a plan record that is not taken for one."""
        note = (
            f"This ConfigMap looks like a plan record, but {aside.why}. It is "
            "neither used nor deleted; if no plan of an earlier version was open, "
            "find out who wrote it"
        )
        uid = aside.uid or aside.name
        if self.warnings.due(uid, namespace, RECORD_ASIDE):
            self._spawn(self._write(uid, namespace, aside.name, RECORD_ASIDE, note, about=MAP))

    def _event(
        self, pod: Victim | Pod, reason: str, note: str, kind: EventType = EventType.NORMAL
    ) -> None:
        if kind is EventType.NORMAL or self.warnings.due(pod.uid, pod.namespace, reason, note):
            self._spawn(self._write(pod.uid, pod.namespace, pod.name, reason, note, kind))

    async def _write(
        self,
        uid: str,
        namespace: str,
        name: str,
        reason: str,
        note: str,
        kind: EventType = EventType.WARNING,
        about: str = "Pod",
        api_version: str = "v1",
    ) -> None:
        async with self._gate:
            await self._notifier.event(uid, namespace, name, reason, note, kind, about, api_version)

    def _tell_members(self, preemption: Preemption) -> None:
        plan, now = preemption.plan, self._clocks.wall()
        note = status_of_plan(preemption.key, plan.victims, len(plan.seats), now).text
        for pod in list(preemption.pods.values())[:MAX_TOLD]:
            self._event(pod, "GangPreempting", note)
        self._tell_objects(preemption.key, "GangPreempting", note)

    def _tell_objects(
        self, key: GangKey, reason: str, note: str, kind: EventType = EventType.NORMAL
    ) -> None:
        """Tell a gang's PodGroup, JobSets and Jobs what its pods are told."""
        snapshot = self._source.snapshot()
        for one in objects_of(key, snapshot.members.get(key, ()), snapshot):
            if kind is EventType.WARNING and not self.warnings.due(
                one.uid, one.namespace, reason, note
            ):
                continue
            write = self._write(
                one.uid, one.namespace, one.name, reason, note, kind, one.kind, one.api_version
            )
            self._spawn(write)


def objects_of(key: GangKey, members: Iterable[Pod], snapshot: Snapshot) -> list[GangObject]:
    """Return a gang's PodGroup if there is one, its JobSets, and its first few Jobs.

    A JobSet is known by the labels of its pods, which carry its UID: without one kubectl would not
    find an event about it.
    """
    found: dict[str, GangObject] = {}
    source = SOURCE if key.dialect == PodGroupDialect.name else key.dialect
    kind, version, name = "PodGroup", "", key.name
    if source == SOURCE and name.endswith(SUFFIX):
        composite = OTHER_KINDS[COMPOSITE]
        source, name = COMPOSITE, name.removesuffix(SUFFIX)
        kind, version = composite.kind, f"{composite.group}/{composite.versions[0]}"
    group = snapshot.groups.get((source, key.namespace, name))
    if group is not None:
        found[group.uid] = GangObject(kind, version, key.namespace, name, group.uid)
    count: Counter[str] = Counter()
    for pod in islice(members, LOOKED_AT):
        for one in _makers(pod):
            if one.uid not in found and count[one.kind] < MOST_MAKERS:
                count[one.kind] += 1
                found[one.uid] = one
    return list(found.values())


def _makers(pod: Pod) -> Iterator[GangObject]:
    jobset, uid = pod.labels.get(JOBSET), pod.labels.get(JOBSET_UID)
    if jobset and uid:
        yield GangObject("JobSet", "jobset.x-k8s.io/v1alpha2", pod.namespace, jobset, uid)
    if pod.owner is not None and pod.owner.kind == "Job":
        yield GangObject("Job", "batch/v1", pod.namespace, pod.owner.name, pod.owner.uid)
