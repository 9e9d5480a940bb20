"""Who may be evicted for a gang, in which units, and at what cost.

Promise 4 lives here: a pod of equal or higher priority, a protected pod, or a
gang that holds one of these is never part of a unit. What was left out is kept
with its reason, so that a refusal can name who stands in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GangKey, Node, Pod
from extender.model.settings import PlanSettings, SeatSettings
from extender.model.snapshot import Snapshot

OPT_OUT_LABELS = {
    "quota.scheduling.koordinator.sh/preemptible": "false",
    "scheduling.koordinator.sh/disable-preemptible": "true",
    "kai.scheduler/preemptibility": "non-preemptible",
}
OPT_OUT_ANNOTATIONS = {
    "podgroup-extender.io/protected": "true",
    "volcano.sh/preemptable": "false",
    "yunikorn.apache.org/allow-preemption": "false",
}
CHECKPOINT_ANNOTATION = "podgroup-extender.io/last-checkpoint"


class Candidate(Struct, frozen=True):
    """A victim unit before it is given indices: its pods and what breaking it means."""

    uid: str
    """Unique and stable: the pod's uid, or the gang key as text."""
    pods: tuple[Pod, ...]
    priority: int
    gang: GangKey | None = None
    whole: bool = False
    """True: ``pods`` is all of the gang and goes together."""
    breaks_gang: bool = False
    """Choosing it breaks a gang that was intact (whole units only)."""


class ElasticCandidate(Struct, frozen=True):
    """A gang evicted pod by pod: its pods are candidates of their own."""

    gang: GangKey
    surplus: int
    priority: int


class Excluded(Struct, frozen=True):
    """A pod on a node that will not go, and why."""

    pod: Pod
    reason: str


class VictimPool(Struct, frozen=True):
    """Everything the victims of one plan can be chosen from."""

    units: tuple[Candidate, ...]
    elastic: tuple[ElasticCandidate, ...]
    terminating: tuple[Pod, ...]
    """Room that comes free by itself within the configured patience."""
    excluded: tuple[Excluded, ...]


def protected(pod: Pod, settings: PlanSettings, now: float) -> str | None:
    """Return why the pod must never be a victim, or None."""
    if pod.namespace in settings.protected_namespaces:
        return f"namespace {pod.namespace} is protected"
    if pod.owner is not None and pod.owner.kind == "Node":
        return "a static pod cannot be evicted through the API"
    for key, value in OPT_OUT_LABELS.items():
        if pod.labels.get(key) == value:
            return f"label {key}={value}"
    for key, value in OPT_OUT_ANNOTATIONS.items():
        if pod.annotations.get(key) == value:
            return f"annotation {key}={value}"
    age = now - pod.started
    if settings.min_runtime_seconds and pod.started and age < settings.min_runtime_seconds:
        return f"runs for {age:.0f} s, less than minRuntimeSeconds"
    return None


def pool_for(
    gang: Gang,
    snapshot: Snapshot,
    pods: Iterable[tuple[Pod, GangKey | None]],
    resolve: Callable[[GangKey], Gang],
    plan: PlanSettings,
    seats: SeatSettings,
) -> VictimPool:
    """Sort the bound pods into units, pods already leaving, and pods that stay.

    ``pods`` are the pods on nodes the gang could use, each with its gang key;
    members of the gang itself are skipped. A whole gang found through one pod
    brings all its bound members along, wherever they are.
    """
    own = {member.uid for member in gang.members}
    units: list[Candidate] = []
    terminating: list[Pod] = []
    excluded: list[Excluded] = []
    found: dict[GangKey, list[Pod]] = {}
    for pod, key in pods:
        if pod.uid in own:
            continue
        if pod.deleting:
            if leaves_in_time(pod, snapshot.now, plan, seats):
                terminating.append(pod)
            else:
                excluded.append(Excluded(pod, "terminates, but not within the patience"))
        elif key is not None:
            found.setdefault(key, []).append(pod)
        else:
            why = _too_urgent(pod.priority, gang) or protected(pod, plan, snapshot.now)
            if why:
                excluded.append(Excluded(pod, why))
            else:
                units.append(Candidate(uid=pod.uid, pods=(pod,), priority=pod.priority))
    elastic: list[ElasticCandidate] = []
    for key in sorted(found):
        _add_gang(gang, resolve(key), found[key], snapshot, plan, units, elastic, excluded)
    if not gang.preempts:
        for unit in units:
            excluded.extend(Excluded(p, "preemptionPolicy of the gang is Never") for p in unit.pods)
        units, elastic = [], []
    units.sort(key=lambda unit: unit.uid)
    return VictimPool(tuple(units), tuple(elastic), tuple(terminating), tuple(excluded))


def _add_gang(
    preemptor: Gang,
    victim: Gang,
    here: list[Pod],
    snapshot: Snapshot,
    plan: PlanSettings,
    units: list[Candidate],
    elastic: list[ElasticCandidate],
    excluded: list[Excluded],
) -> None:
    if victim.problems:
        why = f"its gang {victim.key} has a problem: {victim.problems[0]}"
        excluded.extend(Excluded(pod, why) for pod in here)
        return
    if victim.unit == UNIT_ALL:
        for pod in victim.bound:
            stays = _too_urgent(max(pod.priority, victim.victim_priority), preemptor) or protected(
                pod, plan, snapshot.now
            )
            if stays:
                why = f"its gang {victim.key} goes whole or stays, and {pod.name} stays: {stays}"
                excluded.extend(Excluded(p, stays if p.uid == pod.uid else why) for p in here)
                return
        broken_already = any(member.deleting and member.disrupted for member in victim.members)
        units.append(
            Candidate(
                uid=str(victim.key),
                pods=tuple(sorted(victim.bound, key=lambda pod: pod.uid)),
                priority=max(victim.victim_priority, *(pod.priority for pod in victim.bound)),
                gang=victim.key,
                whole=True,
                breaks_gang=not broken_already,
            )
        )
        return
    for pod in here:
        priority = max(pod.priority, victim.victim_priority)
        stays = _too_urgent(priority, preemptor) or protected(pod, plan, snapshot.now)
        if stays:
            excluded.append(Excluded(pod, stays))
        else:
            units.append(Candidate(uid=pod.uid, pods=(pod,), priority=priority, gang=victim.key))
    surplus = len(victim.bound) - victim.min_count
    # A gang below its quorum is broken already: taking more of it breaks nothing.
    if surplus >= 0:
        elastic.append(ElasticCandidate(victim.key, surplus, victim.victim_priority))


def _too_urgent(priority: int, gang: Gang) -> str | None:
    if priority >= gang.preemptor_priority:
        return f"priority {priority} is not below {gang.preemptor_priority}"
    return None


def leaves_in_time(pod: Pod, now: float, plan: PlanSettings, seats: SeatSettings) -> bool:
    """Whether a terminating pod's room may be counted on.

    Not when its grace period is longer than our patience, nor when it should
    have been gone long ago (a finalizer, a dead kubelet).
    """
    overdue = now - pod.deleting
    return -plan.patience_seconds <= overdue <= seats.victim_slack_seconds


def disrupted_work(pod: Pod, node: Node | None, now: float) -> int:
    """Return the work lost with the pod, in thousandths of its node times seconds.

    Dominant share of the node's allocatable, times the time since the pod
    started or, when it says so by annotation, since its last checkpoint.
    """
    if not pod.started or node is None:
        return 0
    allocatable = dict(node.allocatable)
    share = max(
        (
            min(1000, amount * 1000 // allocatable[name])
            for name, amount in pod.requests
            if name != "pods" and allocatable.get(name)
        ),
        default=0,
    )
    since = max(pod.started, _checkpoint(pod.annotations))
    return share * max(0, int(now - since))


def _checkpoint(annotations: Mapping[str, str]) -> float:
    text = annotations.get(CHECKPOINT_ANNOTATION, "")
    if not text:
        return 0.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0  # an unreadable checkpoint protects nothing and must not fail a plan
    return moment.timestamp() if moment.tzinfo is not None else 0.0
