"""The first step of a preemption and the last: seats are held, and given back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from extender.gang.controller.record_writer import RecordWriter
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.evictions import Evictions
from extender.gang.core.reservations import Preemption, seats_of
from extender.gang.plan.single import SINGLE
from extender.gang.plan.validity import present
from extender.gang.tell.decisions import Decision, DecisionCode, Outcome, Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GangKey
from extender.model.plan import Seat
from extender.model.texts import counted


class PreemptionEnded(Protocol):
    """Who is told that a preemption has ended."""

    def __call__(self, preemption: Preemption, *, done: bool, penal: bool, why: str) -> None:
        """``done``: all members are bound. ``penal``: its gang waits longer for its next plan."""


class Lifetimes:
    """Takes preemptions into the book and out of it. ``ended`` is told of each end."""

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        keeper: RecordWriter,
        evictions: Evictions,
        ended: PreemptionEnded,
    ) -> None:
        self._reservations = reading.reservations
        self._snapshot = reading.snapshot
        self._evictions = evictions
        self._keeper = keeper
        self._notices = telling.notices
        self._offers = reading.offers
        self._clocks = term.clocks
        self._decide = telling.decisions.decide
        self._ended = ended
        self._wanted: dict[str, set[GangKey]] = {}
        """Uid of a victim or waited-for pod -> plans that want it gone."""

    def enter(self, preemption: Preemption) -> Preemption:
        """Hold the seats, and count the room of those who go as promised."""
        snapshot = self._snapshot()
        bound = snapshot.bound
        # Who left since the preemption was drafted will not be told of again.
        preemption.victims = {u: v for u, v in preemption.victims.items() if present(v, snapshot)}
        preemption.waits = {u: v for u, v in preemption.waits.items() if present(v, snapshot)}
        going = {**preemption.victims, **preemption.waits}
        preemption.held = self._clocks.monotonic()
        self._reservations.open_preemption(
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
        return preemption

    def leave(self, preemption: Preemption) -> None:
        """Take the preemption out of the book: who must go is evicted, the others stay."""
        if preemption.over:
            return
        preemption.enter(PreemptionState.ENDED, self._clocks.monotonic())
        for uid in sorted(preemption.answered & preemption.seats.keys()):
            # On its way to a seat that nobody holds any more.
            self._offers.note(preemption.pods[uid], [preemption.seats[uid]])
        self._reservations.released(preemption, "its plan has ended")
        self._reservations.close(preemption.key)
        for victim in (*preemption.plan.victims, *preemption.plan.waits_for):
            wanted = self._wanted.get(victim.uid)
            if wanted is None:
                continue
            wanted.discard(preemption.key)
            if not wanted:
                del self._wanted[victim.uid]
                self._reservations.pod_left(victim.node, victim.uid)
        self._evictions.release(preemption.id)
        self._keeper.over(preemption.id, self._evictions.of_plan)

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
        self._reservations.released(preemption, message)
        self.leave(preemption)
        owed = sum(
            victim.uid in unit.must_go
            for unit in self._evictions.of_plan(preemption.id)
            for victim in unit.unsent
        )
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

    def wanting(self, uid: str) -> list[Preemption]:
        """Return the plans that want this pod gone."""
        found = [self._reservations.get(key) for key in self._wanted.get(uid, ())]
        return [preemption for preemption in found if preemption is not None]

    def gone(self, uid: str) -> list[Preemption]:
        """Return the plans that wanted this pod gone; it is."""
        found = self.wanting(uid)
        self._wanted.pop(uid, None)
        return found
