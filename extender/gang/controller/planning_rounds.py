"""Gangs that wait and that nobody has asked about: planned by turns, round after round.

kube-scheduler asks about a pod when it tries it. A gang that no node would do for, even after
preemption for one pod, is asked about by nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial

from extender.gang.booking.bookings import Bookings
from extender.gang.controller.answering import Answering
from extender.gang.controller.apart import Apart
from extender.gang.controller.pending_gangs import can_be_planned
from extender.gang.controller.scheduling_cycle import SchedulingCycle
from extender.gang.controller.term import Reading, Term
from extender.gang.controller.waiting import Version
from extender.gang.fairness.admission import Admission
from extender.gang.plan.fair_turns import Turn
from extender.gang.tell.decisions import Verb
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.snapshot import Snapshot

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
        apart: Apart,
        admission: Admission,
        turns: SchedulingCycle,
        answering: Answering,
        bookings: Bookings,
    ) -> None:
        self._reading = reading
        self._leadership = term.leadership
        self._clocks = term.clocks
        self._heartbeats = term.heartbeats
        self._admission = admission
        self._turns = turns
        self._answering = answering
        self._bookings = bookings
        self._apart = apart

    def waiting_turns(self) -> Iterator[Turn]:
        """Yield the turns of gangs that can be planned and have no standing answer."""
        yield from self._turns.lock.waiters()
        look = partial(self._look, self._reading.snapshot(), self._turns.version())
        for key in self.pending_keys():
            # A gang that nobody would plan for, as it lacks members, wants no turn.
            yield from (turn for turn, _ in self._apart.each((key,), look))

    def _unanswered(self, key: GangKey, version: Version) -> bool:
        """Whether a gang has neither a plan in flight nor a refusal that stands."""
        return (
            self._reading.reservations.get(key) is None
            and self._reading.waiting.kept(key, version) is None
        )

    def pending_keys(self) -> list[GangKey]:
        """Return the gangs that kube-scheduler has no room for, and that are acted for."""
        keys = self._reading.pending_gangs.keys()
        if not self._admission.chooses:
            return keys
        snapshot = self._reading.snapshot()
        return [key for key in keys if self._admission.acts_for(key.namespace, snapshot)]

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
        await self._bookings.round(self.pending_keys())

    async def _ready(self) -> AsyncIterator[tuple[Turn, Gang]]:
        """Yield those that can be planned; verbs go on meanwhile, however many there are."""
        keys = self.pending_keys()
        for start in range(0, len(keys), CHUNK):
            look = partial(self._look, self._reading.snapshot(), self._turns.version())
            for found in self._apart.each(keys[start : start + CHUNK], look):
                yield found
            await asyncio.sleep(0)

    def _look(self, snapshot: Snapshot, version: Version, key: GangKey) -> tuple[Turn, Gang] | None:
        if not self._unanswered(key, version):
            return None
        gang = self._reading.gangs.resolve(key, snapshot)
        return (self._admission.turn_of(gang), gang) if can_be_planned(gang) else None
