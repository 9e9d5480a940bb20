"""Gangs that wait and that nobody has asked about: planned by turns, round after round.

kube-scheduler asks about a pod when it tries it. A gang that no node would do for, even after
preemption for one pod, is asked about by nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from extender.gang.booking.bookings import Bookings
from extender.gang.controller.answering import Answering
from extender.gang.controller.planner_thread import Overran
from extender.gang.controller.scheduling_cycle import SchedulingCycle
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.fairness.admission import Admission
from extender.gang.plan.fair_turns import Turn
from extender.gang.tell.decisions import Verb
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.plan import Plan, Refusal

PLANNING = "planning"
"""The planning loop's name among the heartbeats."""
ROUND_SECONDS = 1.0
"""After so long it is looked again who waits: new gangs have their turn too."""
CHUNK = 200
"""Gangs looked at between two looks at what else the loop has to do."""


class PlanningRounds:
    """One event loop only. Shows life before each gang's turn."""

    def __init__(
        self,
        term: Term,
        reading: Reading,
        admission: Admission,
        turns: SchedulingCycle,
        answering: Answering,
        bookings: Bookings,
        telling: Telling,
    ) -> None:
        self._reading = reading
        self._telling = telling
        self._leadership = term.leadership
        self._clocks = term.clocks
        self._heartbeats = term.heartbeats
        self._admission = admission
        self._turns = turns
        self._answering = answering
        self._bookings = bookings
        self._apart = telling.apart

    async def round(self) -> None:
        """Plan gangs that wait and that nobody has asked about, by turns."""
        if not self._reading.readiness.begun:
            return
        self._admission.took_in(await self._turns.planner_thread.show(self._reading.snapshot))
        self._apart.tell(self._turns.planner_thread.planner.take_aside())
        if self._reading.readiness.stale() is not None or not self._leadership.acts:
            return
        gangs = {turn: gang async for turn, gang in self._ready()}
        line = self._admission.line(gangs)
        began = self._clocks.monotonic()
        while line and self._clocks.monotonic() - began < ROUND_SECONDS:
            # Whoever was just served stands further behind.
            key = gangs[line.take()].key
            self._heartbeats.beat(PLANNING)
            try:
                await self._answering.ensure(key, Verb.LOOP)
            except NotReady:
                raise
            except Exception as error:  # one bad gang must not keep the others from their turn
                self._apart.failed(key, error)
                began = self._clocks.monotonic()
        if self._bookings.on:
            await self._book()

    async def _book(self) -> None:
        """Look after booked starts; their questions wait for their gangs' turns."""
        keys, last = self._turns.pending_keys(), self._reading.waiting.last
        told = {key: last(key) for key in (*keys, *self._bookings.keys())}
        refusals = {key: refusal for key, refusal in told.items() if refusal is not None}
        asking = self._bookings.round(keys, refusals, self._admission.schedulers())
        answer: Plan | Refusal | Exception | None = None
        while True:
            try:
                question = asking.send(answer)
            except StopIteration:
                return
            finally:
                self._tell_bookings()
            self._heartbeats.beat(PLANNING)
            try:
                answer = await self._turns.supposing(question)
            except NotReady:
                raise
            except Overran:
                answer = TimeoutError()
            except Exception as error:
                answer = error

    def tick_bookings(self) -> None:
        """Give back what is kept for gangs that are not acted for any more."""
        self._bookings.tick()
        self._tell_bookings()

    def _tell_bookings(self) -> None:
        effects = self._bookings.effects()
        for key, error in effects.failed:
            self._apart.failed(key, error)
        for refusal in effects.notes:
            self._telling.decisions.note(refusal, Verb.LOOP, 0.0)
        if effects.given_back:
            self._telling.hints.held_back.wake_all()

    async def _ready(self) -> AsyncIterator[tuple[Turn, Gang]]:
        """Yield those that can be planned; verbs go on meanwhile, however many there are."""
        keys = self._turns.pending_keys()
        for start in range(0, len(keys), CHUNK):
            look = partial(self._turns.look, self._reading.snapshot(), self._turns.version())
            for found in self._apart.each(keys[start : start + CHUNK], look):
                yield found
            await asyncio.sleep(0)
