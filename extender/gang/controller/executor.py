"""Performs what the machine of preemptions asks for, and feeds what comes of it back.

The one place that sends evictions for plans. What is done, and when, is decided in
``core/preemption.py`` and ``core/victim_group.py``; how one request is made is in ``requests.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf

import structlog
from msgspec.structs import replace

from extender.gang.controller.planner_thread import PlannerThread
from extender.gang.controller.preconditions import Preconditions
from extender.gang.controller.records import RecordWriter
from extender.gang.controller.requests import EvictionRefused, passing, unclear
from extender.gang.controller.term import Telling, Term
from extender.gang.core.preemption import (
    Accepted,
    Acts,
    BudgetsNotRead,
    BudgetsRead,
    Check,
    Checked,
    ClaimMore,
    ClearNominations,
    Defect,
    Later,
    Log,
    Nominate,
    Opened,
    Park,
    PlanEffect,
    PlanEnded,
    PlanEvent,
    Plans,
    PodSeen,
    ReadBudgets,
    Recorded,
    RecordFailed,
    RecordOver,
    RehearsalRefused,
    Rehearse,
    Rehearsed,
    RoomFreed,
    Search,
    Seated,
    SeatsFree,
    SeatsReleased,
    Settled,
    Taken,
    Tick,
    WriteRecord,
    permits,
    step,
)
from extender.gang.core.refused_seats import alike
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.core.victim_group import (
    Answer,
    Answered,
    ComeBack,
    Ended,
    Evict,
    Failure,
    Leaves,
    Owes,
    Read,
    ReadBack,
    Refused,
    Rested,
    Unmark,
)
from extender.gang.plan.question import SeatsQuestion
from extender.gang.plan.validity import unchanged
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.tell.decisions import Decision
from extender.gang.tell.listener import Removal
from extender.gang.tell.preemption_state import PreemptionState
from extender.gang.tell.verdicts import NoVerdict, SeatVerdict, Verifier, VerifierQuestion
from extender.kube.api_errors import ApiError
from extender.model.errors import InvalidInput, NotReady
from extender.model.objects import Pod
from extender.model.plan import Victim

log = structlog.get_logger("gang")
MOST_TOLD = 3


class Verification:
    """Asks kube-scheduler's own filters about a plan that evicts pods, after our rules said yes.

    Without an answer no pod is evicted, and it is said. A seat that they refuse is left out for
    members like that one, as one that kube-scheduler itself has refused (core/refused_seats.py).
    ``verifier`` None: nobody is asked, and our own rules are enough.
    """

    def __init__(
        self, verifier: Verifier | None, reservations: Reservations, evidence: NodeLists
    ) -> None:
        self._verifier = verifier
        self._reservations = reservations
        self._evidence = evidence

    async def checked(self, preemption: Preemption) -> Checked:
        """Return what comes of a plan that our own rules accept."""
        yes, open_already = Checked(preemption.id, ""), preemption.state is PreemptionState.OPEN
        if self._verifier is None or not preemption.plan.victims or open_already:
            return yes
        before = preemption.state is PreemptionState.PLANNED
        try:
            refusals = await self._verifier.refusals(self._question(preemption))
        except NoVerdict as error:
            log.warning("the verifier gives no answer", gang=str(preemption.key), error=str(error))
            if not before:
                return yes  # a seat that opens evicts nobody, and kube-scheduler judges it itself
            told = f"no pod is evicted: the verifier gives no answer: {error}"
            return Checked(preemption.id, None, told=told)
        if not refusals:
            return yes
        masks: dict[str, frozenset[str]] = {}
        for refusal in refusals:
            pod = preemption.pods.get(refusal.uid)
            if pod is None or refusal.any_node:
                continue
            self._evidence.refuses(pod, refusal.node, why=_words(refusal))
            for uid, twin in preemption.pods.items():
                if uid == pod.uid or alike(twin, pod):
                    masks[uid] = masks.get(uid, frozenset()) | {refusal.node}
        told = "; ".join(self._told(preemption, each) for each in refusals[:MOST_TOLD])
        if len(refusals) > MOST_TOLD:
            told += f"; and {len(refusals) - MOST_TOLD} more"
        why = f"kube-scheduler's own filters refuse the plan: {told}"
        log.info("the verifier refuses a plan", gang=str(preemption.key), why=told)
        return Checked(preemption.id, why, masks=masks)

    def _told(self, preemption: Preemption, refusal: SeatVerdict) -> str:
        pod = preemption.pods.get(refusal.uid)
        who = pod.name if pod else refusal.uid
        return f"{who} on {refusal.node}: {_words(refusal)}"

    def _question(self, preemption: Preemption) -> VerifierQuestion:
        others = [other for other in self._reservations if other is not preemption]
        plans = (preemption, *others)
        return VerifierQuestion(
            seats=[(preemption.pods[uid], node) for uid, node in preemption.seats.items()],
            gone=[
                victim
                for plan in plans
                for victim in (*plan.victims.values(), *plan.waits.values())
            ],
            held=[(other.pods[uid], node) for other in others for uid, node in other.seats.items()],
        )


def _words(refusal: SeatVerdict) -> str:
    says = f"{refusal.plugin}: " if refusal.plugin else ""
    return says + (", ".join(refusal.reasons) or "no reason is given")


LOOK_SECONDS = 0.1

Step = Rehearse | WriteRecord | Check | ReadBudgets | ClaimMore | Nominate
"""What is waited for before the next step of a plan."""
ForOthers = Search | SeatsReleased | RoomFreed | PlanEnded | Taken | Accepted
"""What other rooms do, or take note of."""


class Executor:
    """One event loop only. ``others`` performs what other rooms do."""

    def __init__(
        self,
        term: Term,
        telling: Telling,
        plans: Plans,
        preconditions: Preconditions,
        keeper: RecordWriter,
        thread: PlannerThread,
        others: Callable[[ForOthers], None],
    ) -> None:
        self.plans = plans
        self.preconditions = preconditions
        self._evictor = term.evictor
        self._leadership = term.leadership
        self._clocks = term.clocks
        self._spawn = telling.background.spawn
        self._notices, self._hints = telling.notices, telling.hints
        self._decisions = telling.decisions
        self._keeper = keeper
        self.thread = thread
        lists = preconditions.node_lists
        self._verification = Verification(term.verifier, plans.reservations, lists)
        self._others = others
        self._planned: dict[str, asyncio.Event] = {}
        """Plan id -> set once it acts, where that is waited for."""

    # -- events ---------------------------------------------------------------------------

    def feed(self, event: PlanEvent) -> None:
        """Hand the machine an event, and perform what it asks for."""
        for next_step in self._take_in(event):
            self._spawn(self._go_on(next_step))

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        self.feed(PodSeen(old, new, self._clocks.wall()))

    def tick(self) -> None:
        """Look at deadlines, and at plans when nodes or namespaces have changed. No waiting."""
        self.feed(Tick(self._hints.held_back.units()))

    async def acts(self, preemption: Preemption) -> None:
        """Wait until a plan is recorded, or does not hold."""
        if preemption.state is PreemptionState.PLANNED:
            await self._planned.setdefault(preemption.id, asyncio.Event()).wait()

    # -- effects --------------------------------------------------------------------------

    def _take_in(self, event: PlanEvent) -> list[Step]:
        """Perform what is not waited for; return the rest."""
        effects: list[PlanEffect] = []
        try:
            step(self.plans, event, self._clocks.monotonic(), self.preconditions, effects)
        except Exception as error:  # a defect must not leave a group gone in part
            effects.append(Defect(error, type(event).__name__))
        for effect in effects:
            self._perform(effect)
        return [effect for effect in effects if isinstance(effect, Step)]

    def _perform(self, effect: PlanEffect) -> None:
        match effect:
            case Evict():
                self._spawn(self._evict(effect))
            case Read(victim):
                self._spawn(self._read(victim))
            case Unmark(victim):
                self._spawn(self._evictor.unmark(victim))
            case ComeBack(event, seconds) | Later(event, seconds):
                self._spawn(self._come_back(event, seconds))
            case Refused(claim):
                self._evictor.refused()
                if effect.left:
                    self._notices.broken(effect, self.plans.of(claim))
            case Owes(plan_id):
                self._keeper.settle(plan_id, self.plans.victims.owed)
            case RecordOver(plan_id):
                self._keeper.over(plan_id, self.plans.victims.owed)
            case Acts(plan_id):
                if plan_id in self._planned:
                    self._planned.pop(plan_id).set()
            case Accepted(sent, preemption, first):
                self._others(effect)
                self._notices.evicted(sent, preemption, first=first)
            case Search() | SeatsReleased() | RoomFreed() | PlanEnded() | Taken():
                self._others(effect)
            case Defect(error, at):
                log.error("an event was not taken in whole", at=at, exc_info=error)
            case Log(text, words, warns):
                (log.warning if warns else log.info)(text, **words)
            case Rehearse() | WriteRecord() | Check() | ReadBudgets() | ClaimMore() | Nominate():
                pass  # see _go_on
            case _:
                self._tell(effect)

    def _tell(self, effect: PlanEffect) -> None:
        hints = self._hints
        match effect:
            case Decision():
                self._decisions.decide(replace(effect, time=self._clocks.wall()))
            case Opened(preemption):
                log.info("seats open", gang=str(preemption.key), seats=len(preemption.seats))
                self._spawn(hints.requeuing.until_seated(preemption))
            case ClearNominations(pods):
                hints.nominations.clear(pods)
            case Seated(pod):
                hints.held_back.settled(pod)
            case Settled(pod):
                hints.held_back.gone(pod)
            case Park(pod, node):
                hints.held_back.park(pod, node)
            case SeatsFree():
                hints.held_back.wake_all()
            case Ended(name):
                hints.held_back.unit_ended(name)

    # -- the steps of a plan --------------------------------------------------------------

    async def _go_on(self, first: Step) -> None:
        """Take a plan's steps, one after the other, for as long as it has a next one."""
        steps: Sequence[Step] = [first]
        while steps:
            event = await self._taken(steps[0])
            steps = [] if event is None else self._take_in(event)

    async def _taken(self, next_step: Step) -> PlanEvent | None:
        """Take one step; return what comes of it."""
        match next_step:
            case Rehearse(preemption, budgeted):
                return await self._rehearse(preemption, budgeted)
            case WriteRecord(preemption, others):
                try:
                    await self._keeper.write(preemption, self._clocks.wall(), others)
                except ApiError as failed:
                    return RecordFailed(preemption.id, str(failed))
                return Recorded(preemption.id)
            case Check(preemption):
                try:
                    return await self._checked(preemption)
                except Exception:  # the machine waits for an answer
                    log.exception("seats could not be compared", gang=str(preemption.key))
                    return Checked(preemption.id, None)
            case ReadBudgets(preemption, names, accepted, reads, seconds):
                await asyncio.sleep(seconds)
                try:
                    planned = PreemptionState.PLANNED
                    budgets = await self._evictor.budgets(
                        names, lambda: preemption.state is planned
                    )
                except (ApiError, InvalidInput) as failed:
                    return BudgetsNotRead(preemption.id, str(failed))
                return BudgetsRead(preemption.id, budgets, names, accepted, reads)
            case ClaimMore():
                await asyncio.sleep(0)
                return next_step
            case Nominate(preemption):
                # The evictions, which the gang waits for, go first.
                evicting = PreemptionState.EVICTING
                while preemption.state is evicting and self.plans.victims.waiting:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)
                waits = (evicting, PreemptionState.WAITING, PreemptionState.OPEN)
                if preemption.state in waits:
                    await self._hints.nominations.write(preemption)
        return None

    async def _rehearse(self, preemption: Preemption, budgeted: frozenset[str]) -> PlanEvent:
        def wanted(victim: Victim) -> bool:
            planned = preemption.state is PreemptionState.PLANNED
            return planned and victim.uid in preemption.victims

        try:
            await self._evictor.rehearse(list(preemption.victims.values()), budgeted, wanted)
        except EvictionRefused as refused:
            uid = refused.victim.uid
            failure = _failure(refused.error, budgeted=uid in budgeted)
            return RehearsalRefused(
                preemption.id, uid, failure, readable=refused.readable, told=str(refused)
            )
        return Rehearsed(preemption.id)

    async def _checked(self, preemption: Preemption) -> Checked:
        """Ask every rule of the seats that no member may be on its way to, then the verifier."""
        snapshot = self.preconditions.shown()
        gang = self.preconditions.gang(preemption, snapshot)
        if gang is None:
            return Checked(preemption.id, f"members of {preemption.key} are gone")
        plan, seen = preemption.plan, preemption.seen
        if seen is not None and unchanged(plan, gang, seen, snapshot):
            return await self._verification.checked(preemption)
        coming = preemption.answered | preemption.presumed
        seats = {uid: node for uid, node in preemption.seats.items() if uid not in coming}
        going, holds = preemption.victims | preemption.waits, self.plans.reservations.holds()
        # The seats of others count as taken, so those whom they wait for count as gone.
        gone: dict[str, Victim] = {}
        for other in self.plans.reservations:
            gone |= other.victims | other.waits
        beside = [each for uid, each in gone.items() if uid not in going]
        suspects = [pod for uid, pod in preemption.unadmitted.items() if uid not in gone]
        asked = SeatsQuestion(gang, seats, snapshot, list(going.values()), holds, beside)
        try:
            why = await self.thread.check(asked)
            if why == "":
                return await self._verification.checked(preemption)
            blamed = await self.thread.to_blame(asked, suspects) if why and suspects else ()
        except NotReady:
            return Checked(preemption.id, None)
        return Checked(preemption.id, why, blamed)

    # -- requests -------------------------------------------------------------------------

    def _permitted(self, uid: str) -> bool:
        """Whether a request may leave now: asked at every turn that it has to wait for."""
        if not self._leadership.acts:
            return False
        permitted, compared = permits(self.plans, uid, self.preconditions)
        if compared is not None:
            self.feed(compared)
        return permitted

    async def _evict(self, effect: Evict) -> None:
        victim, answer, failure = effect.victim, Answer.NOT_SENT, None
        uid, budgeted = victim.uid, False
        try:
            # Read again before each request.
            budgeted = bool(self.preconditions.budgeted([victim], effect.priority))
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
            answer, failure = Answer.FAILED, _failure(error, budgeted=budgeted)
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

    async def _come_back(self, event: PlanEvent, seconds: float) -> None:
        if isinstance(event, Rested):
            await self._evictor.pause(seconds, longest=inf)
        else:
            await asyncio.sleep(seconds)
        self.feed(event)


def _failure(error: ApiError, *, budgeted: bool) -> Failure:
    return Failure(
        str(error),
        passing=passing(error),
        unclear=unclear(error),
        retry_after=error.retry_after or 0.0,
        budgeted=budgeted,
    )
