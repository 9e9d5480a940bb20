"""Plans in flight, as a transaction: every step can be resumed or undone (docs/actuation.md).

Steps
1. Plan: the seats are held, and counted as promised, from this moment on.
2. Rehearse: every eviction as a dry run. A no ends the plan with nobody lost.
3. Record: written, and read back where the answer is unclear, before anybody goes.
4. Compare with the newest state; a plan that does not hold any more is changed or dropped.
5. Evict, unit by unit (extender.gang.core.flight_units).
6. Wait until the last victim is gone.
7. Compare again, then open the seats.
8. End: done, or given up. Units that have gone in part are finished all the same, and the
   record stays until they are.

Nothing here waits for the API while something else needs to be decided: each step of a preemption
runs in a task of its own, deadlines are looked at by ``tick`` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from math import inf

import structlog

from extender.gang.controller.evictor import EvictionRefused
from extender.gang.controller.record_writer import RecordWriter
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.deadlines import late
from extender.gang.core.event_handlers import EventHandlers
from extender.gang.core.flight_units import FlightUnits
from extender.gang.core.last_check import LastCheck
from extender.gang.core.late_members import others_of
from extender.gang.core.lifetimes import Lifetimes, PreemptionEnded
from extender.gang.core.looking import look_at_each
from extender.gang.core.reservations import Preemption
from extender.gang.core.starvation import Starvation
from extender.gang.plan.validity import present
from extender.gang.tell.decisions import Outcome
from extender.gang.tell.preemption_state import PreemptionState
from extender.kube.api_errors import ApiError
from extender.model.objects import Pod
from extender.model.plan import Code, Hold, Plan
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")


ANSWER_SECONDS = 10.0
"""After how long a member that was told its seat and is not bound is not on its way any more."""
LOOK_SECONDS = 0.1
LOOK_AFTER_SECONDS = 5.0
"""How often it is made sure that every eviction is worked on."""
PRESUMED_SECONDS = 5.0
"""How long a binding that was under way when the life before ended may take to show."""


class Preemptions:
    """Acts on the plans in ``reservations``.

    ``ended`` is told of each end; ``replan(preemption, why)`` is asked for
    another plan when one does not hold any more.
    """

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        keeper: RecordWriter,
        ended: PreemptionEnded,
        replan: Callable[[Preemption, str], None],
    ) -> None:
        self.reservations = reading.reservations
        self.keeper = keeper
        self._settings = term.settings
        self._snapshot = reading.snapshot
        self._evictor = term.evictor
        self._notices = telling.notices
        self._clocks = term.clocks
        self._random = term.random
        self._replan = replan
        self._stale = reading.readiness.stale
        self._spawn = telling.background.spawn
        self._looks_after = 0.0
        self._seen: tuple[object, object] = (None, None)
        """Nodes and namespaces at the last look; other mappings when one of them changed."""
        self._chooses = not term.settings.enforce.everybody
        self._check = check = LastCheck(reading.source, reading.gangs, term.settings)
        self.leaves = check.leaves
        self.units = FlightUnits(
            term, reading, telling, keeper, check, advance=self._advance, replan=replan
        )
        self.evictions = self.units.evictions
        self.comparison = self._comparison = self.units.comparison
        self.shown, self.problem = self._comparison.shown, self._comparison.problem
        self.crowded, self.room_came = self._comparison.crowded, self._comparison.room_came
        self._crowding = Starvation(self.reservations, self.crowded, term.clocks)
        lifetimes = Lifetimes(term, reading, telling, keeper, self.evictions, ended)
        self._enter, self.leave, self.end = lifetimes.enter, lifetimes.leave, lifetimes.end
        self.give_way = lifetimes.give_way
        sightings = EventHandlers(
            term,
            reading,
            telling,
            self.evictions,
            lifetimes,
            leaves=self.leaves,
            advance=self._advance,
            replan=replan,
            does_without=self._comparison.does_without,
        )
        self.observe = sightings.observe

    # -- 1 to 4: planned, recorded --------------------------------------------------------

    def draft(
        self,
        plan: Plan,
        before: Preemption | None = None,
        seen: Snapshot | None = None,
        held: Iterable[Hold] = (),
    ) -> Preemption:
        """Return a preemption for a plan, as the cluster is now; nothing is held yet.

        ``before`` is the gang's plan that it takes the place of. ``seen`` is the cluster that the
        plan was searched for in, ``held`` the seats then: what has room since may spare victims.
        """
        now = self._clocks.monotonic()
        snapshot = self.shown()
        pods = {
            seat.uid: snapshot.pending[seat.uid]
            for seat in plan.seats
            if seat.uid in snapshot.pending
        }
        return Preemption(
            plan=plan,
            id=f"{self._random.getrandbits(48):012x}",
            pods=pods,
            seats={seat.uid: seat.node for seat in plan.seats},
            state=PreemptionState.PLANNED,
            since=now,
            victims={v.uid: v for v in plan.victims if present(v, snapshot)},
            waits={v.uid: v for v in plan.waits_for if present(v, snapshot)},
            started=now if before is None else before.started,
            replans=0 if before is None else before.replans + (not before.displaced_by),
            unadmitted={} if before is None else dict(before.unadmitted),
            displacements=0 if before is None else before.displacements + bool(before.displaced_by),
            completes=before is not None and before.sits,
            seen=seen,
            seen_holds=tuple(
                hold
                for hold in (held if plan.victims else ())
                if hold.gang != plan.gang and hold.gang not in plan.takes_over
            ),
        )

    def begin(self, preemption: Preemption) -> None:
        """Hold the seats of a draft that holds now, and start to act on it."""
        self._enter(preemption)
        self._spawn(self._act(preemption))

    def resume(self, preemption: Preemption) -> str:
        """Go on with a recorded plan of a life before; return why not, "" when it goes on."""
        self._enter(preemption)
        preemption.held = -inf  # a life before has held the seats
        why = self.problem(preemption)
        if why:
            self.leave(preemption)
            return why
        for node in preemption.seats.values():
            # Where its members sit already, seats of those of whom none does make room.
            self.reservations.doubt(node, but=preemption)
        if not preemption.victims and not preemption.waits:
            # Its seats were open: members may have been answered, and not be seen bound yet.
            preemption.presumed = set(preemption.seats)
            self._spawn(self._presume(preemption))
        self._spawn(self._act(preemption))
        return ""

    async def _presume(self, preemption: Preemption) -> None:
        """After a while, whoever was given a seat in a life before sits, or asks again."""
        await asyncio.sleep(PRESUMED_SECONDS)
        self.reservations.not_coming(preemption, preemption.presumed)

    def change(
        self, preemption: Preemption, why: str = "it is changed", displaced_by: Sequence[Pod] = ()
    ) -> None:
        """Stop what can be stopped of a plan that does not hold any more."""
        preemption.displaced_by, preemption.changed_for = tuple(displaced_by), why
        preemption.enter(PreemptionState.CHANGING, self._clocks.monotonic())
        self.reservations.released(preemption, why)
        self.evictions.release(preemption.id)

    async def _act(self, preemption: Preemption) -> None:
        victims = list(preemption.victims.values())
        budgeted = self._check.budgeted(victims, preemption.plan.priority)
        try:
            await self._evictor.rehearse(
                victims,
                budgeted,
                lambda victim: (
                    preemption.state is PreemptionState.PLANNED and victim.uid in preemption.victims
                ),
            )
        except EvictionRefused as refused:
            uid, error = refused.victim.uid, refused.error
            # Else the next plan names it again, and the gang never comes to others.
            self.evictions.refusals.note(
                uid,
                str(error),
                error,
                budgeted=uid in budgeted,
                readable=refused.readable,
                rehearsed=True,
            )
            if preemption.state is PreemptionState.PLANNED:
                why = f"an eviction was refused in rehearsal, nobody is evicted: {refused}"
                self.end(preemption, Outcome.GAVE_UP, why, penal=True)
            return
        if preemption.state is not PreemptionState.PLANNED:
            return  # it ended meanwhile, or another plan is searched for
        if preemption.recorded:
            await self._go_on(preemption)
            return
        try:
            others = others_of(preemption.plan, self._snapshot())
            await self.keeper.write(preemption, self._clocks.wall(), others)
        except ApiError as failed:
            if not preemption.over:
                why = f"the plan's record cannot be written, so nothing is evicted: {failed}"
                self.end(preemption, Outcome.GAVE_UP, why, code=Code.API, penal=True)
            return
        preemption.recorded = True
        if preemption.state is PreemptionState.PLANNED:
            await self._go_on(preemption)

    async def _go_on(self, preemption: Preemption) -> None:
        """Compare a recorded plan with the newest state, then do what it needs next."""
        why = self.problem(preemption) or self._comparison.spares(preemption)
        if why:
            self._replan(preemption, why)
            return
        preemption.enter(PreemptionState.EVICTING, self._clocks.monotonic())
        preemption.nodes = self._snapshot().nodes
        hints = self._settings.seats.nominate and bool(preemption.victims or preemption.waits)
        await self.units.begin(preemption)
        if preemption.state is PreemptionState.EVICTING:
            self._advance(preemption)
        if hints:
            await self._nominate(preemption)

    async def _nominate(self, preemption: Preemption) -> None:
        """Give autoscalers their hint; the evictions, which the gang waits for, go first."""
        while preemption.state is PreemptionState.EVICTING and self.evictions.waiting:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        if preemption.state in (
            PreemptionState.EVICTING,
            PreemptionState.WAITING,
            PreemptionState.OPEN,
        ):
            await self._notices.nominations.write(preemption)

    # -- 6, 7: wait, open -----------------------------------------------------------------

    def _advance(self, preemption: Preemption) -> None:
        """Move to the state that what is left to go away calls for."""
        if preemption.state not in (PreemptionState.EVICTING, PreemptionState.WAITING):
            return
        if preemption.victims or preemption.waits:
            if (
                preemption.state is PreemptionState.EVICTING
                and preemption.victims.keys() <= preemption.sent
            ):
                preemption.enter(PreemptionState.WAITING, self._clocks.monotonic())
            return
        if self._stale() is not None:
            return  # what it would be compared with is old; tick comes back to it
        why = self.problem(preemption)
        if why:
            self._replan(preemption, why)
            return
        preemption.doubted = False
        if self.crowded(preemption):
            return  # tick comes back to it
        preemption.enter(PreemptionState.OPEN, self._clocks.monotonic())
        preemption.deadline = preemption.since + self._settings.seats.bind_seconds
        log.info("seats open", gang=str(preemption.key), seats=len(preemption.seats))
        self._spawn(self._notices.calls.until_seated(preemption))

    def seat_given(self, preemption: Preemption, pod: Pod) -> None:
        """Note that a member was told its seat: it is bound there soon, or asks again."""
        self.reservations.answered(preemption, pod.uid, self._clocks.monotonic())

    def _blame(self, preemption: Preemption) -> None:
        """Note whose pods did not go, where that is what a plan is given up for."""
        if preemption.state not in (PreemptionState.EVICTING, PreemptionState.WAITING):
            return
        snapshot = self._snapshot()
        for victim in (*preemption.victims.values(), *preemption.waits.values()):
            pod = present(victim, snapshot)
            if pod is not None and pod.deleting:
                preemption.stayed[victim.uid] = victim
                self.evictions.refusals.stayed(victim.uid)
            elif pod is not None:
                preemption.unsent = True  # its request is on its way, for all that is known

    def tick(self) -> None:
        """Look at deadlines, and at plans when nodes or namespaces have changed. No waiting."""
        self.units.wake_held_back()
        look_at_each(self.reservations, self._progress)
        look_at_each(self.reservations, self._deadline)
        if self._clocks.monotonic() >= self._looks_after:
            self._looks_after = self._clocks.monotonic() + LOOK_AFTER_SECONDS
            self.evictions.look_after(fresh=self._stale() is None)
        snapshot = self._snapshot()
        # Whom the extender acts for hangs on the labels of namespaces, where it is not everybody.
        ground = (snapshot.nodes, snapshot.namespaces if self._chooses else None)
        if any(new is not old for new, old in zip(ground, self._seen, strict=True)):
            self._seen = ground
            for preemption in self.reservations:
                preemption.doubted |= (
                    preemption.recorded
                )  # others are compared when they are recorded
        look_at_each(self.reservations, self._ground)

    def _progress(self, preemption: Preemption) -> None:
        if not preemption.victims and not preemption.waits:
            self._advance(preemption)
        self._crowding.look(preemption)

    def _deadline(self, preemption: Preemption) -> None:
        errors = [unit.error for unit in self.evictions.of_plan(preemption.id) if unit.error]
        overdue = late(preemption, self._clocks.monotonic(), self._settings.seats, errors)
        if overdue is not None:
            self._blame(preemption)
            self.end(preemption, Outcome.GAVE_UP, overdue, penal=True)

    def _ground(self, preemption: Preemption) -> None:
        """Look at what the plan rests on."""
        if self._clocks.monotonic() - preemption.answered_at > ANSWER_SECONDS:
            self.reservations.not_coming(preemption, preemption.answered)
        if preemption.recorded:
            why = (
                self.problem(preemption)
                if preemption.doubted
                else self._comparison.stays(preemption)
            )
            preemption.doubted = False
        else:
            # Compared when it is recorded, which may take long. Until then its seats would be held
            # against everybody, for a gang that is left alone.
            why = self._check.not_for(preemption.key.namespace)
        if why:
            self._replan(preemption, why)
