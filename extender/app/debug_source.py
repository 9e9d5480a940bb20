"""What the debug API shows, read from the coordinator and the cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import asdict, replace

from extender.app.debug_pods import pods_named
from extender.gang.controller.coordinator import Coordinator
from extender.gang.core.reservations import seats_of
from extender.gang.plan.assemble import dump
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.tell.gang_status import described
from extender.settings.settings import Settings


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

    def reservations(self) -> Sequence[object]:
        """Return the plans in flight with their untaken seats."""
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

    def evictions(self) -> Sequence[object]:
        """Return the units that are being evicted, with what is left of each and why."""
        return [
            {
                "unit": group.name,
                "preemptor": str(claim.preemptor),
                "plan": claim.plan_id,
                "priority": claim.priority,
                "touched": group.touched,
                "planIsOver": claim.released,
                "left": {each.victim.uid: each.phase.value for each in group.there(claim)},
                "error": group.error,
            }
            for group in self._coordinator.plans.victims.unfinished()
            for claim in group.claims.values()
        ]

    def binds(self) -> Sequence[object]:
        """Return the binds that are held, and whom they wait for."""
        return self._coordinator.bindings.describe()

    def limits(self) -> Mapping[str, object]:
        """Return who is suspended, what namespaces have used lately, booked starts, and who was
        evicted before."""
        coordinator = self._coordinator
        return {
            **coordinator.admission.describe(),
            "bookings": coordinator.bookings.describe(),
            "evictedBefore": coordinator.eviction_history.describe(),
        }

    def gangs(self) -> Iterator[object]:
        """Return the gangs as resolved, with problems and notes, each made as it is asked for."""
        asking, snapshot = self._coordinator.admission.schedulers(), self._source.snapshot()
        resolve = self._coordinator.resolver.resolve
        return (described(resolve(key, snapshot), asking) for key in sorted(snapshot.members))

    def pods_named(self, name: str) -> Sequence[object]:
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
