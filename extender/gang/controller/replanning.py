"""Searches for another plan in the place of one that does not hold any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from extender.gang.controller.executor import Executor
from extender.gang.controller.readiness import Readiness
from extender.gang.controller.scheduling_cycle import SchedulingCycle
from extender.gang.core.preemption import End
from extender.gang.core.reservations import Preemption
from extender.gang.plan.candidates import NOBODY, Candidates
from extender.gang.plan.question import Masks
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.tell.decisions import Verb
from extender.model.plan import Code, Refusal
from extender.model.texts import counted

ANSWERED_SECONDS = 3.0
"""How long members that were given their seat are waited for before a plan is changed."""
LOOK_SECONDS = 0.1
MOST_DISPLACED = 3
"""How often a plan is changed because of pods that came to its seats without an offer. They cost
the gang none of its own changes, and each time they are victims like others."""


class Replanning:
    """Changes plans, ``max_replans`` times each.

    ``posting(preemption)``: bindings of its members are on their way to the API server.
    """

    def __init__(
        self,
        executor: Executor,
        turns: SchedulingCycle,
        max_replans: int,
        readiness: Readiness,
        posting: Callable[[Preemption], bool],
    ) -> None:
        self._executor = executor
        self._reservations = executor.plans.reservations
        self._turns = turns
        self._max_replans = max_replans
        self._readiness = readiness
        self._posting = posting

    async def search_again(self, preemption: Preemption, why: str, masks: Masks) -> None:
        """Put another plan in its place, or end it, as soon as that can be told."""
        await self._answered_sit(preemption)
        while not preemption.over:
            # On an old picture nothing is decided, also when it got old in the queue.
            if self._readiness.stale() is not None or not await self._changed(
                preemption, why, masks
            ):
                await asyncio.sleep(LOOK_SECONDS)

    async def _changed(self, preemption: Preemption, why: str, masks: Masks) -> bool:
        """Put another plan in its place, or end it; False when it is to be searched for again."""
        async with self._turns.lock.turn(None):
            if preemption.over:
                return True
            times, most = preemption.replans, self._max_replans
            if preemption.displaced_by:
                times, most = preemption.displacements, MOST_DISPLACED
            if times >= most:
                why += f", and the plan was changed {counted(times, 'time')} for that already"
                self._executor.feed(End(preemption, why, penal=True))
                return True
            single, candidates = None, preemption.candidates
            if preemption.key.dialect == SINGLE:
                single = single_gang(next(iter(preemption.pods.values())))
                # Of a life before: it is asked anew, and no pod is evicted meanwhile.
                candidates = candidates or Candidates(NOBODY, -inf)
            stay = preemption.victims.keys() | preemption.waits.keys()
            try:
                result = await self._turns.plan(
                    preemption.key,
                    Verb.LOOP,
                    None,
                    single,
                    masks,
                    preemption,
                    candidates=candidates,
                )
            except Exception:
                self._executor.feed(End(preemption, f"{why}; the search failed", penal=True))
                raise
            if isinstance(result, Refusal):
                # What stayed was counted as there, and some of it has gone during the search.
                went = stay - preemption.victims.keys() - preemption.waits.keys()
                if result.code is Code.STALE or (went and preemption.overdue):
                    return False
                why += f", and there is no other plan: {result.message}"
                known = candidates is preemption.candidates
                if not known:
                    why += "; it is not known where kube-scheduler would have it preempt"
                # A gang that is whole, or gone, needs no penalty; one that cannot fit waits.
                penal = known and result.code in (Code.INFEASIBLE, Code.CHANGED)
                penal = penal or preemption.overdue
                self._executor.feed(End(preemption, why, penal=penal))
        return True

    async def _answered_sit(self, preemption: Preemption) -> None:
        """Wait a moment for members that were given a seat: they are bound there, or ask again."""
        while self._posting(preemption):  # noqa: ASYNC110 - bounded by bind.postSeconds
            await asyncio.sleep(LOOK_SECONDS)
        for _ in range(round(ANSWERED_SECONDS / LOOK_SECONDS)):
            if not (preemption.answered or preemption.presumed) or preemption.over:
                return
            await asyncio.sleep(LOOK_SECONDS)
        self._reservations.not_coming(preemption, preemption.answered)
