"""Plans in flight, as a transaction: every step can be resumed or undone (docs/actuation.md).

Steps
1. Plan: the seats are held, and counted as promised, from this moment on.
2. Rehearse: every eviction as a dry run. A no ends the plan with nobody lost.
3. Record: written, and read back where the answer is unclear, before anybody goes.
4. Compare with the newest state; a plan that does not hold any more is changed or dropped.
5. Evict, unit by unit (extender.gang.act.evictions).
6. Wait until the last victim is gone.
7. Compare again, then open the seats.
8. End: done, or given up. Units that have gone in part are finished all the same, and the
   record stays until they are.

Nothing here waits for the API while something else needs to be decided: each step of a flight
runs in a task of its own, deadlines are looked at by ``tick`` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf
from random import Random

import structlog

from extender.gang.act.background import Background
from extender.gang.act.book import Book, Flight, State, seats_of
from extender.gang.act.clocks import Clocks
from extender.gang.act.deadlines import late
from extender.gang.act.evictions import Evictions, Unit
from extender.gang.act.evictor import EvictionRefused, Evictor
from extender.gang.act.expectations import shown_in
from extender.gang.act.keeper import RecordKeeper
from extender.gang.act.last_check import KeptGangs, LastCheck
from extender.gang.act.leadership import Leadership
from extender.gang.act.notices import Notices
from extender.gang.act.offers import Offers
from extender.gang.act.record import Record
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.plan.validity import member_problem, present, quick_problem
from extender.gang.tell.decisions import Decision, Outcome
from extender.kube.errors import ApiError
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Victim
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")


ANSWER_SECONDS = 10.0
"""After how long a member that was told its seat and is not bound is not on its way any more."""
PRESUMED_SECONDS = 5.0
"""How long a binding that was under way when the life before ended may take to show."""


class Flights:
    """Acts on the plans in ``book``.

    ``ended(flight, done, penal)`` is told of each end; ``replan(flight, why)`` is asked for
    another plan when one does not hold any more.
    """

    def __init__(
        self,
        book: Book,
        settings: Settings,
        snapshot: Callable[[], Snapshot],
        gangs: KeptGangs,
        keeper: RecordKeeper,
        evictor: Evictor,
        notices: Notices,
        clocks: Clocks,
        leadership: Leadership,
        random: Random,
        background: Background,
        offers: Offers,
        decide: Callable[[Decision], None],
        ended: Callable[[Flight, bool, bool], None],
        replan: Callable[[Flight, str], None],
    ) -> None:
        self.book = book
        self.keeper = keeper
        self._settings = settings
        self._snapshot = snapshot
        self._gangs = gangs
        self._evictor = evictor
        self._notices = notices
        self._clocks = clocks
        self._random = random
        self._decide = decide
        self._ended = ended
        self._replan = replan
        self._spawn = background.spawn
        self._offers = offers
        self._interest: dict[str, set[GangKey]] = {}
        """Uid of a victim or waited-for pod -> plans that want it gone."""
        self._check = LastCheck(snapshot, gangs, settings)
        self._nodes: object = None
        """The nodes at the last look; another mapping when one of them changed."""
        self.evictions = Evictions(
            evictor,
            self._check,
            leadership,
            clocks.monotonic,
            background.spawn,
            self,
            settings.seats.victim_slack_seconds,
        )

    def shown(self) -> Snapshot:
        """Return the newest snapshot with what we know beyond it."""
        return shown_in(
            self._snapshot(),
            self.evictions.expected(),
            self.evictions.unevictable(),
            self._gangs.member_key,
        )

    # -- 1 to 4: planned, recorded --------------------------------------------------------

    def draft(self, plan: Plan, *, replans: int = 0, started: float | None = None) -> Flight:
        """Return a flight for a plan, as the cluster is now; nothing is held yet."""
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
            state=State.PLANNED,
            since=now,
            victims={v.uid: v for v in plan.victims if present(v, snapshot)},
            waits={v.uid: v for v in plan.waits_for if present(v, snapshot)},
            started=now if started is None else started,
            replans=replans,
        )

    def begin(self, flight: Flight) -> None:
        """Hold the seats of a draft that holds now, and start to act on it."""
        self.enter(flight)
        self._spawn(self._act(flight))

    def resume(self, flight: Flight) -> str:
        """Go on with a recorded plan of a life before; return why not, "" when it goes on."""
        self.enter(flight)
        flight.held = -inf  # a life before has held the seats
        why = self.problem(flight)
        if why:
            self.leave(flight)
            return why
        if not flight.victims and not flight.waits:
            # Its seats were open: members may have been answered, and not be seen bound yet.
            flight.presumed = set(flight.seats)
            self._spawn(self._presume(flight))
        self._spawn(self._act(flight))
        return ""

    async def _presume(self, flight: Flight) -> None:
        """After a while, whoever was given a seat in a life before sits, or asks again."""
        await asyncio.sleep(PRESUMED_SECONDS)
        flight.presumed.clear()

    def finish(self, record: Record, left: list[Victim], sent: list[str]) -> None:
        """Evict what is left of a unit that has gone in part in a life before."""
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
        )

    def change(self, flight: Flight) -> None:
        """Stop what can be stopped of a plan that does not hold any more."""
        self._enter_state(flight, State.CHANGING)
        self.evictions.release(flight.id)

    def enter(self, flight: Flight) -> Flight:
        """Hold the seats, and count the room of those who go as promised."""
        snapshot = self._snapshot()
        bound = snapshot.bound
        # Who left since the flight was drafted will not be told of again.
        flight.victims = {u: v for u, v in flight.victims.items() if present(v, snapshot)}
        flight.waits = {u: v for u, v in flight.waits.items() if present(v, snapshot)}
        going = {**flight.victims, **flight.waits}
        flight.held = self._clocks.monotonic()
        self.book.open_flight(
            flight,
            [
                (pod.node, pod.uid, pod.requests)
                for victim in going.values()
                for pod in bound.get(victim.node, ())
                if pod.uid == victim.uid
            ],
        )
        for uid in going:
            self._interest.setdefault(uid, set()).add(flight.key)
        return flight

    async def _act(self, flight: Flight) -> None:
        victims = list(flight.victims.values())
        try:
            await self._evictor.rehearse(
                victims,
                self._check.budgeted(victims, flight.plan.priority),
                lambda victim: flight.state is State.PLANNED and victim.uid in flight.victims,
            )
        except EvictionRefused as refused:
            if flight.state is State.PLANNED:
                why = f"an eviction was refused in rehearsal, nobody is evicted: {refused}"
                self.end(flight, Outcome.GAVE_UP, why, penal=True)
            return
        if flight.state is not State.PLANNED:
            return  # it ended meanwhile, or another plan is searched for
        if flight.recorded:
            self.go_on(flight)
            return
        try:
            await self.keeper.write(flight, self._clocks.wall())
        except ApiError as error:
            if not flight.over:
                why = f"the plan's record cannot be written, so nothing is evicted: {error}"
                self.end(flight, Outcome.GAVE_UP, why, code="api", penal=True)
            return
        flight.recorded = True
        if flight.state is State.PLANNED:
            self.go_on(flight)

    def go_on(self, flight: Flight) -> None:
        """Compare a recorded plan with the newest state, then do what it needs next."""
        why = self.problem(flight)
        if why:
            self._replan(flight, why)
            return
        if self._settings.seats.nominate and (flight.victims or flight.waits):
            for uid, node in flight.seats.items():
                self._spawn(self._notices.nominate(flight.pods[uid], node))
        self._enter_state(flight, State.EVICTING)
        flight.nodes = self._snapshot().nodes
        self._evict(flight)
        if flight.state is State.EVICTING:
            self._advance(flight)

    def problem(self, flight: Flight) -> str:
        """Return why the plan does not hold on the newest state, "" when it does."""
        snapshot = self.shown()
        gang = self._gang(flight, snapshot)
        if gang is None or flight.seats.keys() - flight.pods.keys():
            return f"members of {flight.key} are gone"
        why = member_problem(flight.plan, gang, flight.seats)
        if why:
            return why
        begun = {unit.name for unit in self.evictions.of_plan(flight.id)}
        for name, victims in _units(flight.victims.values()).items():
            if name not in begun:
                why = self._check.of_unit(victims, flight.plan.priority, snapshot)
                if why:
                    return why
        why = self._stays(flight)
        if why:
            return why
        plan = flight.plan
        ends = {str(key) for key in (flight.key, *plan.takes_over)}
        ends |= {victim.gang for victim in plan.victims}
        holds = [hold for hold in self.book.holds() if str(hold.gang) not in ends]
        going = {*flight.victims, *flight.waits}
        return quick_problem(flight.seats, flight.pods, snapshot, going, holds)

    def _stays(self, flight: Flight) -> str:
        """Return who of those waited for does not go after all, "" when all do."""
        snapshot = self._snapshot()
        for victim in flight.waits.values():
            pod = present(victim, snapshot)
            if pod is not None and not pod.deleting and not self.evictions.takes(victim.uid):
                return f"{pod.key} was about to go and is not any more"
        return ""

    def _gang(self, flight: Flight, snapshot: Snapshot) -> Gang | None:
        if flight.key.dialect == SINGLE:
            pods = [snapshot.pending[uid] for uid in flight.seats if uid in snapshot.pending]
            return single_gang(pods[0]) if pods else None
        return self._gangs.resolve(flight.key, snapshot)

    # -- 5: evict -------------------------------------------------------------------------

    def _evict(self, flight: Flight) -> None:
        plan = flight.plan
        message = (
            f"preempted by {plan.gang} (priority {plan.priority}), which runs as a whole "
            f"once {len(plan.victims)} pods are gone"
        )
        begun = {unit.name for unit in self.evictions.of_plan(flight.id)}
        snapshot = self.shown()
        for name, victims in _units(flight.victims.values()).items():
            if name not in begun:
                # Some may go already, by another plan's hand or somebody else's.
                pods = [present(victim, snapshot) for victim in victims]
                sent = [pod.uid for pod in pods if pod is not None and pod.deleting]
                flight.sent.update(sent)
                budgeted = self._check.budgeted(victims, plan.priority)
                self.evictions.begin(plan, flight.id, victims, budgeted, message, sent=sent)

    def still_holds(self, unit: Unit) -> bool:
        """Whether a plan still holds right before it takes from an untouched unit."""
        flight = self._flight_of(unit)
        if flight is None or flight.state is not State.EVICTING:
            return False
        nodes = self._snapshot().nodes
        if flight.doubted or nodes is not flight.nodes:
            flight.doubted, flight.nodes = False, nodes
            why = self.problem(flight)
            if why:
                self._replan(flight, why)
                return False
        return not self._has_grown(unit, flight)

    def _has_grown(self, unit: Unit, flight: Flight) -> bool:
        """Compare an untouched gang again if it has changed since it was compared last."""
        first = next(iter(unit.victims.values()), None)
        if first is None or not first.unit:
            return False
        gang = self._check.gang_of(first)
        if gang is unit.compared:
            return False
        unit.compared = gang
        why = self._check.of_unit(unit.victims.values(), unit.priority, self.shown())
        if why:
            self._replan(flight, why)
        return bool(why)

    def eviction_sent(self, unit: Unit, victim: Victim) -> None:
        """Take note that the API server has accepted one eviction."""
        flight = self._flight_of(unit)
        self._notices.evicted(unit, victim, flight, first=flight is not None and not flight.told)
        if flight is not None:
            flight.sent.add(victim.uid)
            flight.told = True
            self._advance(flight)
        self.keeper.settle(unit.plan_id, self.evictions.of_plan)

    def eviction_refused(self, unit: Unit, victim: Victim, why: str) -> None:
        """Take note that a victim cannot be evicted: others are tried."""
        flight = self._flight_of(unit)
        told = f"{victim.namespace}/{victim.name} cannot be evicted: {why}"
        if unit.touched and unit.whole:
            self._notices.broken(unit, victim, why, flight)
            self._decide(
                Decision(
                    time=self._clocks.wall(),
                    gang=str(unit.preemptor),
                    verb="loop",
                    outcome=Outcome.BROKEN,
                    message=f"{unit.name} is evicted in part: {told}",
                    victims=tuple(unit.victims.values()),
                )
            )
        if flight is not None:
            self._replan(flight, told)

    def unit_ended(self, unit: Unit) -> None:
        """Take note that a unit is gone, or let go of untouched."""
        self.keeper.settle(unit.plan_id, self.evictions.of_plan)

    def _flight_of(self, unit: Unit) -> Flight | None:
        flight = self.book.get(unit.preemptor)
        return flight if flight is not None and flight.id == unit.plan_id else None

    # -- 6, 7: wait, open -----------------------------------------------------------------

    def _enter_state(self, flight: Flight, state: State) -> None:
        flight.state, flight.since = state, self._clocks.monotonic()
        flight.acting.set()

    def _advance(self, flight: Flight) -> None:
        """Move to the state that what is left to go away calls for."""
        if flight.state not in (State.EVICTING, State.WAITING):
            return
        if flight.victims or flight.waits:
            if flight.state is State.EVICTING and flight.victims.keys() <= flight.sent:
                self._enter_state(flight, State.WAITING)
            return
        why = self.problem(flight)
        if why:
            self._replan(flight, why)
            return
        flight.doubted = False
        if self.crowded(flight):
            return  # tick comes back to it
        self._enter_state(flight, State.OPEN)
        flight.deadline = flight.since + self._settings.seats.bind_seconds
        log.info("seats open", gang=str(flight.key), seats=len(flight.seats))
        self._spawn(self._notices.wake_members(flight))

    def seat_given(self, flight: Flight, pod: Pod) -> None:
        """Note that a member was told its seat: it is bound there soon, or asks again."""
        flight.answered.add(pod.uid)
        flight.answered_at = self._clocks.monotonic()

    def crowded(self, flight: Flight) -> bool:
        """Whether pods that came to a seat's node, or were offered it, may be in the way."""
        if flight.doubted:
            return True  # tick compares the plan in a moment
        if self._offers.unknown(flight.held):
            return True
        nodes = set(flight.seats.values())
        offered = self._offers.in_the_way(flight.held, nodes, flight.plan.priority)
        if not offered:
            return False
        others = [hold for hold in self.book.holds() if hold.gang != flight.key]
        going = {*flight.victims, *flight.waits}
        return bool(
            quick_problem(flight.seats, flight.pods, self.shown(), going, [*others, *offered])
        )

    def tick(self) -> None:
        """Look at deadlines, and at plans that rest on nodes that have changed. No waiting."""
        for flight in self.book:
            errors = [unit.error for unit in self.evictions.of_plan(flight.id) if unit.error]
            if not flight.victims and not flight.waits:
                self._advance(flight)
            overdue = late(flight, self._clocks.monotonic(), self._settings.seats, errors)
            if overdue is not None:
                self.end(flight, Outcome.GAVE_UP, overdue, penal=True)
        nodes = self._snapshot().nodes
        changed = nodes is not self._nodes
        self._nodes = nodes
        for flight in self.book:
            if self._clocks.monotonic() - flight.answered_at > ANSWER_SECONDS:
                flight.answered.clear()
            if flight.recorded:
                again = changed or flight.doubted
                why = self.problem(flight) if again else self._stays(flight)
                flight.doubted = False
                if why:
                    self._replan(flight, why)

    # -- 8: end ---------------------------------------------------------------------------

    def leave(self, flight: Flight) -> None:
        """Take the flight out of the book: untouched units stay, touched ones are finished."""
        if flight.over:
            return
        self._enter_state(flight, State.ENDED)
        for uid in sorted(flight.answered & flight.seats.keys()):
            # On its way to a seat that nobody holds any more.
            self._offers.note(flight.pods[uid], [flight.seats[uid]])
        self.book.close(flight.key)
        for victim in (*flight.plan.victims, *flight.plan.waits_for):
            wanted = self._interest.get(victim.uid)
            if wanted is None:
                continue
            wanted.discard(flight.key)
            if not wanted:
                del self._interest[victim.uid]
                self.book.pod_left(victim.node, victim.uid)
        self.evictions.release(flight.id)
        self.keeper.over(flight.id, self.evictions.of_plan)

    def end(
        self, flight: Flight, outcome: Outcome, message: str, *, penal: bool = False, code: str = ""
    ) -> None:
        """Close a plan: seats back, record dropped, those kept waiting woken.

        ``penal``: the plan failed by itself, so the gang's next one has to wait.
        """
        if flight.over:
            return
        held = seats_of(flight)
        self.leave(flight)
        owed = sum(len(unit.unsent) for unit in self.evictions.of_plan(flight.id) if unit.touched)
        if owed:
            message += f"; {owed} evictions of units that have gone in part are still finished"
        self._decide(
            Decision(
                time=self._clocks.wall(),
                gang=str(flight.key),
                verb="loop",
                outcome=outcome,
                code=code,
                message=message,
                victims=flight.plan.victims,
                seats=flight.plan.seats if outcome is Outcome.DONE else held,
                seconds=self._clocks.monotonic() - flight.started,
            )
        )
        self._ended(flight, outcome is Outcome.DONE, penal)
        if flight.plan.victims or flight.plan.waits_for:
            self._notices.clear_nominations([flight.pods[seat.uid] for seat in held])
        self._notices.wake_held_back()

    # -- what the cache reports -----------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        if new is None or new.finished:
            if old is not None or new is not None:
                self._gone(old or new)  # type: ignore[arg-type]
            return
        if new.deleting and not (old and old.deleting):
            self.evictions.going(new.uid)
            self._leaving(new)
        if new.node and not (old and old.node):
            self._bound(new)

    def _leaving(self, pod: Pod) -> None:
        key = self._gangs.member_key(pod)
        own = None if key is None else self.book.get(key)
        if own is not None:
            own.doubted = True  # with a member that sat gone, the others may be too few
        for key in self._interest.get(pod.uid, ()):
            flight = self.book.get(key)
            if flight is not None and pod.uid in flight.victims:
                flight.sent.add(pod.uid)
                self._advance(flight)
        flight = self.book.of_member(pod.uid)
        if flight is not None:
            self._member_lost(flight, pod)

    def _gone(self, pod: Pod) -> None:
        if not pod.deleting:
            self._leaving(pod)
        self.evictions.gone(pod.uid)
        for key in self._interest.pop(pod.uid, set()):
            flight = self.book.get(key)
            if flight is None:
                continue
            flight.victims.pop(pod.uid, None)
            flight.waits.pop(pod.uid, None)
            self._advance(flight)
        self.book.pod_left(pod.node, pod.uid)
        self._notices.gone(pod)
        self._offers.settled(pod.uid)
        flight = self.book.of_member(pod.uid)
        if flight is not None:
            self._member_lost(flight, pod)

    def _member_lost(self, flight: Flight, pod: Pod) -> None:
        self.end(flight, Outcome.GAVE_UP, f"member {pod.key} went away before it was bound")

    def _bound(self, pod: Pod) -> None:
        self._notices.gone(pod)
        self._offers.settled(pod.uid)
        flight = self.book.of_member(pod.uid)
        for hold in self.book.holds_on(pod.node):
            other = self.book.get(hold.gang)
            if other is not None and other is not flight:
                other.doubted = True
        if flight is None:
            return
        seat = flight.seats.get(pod.uid)
        if seat != pod.node:
            log.warning("member bound elsewhere", pod=pod.key, node=pod.node, seat=seat)
        self.book.seat_taken(pod.uid)
        if flight.seats and flight.state in (State.PLANNED, State.EVICTING, State.WAITING):
            self._replan(flight, f"member {pod.key} has a node before the seats are open")
            return
        if not flight.seats:
            took = self._clocks.monotonic() - flight.started
            self.end(
                flight,
                Outcome.DONE,
                f"all {len(flight.plan.seats)} members are bound {took:.1f} s after the plan, "
                f"{len(flight.plan.victims)} pods were evicted",
            )


def _units(victims: Iterable[Victim]) -> dict[str, list[Victim]]:
    """Return victims by what goes together, in the order given."""
    units: dict[str, list[Victim]] = {}
    for victim in victims:
        units.setdefault(victim.unit or victim.uid, []).append(victim)
    return units
