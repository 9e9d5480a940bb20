"""Seats that kube-scheduler refuses: exchanged between members, else changed, a bounded number.

A refusal is what kube-scheduler did with the seat itself (docs/nominations.md):

- it was asked about a list that has every node, and the seat is not in it;
- the attempt was made with the seat nominated, so the seat was tried first, and we were asked
  about other nodes: something in kube-scheduler, or an extender before us, has refused it;
- its nomination was cleared time and again and we were never asked;
- we gave the seat, and the member came back: reserve, pre-bind or bind has failed.

A list of some of the nodes says nothing about the others, and the member is nominated instead.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from extender.gang.controller.hints import Requeuing
from extender.gang.core.preemption import DoesNotHold
from extender.gang.core.reservations import Preemption, Reservations, Tries, TurnedAway
from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GangKey, Pod

MISSED_SECONDS = 3.0
"""A seat that kube-scheduler does not offer for this long is changed: its own cache
may be behind ours by a moment, but not by seconds."""
TURNED_SECONDS = 0.9
"""A list after its nominated seat, and preempt, that come this soon after we kept a member off its
seat are the rest of that attempt, and say nothing about the seat."""
MOST_PUT_OFFS = 3
"""How often a start is put off, for MISSED_SECONDS each time at most."""
MOST_GIVEN = 3
"""How often a member is given one seat and comes back without a node."""
ATTEMPT_SECONDS = 0.5
"""What is asked again this soon is the same attempt, sent twice on its way to us: kube-scheduler
backs off for a second at least (podInitialBackoffSeconds)."""
MOST_UNHEARD = 3
"""How often a nomination is cleared without a question before that counts as a refusal: an
attempt that was under way when it was written may clear it untried."""


class Machine(Protocol):
    """What carries plans out (controller/executor.py)."""

    def feed(self, event: DoesNotHold) -> None:
        """Take in that a plan does not hold any more."""


class RefusedSeats:
    """Reacts to them."""

    def __init__(
        self,
        machine: Machine,
        reservations: Reservations,
        clocks: Clocks,
        evidence: NodeLists,
        calls: Requeuing,
    ) -> None:
        self._machine = machine
        self._reservations = reservations
        self._clocks = clocks
        self._evidence = evidence
        self._calls = calls

    def turned_away(self, preemption: Preemption, pod: Pod, *, alone: bool) -> None:
        """Note that we keep a member off its seat, for a reason of our own.

        ``alone``: the question was about its nominated seat alone.
        """
        preemption.turned_away[pod.uid] = TurnedAway(at=self._clocks.monotonic(), alone=alone)
        self._asked(preemption, pod)

    def _asked(self, preemption: Preemption, pod: Pod) -> None:
        """A member that has asked is on its way nowhere, and not one nobody asks about."""
        self._reservations.not_coming(preemption, [pod.uid])
        preemption.tries.setdefault(pod.uid, Tries()).unheard = 0

    def starts_with(self, preemption: Preemption, pod: Pod, *, alone: bool) -> bool:
        """Note that a member is offered its seat; whether the gang's start may begin with it.

        Not while kube-scheduler does not offer another member its own, but for a while: it may
        know before us that a node is gone, and who sat by then would run in part.
        """
        missed = preemption.missed.pop(pod.uid, None) is not None
        if (
            preemption.missed
            and not preemption.begun_without(pod.uid)
            and self._puts_off(preemption)
        ):
            self.turned_away(preemption, pod, alone=alone)
            preemption.put_off.add(pod.uid)
            return False
        if missed and not preemption.missed:
            self._let_in(preemption)
            if preemption.put_offs < MOST_PUT_OFFS:
                preemption.put_off_until = 0.0
        return True

    def _puts_off(self, preemption: Preemption) -> bool:
        """Whether a start that lacks an offer still waits."""
        if not preemption.put_off_until:
            preemption.put_offs += 1
            preemption.put_off_until = self._clocks.monotonic() + MISSED_SECONDS
            self._calls.after(preemption, MISSED_SECONDS, lambda: self._let_in(preemption))
        return self._clocks.monotonic() < preemption.put_off_until

    def _let_in(self, preemption: Preemption) -> None:
        """Have those tried again that were put off, and whom they waited for."""
        if preemption.put_off:
            waiting = preemption.put_off | preemption.missed.keys()
            self._calls.now(preemption, sorted(waiting & preemption.seats.keys()))
            preemption.put_off.clear()

    def seat_given(self, preemption: Preemption, pod: Pod) -> bool:
        """Note that a member is about to be given its seat; False when it must not be any more.

        One that was given it several times, and asks again, cannot be bound there.
        """
        now = self._clocks.monotonic()
        tries = preemption.tries.setdefault(pod.uid, Tries())
        tries.unheard, tries.for_now = 0, False
        repeated = tries.given > 0 and now - tries.asked_at < ATTEMPT_SECONDS
        if tries.given == 0:
            tries.given_at = now
        elif not repeated and tries.given >= MOST_GIVEN and now - tries.given_at >= MISSED_SECONDS:
            self._refuse(
                preemption, pod, f"{pod.name} was given {preemption.seats[pod.uid]} and came back"
            )
            return False
        tries.given += not repeated
        tries.asked_at = now
        self._reservations.answered(preemption, pod.uid, now)
        return True

    def seat_not_tried(self, preemption: Preemption, pod: Pod) -> None:
        """Note an attempt that says nothing about the member's seat: it was not made with it."""
        if preemption.state is not PreemptionState.OPEN:
            return
        self._asked(preemption, pod)
        self._calls.again(preemption, pod.uid)

    def seat_not_offered(self, preemption: Preemption, pod: Pod, others: frozenset[str]) -> None:
        """Note that kube-scheduler would not put the member on its seat.

        Swap with an interchangeable member that cannot have its own seat either;
        else, when it stays so, plan again without that node. Before the seats
        are open their room is not there, and nothing else is to be expected.
        """
        if preemption.state is not PreemptionState.OPEN:
            return
        if self._is_rest_of_attempt(preemption, pod, others):
            self.seat_not_tried(preemption, pod)
            return
        self._asked(preemption, pod)
        self._note_others(preemption, pod)
        for other, node in preemption.seats.items():
            twin = preemption.pods[other]
            if other in preemption.missed and node in others and alike(twin, pod):
                self._reservations.swap(preemption, pod.uid, other)
                for moved in (pod.uid, other):
                    preemption.missed.pop(moved, None)
                    preemption.tries.pop(moved, None)
                    self._calls.again(preemption, moved)
                if not preemption.missed:
                    self._let_in(preemption)
                return
        preemption.missed.setdefault(pod.uid, self._clocks.monotonic())
        if not self._look(preemption, pod):
            self._ask_again(preemption, pod)

    def _is_rest_of_attempt(self, preemption: Preemption, pod: Pod, others: frozenset[str]) -> bool:
        """Whether a question comes after our own refusal. A list after a list is a new attempt:
        kube-scheduler may pop a pod before its back-off is over (SchedulerPopFromBackoffQ)."""
        turned = preemption.turned_away.get(pod.uid)
        if turned is None or self._clocks.monotonic() - turned.at >= TURNED_SECONDS:
            return False
        if others:
            preemption.turned_away[pod.uid] = TurnedAway(at=turned.at, alone=False)
        return turned.alone or not others

    def look(self, preemption: Preemption) -> None:
        """Change the seat of a member that was refused it and has not asked again.

        With others assumed on their seats kube-scheduler may have no node left on which it would
        ask about that member, while they wait for it.
        """
        if self._clocks.monotonic() - preemption.put_off_until < MISSED_SECONDS:
            return  # those who waited with it are on their way only now
        for uid in [uid for uid in preemption.missed if uid in preemption.seats]:
            if preemption.state is PreemptionState.OPEN and uid in preemption.missed:
                if self._note_others(preemption, preemption.pods[uid]):
                    self._calls.now(preemption, [uid])  # it has not been tried since
                else:
                    self._look(preemption, preemption.pods[uid])

    def _ask_again(self, preemption: Preemption, pod: Pod) -> None:
        """Have the member tried again, and every rule of ours asked meanwhile: only what none of
        them is against is kube-scheduler's secret, and remembered of the node."""
        preemption.unchecked |= not preemption.checking
        self._calls.again(preemption, pod.uid)

    def _look(self, preemption: Preemption, pod: Pod) -> bool:
        if preemption.in_question(preemption.missed[pod.uid]):
            return False
        now = self._clocks.monotonic()
        if min(now - preemption.missed[pod.uid], now - preemption.since) < MISSED_SECONDS:
            return False
        why = f"kube-scheduler does not accept {pod.name} on {preemption.seats[pod.uid]}"
        self._refuse(preemption, pod, why)
        return True

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of a member whose nomination kube-scheduler has cleared."""
        if old is None or new is None or new.node or old.nominated == new.nominated:
            return
        preemption = self._reservations.of_member(new.uid)
        if preemption is None or preemption.state is not PreemptionState.OPEN:
            return
        seat = preemption.seats[new.uid]
        if old.nominated != seat:
            return
        preemption.cleared.add(new.uid)
        if not self._calls.needs_nominations():
            return
        self._note_others(preemption, new)
        tries = preemption.tries.setdefault(new.uid, Tries())
        if not tries.unheard:
            tries.unheard_at = self._clocks.monotonic()
        tries.unheard += 1
        if (
            not preemption.in_question(tries.unheard_at)
            and tries.unheard > MOST_UNHEARD
            and self._clocks.monotonic() - preemption.since >= MISSED_SECONDS
        ):
            why = f"kube-scheduler tries {new.name} on {seat} and does not ask about it"
            self._refuse(preemption, new, why)
        else:
            self._ask_again(preemption, new)

    def _note_others(self, preemption: Preemption, pod: Pod) -> bool:
        """Note whether another plan is the reason; return True when it is not any more.

        What was refused until then says nothing of the seat itself, so it counts from now on.
        """
        tries = preemption.tries.setdefault(pod.uid, Tries())
        was = tries.for_now
        tries.for_now = self._others_keep(preemption.seats[pod.uid], preemption.key, pod.priority)
        if not was or tries.for_now:
            return False
        tries.unheard = 0
        if pod.uid in preemption.missed:
            preemption.missed[pod.uid] = self._clocks.monotonic()
        return True

    def _others_keep(self, node: str, gang: GangKey, priority: int) -> bool:
        """Whether kube-scheduler may keep a member off a node that has room for it by our count: it
        adds up its nominations of the same urgency or more and those that it waits for, and we
        count the latter as gone."""
        return bool(self._reservations.leaving_on(node)) and any(
            hold.gang != gang and hold.priority >= priority
            for hold in self._reservations.holds_on(node)
        )

    def _refuse(self, preemption: Preemption, pod: Pod, why: str) -> None:
        """Plan again without the seat's node for members like this one, and remember it: for a
        while, or where another plan is the reason as long as it is."""
        node = preemption.seats[pod.uid]
        for_now = preemption.tries.get(pod.uid, Tries()).for_now
        others_keep = partial(self._others_keep, node, preemption.key, pod.priority)
        self._evidence.refuses(pod, node, others_keep if for_now else None)
        if not for_now:
            preemption.refused.add(pod.uid)
        preemption.missed.clear()
        preemption.tries.clear()
        self._reservations.not_coming(preemption, [pod.uid])
        twins = [uid for uid, twin in preemption.pods.items() if uid == pod.uid or alike(twin, pod)]
        # The search may come later than the other plan ends, and it is left out until then anyhow.
        masked = [] if for_now else twins
        masks = dict.fromkeys(masked, frozenset({node}))
        self._machine.feed(DoesNotHold(preemption, why, masks))


def alike(one: Pod, other: Pod) -> bool:
    """Whether two members may trade seats."""
    return one.uid != other.uid and (one.requests, one.shape) == (other.requests, other.shape)
