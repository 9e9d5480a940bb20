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

Nothing here waits for the API while something else needs to be decided: each step of a flight
runs in a task of its own, deadlines are looked at by ``tick`` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from math import inf

import structlog

from extender.gang.controller.evictor import EvictionRefused
from extender.gang.controller.keeper import RecordKeeper
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.book import Flight
from extender.gang.core.crowding import Crowding
from extender.gang.core.deadlines import late
from extender.gang.core.flight_units import FlightUnits
from extender.gang.core.last_check import LastCheck
from extender.gang.core.late_members import others_of
from extender.gang.core.lifetimes import FlightEnded, Lifetimes
from extender.gang.core.looking import look_at_each
from extender.gang.core.sightings import Sightings
from extender.gang.plan.validity import present
from extender.gang.tell.decisions import Outcome
from extender.gang.tell.flight_state import FlightState
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


class Flights:
    """Acts on the plans in ``book``.

    ``ended`` is told of each end; ``replan(flight, why)`` is asked for
    another plan when one does not hold any more.
    """

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        keeper: RecordKeeper,
        ended: FlightEnded,
        replan: Callable[[Flight, str], None],
    ) -> None:
        self.book = reading.book
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
        self._check = check = LastCheck(reading.snapshot, reading.gangs, term.settings)
        self.leaves = check.leaves
        self.units = FlightUnits(
            term, reading, telling, keeper, check, advance=self._advance, replan=replan
        )
        self.evictions = self.units.evictions
        self.comparison = self._comparison = self.units.comparison
        self.shown, self.problem = self._comparison.shown, self._comparison.problem
        self.crowded, self.room_came = self._comparison.crowded, self._comparison.room_came
        self._crowding = Crowding(self.book, self.crowded, term.clocks.monotonic)
        lifetimes = Lifetimes(term, reading, telling, keeper, self.evictions, ended)
        self._enter, self.leave, self.end = lifetimes.enter, lifetimes.leave, lifetimes.end
        self.give_way = lifetimes.give_way
        sightings = Sightings(
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
        before: Flight | None = None,
        seen: Snapshot | None = None,
        held: Iterable[Hold] = (),
    ) -> Flight:
        """Return a flight for a plan, as the cluster is now; nothing is held yet.

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
        return Flight(
            plan=plan,
            id=f"{self._random.getrandbits(48):012x}",
            pods=pods,
            seats={seat.uid: seat.node for seat in plan.seats},
            state=FlightState.PLANNED,
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

    def begin(self, flight: Flight) -> None:
        """Hold the seats of a draft that holds now, and start to act on it."""
        self._enter(flight)
        self._spawn(self._act(flight))

    def resume(self, flight: Flight) -> str:
        """Go on with a recorded plan of a life before; return why not, "" when it goes on."""
        self._enter(flight)
        flight.held = -inf  # a life before has held the seats
        why = self.problem(flight)
        if why:
            self.leave(flight)
            return why
        for node in flight.seats.values():
            # Where its members sit already, seats of those of whom none does make room.
            self.book.doubt(node, but=flight)
        if not flight.victims and not flight.waits:
            # Its seats were open: members may have been answered, and not be seen bound yet.
            flight.presumed = set(flight.seats)
            self._spawn(self._presume(flight))
        self._spawn(self._act(flight))
        return ""

    async def _presume(self, flight: Flight) -> None:
        """After a while, whoever was given a seat in a life before sits, or asks again."""
        await asyncio.sleep(PRESUMED_SECONDS)
        self.book.not_coming(flight, flight.presumed)

    def change(
        self, flight: Flight, why: str = "it is changed", displaced_by: Sequence[Pod] = ()
    ) -> None:
        """Stop what can be stopped of a plan that does not hold any more."""
        flight.displaced_by, flight.changed_for = tuple(displaced_by), why
        flight.enter(FlightState.CHANGING, self._clocks.monotonic())
        self.book.released(flight, why)
        self.evictions.release(flight.id)

    async def _act(self, flight: Flight) -> None:
        victims = list(flight.victims.values())
        budgeted = self._check.budgeted(victims, flight.plan.priority)
        try:
            await self._evictor.rehearse(
                victims,
                budgeted,
                lambda victim: flight.state is FlightState.PLANNED and victim.uid in flight.victims,
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
            if flight.state is FlightState.PLANNED:
                why = f"an eviction was refused in rehearsal, nobody is evicted: {refused}"
                self.end(flight, Outcome.GAVE_UP, why, penal=True)
            return
        if flight.state is not FlightState.PLANNED:
            return  # it ended meanwhile, or another plan is searched for
        if flight.recorded:
            await self._go_on(flight)
            return
        try:
            others = others_of(flight.plan, self._snapshot())
            await self.keeper.write(flight, self._clocks.wall(), others)
        except ApiError as failed:
            if not flight.over:
                why = f"the plan's record cannot be written, so nothing is evicted: {failed}"
                self.end(flight, Outcome.GAVE_UP, why, code=Code.API, penal=True)
            return
        flight.recorded = True
        if flight.state is FlightState.PLANNED:
            await self._go_on(flight)

    async def _go_on(self, flight: Flight) -> None:
        """Compare a recorded plan with the newest state, then do what it needs next."""
        why = self.problem(flight) or self._comparison.spares(flight)
        if why:
            self._replan(flight, why)
            return
        flight.enter(FlightState.EVICTING, self._clocks.monotonic())
        flight.nodes = self._snapshot().nodes
        hints = self._settings.seats.nominate and bool(flight.victims or flight.waits)
        await self.units.begin(flight)
        if flight.state is FlightState.EVICTING:
            self._advance(flight)
        if hints:
            await self._nominate(flight)

    async def _nominate(self, flight: Flight) -> None:
        """Give autoscalers their hint; the evictions, which the gang waits for, go first."""
        while flight.state is FlightState.EVICTING and self.evictions.waiting:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        if flight.state in (FlightState.EVICTING, FlightState.WAITING, FlightState.OPEN):
            await self._notices.nominations.write(flight)

    # -- 6, 7: wait, open -----------------------------------------------------------------

    def _advance(self, flight: Flight) -> None:
        """Move to the state that what is left to go away calls for."""
        if flight.state not in (FlightState.EVICTING, FlightState.WAITING):
            return
        if flight.victims or flight.waits:
            if flight.state is FlightState.EVICTING and flight.victims.keys() <= flight.sent:
                flight.enter(FlightState.WAITING, self._clocks.monotonic())
            return
        if self._stale() is not None:
            return  # what it would be compared with is old; tick comes back to it
        why = self.problem(flight)
        if why:
            self._replan(flight, why)
            return
        flight.doubted = False
        if self.crowded(flight):
            return  # tick comes back to it
        flight.enter(FlightState.OPEN, self._clocks.monotonic())
        flight.deadline = flight.since + self._settings.seats.bind_seconds
        log.info("seats open", gang=str(flight.key), seats=len(flight.seats))
        self._spawn(self._notices.calls.until_seated(flight))

    def seat_given(self, flight: Flight, pod: Pod) -> None:
        """Note that a member was told its seat: it is bound there soon, or asks again."""
        self.book.answered(flight, pod.uid, self._clocks.monotonic())

    def _blame(self, flight: Flight) -> None:
        """Note whose pods did not go, where that is what a plan is given up for."""
        if flight.state not in (FlightState.EVICTING, FlightState.WAITING):
            return
        snapshot = self._snapshot()
        for victim in (*flight.victims.values(), *flight.waits.values()):
            pod = present(victim, snapshot)
            if pod is not None and pod.deleting:
                flight.stayed[victim.uid] = victim
                self.evictions.refusals.stayed(victim.uid)
            elif pod is not None:
                flight.unsent = True  # its request is on its way, for all that is known

    def tick(self) -> None:
        """Look at deadlines, and at plans when nodes or namespaces have changed. No waiting."""
        self.units.wake_held_back()
        look_at_each(self.book, self._progress)
        look_at_each(self.book, self._deadline)
        if self._clocks.monotonic() >= self._looks_after:
            self._looks_after = self._clocks.monotonic() + LOOK_AFTER_SECONDS
            self.evictions.look_after(fresh=self._stale() is None)
        snapshot = self._snapshot()
        # Whom the extender acts for hangs on the labels of namespaces, where it is not everybody.
        ground = (snapshot.nodes, snapshot.namespaces if self._chooses else None)
        if any(new is not old for new, old in zip(ground, self._seen, strict=True)):
            self._seen = ground
            for flight in self.book:
                flight.doubted |= flight.recorded  # others are compared when they are recorded
        look_at_each(self.book, self._ground)

    def _progress(self, flight: Flight) -> None:
        if not flight.victims and not flight.waits:
            self._advance(flight)
        self._crowding.look(flight)

    def _deadline(self, flight: Flight) -> None:
        errors = [unit.error for unit in self.evictions.of_plan(flight.id) if unit.error]
        overdue = late(flight, self._clocks.monotonic(), self._settings.seats, errors)
        if overdue is not None:
            self._blame(flight)
            self.end(flight, Outcome.GAVE_UP, overdue, penal=True)

    def _ground(self, flight: Flight) -> None:
        """Look at what the plan rests on."""
        if self._clocks.monotonic() - flight.answered_at > ANSWER_SECONDS:
            self.book.not_coming(flight, flight.answered)
        if flight.recorded:
            why = self.problem(flight) if flight.doubted else self._comparison.stays(flight)
            flight.doubted = False
        else:
            # Compared when it is recorded, which may take long. Until then its seats would be held
            # against everybody, for a gang that is left alone.
            why = self._check.not_for(flight.key.namespace)
        if why:
            self._replan(flight, why)
