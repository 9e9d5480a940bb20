"""What the cache reports of victims, members and others, and which preemptions it moves."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.evictions import Evictions
from extender.gang.core.lifetimes import Lifetimes
from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Outcome
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.composite import unit_key
from extender.model.objects import Pod
from extender.model.texts import all_of, counted

log = structlog.get_logger("gang")


class EventHandlers:
    """Takes pod events in.

    ``leaves(pod, now)`` tells whether a pod is on its way out, and nobody need ask for it any more.
    ``advance(preemption)`` looks at what a preemption still waits for;
    ``replan(preemption, why)`` searches for another plan. ``does_without(preemption, uid)`` tells
    whether a gang is complete without one of its members.
    """

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        evictions: Evictions,
        lifetimes: Lifetimes,
        *,
        leaves: Callable[[Pod, float], bool],
        advance: Callable[[Preemption], None],
        replan: Callable[[Preemption, str], None],
        does_without: Callable[[Preemption, str], bool],
    ) -> None:
        self._reservations = reading.reservations
        self._gangs = reading.gangs
        self._evictions = evictions
        self._lifetimes = lifetimes
        self._notices = telling.notices
        self._offers = reading.offers
        self._clocks = term.clocks
        self._known_to_leave = leaves
        self._advance = advance
        self._replan = replan
        self._does_without = does_without
        self._barrier = term.settings.bind.enabled
        self._bind_seconds = term.settings.seats.bind_seconds

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        if new is None or new.finished:
            if old is not None or new is not None:
                self._gone(old or new)  # type: ignore[arg-type]
            return
        if self._leaves(new) and not (old and self._leaves(old)):
            self._evictions.going(new.uid)
            self._sent(new)
        if new.deleting and not (old and old.deleting):
            self._leaving(new)
        if old is not None and old.requests != new.requests:
            self._resized(old, new)
        if old is None and new.node:
            self._evictions.back(new.uid)
        elif old is not None and old.node and not new.node:
            self._unbound(new)
        if new.node and not (old and old.node):
            self._bound(new, seen=old is not None)
        elif new.nominated and not new.node and new.nominated != (old.nominated if old else ""):
            self._nominated(new)

    def _resized(self, old: Pod, pod: Pod) -> None:
        """What rests on the pod's old size is compared: its own seat, and those beside it."""
        own = self._reservations.of_member(pod.uid)
        if own is not None:
            self._reservations.resized(own, pod)
        elif pod.node and _grew(old, pod):
            self._reservations.unadmitted(pod)
        self._reservations.doubt(pod.node if own is None else own.seats[pod.uid])

    def _leaves(self, pod: Pod) -> bool:
        return bool(pod.deleting) and self._known_to_leave(pod, self._clocks.wall())

    def _leaving(self, pod: Pod) -> None:
        key = self._gangs.member_key(pod)
        own = None if key is None else self._reservations.get(key)
        if own is not None:
            own.doubted = True  # with a member that sat gone, the others may be too few
        self._member_lost(pod)

    def _sent(self, pod: Pod) -> None:
        for preemption in self._lifetimes.wanting(pod.uid):
            if pod.uid in preemption.victims:
                preemption.sent.add(pod.uid)
                self._advance(preemption)

    def _gone(self, pod: Pod) -> None:
        if not self._leaves(pod):
            self._sent(pod)
        if not pod.deleting:
            self._leaving(pod)
        self._evictions.gone(pod.uid)
        for preemption in self._lifetimes.gone(pod.uid):
            preemption.victims.pop(pod.uid, None)
            preemption.waits.pop(pod.uid, None)
            self._advance(preemption)
        self._reservations.pod_left(pod.node, pod.uid)
        self._notices.held_back.gone(pod)
        self._offers.settled(pod.uid)
        self._member_lost(pod)

    def _member_lost(self, pod: Pod) -> None:
        preemption = self._reservations.of_member(pod.uid)
        if preemption is None:
            return
        # Where the room is there already: others may sit, and without their seats the rest would
        # not come to them. With the barrier nobody sits before all have come.
        if (
            preemption.state is PreemptionState.OPEN
            and not self._barrier
            and self._does_without(preemption, pod.uid)
        ):
            log.info("a member that is not needed is gone", gang=str(preemption.key), pod=pod.key)
            self._reservations.seat_lost(preemption, pod.uid)
            self._done_if_seated(preemption)
            return
        why = f"member {pod.key} went away before it was bound"
        self._lifetimes.end(preemption, Outcome.GAVE_UP, why)

    def _nominated(self, pod: Pod) -> None:
        """kube-scheduler keeps room for a pod: whoever is less urgent does not get past it."""
        if self._reservations.of_member(pod.uid) is not None:
            return
        for hold in self._reservations.holds_on(pod.nominated):
            other = self._reservations.get(hold.gang)
            if other is not None and other.plan.priority <= pod.priority:
                other.doubted = True

    def _unbound(self, pod: Pod) -> None:
        """A pod's node is never taken back: the storage was put back to before its binding.

        Its gang's others may sit, or be on their way, so its plan gives it its seat again.
        """
        key = self._gangs.member_key(pod)
        preemption = None if key is None else self._reservations.get(key)
        if preemption is None or preemption.state is not PreemptionState.OPEN:
            return
        seat = next((seat for seat in preemption.plan.seats if seat.uid == pod.uid), None)
        if seat is None or pod.uid in preemption.seats:
            return
        log.warning("a member's binding was lost", pod=pod.key, node=seat.node)
        self._reservations.seat_back(preemption, pod, seat.node)
        preemption.deadline = self._clocks.monotonic() + self._bind_seconds
        preemption.doubted = True

    def _bound(self, pod: Pod, *, seen: bool) -> None:
        """``seen``: it was there before, without a node. What kube-scheduler binds was offered,
        however long ago."""
        self._notices.held_back.gone(pod)
        key = self._gangs.member_key(pod)
        offered = self._offers.settled(pod.uid)
        if key is not None and offered is not None:
            self._evictions.joined(str(unit_key(key, pod)), pod, offered.time)
        preemption = self._reservations.of_member(pod.uid)
        self._reservations.doubt(pod.node, but=preemption)
        if preemption is None:
            if offered is None and not seen:
                self._reservations.unadmitted(pod)
            return
        seat = preemption.seats.get(pod.uid)
        if seat != pod.node:
            log.warning("member bound elsewhere", pod=pod.key, node=pod.node, seat=seat)
        self._reservations.seat_taken(pod.uid)
        if preemption.seats and preemption.state in (
            PreemptionState.PLANNED,
            PreemptionState.EVICTING,
            PreemptionState.WAITING,
        ):
            self._replan(preemption, f"member {pod.key} has a node before the seats are open")
            return
        self._done_if_seated(preemption)

    def _done_if_seated(self, preemption: Preemption) -> None:
        if not preemption.seats:
            took = self._clocks.monotonic() - preemption.started
            self._lifetimes.end(
                preemption,
                Outcome.DONE,
                f"{all_of(len(preemption.plan.seats), 'member', 'is', 'are')} bound {took:.1f} s "
                f"after the plan, {counted(len(preemption.plan.victims), 'pod', 'was', 'were')} "
                "evicted",
            )


def _grew(old: Pod, new: Pod) -> bool:
    """Whether a pod asks for more of anything than before."""
    before = dict(old.requests)
    return any(amount > before.get(name, 0) for name, amount in new.requests)
