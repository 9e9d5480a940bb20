"""Performs what the machine of victim groups asks for, and feeds what comes of it back.

The one place that sends evictions for plans. What is to be sent, and when, is decided in
``core/victim_group.py``; how one request is made is in ``evictor.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import inf

import structlog

from extender.gang.controller.evictor import Evictor, passing, unclear
from extender.gang.core.plan_victims import PlanVictims
from extender.gang.core.victim_group import (
    Answer,
    Answered,
    Claimed,
    ComeBack,
    Effect,
    Event,
    Evict,
    Failure,
    Leaves,
    Owes,
    Read,
    ReadBack,
    Refused,
    Rested,
    Tables,
    Unmark,
    permits,
    step,
)
from extender.gang.leader_election.leadership import Leadership
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.listener import Removal
from extender.kube.api_errors import ApiError
from extender.model.plan import Victim

log = structlog.get_logger("gang")

AT_ONCE = 128
"""How many groups are claimed in one turn of the event loop."""


class Executor:
    """One event loop only. ``plans`` is the machine's view, and is told what is about plans."""

    def __init__(
        self,
        tables: Tables,
        evictor: Evictor,
        leadership: Leadership,
        clocks: Clocks,
        background: Background,
        plans: PlanVictims,
    ) -> None:
        self._tables = tables
        self._evictor = evictor
        self._leadership = leadership
        self._clocks = clocks
        self._background = background
        self._plans = plans

    def feed(self, event: Event) -> None:
        """Hand the machine an event, and perform what it asks for."""
        effects: list[Effect] = []
        try:
            step(self._tables, event, self._clocks.monotonic(), self._plans, effects)
        except Exception:  # a defect must not leave a group gone in part: all is looked at again
            log.exception("an event was not taken in whole", event=type(event).__name__)
        for effect in effects:
            if not isinstance(effect, Owes):
                self._perform(effect)
        for owes in dict.fromkeys(effect for effect in effects if isinstance(effect, Owes)):
            self._plans.told(owes)

    async def claim(self, claims: Iterable[Claimed]) -> None:
        """Claim groups, AT_ONCE a turn: verbs and events are answered in between."""
        for count, claimed in enumerate(claims, 1):
            self.feed(claimed)
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Evict():
                self._background.spawn(self._evict(effect))
            case Read(victim):
                self._background.spawn(self._read(victim))
            case Unmark(victim):
                self._background.spawn(self._evictor.unmark(victim))
            case ComeBack():
                self._background.spawn(self._come_back(effect))
            case Refused():
                self._evictor.refused()
                self._plans.told(effect)
            case _:
                self._plans.told(effect)

    def _permitted(self, uid: str) -> bool:
        """Whether a request may leave now: asked at every turn that it has to wait for."""
        if not self._leadership.acts:
            return False
        denied = permits(self._tables, uid, self._plans)
        if denied is not None and denied[1]:
            self._plans.fails(*denied)
        return denied is None

    async def _evict(self, effect: Evict) -> None:
        victim, answer, failure = effect.victim, Answer.NOT_SENT, None
        uid, budgeted = victim.uid, False
        try:
            budgeted = self._plans.budgeted(victim, effect.priority)
            ended = await self._evictor.remove(
                victim,
                budgeted=budgeted,
                mark=effect.mark,
                allowed=lambda: self._permitted(uid),
                asking=lambda: self.feed(Leaves(uid)),
            )
            if ended is not None:
                answer = Answer.ACCEPTED if ended is Removal.ACCEPTED else Answer.GONE
        except ApiError as error:
            answer = Answer.FAILED
            failure = Failure(
                str(error),
                passing=passing(error),
                unclear=unclear(error),
                retry_after=error.retry_after or 0.0,
                budgeted=budgeted,
            )
        except Exception:  # a defect must not leave a group gone in part
            log.exception("an eviction is begun again", pod=victim.name)
            # It may have left.
            answer, failure = Answer.FAILED, Failure("a defect", passing=True, unclear=True)
        self.feed(Answered(uid, answer, failure))

    async def _read(self, victim: Victim) -> None:
        goes = None
        try:
            goes = await self._evictor.leaving(victim)
        except ApiError as error:
            log.info("a pod cannot be read", pod=victim.name, error=str(error))
        except Exception:  # as above
            log.exception("a pod is read again", pod=victim.name)
        self.feed(ReadBack(victim.uid, goes))

    async def _come_back(self, effect: ComeBack) -> None:
        if isinstance(effect.event, Rested):
            await self._evictor.pause(effect.seconds, longest=inf)
        else:
            await asyncio.sleep(effect.seconds)
        self.feed(effect.event)
