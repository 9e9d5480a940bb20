"""What a gang is answered: its plan in flight, a refusal that stands, or what is found now."""

from __future__ import annotations

import asyncio
import contextlib

from extender.gang.controller.executor import Executor
from extender.gang.controller.scheduling_cycle import SchedulingCycle
from extender.gang.controller.term import Reading
from extender.gang.controller.verb_patience import VerbPatience
from extender.gang.core.reservations import Preemption
from extender.gang.fairness.admission import Admission
from extender.gang.fairness.fair_lock import Late
from extender.gang.plan.candidates import Candidates
from extender.gang.plan.question import Masks
from extender.gang.status.decision_telling import DecisionTelling
from extender.gang.tell.decisions import Verb
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.plan import Code, Plan, Refusal

RECORDED_SECONDS = 1.0
"""How long an answer waits for the plan's record to be written."""

TURN_SECONDS = 1.0
"""How long a verb waits for the searches of other gangs. kube-scheduler tries one pod after the
other, and gives up after its httpTimeout; the planning loop waits as long as it takes."""
IN_TURN = "it is planned in its turn: others are being planned"


class Answering:
    """Asked by verbs and by the planning loop. One event loop only."""

    def __init__(
        self,
        reading: Reading,
        decisions: DecisionTelling,
        admission: Admission,
        turns: SchedulingCycle,
        executor: Executor,
        patience: VerbPatience,
    ) -> None:
        self._reading = reading
        self._decisions = decisions
        self._patience = patience
        self._admission = admission
        self._turns = turns
        self._executor = executor

    async def ensure(
        self,
        key: GangKey,
        verb: Verb,
        offered: Masks | None = None,
        single: Gang | None = None,
        candidates: Candidates | None = None,
        asked: float | None = None,
    ) -> Preemption | Refusal:
        """Return the gang's plan in flight, making one if that can be; else why not.

        ``offered`` tells, per member uid, which nodes kube-scheduler accepts for
        it at this moment; it said so at ``asked``, monotonic, None = now. ``single`` is a gang of
        one made for a pod of no gang, which may preempt on ``candidates``. A verb waits as long as
        its patience lasts (verb_patience.py), and for other gangs' searches TURN_SECONDS; the plan
        is made after that all the same. Raises NotReady before recovery is over, and while another
        replica leads.
        """
        self._reading.readiness.require()
        known = self.known(key)
        if known is not None:
            return known
        asked = self._patience.now() if asked is None else asked
        stale = self._reading.readiness.stale()
        if stale is not None:
            return self._decisions.note(
                Refusal(gang=key, code=Code.STALE, message=stale), verb, 0.0
            )

        async def planned() -> Preemption | Refusal:
            seconds = TURN_SECONDS if verb is not Verb.LOOP and single is None else None
            async with self._turns.lock.turn(
                lambda: self._admission.turn_of(single or self._reading.present_gang(key)), seconds
            ):
                preemption = self._reading.reservations.get(key)
                if preemption is not None:
                    return preemption
                return await self._turns.plan(
                    key, verb, offered, single, {}, asked=asked, candidates=candidates
                )

        if verb is Verb.LOOP:
            return await planned()
        try:
            answer: Preemption | Refusal = await self._patience.outcome(key, planned, asked)
        except Late:
            # Not kept: the planning loop looks for gangs without an answer.
            return Refusal(gang=key, code=Code.TURN, message=IN_TURN)
        if isinstance(answer, Preemption) and not answer.victims and not answer.waits:
            # Its seats are free: a moment more, and the asker can be given one.
            seconds = min(RECORDED_SECONDS, self._patience.left(asked))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._executor.acts(answer), seconds)
        return answer

    def known(self, key: GangKey) -> Preemption | Refusal | None:
        """Return the gang's plan in flight or a refusal that still stands; no search."""
        preemption = self._reading.reservations.get(key)
        if preemption is not None or self._reading.readiness.stale() is not None:
            return preemption
        if self._admission.chooses and not self._admission.acts_for(
            key.namespace, self._reading.snapshot()
        ):
            return None  # whatever it was told before: its namespace is not chosen any more
        return self._reading.waiting.kept(key, self._turns.version())

    async def ask(self, single: Gang, candidates: Candidates) -> Plan | Refusal | None:
        """Return what would be planned for a pod of no gang, without acting on it.

        None when a verb's patience is over before that is known.
        """

        async def asked() -> Plan | Refusal:
            async with self._turns.lock.turn(lambda: self._admission.turn_of(single)):
                waits = self._admission.must_wait(single, self._turns.waiting_turns())
                if waits is not None:
                    return waits
                return await self._turns.ask_single(single, candidates)

        try:
            answer: Plan | Refusal = await self._patience.outcome(
                (single.key, "ask"), asked, candidates.asked
            )
        except Late:
            return None
        return answer
