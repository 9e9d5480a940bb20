"""The first step of a flight and the last: seats are held, and given back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from extender.gang.controller.keeper import RecordKeeper
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.book import Flight, seats_of
from extender.gang.core.evictions import Evictions
from extender.gang.plan.single import SINGLE
from extender.gang.plan.validity import present
from extender.gang.tell.decisions import Decision, DecisionCode, Outcome, Verb
from extender.gang.tell.flight_state import FlightState
from extender.model.objects import GangKey
from extender.model.plan import Seat
from extender.model.texts import counted


class FlightEnded(Protocol):
    """Who is told that a flight has ended."""

    def __call__(self, flight: Flight, *, done: bool, penal: bool, why: str) -> None:
        """``done``: all members are bound. ``penal``: its gang waits longer for its next plan."""


class Lifetimes:
    """Takes flights into the book and out of it. ``ended`` is told of each end."""

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        keeper: RecordKeeper,
        evictions: Evictions,
        ended: FlightEnded,
    ) -> None:
        self._book = reading.book
        self._snapshot = reading.snapshot
        self._evictions = evictions
        self._keeper = keeper
        self._notices = telling.notices
        self._offers = reading.offers
        self._clocks = term.clocks
        self._decide = telling.decisions.decide
        self._ended = ended
        self._wanted: dict[str, set[GangKey]] = {}
        """Uid of a victim or waited-for pod -> plans that want it gone."""

    def enter(self, flight: Flight) -> Flight:
        """Hold the seats, and count the room of those who go as promised."""
        snapshot = self._snapshot()
        bound = snapshot.bound
        # Who left since the flight was drafted will not be told of again.
        flight.victims = {u: v for u, v in flight.victims.items() if present(v, snapshot)}
        flight.waits = {u: v for u, v in flight.waits.items() if present(v, snapshot)}
        going = {**flight.victims, **flight.waits}
        flight.held = self._clocks.monotonic()
        self._book.open_flight(
            flight,
            [
                (pod.node, pod.uid, pod.requests)
                for victim in going.values()
                for pod in bound.get(victim.node, ())
                if pod.uid == victim.uid
            ],
        )
        for uid in going:
            self._wanted.setdefault(uid, set()).add(flight.key)
        if flight.key.dialect == SINGLE:
            for uid in flight.seats:
                self._notices.held_back.settled(flight.pods[uid])
        return flight

    def leave(self, flight: Flight) -> None:
        """Take the flight out of the book: who must go is evicted, the others stay."""
        if flight.over:
            return
        flight.enter(FlightState.ENDED, self._clocks.monotonic())
        for uid in sorted(flight.answered & flight.seats.keys()):
            # On its way to a seat that nobody holds any more.
            self._offers.note(flight.pods[uid], [flight.seats[uid]])
        self._book.released(flight, "its plan has ended")
        self._book.close(flight.key)
        for victim in (*flight.plan.victims, *flight.plan.waits_for):
            wanted = self._wanted.get(victim.uid)
            if wanted is None:
                continue
            wanted.discard(flight.key)
            if not wanted:
                del self._wanted[victim.uid]
                self._book.pod_left(victim.node, victim.uid)
        self._evictions.release(flight.id)
        self._keeper.over(flight.id, self._evictions.of_plan)

    def give_way(self, flight: Flight, other: Flight) -> None:
        """Take the flight out of the book for another plan of its gang."""
        self.leave(flight)
        # Who has no seat any more would keep its room from the members that have.
        seatless = [uid for uid in flight.seats if uid not in other.seats and uid in flight.pods]
        self._notices.nominations.clear(flight.pods[uid] for uid in seatless)
        if not flight.seats.items() <= other.seats.items():
            self._notices.held_back.wake_all()  # what kept them off a node may be elsewhere

    def end(
        self,
        flight: Flight,
        outcome: Outcome,
        message: str,
        *,
        penal: bool = False,
        code: DecisionCode = "",
    ) -> None:
        """Close a plan: seats back, record dropped, those kept waiting woken.

        ``penal``: the plan failed by itself, so the gang's next one has to wait.
        """
        if flight.over:
            return
        held, why = seats_of(flight), message
        self._book.released(flight, message)
        self.leave(flight)
        owed = sum(
            victim.uid in unit.must_go
            for unit in self._evictions.of_plan(flight.id)
            for victim in unit.unsent
        )
        if owed:
            of = "of units that have gone in part"
            message += f"; {counted(owed, 'eviction', f'{of} is', f'{of} are')} still finished"
        self._decide(
            Decision(
                time=self._clocks.wall(),
                gang=str(flight.key),
                verb=Verb.LOOP,
                outcome=outcome,
                code=code,
                message=message,
                victims=flight.plan.victims,
                seats=flight.plan.seats if outcome is Outcome.DONE else held,
                seconds=self._clocks.monotonic() - flight.started,
            )
        )
        self._ended(flight, done=outcome is Outcome.DONE, penal=penal, why=why)
        self._clear_nominations(flight, held)
        if outcome is not Outcome.DONE and flight.key.dialect == SINGLE:
            # Nobody looks after a pod of no gang but kube-scheduler, and it tries one again when
            # something changes: its own preemption has been told to wait for this plan.
            for seat in held:
                self._notices.held_back.park(flight.pods[seat.uid], seat.node)
        self._notices.held_back.wake_all()

    def _clear_nominations(self, flight: Flight, held: Iterable[Seat]) -> None:
        """Take back what this plan has nominated its members to, or one that it took the place of.

        Without victims to wait for it nominates only whom it finds nominated elsewhere, unless
        kube-scheduler looks at a part of the nodes: then all, which may not show yet.
        """
        every = bool(flight.plan.victims or flight.plan.waits_for)
        every = every or flight.replans + flight.displacements > 0
        every = every or self._notices.calls.needs_nominations()
        pending = self._snapshot().pending
        pods = [flight.pods[seat.uid] for seat in held]
        self._notices.nominations.clear(
            pod for pod in pods if every or pod.nominated or pending.get(pod.uid, pod).nominated
        )

    def wanting(self, uid: str) -> list[Flight]:
        """Return the plans that want this pod gone."""
        found = [self._book.get(key) for key in self._wanted.get(uid, ())]
        return [flight for flight in found if flight is not None]

    def gone(self, uid: str) -> list[Flight]:
        """Return the plans that wanted this pod gone; it is."""
        found = self.wanting(uid)
        self._wanted.pop(uid, None)
        return found
