"""Events: what pods and their owners are told in the course of a plan. A failure is passed over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import structlog
from cachetools import LRUCache, TTLCache
from msgspec import Struct

from extender.gang.controller.notifier import EventType, Notifier
from extender.gang.controller.records import RejectedRecord
from extender.gang.core.last_check import KeptGangs
from extender.gang.core.reservations import Preemption
from extender.gang.core.victim_group import Refused, Sent
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.status.group_conditions import GroupConditions
from extender.gang.tell.decisions import Decision, Decisions, Outcome, Verb, of_refusal
from extender.gang.tell.gang_status import status_after, status_of_plan
from extender.gang.tell.listener import Listener
from extender.groups.composite import SUFFIX
from extender.groups.jobset import LABEL as JOBSET
from extender.groups.pod_group import SOURCE, PodGroupDialect
from extender.model.fair_lru import Shares
from extender.model.objects import GangKey, Pod
from extender.model.owner_kinds import COMPOSITE, OTHER_KINDS
from extender.model.plan import Code, Refusal, Victim
from extender.model.snapshot import Snapshot

OWNER_PAUSE_SECONDS = 60.0
SAID_SECONDS = 3000.0
"""The same words are not said again to the same object for so long: events live for an hour."""
MOST_OBJECTS = 16_384
"""Objects remembered as told. Beyond it those of the namespace that has most of them make room for
others' and no more of its own are warned, until the minute of some is over."""

LOUD = frozenset({"GangBroken", "PreemptionIncomplete"})
"""An eviction that stopped half-way is told once. It must not be lost because its gang was refused
a moment ago, or because many others were."""

REASONS: Mapping[str, str] = {
    Code.CONFLICT: "GangNeedsRepair",
    Code.INFEASIBLE: "GangDoesNotFit",
    Code.UNSEEN: "GangDoesNotFit",
    Code.INCOMPLETE: "GangIncomplete",
    Code.BUDGET: "NamespaceEvictionsUsed",
    Code.PENALTY: "GangGaveUp",
}
"""Code of a refusal that an owner should see -> reason of the event."""


class _Said(Struct, frozen=True, gc=False):
    words: int
    """Their hash."""
    at: float


class OwnerWarnings:
    """Warning events to owners: at most one a minute an object, and beside it one that is loud.

    An event is a write to the API server that a tenant can cause by what it creates; told again and
    again it costs more than what it tells of. What was withheld is counted, and the next one that
    is told says what is true then.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._told: Shares[str, float] = Shares(MOST_OBJECTS)
        """Uid -> when it was told."""
        self._told_loud: Shares[str, float] = Shares(MOST_OBJECTS)
        self._said: Shares[tuple[str, str], _Said] = Shares(MOST_OBJECTS)
        """Object and reason -> what was said last."""
        self.told: Counter[str] = Counter()
        """Reason -> Warning events sent."""
        self.withheld: Counter[str] = Counter()
        """Reason -> Warning events not sent, because the object had one a moment ago."""

    def due(self, uid: str, namespace: str, reason: str, note: str = "") -> bool:
        """Whether an object may get a Warning event now; counts it either way."""
        now = self._clocks.monotonic()
        self._expire(now)
        said = self._said.get((uid, reason)) if note else None
        if said is not None and said.words == hash(note):
            self.withheld[reason] += 1
            return False
        told = self._told_loud if reason in LOUD else self._told
        if uid in told or uid in self._told_loud or not told.takes(namespace):
            self.withheld[reason] += 1
            return False
        told.put(uid, now, namespace)
        if note:
            self._said.put((uid, reason), _Said(hash(note), now), namespace)
        self.told[reason] += 1
        return True

    def said(self, uid: str, reason: str) -> bool:
        """Whether an object was told of a reason, in whatever words, while that can be read."""
        self._expire(self._clocks.monotonic())
        return (uid, reason) in self._said

    def _expire(self, now: float) -> None:
        for told in (self._told, self._told_loud):
            told.forget(lambda at: at + OWNER_PAUSE_SECONDS <= now)
        self._said.forget(lambda said: said.at + SAID_SECONDS <= now)


def words_of(decision: Decision) -> tuple[str, str] | None:
    """Return reason and text of the event about a refusal; None where no owner need know."""
    reason = REASONS.get(decision.code)
    return None if reason is None else (reason, status_after(decision).text)


log = structlog.get_logger("gang")

PATIENCE_SECONDS = 10.0
"""For how long members have been missing, or kube-scheduler has named no node, before that is
told ..."""
REPAIR_SECONDS = 3.0
"""... and for how long a definition has been at fault."""
PATIENCE: Mapping[str, float] = {
    Code.INCOMPLETE: PATIENCE_SECONDS,
    Code.UNSEEN: PATIENCE_SECONDS,
    Code.CONFLICT: REPAIR_SECONDS,
}
PAUSE_SECONDS = 60.0
"""A gang is woken once in so long: a tenant that takes its PodGroup away and brings it back must
not cause a write to each of its pods each time."""
MOST_GANGS = 4096


class _Waits(Struct):
    since: float
    """Monotonic."""
    decision: Decision
    members: int
    """How many there were when it was refused last."""


class RefusedGangs:
    """Gangs that lack members, or whose definition is at fault. One event loop.

    Every gang is incomplete for the moment in which its pods are being made, and two watches may
    bring its first pod before its PodGroup. Nobody wants to read of that. Who waits longer is told
    once.

    kube-scheduler does not look at PodGroups. A pod that it was given no node for, because its
    PodGroup did not exist, is put aside until something happens to pods or nodes: on a quiet
    cluster for five minutes, with a reason that is not true any more. So it is looked which gangs
    are in order now.
    """

    def __init__(self, clocks: Clocks, source: ClusterSource, gangs: KeptGangs) -> None:
        self._clocks = clocks
        self._source = source
        self._gangs = gangs
        self._waits: dict[str, _Waits] = {}
        self._at_fault: dict[str, None] = {}
        self._woken: TTLCache[str, bool] = TTLCache(
            MOST_GANGS, PAUSE_SECONDS, timer=clocks.monotonic
        )

    def refused(self, decision: Decision) -> bool:
        """Take note of a refusal; return whether it is one that is told when it lasts."""
        gang, code = decision.gang, decision.code
        if code != Code.CONFLICT:
            self._at_fault.pop(gang, None)
        elif len(self._at_fault) < MOST_GANGS:
            self._at_fault[gang] = None
        if code not in PATIENCE:
            self._waits.pop(gang, None)
            return False
        there = self._members(gang)
        waits = self._waits.get(gang)
        if waits is not None and waits.decision.code == code:
            waits.decision, waits.members = decision, there
        elif len(self._waits) < MOST_GANGS:
            self._waits[gang] = _Waits(self._clocks.monotonic(), decision, there)
        return True

    def due(self) -> list[Decision]:
        """Return the refusals to be told now, each once; those that are over are forgotten."""
        now = self._clocks.monotonic()
        due = [
            gang
            for gang, waits in self._waits.items()
            if now - waits.since >= PATIENCE[waits.decision.code]
        ]
        found = [(gang, self._waits.pop(gang)) for gang in due]
        # With other members it was, or is about to be, decided anew.
        return [waits.decision for gang, waits in found if self._members(gang) == waits.members > 0]

    def repaired(self) -> list[tuple[GangKey, list[Pod]]]:
        """Return those whose definition is in order now, and which members are to be woken."""
        found: list[tuple[GangKey, list[Pod]]] = []
        if not self._at_fault:
            return found
        snapshot = self._source.snapshot()
        for name in list(self._at_fault):
            gang = self._gangs.resolve(GangKey.read(name), snapshot)
            if gang.members and not gang.in_order:
                continue
            waiting: list[Pod] = []
            if name not in self._woken:
                del self._at_fault[name]
                waiting = [pod for pod in gang.members if not pod.node and not pod.deleting]
            if waiting:
                self._woken[name] = True
                waits = self._waits.get(name)
                if waits is not None and waits.decision.code == Code.CONFLICT:
                    del self._waits[name]
            found.append((gang.key, waiting))
        return found

    def _members(self, gang: str) -> int:
        members = self._source.snapshot().members.get(GangKey.read(gang), ())
        return sum(not pod.deleting for pod in members)


class DecisionTelling:
    """Keeps the decisions of one term, and tells members, PodGroups and whoever listens;
    ``listener`` hears of each that does not only repeat the last."""

    def __init__(
        self,
        refused: RefusedGangs,
        conditions: GroupConditions,
        notices: Notices,
        clocks: Clocks,
        listener: Listener,
    ) -> None:
        self.refused = refused
        self.conditions = conditions
        self._notices = notices
        self._clocks = clocks
        self._listener = listener
        self.decisions = Decisions()

    def note(self, refusal: Refusal, verb: Verb, seconds: float) -> Refusal:
        """Tell of a refusal, found in ``seconds``; return it."""
        self.decide(of_refusal(refusal, time=self._clocks.wall(), verb=verb, seconds=seconds))
        return refusal

    def decide(self, decision: Decision) -> None:
        """Keep a decision, and tell whom it concerns."""
        if decision.outcome is Outcome.REFUSAL and not self.refused.refused(decision):
            self._notices.refused(decision)
        self.conditions.decided(decision)
        if self.decisions.add(decision):
            try:
                self._listener.decided(decision)
            except Exception:  # telling must never stand in the way of acting
                log.exception("a decision is not reported", gang=decision.gang)

    def round(self) -> None:
        """Tell what was put off, and what has changed by itself. Waits for nothing."""
        for decision in self.refused.due():
            self._notices.refused(decision)
        self.conditions.round()


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
