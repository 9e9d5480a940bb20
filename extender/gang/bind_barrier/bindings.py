"""Lets the members of a plan through to their nodes together, or none of them.

A member's bind is held (``barrier.py``) until the binds of all untaken seats of its plan have
arrived. Then all are rehearsed as dry runs; only when the API server would take every one of them
and the plan still holds are they posted. Whatever goes wrong before that answers all held binds
with an error, and nobody was bound. From the first post on there is no way back: what is refused
then is told, and undone where ``seats.rollback`` says so (``partial.py``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import structlog

from extender.gang.bind_barrier.barrier import Barrier, HeldBind
from extender.gang.bind_barrier.partial import PartlyBound
from extender.gang.controller.binder import CONCURRENCY, Binder, Binding, BindingOutcome, Ended
from extender.gang.core.book import Book, Flight
from extender.gang.core.looking import look_at_each
from extender.gang.core.refused_seats import RefusedSeats
from extender.gang.leader_election.leadership import Leadership
from extender.gang.runtime.background import Background, each
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.flight_state import FlightState
from extender.model.objects import Pod
from extender.model.settings import BindSettings
from extender.model.texts import counted

log = structlog.get_logger("gang")


class Bindings:
    """Takes binds in. One event loop only.

    ``problem(flight)`` says why a plan does not hold on the newest state, ``replan(flight, why)``
    asks for another one. A ``gone`` is awaited only while a bind is held, and returns when its
    caller has left.
    """

    def __init__(
        self,
        settings: BindSettings,
        book: Book,
        binder: Binder,
        leadership: Leadership,
        clocks: Clocks,
        background: Background,
        problem: Callable[[Flight], str],
        replan: Callable[[Flight, str], None],
        partly: PartlyBound,
        refused: RefusedSeats,
    ) -> None:
        self._settings = settings
        self._book = book
        self._binder = binder
        self._leadership = leadership
        self._clocks = clocks
        self._spawn = background.spawn
        self._problem = problem
        self._replan = replan
        self._partly = partly
        self._refused = refused
        self.barrier = Barrier(clocks.monotonic, settings.hold_seconds)
        self._opening: set[str] = set()
        """Plans whose bindings are being rehearsed."""
        self._posting: Counter[str] = Counter()
        """Plan -> bindings of it that are being posted."""
        self._opened: set[str] = set()
        """Plans in flight of which bindings were posted: there is nothing left to hold for."""
        self._stopped = ""
        self.barriers: Counter[str] = Counter()
        """How often a barrier was opened, or failed with nobody bound."""
        self.ended_as: Counter[str] = Counter()
        """How bindings ended."""
        book.released = self._released

    # -- asked for ------------------------------------------------------------------------

    async def alone(self, pod: Pod, node: str) -> str:
        """Bind a pod that no plan has a seat for; return why it is not bound, "" when it is."""
        binding = Binding(pod.uid, pod.namespace, pod.name, node)
        ended = await self._binder.bind(binding, lambda: self._leadership.acts)
        self.ended_as[ended.ending.value] += 1
        return ended.why

    async def member(
        self, flight: Flight, pod: Pod, node: str, gone: Callable[[], Awaitable[None]]
    ) -> str:
        """Bind a member of a plan with the others; return why it is not bound, "" when it is."""
        why = self._stopped or self._unseatable(flight, pod.uid, node)
        if why:
            return why
        if self._begun(flight):
            arrival = self.barrier.arrive(flight.id, pod.uid, node)
            self._open(flight)
            return await asyncio.shield(arrival.answer)
        coming = flight.seats.keys() - self.barrier.held(flight.id).keys()
        # Who is held already takes no other place, and the last to come is not held.
        if self.barrier.count >= self._settings.max_held and pod.uid in coming and len(coming) > 1:
            self.barriers["full"] += 1
            return f"{counted(self.barrier.count, 'bind', 'is', 'are')} held already (bind.maxHeld)"
        arrival = self.barrier.arrive(flight.id, pod.uid, node)
        self._book.answered(flight, pod.uid, self._clocks.monotonic())
        self._look(flight)
        left = asyncio.ensure_future(gone())
        try:
            await asyncio.wait((arrival.answer, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            self.barrier.withdraw(flight.id, arrival)
        if arrival.answer.done():
            return arrival.answer.result()
        # Its caller has left, but its binding may be on its way: that is not called back.
        return "the caller has left"

    def _unseatable(self, flight: Flight, uid: str, node: str) -> str:
        """Return why the member must not be bound to the node by this plan, "" when it may."""
        seat = flight.seats.get(uid)
        if flight.state is not FlightState.OPEN:
            return f"{flight.key}: its plan is {flight.state.value}, and its seats are not open"
        if seat is None:
            return f"{flight.key}: it has no seat any more"
        if seat != node:
            return f"{flight.key}: its seat is on {seat}, not on {node}"
        return ""

    def _begun(self, flight: Flight) -> bool:
        """Whether members of the plan sit, or are about to: nothing is gained by holding more."""
        return flight.id in self._opened or len(flight.seats) < len(flight.plan.seats)

    # -- opening --------------------------------------------------------------------------

    def _look(self, flight: Flight) -> None:
        """Begin to let the members through once all have arrived."""
        if flight.id in self._opening or not self.barrier.complete(flight.id, flight.seats):
            return
        self._opening.add(flight.id)
        self._spawn(self._rehearse(flight))

    async def _rehearse(self, flight: Flight) -> None:
        try:
            failed: list[Ended] = []
            if len(flight.seats) > 1:
                bindings = [_binding(flight, uid) for uid in flight.seats]
                failed = await self._binder.rehearse(bindings, lambda: self._complete(flight))
            if not self._complete(flight):
                return  # what happened meanwhile has answered them, or one of them asks again
            if failed:
                told = "; ".join(f"{each.binding}: {each.why}" for each in failed[:3])
                self._fail(flight, f"{flight.key}: nobody is bound, a binding is refused: {told}")
                return
            why = self._problem(flight)
            if why:
                self._replan(flight, why)
                self._fail(flight, f"{flight.key}: nobody is bound: {why}")
                return
            self.barriers["opened"] += 1
            self._open(flight)
        finally:
            self._opening.discard(flight.id)

    def _complete(self, flight: Flight) -> bool:
        return (
            self._leadership.acts
            and flight.state is FlightState.OPEN
            and self.barrier.complete(flight.id, flight.seats)
        )

    def _open(self, flight: Flight) -> None:
        """Post all binds that are held: from here on there is no way back."""
        self._opened.add(flight.id)
        arrivals = self.barrier.take(flight.id)
        self._posting[flight.id] += len(arrivals)
        self._spawn(self._post(flight, arrivals))

    async def _post(self, flight: Flight, arrivals: list[HeldBind]) -> None:
        endings: list[Ended] = []

        def allowed() -> bool:
            return self._leadership.acts and flight.state is FlightState.OPEN

        async def one(arrival: HeldBind) -> None:
            binding = _binding(flight, arrival.uid, arrival.node)
            ended = Ended(binding, BindingOutcome.STOPPED, "it failed, see the log")
            try:
                why = self._unseatable(flight, arrival.uid, arrival.node)
                if not why:
                    ended = await self._binder.bind(binding, allowed)
                elif arrival.uid in flight.seats:
                    ended = Ended(binding, BindingOutcome.STOPPED, why)
                if ended.ending is BindingOutcome.STOPPED and arrival.uid not in flight.seats:
                    # It sits, or is gone: perhaps by an earlier call of the same caller.
                    ended = await self._binder.settled(binding)
            finally:
                self._posting[flight.id] -= 1
                endings.append(ended)
                self.ended_as[ended.ending.value] += 1
                arrival.settle(ended.why)

        try:
            await each(arrivals, CONCURRENCY, one)
        finally:
            for arrival in arrivals:
                arrival.settle("the term has ended")
            if not self._posting[flight.id]:
                del self._posting[flight.id]
        lost = [ended for ended in endings if ended.ending is not BindingOutcome.BOUND]
        self._book.not_coming(flight, [ended.binding.uid for ended in lost])
        if lost:
            log.warning(
                "a gang is bound in part",
                gang=str(flight.key),
                bound=len(endings) - len(lost),
                refused=[f"{ended.binding}: {ended.why}" for ended in lost[:5]],
            )
        self._partly.posted(flight, endings)

    def posting(self, flight: Flight) -> bool:
        """Whether bindings of the plan are on their way to the API server."""
        return flight.id in self._posting

    # -- failing --------------------------------------------------------------------------

    def _fail(self, flight: Flight, why: str) -> None:
        """Answer all held binds of a plan with an error; nobody of them is bound."""
        arrivals = self.barrier.take(flight.id)
        if not arrivals:
            return
        self.barriers["failed"] += 1
        log.info("held binds are refused", gang=str(flight.key), held=len(arrivals), why=why)
        if not flight.over:
            self._book.not_coming(flight, [arrival.uid for arrival in arrivals])
        for arrival in arrivals:
            flight.tries.pop(arrival.uid, None)  # it comes back through no fault of its seat
            arrival.settle(why)

    def _released(self, flight: Flight, why: str) -> None:
        """The plan has ended, or does not hold any more: see Book.released."""
        self._fail(flight, f"{flight.key}: nobody is bound: {why}")
        if flight.over:
            self._opened.discard(flight.id)

    def ended(self, flight: Flight, *, done: bool, why: str) -> None:
        """A plan has ended, with all its members bound (``done``) or not."""
        if done:
            self._partly.done(flight)
        elif not self.posting(flight):  # else what became of its members is known in a moment
            self._partly.ended(flight, why)

    def tick(self) -> None:
        """Look at deadlines and at seats that were taken meanwhile. Waits for nothing."""
        now = self._clocks.monotonic()
        flights = {flight.id: flight for flight in self._book}
        held = [flights[plan] for plan in self.barrier.plans() if plan in flights]
        look_at_each(held, lambda flight: self._look_after(flight, now))

    def _look_after(self, flight: Flight, now: float) -> None:
        plan = flight.id
        if self.barrier.overdue(plan):
            missing = _names(flight, flight.seats.keys() - self.barrier.held(plan).keys())
            seconds = self._settings.hold_seconds
            self._fail(
                flight,
                f"{flight.key}: nobody is bound: {missing} did not come within {seconds:g} s",
            )
            return
        self._refused.look(flight)
        flight.answered_at = now  # whoever is held is on its way, however long
        if self._begun(flight):
            self._open(flight)
        else:
            self._look(flight)

    def stop(self, why: str) -> None:
        """Answer all that is held with an error, and whoever comes from now on."""
        self._stopped = why
        for flight in self._book:
            self._fail(flight, f"{flight.key}: nobody is bound: {why}")

    def describe(self) -> list[dict[str, object]]:
        """Return, for a person, what is held and whom it waits for."""
        now = self._clocks.monotonic()
        return [
            {
                "gang": str(flight.key),
                "plan": flight.id,
                "opening": flight.id in self._opening,
                "posting": self._posting.get(flight.id, 0),
                "held": [
                    {
                        "pod": flight.pods[each.uid].key,
                        "uid": each.uid,
                        "node": each.node,
                        "seconds": round(now - each.since, 3),
                    }
                    for each in self.barrier.held(flight.id).values()
                ],
                "missing": sorted(
                    flight.pods[uid].key
                    for uid in flight.seats.keys() - self.barrier.held(flight.id).keys()
                ),
            }
            for flight in self._book
            if self.barrier.held(flight.id) or self.posting(flight)
        ]


def _binding(flight: Flight, uid: str, node: str = "") -> Binding:
    pod = flight.pods[uid]
    return Binding(uid, pod.namespace, pod.name, node or flight.seats[uid])


def _names(flight: Flight, uids: Iterable[str]) -> str:
    names = sorted(flight.pods[uid].name for uid in uids)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
