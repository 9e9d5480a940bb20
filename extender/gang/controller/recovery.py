"""What a new life does with the plan records of the one before.

A record permits, it does not promise: the plan is compared with the cluster as it is now and
goes on only if it still holds. One that asks for what no plan of ours could is kept aside
(extender.gang.core.record). What cannot be dropped is a unit of which a part has gone by
our hand; it is finished in any case. Which victims have gone and which members are bound is
read from the cluster.
"""

from __future__ import annotations

import structlog
from msgspec.structs import replace

from extender.gang.controller.executor import Executor
from extender.gang.controller.records import RecordWriter
from extender.gang.controller.term import Reading, Telling
from extender.gang.core.preemption import Resumed
from extender.gang.core.record import (
    Record,
    RecordedVictims,
    doubt,
    priority_of,
    whole_units,
    without_strangers,
)
from extender.gang.core.reservations import Preemption
from extender.gang.core.victim_group import Claim, Claimed, Released
from extender.gang.plan.validity import present, whole_again
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions import Decision, Outcome, Verb, of_plan
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Plan, Victim
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

log = structlog.get_logger("gang")


class Recovery:
    """Takes the records of a life before in."""

    def __init__(
        self,
        executor: Executor,
        keeper: RecordWriter,
        reading: Reading,
        telling: Telling,
        clocks: Clocks,
    ) -> None:
        self._executor = executor
        self._plans = executor.plans
        self._keeper = keeper
        self._source = reading.source
        self._gangs = reading.gangs
        self._clocks = clocks
        self._decide = telling.decisions.decide
        self._nominations = telling.hints.nominations

    async def run(self) -> int:
        """Resume what holds, finish what has begun, drop the rest; return how many were taken in.

        Raises ApiError.
        """
        loaded, taken_in = await self._keeper.load(), 0
        for record in loaded.records:  # youngest first: an older plan may rest on what it ended
            why = doubt(record, self._source.snapshot(), self._gangs, signed=self._keeper.signed)
            if why:
                self._keeper.keep_aside(record, why)
                continue
            record = without_strangers(record, self._source.snapshot(), self._gangs)
            created = loaded.created.get(record.id, 0.0)
            victims = RecordedVictims(
                self._source.snapshot(), created, self._executor.preconditions.leaves
            )
            self._keeper.adopt(record)
            self._take_in(record, victims)
            taken_in += 1
        return taken_in

    def _take_in(self, record: Record, victims: RecordedVictims) -> None:
        plan, snapshot = record.plan, victims.snapshot
        self._claim_units(record, victims)
        if record.finishing is not None:
            self._close(record, victims, "its plan was over already")
            return
        if self._plans.reservations.get(plan.gang) is not None:
            self._close(record, victims, "its gang has a younger plan")
            return
        waiting = {
            seat.uid: snapshot.pending[seat.uid]
            for seat in plan.seats
            if seat.uid in snapshot.pending and not snapshot.pending[seat.uid].deleting
        }
        bound = {pod.uid for pods in snapshot.bound.values() for pod in pods}
        lost = [s for s in plan.seats if s.uid not in waiting and s.uid not in bound]
        if lost:
            self._close(
                record, victims, f"{counted(len(lost), 'member')} went away while we were away"
            )
            return
        if not waiting:
            self._close(record, victims, "all members were bound while we were away", Outcome.DONE)
            return
        now = self._clocks.monotonic()
        preemption = Preemption(
            plan=plan,
            id=record.id,
            pods=waiting,
            seats={seat.uid: seat.node for seat in plan.seats if seat.uid in waiting},
            state=PreemptionState.PLANNED,
            since=now,
            victims={v.uid: v for v in plan.victims if present(v, snapshot)},
            waits={v.uid: v for v in plan.waits_for if present(v, snapshot)},
            sent={v.uid for v in plan.victims if victims.leaves(v)},
            started=now,
            completes=record.completes,
            evicted_before=record.evicted_from,
            overdue=record.overdue or self._overdue(plan, snapshot),
            recorded=True,
            resumed=True,
        )
        self._executor.feed(Resumed(preemption))
        if preemption.over:
            why = f"after a restart the plan does not hold any more: {preemption.changed_for}"
            self._close(record, victims, why)
            return
        decision = of_plan(plan, time=self._clocks.wall(), verb=Verb.RECOVERY, seconds=0.0)
        message = (
            f"goes on after a restart: {counted(len(preemption.seats), 'seat')} to fill, "
            f"{counted(len(preemption.victims), 'victim')} left, "
            f"{counted(len(preemption.victims.keys() - preemption.sent), 'eviction')} to send"
        )
        self._decide(replace(decision, message=message))

    def _overdue(self, plan: Plan, snapshot: Snapshot) -> bool:
        """Whether a pod that terminates for the plan should be gone."""
        slack = self._executor.plans.settings.seats.victim_slack_seconds
        going = (present(victim, snapshot) for victim in (*plan.victims, *plan.waits_for))
        return any(pod and pod.deleting and pod.deleting + slack < snapshot.now for pod in going)

    def _claim_units(self, record: Record, victims: RecordedVictims) -> None:
        """Go on with units of which a part has gone, and watch the others: a request of the life
        before may still arrive. The rest of the plan decides nothing here.

        A record is written right before the first eviction, so a unit that is gone in part
        has gone by our hand but for the rarest chance, and is broken either way. Not when
        others have come in the place of those who went: then it runs. Whether a request had left,
        a record says only once its plan is over.
        """
        plan, snapshot = record.plan, victims.snapshot
        owed = None if record.finishing is None else set(record.finishing)
        priority = priority_of(record, snapshot, self._gangs, signed=self._keeper.signed)
        for unit in whole_units(record):
            left = [v for v in unit if present(v, snapshot) and (owed is None or v.uid in owed)]
            going = frozenset(v.uid for v in left if victims.leaves(v))
            begun = victims.begun(unit)
            if len(going) == len(left):
                continue
            if begun and self._whole_again(unit, left, record, snapshot):
                continue
            message = f"preempted by {plan.gang} (priority {priority}) in a plan before a restart"
            claim = Claim(
                plan_id=record.id,
                preemptor=plan.gang,
                priority=priority,
                message=message + ", which has evicted a part of its gang",
                uids=frozenset(victim.uid for victim in left),
                beside=frozenset(record.others.bound),
                # Unharmed: asked for once a part has gone, or once the plan claims it.
                released=not begun,
            )
            there = tuple(left)
            self._executor.feed(
                Claimed(claim, there, sent=going, size=len(unit), begun=begun, watched=True)
            )

    def _whole_again(
        self, unit: list[Victim], left: list[Victim], record: Record, snapshot: Snapshot
    ) -> bool:
        """Whether members that the record does not know have made the gang whole again."""
        pod = present(left[0], snapshot)
        key = None if pod is None else self._gangs.unit_key(pod)
        if key is None:
            return False
        known = {victim.uid for victim in unit}.union(record.others.bound)
        return whole_again(self._gangs.resolve(key, snapshot), known, len(unit))

    def _close(
        self,
        record: Record,
        victims: RecordedVictims,
        why: str,
        outcome: Outcome = Outcome.GAVE_UP,
    ) -> None:
        owed = [group for group in self._plans.victims.of_plan(record.id) if group.touched]
        evicted = ("that was evicted in part is", "that were evicted in part are")
        begun = counted(len(owed), "victim group", *evicted)
        self._decide(
            Decision(
                time=self._clocks.wall(),
                gang=str(record.plan.gang),
                verb=Verb.RECOVERY,
                outcome=outcome,
                message=why + (f"; {begun} finished" if owed else ""),
                victims=record.plan.victims,
                seats=record.plan.seats,
            )
        )
        for seat in record.plan.seats:
            if (pod := victims.snapshot.pending.get(seat.uid)) is not None:
                self._nominations.clear([pod], seat.node)
        self._executor.feed(Released(record.id))
        self._keeper.over(record.id, self._plans.victims.owed)
