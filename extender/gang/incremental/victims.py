"""Victim units, and what their end costs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from extender.model.gang import Gang
from extender.model.objects import GangKey, Node, Pod, Requests
from extender.model.settings import EvictionSettings, PlanSettings, SeatSettings

CHECKPOINT_ANNOTATION = "podgroup-extender.io/last-checkpoint"

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


class ElasticCandidate(Struct, frozen=True):
    """A gang, or a part of one, evicted pod by pod: its pods are candidates of their own."""

    gang: GangKey
    surplus: int
    priority: int
    uids: frozenset[str] | None = None
    """Of a part: its members. None: all of the gang's pods."""


def elastic_of(gang: Gang) -> tuple[ElasticCandidate, ...]:
    """Return what of a gang that does not go whole loses pods one by one, and how many for nothing.

    Each part has a surplus of its own where the quorum is the sum of what the parts need: of a head
    and five workers of three two workers may go. Else any member may be one too many. A gang below
    its quorum is broken already: taking more of it breaks nothing, and its members lose nothing
    together.
    """
    surplus, floor = gang.surplus, gang.victim_priority
    if surplus < 0:
        return ()
    if not gang.parts or gang.min_count > sum(part.least for part in gang.parts):
        return (ElasticCandidate(gang.key, surplus, floor),)
    bound = {pod.uid for pod in gang.placed}
    return tuple(
        ElasticCandidate(gang.key, len(part.uids & bound) - part.least, floor, part.uids)
        for part in gang.parts
    )


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


def disrupted_work(pod: Pod, node: Node | None, now: float) -> int:
    """Return the work lost with the pod, in thousandths of its node times seconds.

    Dominant share of the node's allocatable, times the time since the pod
    started or, when it says so by annotation or condition, since its last checkpoint.
    """
    share, since = work_terms(pod, node)
    return share * max(0, int(now - since))


def work_terms(pod: Pod, node: Node | None) -> tuple[int, float]:
    """Return the pod's share of its node, in thousandths, and since when work may be lost."""
    if not pod.started or node is None:
        return 0, 0.0
    since = max(pod.started, pod.checkpointed)
    if pod.annotations:
        since = max(since, _checkpoint(pod.annotations))
    return _share(pod.requests, node.allocatable), since


def _share(requests: Requests, allocatable: Requests) -> int:
    """Dominant share of a node, in thousandths; remembered but for what has many resources."""
    if len(requests) + len(allocatable) > MOST_REMEMBERED:
        return _computed_share(requests, allocatable)
    return _known_share(requests, allocatable)


def _computed_share(requests: Requests, allocatable: Requests) -> int:
    whole = dict(allocatable)
    return max(
        (
            min(1000, amount * 1000 // whole[name])
            for name, amount in requests
            if name != "pods" and whole.get(name)
        ),
        default=0,
    )


_known_share = lru_cache(maxsize=4096)(_computed_share)


def _checkpoint(annotations: Mapping[str, str]) -> float:
    text = annotations.get(CHECKPOINT_ANNOTATION, "")
    if not text or len(text) > MOST_TIME:
        return 0.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0  # an unreadable checkpoint protects nothing and must not fail a plan
    return moment.timestamp() if moment.tzinfo is not None else 0.0
