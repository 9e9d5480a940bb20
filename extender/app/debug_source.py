"""What the debug API shows, read from the coordinator and the cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypedDict

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from extender.app.debug_pods import DescribedPod, pods_named, with_status
from extender.gang.bind_barrier.bindings import HeldBinds
from extender.gang.booking.bookings import BookedStart
from extender.gang.controller.coordinator import Coordinator
from extender.gang.core.reservations import seats_of
from extender.gang.fairness.admission import CurrentLimits
from extender.gang.fairness.eviction_history import EvictedBefore
from extender.gang.plan.assemble import dump
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.tell.gang_status import DescribedGang, Facts, light
from extender.gang.tell.leaving import Obj
from extender.model.plan import Seat, Victim
from extender.settings.settings import Settings


class PlanReservations(TypedDict):
    """A plan that is being carried out, as the debug API shows it."""

    gang: str
    priority: int
    plan: str
    """Id of the plan."""
    state: str
    """planned, evicting, waiting, open or changing (docs/actuation.md)."""
    recorded: bool
    """Whether its record is stored. Nothing is evicted before that."""
    binding: bool
    """Whether members are being bound: no other gang may take its reservations over."""
    stateSeconds: float
    """How long it has been in this state."""
    secondsLeft: float | None
    """Until its deadline; null without one."""
    seats: tuple[Seat, ...]
    """Reservations that no member has taken yet."""
    victimsLeft: tuple[Victim, ...]
    """Victims that are not gone yet."""
    waitsFor: tuple[Victim, ...]
    """Pods that terminated before and are not gone yet."""
    evictionsSent: int
    """Eviction requests that were sent."""
    replans: int
    """How often it was planned again."""


class EvictedGroup(TypedDict):
    """A victim group that is being evicted, as the debug API shows it."""

    unit: str
    """The victim group: a gang's key, or a pod."""
    preemptor: str
    """Key of the gang that it is evicted for."""
    plan: str
    """Id of that gang's plan."""
    priority: int
    """Priority of that gang."""
    mustFinish: bool
    """Whether an eviction request may have reached one of its pods: all of it is evicted then."""
    planIsOver: bool
    """Whether the plan has ended, and the group is finished all the same."""
    left: dict[str, str]
    """Uid of a pod that is still there -> how far its eviction is."""
    error: str
    """What the API server answered last, where that was no yes."""


class AllLimits(CurrentLimits, TypedDict):
    """What is limited now, with what rests on earlier evictions."""

    bookings: list[BookedStart]
    """Booked starts, and gangs that wait for one."""
    evictedBefore: list[EvictedBefore]
    """Workloads that were evicted before."""


class DebugView:
    """Implements server.debug.DebugSource. ``present`` is the coordinator of this moment."""

    def __init__(
        self,
        source: ClusterSource,
        watched: Callable[[], Sequence[object]],
        present: Callable[[], Coordinator],
        settings: Settings,
    ) -> None:
        self._source = source
        self._watched = watched
        self._present = present
        self._settings = settings

    @property
    def _coordinator(self) -> Coordinator:
        return self._present()

    def decisions(self) -> Sequence[object]:
        """Return the decisions kept, newest first."""
        return self._coordinator.decisions.to_json()

    def reservations(self) -> Sequence[PlanReservations]:
        """Return the plans that are being carried out with their untaken seats."""
        now = time.monotonic()
        return [
            {
                "gang": str(preemption.key),
                "priority": preemption.plan.priority,
                "plan": preemption.id,
                "state": preemption.state.value,
                "recorded": preemption.recorded,
                "binding": preemption.binding,
                "stateSeconds": round(now - preemption.since, 3),
                "secondsLeft": round(preemption.deadline - now, 3) if preemption.deadline else None,
                "seats": seats_of(preemption),
                "victimsLeft": tuple(preemption.victims.values()),
                "waitsFor": tuple(preemption.waits.values()),
                "evictionsSent": len(preemption.sent),
                "replans": preemption.replans,
            }
            for preemption in self._coordinator.reservations
        ]

    def evictions(self) -> Sequence[EvictedGroup]:
        """Return the units that are being evicted, with what is left of each and why."""
        return [
            {
                "unit": group.name,
                "preemptor": str(claim.preemptor),
                "plan": claim.plan_id,
                "priority": claim.priority,
                "mustFinish": group.touched,
                "planIsOver": claim.released,
                "left": {each.victim.uid: each.phase.value for each in group.there(claim)},
                "error": group.error,
            }
            for group in self._coordinator.plans.victims.unfinished()
            for claim in group.claims.values()
        ]

    def binds(self) -> Sequence[HeldBinds]:
        """Return the binds that are held, and which members they wait for."""
        return self._coordinator.bindings.describe()

    def limits(self) -> AllLimits:
        """Return suspended gangs, what namespaces have used lately, booked starts, and workloads
        that were evicted before."""
        coordinator = self._coordinator
        return {
            **coordinator.admission.describe(),
            "bookings": coordinator.bookings.describe(),
            "evictedBefore": coordinator.eviction_history.describe(),
        }

    def gangs(self) -> Iterator[DescribedGang]:
        """Return the gangs as resolved and where each stands, each made as it is asked for."""
        coordinator = self._coordinator
        plans: list[Obj] = to_builtins(self.reservations())
        decisions = [light(each) for each in coordinator.decisions]
        facts = Facts((), plans, self.evictions(), decisions, now=time.time())
        asking = coordinator.admission.schedulers()
        return with_status(self._source.snapshot(), coordinator.resolver.resolve, asking, facts)

    def pods_named(self, name: str) -> Sequence[DescribedPod]:
        """Return the unfinished pods of this name, or of this namespace/name."""
        return pods_named(name, self._source.snapshot(), self._coordinator.resolver.member_key)

    def watches(self) -> Sequence[object]:
        """Return what is followed of the cluster, by resource."""
        return self._watched()

    def observed(self) -> None:
        """Nothing: this process acts."""

    def snapshot(self, generation: int | None) -> object | None:
        """Return the dump that ``plan`` replays: of now, or of a decision among the last."""
        # Replayed elsewhere: which schedulers ask is not known there.
        names = tuple(sorted(self._coordinator.admission.schedulers()))
        settings = replace(self._settings, scheduler_names=names)
        if generation is None:
            holds = self._coordinator.reservations.holds()
            document = dump(self._source.snapshot(), holds, settings)
        else:
            asked = self._coordinator.decisions.question(generation)
            if asked is None:
                return None
            document = dump(asked.snapshot, asked.holds, settings, asked.masks, asked.offered)
        # As a mapping it is encoded in slices, and verbs are answered in between.
        return asdict(document)
