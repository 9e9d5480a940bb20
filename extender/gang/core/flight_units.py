"""Units of plans in flight: begun, looked at before each request, and what comes of each.

Step 5 of extender.gang.core.preemptions. How a unit is evicted is in evictions.py, which asks and
tells here; what is owed from a life before is begun here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf

from extender.gang.controller.record_writer import RecordWriter
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.evictions import Evictions
from extender.gang.core.last_check import LastCheck
from extender.gang.core.preconditions import Preconditions, units_of
from extender.gang.core.record import Record
from extender.gang.core.reservations import Preemption
from extender.gang.core.unit import EvictionUnit
from extender.gang.plan.validity import present
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import Pod
from extender.model.plan import Victim
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

BEGIN_UNITS = 128
"""How many units are begun in one turn of the event loop."""


class FlightUnits:
    """Begins units for the plans in ``reservations``, and listens to what becomes of them.

    ``advance(preemption)`` looks at what a preemption still waits for, ``replan(preemption, why)``
    searches for another plan when one does not hold any more. ``evictions`` are those under way;
    ``preconditions`` says whether a plan still holds beside them.
    """

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        keeper: RecordWriter,
        check: LastCheck,
        *,
        advance: Callable[[Preemption], None],
        replan: Callable[[Preemption, str], None],
    ) -> None:
        self._reservations = reading.reservations
        self._snapshot = reading.snapshot
        self._gangs = reading.gangs
        self._check = check
        self._keeper = keeper
        self._notices = telling.notices
        self._clocks = term.clocks
        self._decide = telling.decisions.decide
        self._advance = advance
        self._replan = replan
        self._stale = reading.readiness.stale
        self.evictions = Evictions(
            term.evictor,
            check,
            term.leadership,
            term.clocks.monotonic,
            telling.background.spawn,
            self,
            term.settings.seats.victim_slack_seconds,
        )
        self.preconditions = Preconditions(
            reading.reservations,
            reading.source,
            reading.gangs,
            check,
            self.evictions,
            reading.offers,
            term.settings.eviction.longest_grace_seconds,
            reading.evidence.freed_since,
        )
        self.taken: Callable[[Iterable[Pod]], None] = lambda pods: None
        """Told of pods that are about to be evicted ..."""
        self.sent: Callable[[EvictionUnit, Victim], None] = lambda unit, victim: None
        """... and of each eviction that the API server has accepted."""

    # -- begun ----------------------------------------------------------------------------

    async def begin(self, preemption: Preemption) -> None:
        """Begin units, BEGIN_UNITS a turn: verbs and events are answered in between."""
        plan = preemption.plan
        message = (
            f"preempted by {plan.gang} (priority {plan.priority}), which runs as a whole "
            f"once {counted(len(plan.victims), 'pod', 'is', 'are')} gone"
        )
        begun = {unit.name for unit in self.evictions.of_plan(preemption.id)}
        left = [
            each for each in units_of(preemption.victims.values()).items() if each[0] not in begun
        ]
        for start in range(0, len(left), BEGIN_UNITS):
            if start:
                await asyncio.sleep(0)
            snapshot = self._snapshot()
            for _, victims in left[start : start + BEGIN_UNITS]:
                if preemption.state not in (PreemptionState.EVICTING, PreemptionState.WAITING):
                    return
                self._begin_unit(preemption, victims, message, snapshot)

    def _begin_unit(
        self, preemption: Preemption, victims: list[Victim], message: str, snapshot: Snapshot
    ) -> None:
        there = [victim for victim in victims if victim.uid in preemption.victims]
        if not there:
            return  # gone while others were begun
        # Some may go already, by another plan's hand or somebody else's. Whom another plan has only
        # asked for may stay, so it is asked for here as well.
        pods = [present(victim, snapshot) for victim in there]
        sent = [
            pod.uid
            for pod in pods
            if pod is not None
            and (self._check.leaves(pod, snapshot.now) or self.evictions.accepted(pod.uid))
        ]
        preemption.sent.update(sent)
        self.taken(pod for pod in pods if pod is not None)
        self.evictions.begin(
            preemption.plan,
            preemption.id,
            there,
            self._check.budgeted(there, preemption.plan.priority),
            message,
            doubtful=preemption.resumed,
            sent=sent,
        )

    def finish(self, record: Record, left: list[Victim], sent: list[str], size: int) -> None:
        """Evict what is left of a unit of ``size`` that has gone in part in a life before."""
        plan = record.plan
        message = (
            f"preempted by {plan.gang} (priority {plan.priority}) in a plan made before a "
            "restart, which has evicted a part of its gang"
        )
        self.evictions.begin(
            plan,
            record.id,
            left,
            self._check.budgeted(left, plan.priority),
            message,
            touched=True,
            sent=sent,
            size=size,
            beside=frozenset(record.others.bound),
        )

    def watch(self, record: Record, unit: list[Victim], size: int, late: Iterable[Victim]) -> None:
        """Watch a unit that a request of a life before was lost sight of, and that is unharmed.

        To be released with its plan: only if a pod of it goes soon, the rest does, and ``late``,
        who came to a node meanwhile, with them.
        """
        plan = record.plan
        message = f"preempted by {plan.gang} (priority {plan.priority}) in a plan before a restart"
        watched = self.evictions.begin(
            plan,
            record.id,
            unit,
            self._check.budgeted(unit, plan.priority),
            message,
            doubtful=True,
            size=size,
            beside=frozenset(record.others.bound),
        )
        watched.came = [(-inf, victim) for victim in late]

    # -- asked and told by evictions ---------------------------------------------------------

    def still_holds(self, unit: EvictionUnit) -> bool:
        """Whether a plan still holds right before it takes from an untouched unit."""
        preemption = self._preemption_of(unit)
        if (
            preemption is None
            or preemption.state is not PreemptionState.EVICTING
            or self._stale() is not None
        ):
            return False
        why = self._check.not_for(preemption.key.namespace) or self.preconditions.less_urgent(
            preemption
        )
        if why:
            self._replan(preemption, why)
            return False
        nodes = self._snapshot().nodes
        if preemption.doubted or nodes is not preemption.nodes:
            preemption.doubted, preemption.nodes = False, nodes
            why = self.preconditions.problem(preemption)
            if why:
                self._replan(preemption, why)
                return False
        why = self.preconditions.grown(unit)
        if not why and preemption.seen is not None and not self.evictions.asks(preemption.id):
            why = self._spares(preemption) or self.preconditions.gone_in_part(preemption, unit)
        if why:
            self._replan(preemption, why)
        return not why

    def _spares(self, preemption: Preemption) -> str:
        """Return why nobody may have to go after all, "" when nothing speaks for it."""
        snapshot, version = preemption.spared_at
        if snapshot is self._snapshot() and version == self._reservations.version:
            return ""
        preemption.spared_at = self._snapshot(), self._reservations.version
        return self.preconditions.spares(preemption)

    def recorded(self, unit: EvictionUnit) -> bool:
        """Whether the unit's plan is in flight or owes something, so that its record is there."""
        return self._keeper.keeps(unit.plan_id)

    def completing(self, unit: EvictionUnit) -> bool:
        """Whether a plan in flight seats others beside what could not be evicted of a unit."""
        return any(
            str(self._gangs.unit_key(pod)) == unit.name
            for preemption in self._reservations
            for pod in preemption.pods.values()
        )

    def eviction_sent(self, unit: EvictionUnit, victim: Victim) -> None:
        """Take note that the API server has accepted one eviction."""
        self.sent(unit, victim)
        preemption = self._preemption_of(unit)
        if preemption is not None and victim.uid in unit.must_go:
            # From here on room comes by our own hand.
            preemption.seen, preemption.seen_holds, preemption.spared_at = None, (), (None, 0)
        self._notices.evicted(
            unit, victim, preemption, first=preemption is not None and not preemption.told
        )
        if preemption is not None:
            preemption.sent.add(victim.uid)
            preemption.progress_at = self._clocks.monotonic()
            preemption.told = True
            self._advance(preemption)
        self._keeper.settle(unit.plan_id, self.evictions.of_plan)

    def eviction_refused(self, unit: EvictionUnit, victim: Victim, why: str) -> None:
        """Take note that a victim cannot be evicted: others are tried."""
        preemption = self._preemption_of(unit)
        told = f"{victim.namespace}/{victim.name} cannot be evicted: {why}"
        if victim.uid in unit.must_go and unit.whole:
            self._notices.broken(unit, victim, why, preemption)
            self._decide(
                Decision(
                    time=self._clocks.wall(),
                    gang=str(unit.preemptor),
                    verb=Verb.LOOP,
                    outcome=Outcome.BROKEN,
                    message=f"{unit.name} is evicted in part: {told}",
                    victims=tuple(unit.victims.values()),
                )
            )
        if preemption is not None:
            if preemption.state is not PreemptionState.CHANGING:
                preemption.stayed[victim.uid] = victim
            self._replan(preemption, told)

    def whole_again(self, unit: EvictionUnit) -> None:
        """Search for another plan: what is left of the unit would break its gang once more."""
        preemption = self._preemption_of(unit)
        if preemption is not None:
            self._replan(preemption, f"{unit.name} went in part and is whole again by others")

    def takes(self, name: str) -> bool:
        """Whether what goes together under this name is to go, or has gone in part and still has
        to: who comes to it now would have to go with it, or be left alone."""
        return self._reservations.takes_unit(name) or self.evictions.owes(name)

    def unit_ended(self, unit: EvictionUnit) -> None:
        """Take note that a unit is gone, or let go of."""
        self._notices.held_back.unit_ended(unit.name)
        self._keeper.settle(unit.plan_id, self.evictions.of_plan)

    def wake_held_back(self) -> None:
        """Wake those who wait for a unit that does not go: a plan may have let go of it before
        anything was asked for, and of a broken one the rest stays."""
        units = self._notices.held_back.units()
        self._notices.held_back.units_ended({name for name in units if not self.takes(name)})

    def _preemption_of(self, unit: EvictionUnit) -> Preemption | None:
        preemption = self._reservations.get(unit.preemptor)
        return preemption if preemption is not None and preemption.id == unit.plan_id else None
