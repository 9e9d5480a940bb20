"""Victim units, and what their end costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from extender.model.extended_resources import NOT_COUNTED
from extender.model.gang import Gang
from extender.model.objects import GangKey, Node, Pod, Requests
from extender.settings.settings import EvictionSettings, PlanSettings, SeatSettings

CHECKPOINT_ANNOTATION = "podgroup-extender.io/last-checkpoint"

ACCELERATOR = re.compile(
    r"gpu\.[^/]*/(i915|xe)"
    r"|(?!koordinator\.sh/)[^/]*/(p?gpu|tpu|npu|hpu|xpu|dcu|mlu\d*|gaudi\d*|neuron(core|device)?|ascend\w*|mig-.*)",
    re.IGNORECASE,
)
"""Extended resources that count as GPUs, by the names that vendors' device plugins use. Network
adapters, shares of a GPU (Intel's millicores, Koordinator's hundredths) and memory of a GPU are
none."""
ONE = 1_000_000
"""A GPU, or a node, as what is held is counted: 0.1 CPU of 192 is not nothing."""
MOST_LOST = 2**31
"""GPU-seconds that are said to be lost with one pod: two years of 32 GPUs."""
MOST_DEVICES = 32
"""That kube-scheduler allocates to one ResourceClaim (AllocationResultsMaxSize of resource.k8s.io).
No node says how many it has, and kubelet runs a pod that names its node whatever it asks for."""
MOST_REMEMBERED = 32
"""Resources of a pod and its node together; real ones have a dozen."""
MOST_TIME = 64
"""Characters of a time; an annotation may have 256 KiB."""


class VictimUnit(Struct, frozen=True, weakref=True):
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


class ElasticCandidate(Struct, frozen=True, weakref=True):
    """A gang, or a part of one, evicted pod by pod: its pods are candidates of their own."""

    gang: GangKey
    pods: tuple[Pod, ...]
    """Those that are bound."""
    surplus: int
    priority: int
    uids: frozenset[str] | None = None
    """Of a part, or of several: their members. None: all of the gang's pods."""
    at_best: int = 0
    """The surplus if no other part of the gang loses a pod; more than ``surplus`` only where what
    the parts may lose depends on each other."""


def elastic_of(gang: Gang) -> tuple[ElasticCandidate, ...]:
    """Return what of a gang that does not go whole loses pods one by one, and how many for nothing.

    Each part has a surplus of its own: of a head and five workers of three two workers may go.
    Where the quorum is more than the sum of what the parts need, those with enough to spare share
    what the gang has beyond it. A gang below its quorum is broken already: taking more of it breaks
    nothing, and its members lose nothing together.
    """
    if gang.surplus < 0:
        return ()
    placed, floor = gang.placed, gang.victim_priority
    spare = len(placed) - gang.min_count
    beyond = gang.min_count > sum(part.least for part in gang.parts)
    if not gang.parts or (beyond and not spare):
        return (ElasticCandidate(gang.key, placed, spare, floor, at_best=spare),)
    found = []
    shared = {pod.uid for pod in placed} if beyond else set[str]()
    left = spare
    for part in gang.parts:
        pods = tuple(pod for pod in placed if pod.uid in part.uids)
        own = len(pods) - part.least
        if beyond and own >= spare:
            continue
        shared -= part.uids
        surplus = min(own, left) if beyond else own
        left -= surplus
        found.append(ElasticCandidate(gang.key, pods, surplus, floor, part.uids, own))
    if shared:
        pods = tuple(pod for pod in placed if pod.uid in shared)
        found.append(ElasticCandidate(gang.key, pods, left, floor, frozenset(shared), spare))
    return tuple(found)


def leaves_in_time(pod: Pod, now: float, plan: PlanSettings, seats: SeatSettings) -> bool:
    """Whether a terminating pod's room may be counted on.

    Not when its grace period is longer than our patience, nor when it should
    have been gone long ago (a finalizer, a dead kubelet).
    """
    overdue = now - pod.deleting
    return -plan.patience_seconds <= overdue <= seats.victim_slack_seconds


def lingers(
    pod: Pod, now: float, plan: PlanSettings, seats: SeatSettings, eviction: EvictionSettings
) -> bool:
    """Whether a terminating pod was given more time than it would get as a victim.

    Whoever may delete a pod may grant it ten years. Its eviction ends it sooner: a DELETE with a
    shorter grace period shortens the one that runs, and a longer one changes nothing (BeforeDelete
    in k8s.io/apiserver/pkg/registry/rest/delete.go).
    """
    entitled = min(pod.grace, eviction.longest_grace_seconds) + seats.victim_slack_seconds
    return pod.deleting - now > max(plan.patience_seconds, entitled)


def lost_work(pod: Pod, node: Node | None, now: float) -> int:
    """Return the work that is lost with the pod, in millionths of a GPU times seconds.

    What it holds times the time since it started or, where an annotation or a condition of the pod
    says so, since its last checkpoint.
    """
    since = working_since(pod)
    return held(pod, node) * max(0, int(now - since)) if since else 0


def lost_gpu_seconds(pod: Pod, node: Node | None, now: float) -> int:
    """Return the work that is lost with the pod; bounded: what a node says that it has is not."""
    return min(MOST_LOST, lost_work(pod, node, now) // ONE)


def working_since(pod: Pod) -> float:
    """Return since when the pod's work may be lost, 0 while it has not started.

    kubelet says the start before it pulls images: while the pod is pending nothing is computed.
    """
    if not pod.started or pod.phase == "Pending":
        return 0.0
    since = max(pod.started, pod.checkpointed)
    return max(since, _checkpoint(pod.annotations)) if pod.annotations else since


def held(pod: Pod, node: Node | None) -> int:
    """Return the GPUs that the pod holds, in millionths; of a node where it holds none.

    It holds at most what its node has: kubelet lets a pod run whatever it asks for of a resource
    that the node does not list. A pod without a GPU holds its dominant share of the node.
    """
    return _held(pod.requests, node.allocatable) if node is not None else 0


def _held(requests: Requests, allocatable: Requests) -> int:
    """Remembered but for what has many resources."""
    if len(requests) + len(allocatable) > MOST_REMEMBERED:
        return _computed(requests, allocatable)
    return _remembered(requests, allocatable)


def _computed(requests: Requests, allocatable: Requests) -> int:
    whole = {n: MOST_DEVICES if most == NOT_COUNTED else most for n, most in allocatable}
    devices = sum(
        min(amount, whole.get(name, 0)) for name, amount in requests if ACCELERATOR.fullmatch(name)
    )
    if devices:
        return ONE * devices
    return max(
        (
            min(ONE, amount * ONE // whole[name])
            for name, amount in requests
            if name != "pods" and whole.get(name)
        ),
        default=0,
    )


_remembered = lru_cache(maxsize=4096)(_computed)


def _checkpoint(annotations: Mapping[str, str]) -> float:
    text = annotations.get(CHECKPOINT_ANNOTATION, "")
    if not text or len(text) > MOST_TIME:
        return 0.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0  # an unreadable checkpoint protects nothing and must not fail a plan
    return moment.timestamp() if moment.tzinfo is not None else 0.0
