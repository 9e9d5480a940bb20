"""Gangs of which some members were bound and the rest cannot be: told, and undone if so configured.

With the bind barrier that takes a refusal of the API server after its rehearsal had said yes, or
an outage between two posts. Deleting a bare pod is final, so by default members that sit stay, and
nobody is deleted while another member may be on its way to the seat it was given.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import structlog

from extender.gang.controller.executor import Executor
from extender.gang.controller.hints import CONCURRENCY
from extender.gang.controller.requests import BindingOutcome, Ended, passing
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.preemption import End
from extender.gang.core.reservations import Preemption
from extender.gang.runtime.background import each
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.kube.api_errors import ApiError
from extender.model.objects import Pod
from extender.model.plan import Victim

IN_PART = "GangBoundInPart"
LOOK_SECONDS = 0.25
"""How often it is looked for members that are on their way."""
log = structlog.get_logger("gang")


class PartlyBound:
    """Tells, and rolls back."""

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        executor: Executor,
    ) -> None:
        self._roll_back = term.settings.seats.rollback == "delete"
        self._evictor = term.evictor
        self._notices = telling.notices
        self._leadership = term.leadership
        self._clocks = term.clocks
        self._spawn = telling.background.spawn
        self._reading = reading
        self.waiting = reading.waiting
        self._decisions = telling.decisions
        self._executor = executor
        self._barrier = term.settings.bind.enabled
        self._told: set[str] = set()
        """Plans under way that were told of already."""
        self._bound: dict[str, set[str]] = {}
        """Plan under way -> members bound by us, seen or not."""
        self.counted: Counter[str] = Counter()

    def posted(self, preemption: Preemption, endings: list[Ended]) -> None:
        """Take note of how bindings of one plan ended that were posted together."""
        bound = self._bound.setdefault(preemption.id, set())
        bound.update(ended.binding.uid for ended in endings if ended.ending is BindingOutcome.BOUND)
        refused = [ended for ended in endings if ended.ending is BindingOutcome.REFUSED]
        if preemption.over:
            self.ended(preemption, "the plan ended while its members were being bound")
        elif refused and self._sitting(preemption):
            told = "; ".join(f"{ended.binding}: {ended.why}" for ended in refused[:3])
            why = f"the API server refuses to bind {told}"
            self._tell(preemption, why)
            if self._roll_back:
                self._executor.feed(End(preemption, why, penal=True))

    def ended(self, preemption: Preemption, why: str) -> None:
        """A plan has ended without all its members bound: tell, and undo, if it runs in part."""
        sitting = self._sitting(preemption)
        self._bound.pop(preemption.id, None)
        if (
            sitting
            and preemption.seats
            and not preemption.yields
            and self._short(preemption, sitting)
        ):
            self._tell(preemption, why)
            if self._roll_back:
                self.waiting.rollback_began(preemption.key)
                self._spawn(self._undo(preemption, sitting, why))
        self._told.discard(preemption.id)

    def done(self, preemption: Preemption) -> None:
        """All members of the plan are bound."""
        self._bound.pop(preemption.id, None)
        self._told.discard(preemption.id)

    def _sitting(self, preemption: Preemption) -> set[str]:
        """Return the members that were bound since the plan was made."""
        taken = {seat.uid for seat in preemption.plan.seats} - preemption.seats.keys()
        return taken | self._bound.get(preemption.id, set())

    def _short(self, preemption: Preemption, sitting: set[str]) -> bool:
        gang = self._reading.present_gang(preemption.key)
        there = {pod.uid for pod in gang.members if not pod.deleting}
        bound = {pod.uid for pod in gang.seated} | (sitting & there)
        return bool(sitting & there) and not gang.runs_with(bound)

    def _tell(self, preemption: Preemption, why: str) -> None:
        if preemption.id in self._told:
            return
        self._told.add(preemption.id)
        self.counted["told"] += 1
        sitting = self._sitting(preemption)
        # Of members that were bound in a life before the plan has no record.
        known = {
            pod.uid: pod for pod in self._reading.present_gang(preemption.key).members
        } | preemption.pods
        pods = sorted((known[uid] for uid in sitting if uid in known), key=lambda pod: pod.key)
        names = ", ".join(pod.name for pod in pods)
        note = f"{preemption.key} runs in part: {why}; bound so far: {names or len(sitting)}"
        log.error("a gang is bound in part", gang=str(preemption.key), why=why, bound=names)
        self._notices.warn(pods, IN_PART, note)
        self._decisions.decide(
            Decision(
                time=self._clocks.wall(),
                gang=str(preemption.key),
                verb=Verb.BIND,
                outcome=Outcome.IN_PART,
                message=note,
                seats=tuple(seat for seat in preemption.plan.seats if seat.uid in sitting),
            )
        )

    async def _undo(self, preemption: Preemption, uids: set[str], why: str) -> None:
        try:
            for uid in sorted(preemption.seats):
                await self._settled(uid)
            if self._short(preemption, uids):
                await self._remove(preemption, uids, why)
        finally:
            self.waiting.rollback_ended(preemption.key)

    def _on_the_way(self, uid: str) -> bool:
        """Whether a member that was given its seat may still be bound there.

        With the barrier it is known which members are bound: the extender does it.
        """
        return not self._barrier and self._reading.offers.unsettled(uid)

    async def _settled(self, uid: str) -> None:
        """Wait until a member was seen bound, or is not going to be."""
        while self._on_the_way(uid):  # noqa: ASYNC110 - time alone may settle it
            await asyncio.sleep(LOOK_SECONDS)

    async def _remove(self, preemption: Preemption, uids: set[str], why: str) -> None:
        """Delete the members that were bound, and nobody else, each by its UID."""
        mark = f"{preemption.key} was bound in part and is rolled back (seats.rollback): {why}"
        nodes = {seat.uid: seat.node for seat in preemption.plan.seats}
        members = [
            _victim(preemption.pods[uid], nodes[uid], mark)
            for uid in uids
            if uid in preemption.pods
        ]

        async def one(member: Victim) -> None:
            for attempt in range(self._evictor.attempts):
                try:
                    ended = await self._evictor.remove(
                        member,
                        budgeted=False,
                        mark="" if attempt else mark,
                        allowed=lambda: self._leadership.acts,
                        asking=lambda: None,
                    )
                except ApiError as error:
                    log.warning("not rolled back yet", pod=member.name, error=str(error))
                    if not passing(error):
                        break
                    await self._evictor.pause(2.0**attempt, error)
                else:
                    self.counted["rolled-back"] += ended is not None
                    return
            self.counted["not-rolled-back"] += 1
            log.error("not rolled back", pod=f"{member.namespace}/{member.name}")

        await each(members, CONCURRENCY, one)


def _victim(pod: Pod, node: str, why: str) -> Victim:
    return Victim(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=node,
        priority=pod.priority,
        grace=pod.grace,
        reason=why,
        owner=pod.controller,
    )
