"""Lets the members of a plan through to their nodes together, or none of them.

A member's bind is held until the binds of all untaken seats of its plan have arrived. It is held as
a future, which is answered with "" (bound) or with why the pod is not bound. Then all are rehearsed
as dry runs; only when the API server would take every one of them and the plan still holds are they
posted. Whatever goes wrong before that answers all held binds with an error, and nobody was bound.
From the first post on there is no way back: what is refused then is told, and undone where
``seats.rollback`` says so (``partial.py``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TypedDict

import structlog
from msgspec import Struct

from extender.gang.bind_barrier.partial import PartlyBound
from extender.gang.controller.executor import Executor
from extender.gang.controller.requests import CONCURRENCY, Binding, BindingOutcome, Ended
from extender.gang.controller.term import Term
from extender.gang.core.preemption import DoesNotHold
from extender.gang.core.refused_seats import RefusedSeats
from extender.gang.core.reservations import Preemption
from extender.gang.runtime.background import Background, each
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import Pod
from extender.model.texts import counted

log = structlog.get_logger("gang")


class HeldBind(Struct, eq=False):
    """One bind that is held. Times are monotonic."""

    uid: str
    node: str
    since: float
    answer: asyncio.Future[str]

    def settle(self, why: str) -> None:
        """Answer it: "" for bound. A caller that has gone is not told."""
        if not self.answer.done():
            self.answer.set_result(why)


class HeldMember(TypedDict):
    """A member whose bind is held, as the debug API shows it."""

    pod: str
    """The member, NAMESPACE/NAME."""
    uid: str
    node: str
    """The node that it is to be bound to."""
    seconds: float
    """How long its bind has been held."""


class HeldBinds(TypedDict):
    """The binds that are held for one plan, as the debug API shows them."""

    gang: str
    plan: str
    """Id of the plan."""
    opening: bool
    """Whether all binds have arrived and are being checked or posted."""
    posting: int
    """Bindings that were sent to the API server and are not answered."""
    held: list[HeldMember]
    """The members whose bind is held."""
    missing: list[str]
    """Members whose bind has not arrived, NAMESPACE/NAME."""


class Barrier:
    """Held binds by plan and member. One event loop only."""

    def __init__(self, clocks: Clocks, hold_seconds: float) -> None:
        self._clocks = clocks
        self._hold_seconds = hold_seconds
        self._held: dict[str, dict[str, HeldBind]] = {}
        self.count = 0
        """How many binds are held now."""

    def arrive(self, plan: str, uid: str, node: str) -> HeldBind:
        """Hold a bind; an earlier one of the same pod is answered: its caller has asked again."""
        held = self._held.setdefault(plan, {})
        earlier = held.pop(uid, None)
        if earlier is not None:
            self.count -= 1
            earlier.settle("the bind was asked for again")
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        held[uid] = arrival = HeldBind(uid, node, self._clocks.monotonic(), future)
        self.count += 1
        return arrival

    def withdraw(self, plan: str, arrival: HeldBind) -> None:
        """Its caller has gone: nobody waits for this bind any more."""
        held = self._held.get(plan, {})
        if held.get(arrival.uid) is arrival:
            del held[arrival.uid]
            self.count -= 1
            if not held:
                del self._held[plan]

    def held(self, plan: str) -> Mapping[str, HeldBind]:
        """Return a plan's held binds by pod uid."""
        return self._held.get(plan, {})

    def plans(self) -> Iterator[str]:
        """Yield the plans of which binds are held."""
        yield from list(self._held)

    def complete(self, plan: str, seats: Mapping[str, str]) -> bool:
        """Whether the members of all these seats (uid -> node) have arrived, each for its own."""
        held = self._held.get(plan)
        return held is not None and all(
            uid in held and held[uid].node == node for uid, node in seats.items()
        )

    def overdue(self, plan: str) -> bool:
        """Whether a bind is held for as long as one may be."""
        now = self._clocks.monotonic()
        return any(now - each.since >= self._hold_seconds for each in self.held(plan).values())

    def take(self, plan: str) -> list[HeldBind]:
        """Hold a plan's binds no longer; the caller answers them."""
        taken = list(self._held.pop(plan, {}).values())
        self.count -= len(taken)
        return taken


class Bindings:
    """Takes binds in. One event loop only.

    A ``gone`` is awaited only while a bind is held, and returns when its caller has left.
    """

    def __init__(
        self,
        term: Term,
        background: Background,
        executor: Executor,
        partly: PartlyBound,
        refused: RefusedSeats,
    ) -> None:
        self._settings = settings = term.settings.bind
        self._binder = term.binder
        self._leadership = term.leadership
        self._clocks = clocks = term.clocks
        self._executor = executor
        self._reservations = executor.plans.reservations
        self._spawn = background.spawn
        self._partly = partly
        self._refused = refused
        self.barrier = Barrier(clocks, settings.hold_seconds)
        self._opening: set[str] = set()
        """Plans whose bindings are being rehearsed."""
        self._posting: Counter[str] = Counter()
        """Plan -> bindings of it that are being posted."""
        self._opened: set[str] = set()
        """Plans under way of which bindings were posted: there is nothing left to hold for."""
        self._stopped = ""
        self.barriers: Counter[str] = Counter()
        """How often a barrier was opened, or failed with nobody bound."""
        self.ended_as: Counter[str] = Counter()
        """How bindings ended."""

    # -- asked for ------------------------------------------------------------------------

    async def alone(self, pod: Pod, node: str) -> str:
        """Bind a pod that no plan has a seat for; return why it is not bound, "" when it is."""
        binding = Binding(pod.uid, pod.namespace, pod.name, node)
        ended = await self._binder.bind(binding, lambda: self._leadership.acts)
        self.ended_as[ended.ending.value] += 1
        return ended.why

    async def member(
        self, preemption: Preemption, pod: Pod, node: str, gone: Callable[[], Awaitable[None]]
    ) -> str:
        """Bind a member of a plan with the others; return why it is not bound, "" when it is."""
        why = self._stopped or self._unseatable(preemption, pod.uid, node)
        if why:
            return why
        if self._begun(preemption):
            arrival = self._arrive(preemption, pod, node)
            self._open(preemption)
            return await asyncio.shield(arrival.answer)
        coming = preemption.seats.keys() - self.barrier.held(preemption.id).keys()
        # Who is held already takes no other place, and the last to come is not held.
        if self.barrier.count >= self._settings.max_held and pod.uid in coming and len(coming) > 1:
            self.barriers["full"] += 1
            return f"{counted(self.barrier.count, 'bind', 'is', 'are')} held already (bind.maxHeld)"
        arrival = self._arrive(preemption, pod, node)
        self._reservations.answered(preemption, pod.uid, self._clocks.monotonic())
        self._look(preemption)
        left = asyncio.ensure_future(gone())
        try:
            await asyncio.wait((arrival.answer, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            self.barrier.withdraw(preemption.id, arrival)
            self._held(preemption)
        if arrival.answer.done():
            return arrival.answer.result()
        # Its caller has left, but its binding may be on its way: that is not called back.
        return "the caller has left"

    def _arrive(self, preemption: Preemption, pod: Pod, node: str) -> HeldBind:
        arrival = self.barrier.arrive(preemption.id, pod.uid, node)
        self._held(preemption)
        return arrival

    def _take(self, preemption: Preemption) -> list[HeldBind]:
        arrivals = self.barrier.take(preemption.id)
        self._held(preemption)
        return arrivals

    def _held(self, preemption: Preemption) -> None:
        self._reservations.holds_binds(preemption, self.barrier.held(preemption.id).keys())

    def _unseatable(self, preemption: Preemption, uid: str, node: str) -> str:
        """Return why the member must not be bound to the node by this plan, "" when it may."""
        seat = preemption.seats.get(uid)
        if preemption.state is not PreemptionState.OPEN:
            return (
                f"{preemption.key}: its plan is {preemption.state.value}, "
                "and its seats are not open"
            )
        if seat is None:
            return f"{preemption.key}: it has no seat any more"
        if seat != node:
            return f"{preemption.key}: its seat is on {seat}, not on {node}"
        return ""

    def _begun(self, preemption: Preemption) -> bool:
        """Whether members of the plan sit, or are about to: nothing is gained by holding more."""
        return preemption.id in self._opened or len(preemption.seats) < len(preemption.plan.seats)

    # -- opening --------------------------------------------------------------------------

    def _look(self, preemption: Preemption) -> None:
        """Begin to let the members through once all have arrived."""
        if preemption.id in self._opening or not self.barrier.complete(
            preemption.id, preemption.seats
        ):
            return
        self._opening.add(preemption.id)
        self._spawn(self._rehearse(preemption))

    async def _rehearse(self, preemption: Preemption) -> None:
        try:
            failed: list[Ended] = []
            if len(preemption.seats) > 1:
                bindings = [_binding(preemption, uid) for uid in preemption.seats]
                failed = await self._binder.rehearse(bindings, lambda: self._complete(preemption))
            if not self._complete(preemption):
                return  # what happened meanwhile has answered them, or one of them asks again
            if failed:
                told = "; ".join(f"{each.binding}: {each.why}" for each in failed[:3])
                self._fail(
                    preemption,
                    f"{preemption.key}: no member is bound, a binding is refused: {told}",
                )
                return
            why = self._executor.preconditions.problem(preemption)
            if why:
                self._executor.feed(DoesNotHold(preemption, why))
                self._fail(preemption, f"{preemption.key}: no member is bound: {why}")
                return
            self.barriers["opened"] += 1
            self._open(preemption)
        finally:
            self._opening.discard(preemption.id)

    def _complete(self, preemption: Preemption) -> bool:
        return (
            self._leadership.acts
            and preemption.state is PreemptionState.OPEN
            and self.barrier.complete(preemption.id, preemption.seats)
        )

    def _open(self, preemption: Preemption) -> None:
        """Post all binds that are held: from here on there is no way back."""
        self._opened.add(preemption.id)
        arrivals = self._take(preemption)
        self._posting[preemption.id] += len(arrivals)
        self._spawn(self._post(preemption, arrivals))

    async def _post(self, preemption: Preemption, arrivals: list[HeldBind]) -> None:
        endings: list[Ended] = []

        def allowed() -> bool:
            return self._leadership.acts and preemption.state is PreemptionState.OPEN

        async def one(arrival: HeldBind) -> None:
            binding = _binding(preemption, arrival.uid, arrival.node)
            ended = Ended(binding, BindingOutcome.STOPPED, "it failed, see the log")
            try:
                why = self._unseatable(preemption, arrival.uid, arrival.node)
                if not why:
                    ended = await self._binder.bind(binding, allowed)
                elif arrival.uid in preemption.seats:
                    ended = Ended(binding, BindingOutcome.STOPPED, why)
                if ended.ending is BindingOutcome.STOPPED and arrival.uid not in preemption.seats:
                    # It sits, or is gone: perhaps by an earlier call of the same caller.
                    ended = await self._binder.settled(binding)
            finally:
                self._posting[preemption.id] -= 1
                endings.append(ended)
                self.ended_as[ended.ending.value] += 1
                arrival.settle(ended.why)

        try:
            await each(arrivals, CONCURRENCY, one)
        finally:
            for arrival in arrivals:
                arrival.settle("the term has ended")
            if not self._posting[preemption.id]:
                del self._posting[preemption.id]
        lost = [ended for ended in endings if ended.ending is not BindingOutcome.BOUND]
        self._reservations.not_coming(preemption, [ended.binding.uid for ended in lost])
        if lost:
            log.warning(
                "a gang is bound in part",
                gang=str(preemption.key),
                bound=len(endings) - len(lost),
                refused=[f"{ended.binding}: {ended.why}" for ended in lost[:5]],
            )
        self._partly.posted(preemption, endings)

    def posting(self, preemption: Preemption) -> bool:
        """Whether bindings of the plan are on their way to the API server."""
        return preemption.id in self._posting

    # -- failing --------------------------------------------------------------------------

    def _fail(self, preemption: Preemption, why: str) -> None:
        """Answer all held binds of a plan with an error; nobody of them is bound."""
        arrivals = self._take(preemption)
        if not arrivals:
            return
        self.barriers["failed"] += 1
        log.info("held binds are refused", gang=str(preemption.key), held=len(arrivals), why=why)
        if not preemption.over:
            self._reservations.not_coming(preemption, [arrival.uid for arrival in arrivals])
        for arrival in arrivals:
            preemption.tries.pop(arrival.uid, None)  # it comes back through no fault of its seat
            arrival.settle(why)

    def released(self, preemption: Preemption, why: str) -> None:
        """The plan has ended, or does not hold any more: no member may take its seats."""
        self._fail(preemption, f"{preemption.key}: no member is bound: {why}")
        if preemption.over:
            self._opened.discard(preemption.id)

    def ended(self, preemption: Preemption, *, done: bool, why: str) -> None:
        """A plan has ended, with all its members bound (``done``) or not."""
        if done:
            self._partly.done(preemption)
        elif not self.posting(preemption):  # else what became of its members is known in a moment
            self._partly.ended(preemption, why)

    def tick(self) -> None:
        """Look at deadlines and at seats that were taken meanwhile. Waits for nothing."""
        now = self._clocks.monotonic()
        preemptions = {preemption.id: preemption for preemption in self._reservations}
        held = [preemptions[plan] for plan in self.barrier.plans() if plan in preemptions]
        for preemption in held:
            try:
                self._look_after(preemption, now)
            except Exception:
                log.exception("held binds could not be looked at", plan=preemption.id)

    def _look_after(self, preemption: Preemption, now: float) -> None:
        plan = preemption.id
        if self.barrier.overdue(plan):
            missing = _names(preemption, preemption.seats.keys() - self.barrier.held(plan).keys())
            seconds = self._settings.hold_seconds
            self._fail(
                preemption,
                f"{preemption.key}: no member is bound: {missing} did not arrive "
                f"within {seconds:g} s",
            )
            return
        self._refused.look(preemption)
        preemption.answered_at = now  # whoever is held is on its way, however long
        if self._begun(preemption):
            self._open(preemption)
        else:
            self._look(preemption)

    def stop(self, why: str) -> None:
        """Answer all that is held with an error, and whoever comes from now on."""
        self._stopped = why
        for preemption in self._reservations:
            self._fail(preemption, f"{preemption.key}: no member is bound: {why}")

    def describe(self) -> list[HeldBinds]:
        """Return, for a person, what is held and which members it waits for."""
        now = self._clocks.monotonic()
        return [
            {
                "gang": str(preemption.key),
                "plan": preemption.id,
                "opening": preemption.id in self._opening,
                "posting": self._posting.get(preemption.id, 0),
                "held": [
                    {
                        "pod": preemption.pods[each.uid].key,
                        "uid": each.uid,
                        "node": each.node,
                        "seconds": round(now - each.since, 3),
                    }
                    for each in self.barrier.held(preemption.id).values()
                ],
                "missing": sorted(
                    preemption.pods[uid].key
                    for uid in preemption.seats.keys() - self.barrier.held(preemption.id).keys()
                ),
            }
            for preemption in self._reservations
            if self.barrier.held(preemption.id) or self.posting(preemption)
        ]


def _binding(preemption: Preemption, uid: str, node: str = "") -> Binding:
    pod = preemption.pods[uid]
    return Binding(uid, pod.namespace, pod.name, node or preemption.seats[uid])


def _names(preemption: Preemption, uids: Iterable[str]) -> str:
    names = sorted(preemption.pods[uid].name for uid in uids)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
