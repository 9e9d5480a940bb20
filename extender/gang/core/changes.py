"""Searches for another plan in the place of one that does not hold any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender.gang.controller.turns import PlanningTurns
from extender.gang.core.book import Flight
from extender.gang.core.flights import Flights
from extender.gang.plan.question import Masks
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.runtime.background import Background
from extender.gang.tell.decisions import Outcome, Verb
from extender.gang.tell.flight_state import FlightState
from extender.model.plan import Code, Refusal
from extender.model.texts import counted, some

ANSWERED_SECONDS = 3.0
"""How long members that were given their seat are waited for before a plan is changed."""
LOOK_SECONDS = 0.1
MOST_DISPLACED = 3
"""How often a plan is changed because of pods that came to its seats without an offer. They cost
the gang none of its own changes, and each time they are victims like others."""


class Changes:
    """Changes plans, ``max_replans`` times each. ``stale()`` says why nothing can be decided.

    ``posting(flight)``: bindings of its members are on their way to the API server.
    """

    def __init__(
        self,
        flights: Flights,
        turns: PlanningTurns,
        background: Background,
        max_replans: int,
        stale: Callable[[], str | None],
        posting: Callable[[Flight], bool],
    ) -> None:
        self._flights = flights
        self._turns = turns
        self._spawn = background.spawn
        self._max_replans = max_replans
        self._stale = stale
        self._posting = posting

    def begin(self, flight: Flight, why: str, masks: Masks | None = None) -> None:
        """Stop what can be stopped of a plan, and search for another one."""
        if flight.over or flight.state is FlightState.CHANGING:
            return
        refused = {node for nodes in (masks or {}).values() for node in nodes}
        displaced_by = self._flights.comparison.displaced_by(flight, refused)
        if displaced_by:
            names = some(sorted(pod.key for pod in displaced_by))
            why = f"{names} took reserved room without passing filter (spec.nodeName): {why}"
        self._flights.change(flight, why, displaced_by)
        self._spawn(self._change(flight, why, masks or {}))

    async def _change(self, flight: Flight, why: str, masks: Masks) -> None:
        await self._answered_sit(flight)
        while not flight.over:
            # On an old picture nothing is decided, also when it got old in the queue.
            if self._stale() is not None or not await self._changed(flight, why, masks):
                await asyncio.sleep(LOOK_SECONDS)

    async def _changed(self, flight: Flight, why: str, masks: Masks) -> bool:
        """Put another plan in its place, or end it; False when the cache is stale."""
        async with self._turns.lock.turn(None):
            if flight.over:
                return True
            times, most = flight.replans, self._max_replans
            if flight.displaced_by:
                times, most = flight.displacements, MOST_DISPLACED
            if times >= most:
                why += f", and the plan was changed {counted(times, 'time')} for that already"
                self._flights.end(flight, Outcome.GAVE_UP, why, penal=True)
                return True
            single = None
            if flight.key.dialect == SINGLE:
                if flight.candidates is None:
                    # Of a life before: it is asked anew, and nobody goes elsewhere meanwhile.
                    why += ", and it is not known where kube-scheduler would have it preempt"
                    self._flights.end(flight, Outcome.GAVE_UP, why)
                    return True
                single = single_gang(next(iter(flight.pods.values())))
            try:
                result = await self._turns.plan(
                    flight.key,
                    Verb.LOOP,
                    None,
                    single,
                    masks,
                    flight,
                    candidates=flight.candidates,
                )
            except Exception:
                self._flights.end(flight, Outcome.GAVE_UP, f"{why}; the search failed", penal=True)
                raise
            if isinstance(result, Refusal):
                if result.code is Code.STALE:
                    return False
                why += f", and there is no other plan: {result.message}"
                # A gang that is whole, or gone, needs no penalty; one that cannot fit waits.
                self._flights.end(
                    flight,
                    Outcome.GAVE_UP,
                    why,
                    penal=result.code in (Code.INFEASIBLE, Code.CHANGED),
                )
        return True

    async def _answered_sit(self, flight: Flight) -> None:
        """Wait a moment for members that were given a seat: they are bound there, or ask again."""
        while self._posting(flight):  # noqa: ASYNC110 - bounded by bind.postSeconds
            await asyncio.sleep(LOOK_SECONDS)
        for _ in range(round(ANSWERED_SECONDS / LOOK_SECONDS)):
            if not (flight.answered or flight.presumed) or flight.over:
                return
            await asyncio.sleep(LOOK_SECONDS)
        self._flights.book.not_coming(flight, flight.answered)
