"""What the verbs share: who the pod is, and whether an answer can be given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from extender.gang.controller.hints import Hints
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.incremental.enforcement import Enforcement
from extender.gang.plan.candidates import Candidates
from extender.gang.scheduler_view.assumed_pods import AssumedPods
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.tell.decisions import Verb
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot, SparedPod
from extender.verbs.room_beside_reservations import Rooms, Spare
from extender.verbs.sampled_node_lists import Samples


class Cluster(Rooms, Protocol):
    """What the verbs need of the cache."""

    def snapshot(self) -> Snapshot:
        """Return the present state."""

    def stale_for(self) -> float:
        """Return for how many seconds changes may have been missed, 0 while all is well."""

    async def wait_change(self, generation: int, timeout: float) -> int:
        """Return the present generation once it is above ``generation``, or after a time."""


class PlanProvider(Protocol):
    """Where a gang's plan is asked for."""

    def require_ready(self) -> None:
        """Raise NotReady until caches are synced, plans recovered and the lease is ours."""

    def known(self, key: GangKey) -> Preemption | Refusal | None:
        """Return the gang's plan under way or a refusal that still stands; no search."""

    async def ensure(
        self,
        key: GangKey,
        verb: Verb,
        offered: Mapping[str, frozenset[str]] | None = None,
        single: Gang | None = None,
        candidates: Candidates | None = None,
        asked: float | None = None,
    ) -> Preemption | Refusal:
        """Return the gang's plan under way, making one if that can be; else why not."""

    async def ask(self, single: Gang, candidates: Candidates) -> Plan | Refusal | None:
        """Return what would be planned for a pod of no gang, without acting on it; None where that
        takes longer than a verb may."""

    def stale(self) -> str | None:
        """Return why gangs cannot be decided now."""

    def takes_unit(self, name: str) -> bool:
        """Whether what goes together under this name goes, or is about to."""

    def crowded(self, preemption: Preemption) -> bool:
        """Whether pods that were offered a seat's node may be in the way of the seats."""

    def starts_with(self, preemption: Preemption, pod: Pod, *, alone: bool) -> bool:
        """Return whether the gang's start may begin with this member, who is offered its seat."""

    def turned_away(self, preemption: Preemption, pod: Pod, *, alone: bool) -> None:
        """Note that a member is kept off its seat for a reason of ours.

        ``alone``: it was asked about its nominated seat alone.
        """

    def seat_given(self, preemption: Preemption, pod: Pod) -> bool:
        """Note that the member is told its seat; False when it must not be any more."""

    def seat_not_tried(self, preemption: Preemption, pod: Pod) -> None:
        """Note an attempt that says nothing about the member's seat."""

    def seat_not_offered(self, preemption: Preemption, pod: Pod, others: frozenset[str]) -> None:
        """Note that kube-scheduler would not put the member on its seat."""


class Context(Struct, frozen=True):
    """Shared by the verbs: what they read, and whom they ask."""

    cluster: Cluster
    asking: PlanProvider
    reservations: Reservations
    evidence: NodeLists
    hints: Hints
    offers: AssumedPods
    resolver: Resolver
    enforcement: Enforcement
    spare: Spare
    samples: Samples
    shown: Callable[[], Snapshot]
    """The newest state, with evictions that are on their way: it takes as long as many go."""
    takes: Callable[[str], bool]
    """Whether a pod (uid) goes by our hand, as far as is known."""
    spared: Callable[[], Mapping[str, SparedPod]]
    """Who is not evicted again yet, by uid."""

    def require_ready(self) -> None:
        """Raise NotReady until caches are synced, plans recovered and the lease is ours."""
        self.asking.require_ready()

    def acts_for(self, pod: Pod) -> bool:
        """Whether the pod is planned for at all; else kube-scheduler does with it as it would."""
        return self.enforcement.everybody or self.enforcement.acts_for(
            pod.namespace, self.cluster.snapshot()
        )

    def gang_of(self, pod: Pod, snapshot: Snapshot) -> Gang | None:
        """Return the pod's gang as resolved, None for a pod of no gang."""
        key = self.resolver.member_key(pod)
        return None if key is None else self.resolver.resolve(key, snapshot)

    def waiting_gang(self, pod: Pod) -> Gang | None:
        """Return the gang whose quorum this pod is needed for, None to treat it alone.

        Alone go pods of no gang and of namespaces that are not acted for, pods of a gang whose
        members start one by one, and members beyond a quorum that runs already, unless that is
        about to go: they would have to go with it.
        """
        if self.resolver.member_key(pod) is None or not self.acts_for(pod):
            return None
        gang = self.gang_of(pod, self.cluster.snapshot())
        if gang is not None and any(self.takes(member.uid) for member in gang.bound):
            gang = self.gang_of(pod, self.shown())
        if gang is None or gang.problems:
            return gang
        if not gang.starts_whole:
            return None
        return gang if gang.missing or self.goes_with(pod) else None

    def kept_off(self, pod: Pod) -> str:
        """Return the unit that keeps the pod off all nodes, "" for none; it is woken once that goes
        no more, or has gone. None does where nobody of its namespace may be evicted."""
        if not self.enforcement.may_evict(pod.namespace, self.cluster.snapshot()):
            return ""
        unit = self.goes_with(pod)
        if unit:
            self.hints.held_back.note(pod, unit)
        return unit

    def goes_with(self, pod: Pod) -> str:
        """Return the unit with which the pod would have to go at this moment, "" for none."""
        key = self.resolver.unit_key(pod)
        return str(key) if key is not None and self.asking.takes_unit(str(key)) else ""
