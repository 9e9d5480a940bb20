"""Gangs that wait and that nobody has asked about: planned by turns, round after round.

kube-scheduler asks about a pod when it tries it. A gang that no node would do for, even after
preemption for one pod, is asked about by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from extender.gang.act.admission import Admission
from extender.gang.act.answering import Answering
from extender.gang.act.apart import Apart
from extender.gang.act.book import Book
from extender.gang.act.bookings import Bookings
from extender.gang.act.last_check import KeptGangs
from extender.gang.act.leadership import Leadership
from extender.gang.act.pending_gangs import PendingGangs, ready
from extender.gang.act.planner_thread import PlannerThread
from extender.gang.act.readiness import Readiness
from extender.gang.act.turns import PlanningTurns
from extender.gang.act.waiting import Waiting
from extender.gang.plan.fair_turns import Turn
from extender.gang.tell.decisions import Verb
from extender.model.errors import NotReady
from extender.model.objects import GangKey
from extender.model.snapshot import Snapshot

ROUND_SECONDS = 1.0
"""After so long it is looked again who waits: new gangs have their turn too."""


class PlanningRounds:
    """One event loop only. ``beat`` is called before each gang's turn."""

    def __init__(
        self,
        pending_gangs: PendingGangs,
        readiness: Readiness,
        leadership: Leadership,
        book: Book,
        snapshot: Callable[[], Snapshot],
        gangs: KeptGangs,
        waiting: Waiting,
        admission: Admission,
        turns: PlanningTurns,
        planner_thread: PlannerThread,
        answering: Answering,
        bookings: Bookings,
        apart: Apart,
        monotonic: Callable[[], float],
        beat: Callable[[], None],
    ) -> None:
        self._pending_gangs = pending_gangs
        self._readiness = readiness
        self._leadership = leadership
        self._book = book
        self._snapshot = snapshot
        self._gangs = gangs
        self._waiting = waiting
        self._admission = admission
        self._turns = turns
        self._planner_thread = planner_thread
        self._answering = answering
        self._bookings = bookings
        self._apart = apart
        self._now = monotonic
        self._beat = beat

    def waiting_turns(self) -> Iterator[Turn]:
        """Yield whose gangs want to be planned and have no standing answer; by namespace only."""
        yield from self._turns.lock.waiters()
        version = self._turns.version()
        for key in self.pending_keys():
            if self._book.get(key) is None and self._waiting.kept(key, version) is None:
                yield Turn(key.namespace, 0, 0.0, str(key))

    def pending_keys(self) -> list[GangKey]:
        """Return the gangs that kube-scheduler has no room for, and that are acted for."""
        keys = self._pending_gangs.keys()
        if not self._admission.chooses:
            return keys
        snapshot = self._snapshot()
        return [key for key in keys if self._admission.acts_for(key.namespace, snapshot)]

    async def round(self) -> None:
        """Plan gangs that wait and that nobody has asked about, by turns."""
        if not self._readiness.begun:
            return
        await self._planner_thread.show(self._snapshot)
        self._apart.tell(self._planner_thread.planner.take_aside())
        if self._readiness.stale() is not None or not self._leadership.acts:
            return
        unknown = self._apart.each(
            self.pending_keys(), lambda key: key if self._answering.known(key) is None else None
        )
        gangs = {g.key: g for g in ready(unknown, self._gangs, self._snapshot(), self._apart)}
        left = dict(
            self._apart.each(gangs, lambda key: (self._admission.turn_of(gangs[key]), gangs[key]))
        )
        began = self._now()
        while left and self._now() - began < ROUND_SECONDS:
            # Anew each time: whoever was just served stands further behind.
            turn = self._admission.order(list(left))[0]
            self._beat()
            key = left.pop(turn).key
            try:
                await self._answering.ensure(key, Verb.LOOP)
            except NotReady:
                raise
            except Exception as error:  # one bad gang must not keep the others from their turn
                self._apart.failed(key, error)
                began = self._now()
        await self._bookings.round(self.pending_keys())
