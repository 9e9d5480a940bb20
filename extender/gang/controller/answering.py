"""What a gang is answered: its plan under way, a refusal that stands, or what is found now."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from extender.gang.controller.executor import Executor
from extender.gang.controller.scheduling_cycle import SchedulingCycle
from extender.gang.controller.term import Reading
from extender.gang.core.reservations import Preemption
from extender.gang.fairness.admission import Admission
from extender.gang.fairness.fair_lock import Late
from extender.gang.plan.candidates import Candidates
from extender.gang.plan.question import Masks
from extender.gang.runtime.background import Background, log
from extender.gang.runtime.clocks import Clocks
from extender.gang.status.notices import DecisionTelling
from extender.gang.tell.decisions import Verb
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.plan import Code, Plan, Refusal

SEARCHES = 1.2
"""A verb waits so many times plan.seconds in all; ``check`` wants httpTimeout to be longer."""


class VerbPatience:
    """How long a verb waits for its own answer; the work goes on when it does not wait any more.

    kube-scheduler tries one pod after the other, and gives an extender up after its httpTimeout:
    the pod then had an attempt for nothing, and others waited for it. What a search takes is
    limited by plan.seconds; before and after it the cluster is taken in, a problem put together and
    an answer tried out. Verbs that ask for the same wait for the same. One event loop only.
    """

    def __init__(self, background: Background, clocks: Clocks, plan_seconds: float) -> None:
        self._clocks = clocks
        self._background = background
        self._seconds = SEARCHES * plan_seconds
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}

    def now(self) -> float:
        """Return the monotonic time that verbs are asked at."""
        return self._clocks.monotonic()

    def left(self, asked: float) -> float:
        """Return for how many seconds a verb may wait that was asked at ``asked``, monotonic."""
        return max(0.0, asked + self._seconds - self._clocks.monotonic())

    async def outcome(
        self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]], asked: float
    ) -> Any:
        """Return what ``work`` comes to, begun unless work of this key is under way.

        Raises Late when the verb may not wait any longer, and what the work raises.
        """
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = self._background.begin(work())
            task.add_done_callback(lambda task: self._under_way.pop(key))
        done, _ = await asyncio.wait({task}, timeout=self.left(asked))
        if not done:
            task.add_done_callback(_tell)
            raise Late
        if task.cancelled():
            raise NotReady("the leadership term of this call is over")
        return task.result()


def _tell(task: asyncio.Task[Any]) -> None:
    """Log a failure that no verb waited for."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, NotReady):
        log.error("planning failed after its verb was answered", exc_info=error)


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
        """Return the gang's plan under way, making one if that can be; else why not.

        ``offered`` tells, per member uid, which nodes kube-scheduler accepts for
        it at this moment; it said so at ``asked``, monotonic, None = now. ``single`` is a gang of
        one made for a pod of no gang, which may preempt on ``candidates``. A verb waits as long as
        its patience lasts (VerbPatience), and for other gangs' searches TURN_SECONDS; the plan
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
        """Return the gang's plan under way or a refusal that still stands; no search."""
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
