"""What the page at /ui/ is given, read from the coordinator and the cache."""

from __future__ import annotations

import time
from collections.abc import Mapping

from extender.app.replica import Replica
from extender.cache.cache import Cache
from extender.check import documents
from extender.console.capture import Capture, ConsoleSource, PreemptionSeen, UnitSeen
from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions_per_day import Days
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings


def console_source(
    cache: Cache, replica: Replica, resolver: Resolver, settings: Settings, days: Days
) -> ConsoleSource:
    """Return what the console asks; of whichever coordinator is present."""
    view = _EnforcingView(cache, replica, days)
    return ConsoleSource(
        settings=settings,
        resolver=resolver,
        mark=view.mark,
        capture=view.capture,
        stale=lambda: replica.coordinator.stale(),
        question=view.question,
        masks=view.masks,
        read_manifest=lambda text, name: [
            each.value for each in documents.parse(text, name, aliases=False)
        ],
    )


class _EnforcingView:
    def __init__(self, cache: Cache, replica: Replica, days: Days) -> None:
        self._cache = cache
        self._replica = replica
        self._days = days

    def mark(self) -> object:
        coordinator = self._replica.coordinator
        return (
            id(coordinator),
            self._cache.generation,
            coordinator.reservations.version,
            coordinator.decisions.number,
            tuple(preemption.state for preemption in coordinator.reservations),
            tuple(self._replica.not_ready()),
        )

    def capture(self) -> Capture:
        coordinator = self._replica.coordinator
        now, wall = time.monotonic(), time.time()
        return Capture(
            time=wall,
            snapshot=self._cache.snapshot(),
            preemptions=tuple(
                _seen(preemption, now, wall)
                for preemption in coordinator.reservations
                if preemption.state is not PreemptionState.ENDED
            ),
            units=tuple(
                UnitSeen(
                    name=group.name,
                    preemptor=str(claim.preemptor),
                    plan=claim.plan_id,
                    left=len(group.there(claim)),
                    error=group.error,
                )
                for group in coordinator.plans.victims.unfinished()
                for claim in group.claims.values()
            ),
            decisions=tuple(coordinator.decisions),
            days=tuple(self._days.until(wall)),
            counted_since=self._days.since,
            days_last=self._days.lasting,
            replayable=frozenset(coordinator.decisions.generations()),
            suspended={
                str(held.gang): f"{held.why}, until {_clock(held.until)}"
                for held in coordinator.admission.suspensions.present()
            },
            problems=tuple(self._replica.not_ready()),
            schedulers=coordinator.admission.schedulers(),
        )

    def question(self) -> tuple[Snapshot, tuple[Hold, ...]]:
        context = self._replica.verbs.context
        return context.shown(), tuple(context.reservations.holds())

    def masks(self, gang: Gang, snapshot: Snapshot) -> Mapping[str, frozenset[str]]:
        evidence = self._replica.verbs.context.evidence
        return evidence.masks(gang, snapshot.nodes, evidence.in_the_way(gang, snapshot))


def _seen(preemption: Preemption, now: float, wall: float) -> PreemptionSeen:
    return PreemptionSeen(
        plan=preemption.plan,
        id=preemption.id,
        state=preemption.state.value,
        binding=preemption.binding,
        since=wall - (now - preemption.since),
        deadline=wall + (preemption.deadline - now) if preemption.deadline else 0.0,
        members=dict(preemption.pods),
        seats=dict(preemption.seats),
        victims=tuple(preemption.victims.values()),
        waits=tuple(preemption.waits.values()),
        sent=frozenset(preemption.sent),
        replans=preemption.replans,
    )


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
