"""Plans in flight, as a transaction: every step can be resumed or undone (docs/actuation.md).

Steps
1. Plan: the seats are held, and counted as promised, from this moment on.
2. Rehearse: every eviction as a dry run. A no ends the plan with nobody lost.
3. Record: written, and read back where the answer is unclear, before anybody goes.
4. Compare with the newest state; a plan that does not hold any more is changed or dropped.
5. Claim the victim groups; their pods are evicted (extender.gang.core.victim_group).
6. Wait until the last victim is gone.
7. Compare again, then open the seats.
8. End: done, or given up. Units that have gone in part are finished all the same, and the
   record stays until they are.

Nothing here waits for the API while something else needs to be decided: each step of a preemption
runs in a task of its own, deadlines are looked at by ``tick`` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from math import inf
from typing import Any, Protocol

import structlog

from extender.gang.controller.evictor import EvictionRefused, passing, unclear
from extender.gang.controller.executor import Executor
from extender.gang.controller.record_writer import RecordWriter
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.deadlines import late
from extender.gang.core.last_check import LastCheck
from extender.gang.core.plan_victims import PlanVictims
from extender.gang.core.recorded_victims import others_of
from extender.gang.core.reservations import Preemption, Tries, seats_of
from extender.gang.core.victim_group import LookAll, Released, SeenBack, SeenGoing, SeenGone
from extender.gang.plan.question import Masks
from extender.gang.plan.single import SINGLE
from extender.gang.plan.validity import present
from extender.gang.tell.decisions import Decision, DecisionCode, Outcome, Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.kube.api_errors import ApiError
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Hold, Plan, Seat
from extender.model.snapshot import Snapshot
from extender.model.texts import all_of, counted, some

log = structlog.get_logger("gang")


ANSWER_SECONDS = 10.0
"""After how long a member that was told its seat and is not bound is not on its way any more."""
LOOK_SECONDS = 0.1
LOOK_AFTER_SECONDS = 5.0
"""How often it is made sure that every eviction is worked on."""
CROWDED_SECONDS = 6.0
"""How long others may be on their way to its room: longer than an assumed pod counts."""
CLOSED_SECONDS = 15.0
"""For how long they are kept away: what was offered before passes (4 s), and members are asked for
their first answer (kube-scheduler's back-off is 10 s at most)."""
PRESUMED_SECONDS = 5.0
"""How long a binding that was under way when the life before ended may take to show."""


class PreemptionEnded(Protocol):
    """Who is told that a preemption has ended."""

    def __call__(self, preemption: Preemption, *, done: bool, penal: bool, why: str) -> None:
        """``done``: all members are bound. ``penal``: its gang waits longer for its next plan."""


class SearchAgain(Protocol):
    """Searches for another plan in the place of one that does not hold any more."""

    def __call__(self, preemption: Preemption, why: str, masks: Masks) -> Coroutine[Any, Any, None]:
        """Return when the preemption has ended, or holds another plan."""


class Preemptions:
    """Acts on the plans in ``reservations``.

    ``ended`` notes each end. ``search_again`` is run where a plan does not hold any more.
    """

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        keeper: RecordWriter,
        ended: PreemptionEnded,
        search_again: SearchAgain,
    ) -> None:
        self.reservations = reading.reservations
        self.keeper = keeper
        self._settings = term.settings
        self._snapshot = reading.snapshot
        self._evictor = term.evictor
        self._gangs = reading.gangs
        self._assumed = reading.offers
        self._notices = telling.notices
        self._decide = telling.decisions.decide
        self._clocks = term.clocks
        self._random = term.random
        self._stale = reading.readiness.stale
        self._spawn = telling.background.spawn
        self._looks_after = 0.0
        self._seen: tuple[object, object] = (None, None)
        """Nodes and namespaces at the last look; other mappings when one of them changed."""
        self._chooses = not term.settings.enforce.everybody
        self._check = check = LastCheck(reading.source, reading.gangs, term.settings)
        self.leaves = check.leaves
        self.units = PlanVictims(
            term, reading, telling, keeper, check, advance=self._advance, replan=self.replan
        )
        self.evictions = self.units.tables
        self.executor = Executor(
            self.evictions,
            term.evictor,
            term.leadership,
            term.clocks,
            telling.background,
            self.units,
        )
        self.preconditions = self.units.preconditions
        self._ended = ended
        self._search_again = search_again
        self._wanted: dict[str, set[GangKey]] = {}
        """Uid of a victim or waited-for pod -> plans that want it gone."""

    # -- 1: the seats are held ------------------------------------------------------------

    def _enter(self, preemption: Preemption) -> None:
        """Hold the seats, and count the room of those who go as promised."""
        snapshot = self._snapshot()
        bound = snapshot.bound
        # Who left since the preemption was drafted will not be told of again.
        preemption.victims = {u: v for u, v in preemption.victims.items() if present(v, snapshot)}
        preemption.waits = {u: v for u, v in preemption.waits.items() if present(v, snapshot)}
        going = {**preemption.victims, **preemption.waits}
        preemption.held = self._clocks.monotonic()
        self.reservations.open_preemption(
            preemption,
            [
                (pod.node, pod.uid, pod.requests)
                for victim in going.values()
                for pod in bound.get(victim.node, ())
                if pod.uid == victim.uid
            ],
        )
        for uid in going:
            self._wanted.setdefault(uid, set()).add(preemption.key)
        if preemption.key.dialect == SINGLE:
            for uid in preemption.seats:
                self._notices.held_back.settled(preemption.pods[uid])

    # -- 1 to 4: planned, recorded --------------------------------------------------------

    def draft(
        self,
        plan: Plan,
        before: Preemption | None = None,
        seen: Snapshot | None = None,
        held: Iterable[Hold] = (),
    ) -> Preemption:
        """Return a preemption for a plan, as the cluster is now; nothing is held yet.

        ``before`` is the gang's plan that it takes the place of. ``seen`` is the cluster that the
        plan was searched for in, ``held`` the seats then: what has room since may spare victims.
        """
        now = self._clocks.monotonic()
        snapshot = self.preconditions.shown()
        pods = {
            seat.uid: snapshot.pending[seat.uid]
            for seat in plan.seats
            if seat.uid in snapshot.pending
        }
        return Preemption(
            plan=plan,
            id=f"{self._random.getrandbits(48):012x}",
            pods=pods,
            seats={seat.uid: seat.node for seat in plan.seats},
            state=PreemptionState.PLANNED,
            since=now,
            victims={v.uid: v for v in plan.victims if present(v, snapshot)},
            waits={v.uid: v for v in plan.waits_for if present(v, snapshot)},
            started=now if before is None else before.started,
            replans=0 if before is None else before.replans + (not before.displaced_by),
            unadmitted={} if before is None else dict(before.unadmitted),
            displacements=0 if before is None else before.displacements + bool(before.displaced_by),
            completes=before is not None and before.sits,
            seen=seen,
            seen_holds=tuple(
                hold
                for hold in (held if plan.victims else ())
                if hold.gang != plan.gang and hold.gang not in plan.takes_over
            ),
        )

    def begin(self, preemption: Preemption) -> None:
        """Hold the seats of a draft that holds now, and start to act on it."""
        self._enter(preemption)
        self._spawn(self._act(preemption))

    def resume(self, preemption: Preemption) -> str:
        """Go on with a recorded plan of a life before; return why not, "" when it goes on."""
        self._enter(preemption)
        preemption.held = -inf  # a life before has held the seats
        why = self.preconditions.problem(preemption)
        if why:
            self.leave(preemption)
            return why
        for node in preemption.seats.values():
            # Where its members sit already, seats of those of whom none does make room.
            self.reservations.doubt(node, but=preemption)
        if not preemption.victims and not preemption.waits:
            # Its seats were open: members may have been answered, and not be seen bound yet.
            preemption.presumed = set(preemption.seats)
            self._spawn(self._presume(preemption))
        self._spawn(self._act(preemption))
        return ""

    async def _presume(self, preemption: Preemption) -> None:
        """After a while, whoever was given a seat in a life before sits, or asks again."""
        await asyncio.sleep(PRESUMED_SECONDS)
        self.reservations.not_coming(preemption, preemption.presumed)

    def change(
        self, preemption: Preemption, why: str = "it is changed", displaced_by: Sequence[Pod] = ()
    ) -> None:
        """Stop what can be stopped of a plan that does not hold any more."""
        preemption.displaced_by, preemption.changed_for = tuple(displaced_by), why
        preemption.enter(PreemptionState.CHANGING, self._clocks.monotonic())
        self.reservations.released(preemption, why)
        self.executor.feed(Released(preemption.id))

    def replan(self, preemption: Preemption, why: str, masks: Masks | None = None) -> None:
        """Stop what can be stopped of a plan that does not hold any more; search for another one.

        ``masks``: the nodes that members may use from now on; None: as before.
        """
        if preemption.over or preemption.state is PreemptionState.CHANGING:
            return
        refused = {node for nodes in (masks or {}).values() for node in nodes}
        displaced_by = self.preconditions.displaced_by(preemption, refused)
        if displaced_by:
            names = some(sorted(pod.key for pod in displaced_by))
            why = f"{names} took reserved room without passing filter (spec.nodeName): {why}"
        self.change(preemption, why, displaced_by)
        self._spawn(self._search_again(preemption, why, masks or {}))

    async def _act(self, preemption: Preemption) -> None:
        victims = list(preemption.victims.values())
        budgeted = self._check.budgeted(victims, preemption.plan.priority)
        try:
            await self._evictor.rehearse(
                victims,
                budgeted,
                lambda victim: (
                    preemption.state is PreemptionState.PLANNED and victim.uid in preemption.victims
                ),
            )
        except EvictionRefused as refused:
            uid, error = refused.victim.uid, refused.error
            # Else the next plan names it again, and the gang never comes to others.
            self.evictions.refusals.note(
                uid,
                str(error),
                passing=passing(error),
                unclear=unclear(error),
                budgeted=uid in budgeted,
                readable=refused.readable,
                rehearsed=True,
            )
            if preemption.state is PreemptionState.PLANNED:
                why = f"an eviction was refused in rehearsal, nobody is evicted: {refused}"
                self.end(preemption, Outcome.GAVE_UP, why, penal=True)
            return
        if preemption.state is not PreemptionState.PLANNED:
            return  # it ended meanwhile, or another plan is searched for
        if preemption.recorded:
            await self._go_on(preemption)
            return
        try:
            others = others_of(preemption.plan, self._snapshot())
            await self.keeper.write(preemption, self._clocks.wall(), others)
        except ApiError as failed:
            if not preemption.over:
                why = f"the plan's record cannot be written, so nothing is evicted: {failed}"
                self.end(preemption, Outcome.GAVE_UP, why, code=Code.API, penal=True)
            return
        preemption.recorded = True
        if preemption.state is PreemptionState.PLANNED:
            await self._go_on(preemption)

    async def _go_on(self, preemption: Preemption) -> None:
        """Compare a recorded plan with the newest state, then do what it needs next."""
        why = self.preconditions.problem(preemption) or self.preconditions.spares(preemption)
        if why:
            self.replan(preemption, why)
            return
        preemption.enter(PreemptionState.EVICTING, self._clocks.monotonic())
        preemption.nodes = self._snapshot().nodes
        hints = self._settings.seats.nominate and bool(preemption.victims or preemption.waits)
        await self.executor.claim(self.units.claims(preemption))
        if preemption.state is PreemptionState.EVICTING:
            self._advance(preemption)
        if hints:
            await self._nominate(preemption)

    async def _nominate(self, preemption: Preemption) -> None:
        """Give autoscalers their hint; the evictions, which the gang waits for, go first."""
        while preemption.state is PreemptionState.EVICTING and self.evictions.waiting:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        if preemption.state in (
            PreemptionState.EVICTING,
            PreemptionState.WAITING,
            PreemptionState.OPEN,
        ):
            await self._notices.nominations.write(preemption)

    # -- 6, 7: wait, open -----------------------------------------------------------------

    def _advance(self, preemption: Preemption) -> None:
        """Move to the state that what is left to go away calls for."""
        if preemption.state not in (PreemptionState.EVICTING, PreemptionState.WAITING):
            return
        if preemption.victims or preemption.waits:
            if (
                preemption.state is PreemptionState.EVICTING
                and preemption.victims.keys() <= preemption.sent
            ):
                preemption.enter(PreemptionState.WAITING, self._clocks.monotonic())
            return
        if self._stale() is not None:
            return  # what it would be compared with is old; tick comes back to it
        why = self.preconditions.problem(preemption)
        if why:
            self.replan(preemption, why)
            return
        preemption.doubted = False
        if self.preconditions.crowded(preemption):
            return  # tick comes back to it
        preemption.enter(PreemptionState.OPEN, self._clocks.monotonic())
        preemption.deadline = preemption.since + self._settings.seats.bind_seconds
        log.info("seats open", gang=str(preemption.key), seats=len(preemption.seats))
        self._spawn(self._notices.calls.until_seated(preemption))

    def seat_given(self, preemption: Preemption, pod: Pod) -> None:
        """Note that a member was told its seat: it is bound there soon, or asks again."""
        self.reservations.answered(preemption, pod.uid, self._clocks.monotonic())

    def _blame(self, preemption: Preemption) -> None:
        """Note what a plan is given up for: whose pods did not go, or which members kube-scheduler
        tried and would not put on their open seats."""
        if preemption.state is PreemptionState.OPEN:
            for uid in preemption.seats.keys() & (preemption.missed.keys() | preemption.cleared):
                tries = preemption.tries.get(uid, Tries())
                if not tries.given and not tries.for_now:
                    preemption.refused.add(uid)
        if preemption.state not in (PreemptionState.EVICTING, PreemptionState.WAITING):
            return
        snapshot = self._snapshot()
        for victim in (*preemption.victims.values(), *preemption.waits.values()):
            pod = present(victim, snapshot)
            if pod is not None and pod.deleting:
                preemption.stayed[victim.uid] = victim
                self.evictions.refusals.stayed(victim.uid)
            elif pod is not None:
                preemption.unsent = True  # its request is on its way, for all that is known

    def tick(self) -> None:
        """Look at deadlines, and at plans when nodes or namespaces have changed. No waiting."""
        self.units.wake_held_back()
        look_at_each(self.reservations, self._progress)
        look_at_each(self.reservations, self._deadline)
        if self._clocks.monotonic() >= self._looks_after:
            self._looks_after = self._clocks.monotonic() + LOOK_AFTER_SECONDS
            self.executor.feed(LookAll(fresh=self._stale() is None))
        snapshot = self._snapshot()
        # Whom the extender acts for hangs on the labels of namespaces, where it is not everybody.
        ground = (snapshot.nodes, snapshot.namespaces if self._chooses else None)
        if any(new is not old for new, old in zip(ground, self._seen, strict=True)):
            self._seen = ground
            for preemption in self.reservations:
                preemption.doubted |= (
                    preemption.recorded
                )  # others are compared when they are recorded
        look_at_each(self.reservations, self._ground)

    def _progress(self, preemption: Preemption) -> None:
        if not preemption.victims and not preemption.waits:
            self._advance(preemption)
        self._starvation(preemption)

    def _deadline(self, preemption: Preemption) -> None:
        errors = [unit.error for unit in self.evictions.of_plan(preemption.id) if unit.error]
        overdue = late(preemption, self._clocks.monotonic(), self._settings.seats, errors)
        if overdue is not None:
            self._blame(preemption)
            self.end(preemption, Outcome.GAVE_UP, overdue, penal=True)

    def _ground(self, preemption: Preemption) -> None:
        """Look at what the plan rests on."""
        if self._clocks.monotonic() - preemption.answered_at > ANSWER_SECONDS:
            self.reservations.not_coming(preemption, preemption.answered)
        if preemption.recorded:
            why = (
                self.preconditions.problem(preemption)
                if preemption.doubted
                else self.preconditions.stays(preemption)
            )
            preemption.doubted = False
        else:
            # Compared when it is recorded, which may take long. Until then its seats would be held
            # against everybody, for a gang that is left alone.
            why = self._check.not_for(preemption.key.namespace)
        if why:
            self.replan(preemption, why)

    # -- 8: the end -----------------------------------------------------------------------

    def leave(self, preemption: Preemption) -> None:
        """Take the preemption out of the book: who must go is evicted, the others stay."""
        if preemption.over:
            return
        preemption.enter(PreemptionState.ENDED, self._clocks.monotonic())
        for uid in sorted(preemption.answered & preemption.seats.keys()):
            # On its way to a seat that nobody holds any more.
            self._assumed.note(preemption.pods[uid], [preemption.seats[uid]])
        self.reservations.released(preemption, "its plan has ended")
        self.reservations.close(preemption.key)
        for victim in (*preemption.plan.victims, *preemption.plan.waits_for):
            wanted = self._wanted.get(victim.uid)
            if wanted is None:
                continue
            wanted.discard(preemption.key)
            if not wanted:
                del self._wanted[victim.uid]
                self.reservations.pod_left(victim.node, victim.uid)
        self.executor.feed(Released(preemption.id))
        self.keeper.over(preemption.id, self.evictions.owed)

    def give_way(self, preemption: Preemption, other: Preemption) -> None:
        """Take the preemption out of the book for another plan of its gang."""
        self.leave(preemption)
        # Who has no seat any more would keep its room from the members that have.
        seatless = [
            uid for uid in preemption.seats if uid not in other.seats and uid in preemption.pods
        ]
        self._notices.nominations.clear(preemption.pods[uid] for uid in seatless)
        if not preemption.seats.items() <= other.seats.items():
            self._notices.held_back.wake_all()  # what kept them off a node may be elsewhere

    def end(
        self,
        preemption: Preemption,
        outcome: Outcome,
        message: str,
        *,
        penal: bool = False,
        code: DecisionCode = "",
    ) -> None:
        """Close a plan: seats back, record dropped, those kept waiting woken.

        ``penal``: the plan failed by itself, so the gang's next one has to wait.
        """
        if preemption.over:
            return
        held, why = seats_of(preemption), message
        self.reservations.released(preemption, message)
        self.leave(preemption)
        owed = self.evictions.unfinished_of(preemption.id)
        if owed:
            of = "of units that have gone in part"
            message += f"; {counted(owed, 'eviction', f'{of} is', f'{of} are')} still finished"
        self._decide(
            Decision(
                time=self._clocks.wall(),
                gang=str(preemption.key),
                verb=Verb.LOOP,
                outcome=outcome,
                code=code,
                message=message,
                victims=preemption.plan.victims,
                seats=preemption.plan.seats if outcome is Outcome.DONE else held,
                seconds=self._clocks.monotonic() - preemption.started,
            )
        )
        self._ended(preemption, done=outcome is Outcome.DONE, penal=penal, why=why)
        self._clear_nominations(preemption, held)
        if outcome is not Outcome.DONE and preemption.key.dialect == SINGLE:
            # Nobody looks after a pod of no gang but kube-scheduler, and it tries one again when
            # something changes: its own preemption has been told to wait for this plan.
            for seat in held:
                self._notices.held_back.park(preemption.pods[seat.uid], seat.node)
        self._notices.held_back.wake_all()

    def _clear_nominations(self, preemption: Preemption, held: Iterable[Seat]) -> None:
        """Take back what this plan has nominated its members to, or one that it took the place of.

        Without victims to wait for it nominates only whom it finds nominated elsewhere, unless
        kube-scheduler looks at a part of the nodes: then all, which may not show yet.
        """
        every = bool(preemption.plan.victims or preemption.plan.waits_for)
        every = every or preemption.replans + preemption.displacements > 0
        every = every or self._notices.calls.needs_nominations()
        pending = self._snapshot().pending
        pods = [preemption.pods[seat.uid] for seat in held]
        self._notices.nominations.clear(
            pod for pod in pods if every or pod.nominated or pending.get(pod.uid, pod).nominated
        )

    # -- event handlers ---------------------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        if new is None or new.finished:
            if old is not None or new is not None:
                self._gone(old or new)  # type: ignore[arg-type]
            return
        if self._leaves(new) and not (old and self._leaves(old)):
            self.executor.feed(SeenGoing(new.uid))
            self._sent(new)
        if new.deleting and not (old and old.deleting):
            self._leaving(new)
        if old is not None and old.requests != new.requests:
            self._resized(old, new)
        if old is None and new.node:
            self.executor.feed(SeenBack(new.uid))
        elif old is not None and old.node and not new.node:
            self._unbound(new)
        if new.node and not (old and old.node):
            self._bound(new, seen=old is not None)
        elif new.nominated and not new.node and new.nominated != (old.nominated if old else ""):
            self._nominated(new)

    def _resized(self, old: Pod, pod: Pod) -> None:
        """What rests on the pod's old size is compared: its own seat, and those beside it."""
        own = self.reservations.of_member(pod.uid)
        if own is not None:
            self.reservations.resized(own, pod)
        elif pod.node and _grew(old, pod):
            self.reservations.unadmitted(pod)
        self.reservations.doubt(pod.node if own is None else own.seats[pod.uid])

    def _leaves(self, pod: Pod) -> bool:
        return bool(pod.deleting) and self._check.leaves(pod, self._clocks.wall())

    def _leaving(self, pod: Pod) -> None:
        key = self._gangs.member_key(pod)
        own = None if key is None else self.reservations.get(key)
        if own is not None:
            own.doubted = True  # with a member that sat gone, the others may be too few
        self._member_lost(pod)

    def _sent(self, pod: Pod) -> None:
        for preemption in self._wanting(pod.uid):
            if pod.uid in preemption.victims:
                preemption.sent.add(pod.uid)
                self._advance(preemption)

    def _gone(self, pod: Pod) -> None:
        if not self._leaves(pod):
            self._sent(pod)
        if not pod.deleting:
            self._leaving(pod)
        self.executor.feed(SeenGone(pod.uid))
        for preemption in self._wanted_gone(pod.uid):
            preemption.victims.pop(pod.uid, None)
            preemption.waits.pop(pod.uid, None)
            self._advance(preemption)
        self.reservations.pod_left(pod.node, pod.uid)
        self._notices.held_back.gone(pod)
        self._assumed.settled(pod.uid)
        self._member_lost(pod)

    def _member_lost(self, pod: Pod) -> None:
        preemption = self.reservations.of_member(pod.uid)
        if preemption is None:
            return
        # Where the room is there already: others may sit, and without their seats the rest would
        # not come to them. With the barrier nobody sits before all have come.
        if (
            preemption.state is PreemptionState.OPEN
            and not self._settings.bind.enabled
            and self.preconditions.does_without(preemption, pod.uid)
        ):
            log.info("a member that is not needed is gone", gang=str(preemption.key), pod=pod.key)
            self.reservations.seat_lost(preemption, pod.uid)
            self._done_if_seated(preemption)
            return
        why = f"member {pod.key} went away before it was bound"
        self.end(preemption, Outcome.GAVE_UP, why)

    def _nominated(self, pod: Pod) -> None:
        """kube-scheduler keeps room for a pod: whoever is less urgent does not get past it."""
        if self.reservations.of_member(pod.uid) is not None:
            return
        for hold in self.reservations.holds_on(pod.nominated):
            other = self.reservations.get(hold.gang)
            if other is not None and other.plan.priority <= pod.priority:
                other.doubted = True

    def _unbound(self, pod: Pod) -> None:
        """A pod's node is never taken back: the storage was put back to before its binding.

        Its gang's others may sit, or be on their way, so its plan gives it its seat again.
        """
        key = self._gangs.member_key(pod)
        preemption = None if key is None else self.reservations.get(key)
        if preemption is None or preemption.state is not PreemptionState.OPEN:
            return
        seat = next((seat for seat in preemption.plan.seats if seat.uid == pod.uid), None)
        if seat is None or pod.uid in preemption.seats:
            return
        log.warning("a member's binding was lost", pod=pod.key, node=seat.node)
        self.reservations.seat_back(preemption, pod, seat.node)
        preemption.deadline = self._clocks.monotonic() + self._settings.seats.bind_seconds
        preemption.doubted = True

    def _bound(self, pod: Pod, *, seen: bool) -> None:
        """``seen``: it was there before, without a node. What kube-scheduler binds was offered,
        however long ago."""
        self._notices.held_back.gone(pod)
        offered = self._assumed.settled(pod.uid)
        preemption = self.reservations.of_member(pod.uid)
        self.reservations.doubt(pod.node, but=preemption)
        if preemption is None:
            if offered is None and not seen:
                self.reservations.unadmitted(pod)
            return
        seat = preemption.seats.get(pod.uid)
        if seat != pod.node:
            log.warning("member bound elsewhere", pod=pod.key, node=pod.node, seat=seat)
        self.reservations.seat_taken(pod.uid)
        if preemption.seats and preemption.state in (
            PreemptionState.PLANNED,
            PreemptionState.EVICTING,
            PreemptionState.WAITING,
        ):
            self.replan(preemption, f"member {pod.key} has a node before the seats are open")
            return
        self._done_if_seated(preemption)

    def _done_if_seated(self, preemption: Preemption) -> None:
        if not preemption.seats:
            took = self._clocks.monotonic() - preemption.started
            self.end(
                preemption,
                Outcome.DONE,
                f"{all_of(len(preemption.plan.seats), 'member', 'is', 'are')} bound {took:.1f} s "
                f"after the plan, {counted(len(preemption.plan.victims), 'pod', 'was', 'were')} "
                "evicted",
            )

    def _wanting(self, uid: str) -> list[Preemption]:
        """Return the plans that want this pod gone."""
        found = [self.reservations.get(key) for key in self._wanted.get(uid, ())]
        return [preemption for preemption in found if preemption is not None]

    def _wanted_gone(self, uid: str) -> list[Preemption]:
        """Return the plans that wanted this pod gone; it is."""
        found = self._wanting(uid)
        self._wanted.pop(uid, None)
        return found

    # -- starvation -------------------------------------------------------------------------

    def _starvation(self, preemption: Preemption) -> None:
        """Take note of one plan; now and then."""
        now = self._clocks.monotonic()
        if preemption.closed_at:
            if preemption.closed and now - preemption.closed_at > CLOSED_SECONDS:
                self.reservations.keep_away(preemption, 0.0)
            return
        waits = preemption.state in (
            PreemptionState.EVICTING,
            PreemptionState.WAITING,
            PreemptionState.OPEN,
        )
        going = preemption.victims or preemption.waits
        if not waits or going or preemption.binding or not self.preconditions.crowded(preemption):
            preemption.crowded_at = 0.0
        elif not preemption.crowded_at:
            preemption.crowded_at = now
        elif now - preemption.crowded_at > CROWDED_SECONDS:
            self.reservations.keep_away(preemption, now)


def _grew(old: Pod, new: Pod) -> bool:
    """Whether a pod asks for more of anything than before."""
    before = dict(old.requests)
    return any(amount > before.get(name, 0) for name, amount in new.requests)


def look_at_each(preemptions: Iterable[Preemption], look: Callable[[Preemption], None]) -> None:
    """Look at each plan; an error is logged and ends the look at that plan alone."""
    for preemption in preemptions:
        try:
            look(preemption)
        except Exception:
            log.exception(
                "a plan could not be looked at", gang=str(preemption.key), plan=preemption.id
            )
