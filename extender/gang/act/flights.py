"""Plans in flight, from the first eviction to the last binding.

A flight is entered once its seats are to be held, started once its record is
written, and ended exactly once. The cache tells of every pod change through
``observe``; what is not evicted yet when a plan ends stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from extender.fit.selectors import matches
from extender.gang.act.background import Background
from extender.gang.act.book import Book, Flight, State, seats_of
from extender.gang.act.clocks import Clocks
from extender.gang.act.evictor import EvictionRefused, Evictor
from extender.gang.act.expectations import Expectations, not_shown
from extender.gang.act.notifier import Notifier
from extender.gang.act.record import Record, Records
from extender.gang.tell.decisions import Decision
from extender.kube.errors import ApiError
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Victim
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")

WAKE_PAUSES = (0.0, 1.0, 3.0, 8.0, 20.0)
"""Seconds after the seats open at which members without a node are woken again."""
DROP_PAUSES = (0.5, 2.0, 8.0, 0.0)
MAX_TOLD = 64
"""Members that get an event of their own; the rest of a big gang can read theirs."""
MAX_HELD_BACK = 4096


class Flights:
    """Acts on the plans in ``book``. ``ended(flight, outcome, penal)`` is told of each end."""

    def __init__(
        self,
        book: Book,
        settings: Settings,
        snapshot: Callable[[], Snapshot],
        records: Records,
        evictor: Evictor,
        notifier: Notifier,
        clocks: Clocks,
        decide: Callable[[Decision], None],
        ended: Callable[[Flight, bool, bool], None],
    ) -> None:
        self.book = book
        self._settings = settings
        self._snapshot = snapshot
        self._records = records
        self._evictor = evictor
        self._notifier = notifier
        self._clocks = clocks
        self._decide = decide
        self._ended = ended
        self._interest: dict[str, set[GangKey]] = {}
        """Uid of a victim or waited-for pod -> plans that want it gone."""
        self._held_back: dict[str, Pod] = {}
        """Pods of no gang that a seat kept off a node, to be woken when a plan ends."""
        self.leaving = Expectations(clocks.monotonic)
        self._background = Background()
        self.spawn = self._background.spawn
        """Runs a coroutine beside everything else; a failure is logged."""

    # -- begin ----------------------------------------------------------------------------

    def new(self, plan: Plan, pods: dict[str, Pod]) -> Flight:
        """Return a flight for a plan; ``pods`` are the gang's members by uid."""
        now = self._clocks.monotonic()
        staying = not_shown(plan.waits_for, self._snapshot())
        return Flight(
            plan=plan,
            pods={seat.uid: pods[seat.uid] for seat in plan.seats},
            seats={seat.uid: seat.node for seat in plan.seats},
            state=State.EVICTING,
            since=now,
            victims={v.uid: v for v in (*plan.victims, *staying)},
            waits={v.uid: v for v in plan.waits_for if v not in staying},
            started=now,
        )

    def enter(self, flight: Flight) -> None:
        """Hold the seats, and count the room of those who go as promised."""
        bound = self._snapshot().bound
        going = {**flight.victims, **flight.waits}
        self.book.open_flight(
            flight,
            [
                (pod.node, pod.uid, pod.requests)
                for victim in going.values()
                for pod in bound.get(victim.node, ())
                if pod.uid == victim.uid
            ],
        )
        for uid in going:
            self._interest.setdefault(uid, set()).add(flight.key)

    async def record(self, plan: Plan) -> None:
        """Write the plan down; only then may it act. Raises ApiError."""
        await self._records.save(plan, self._clocks.wall())

    def start(self, flight: Flight) -> None:
        """Begin (or, after a restart, go on with) what the plan needs next."""
        if self._settings.seats.nominate and (flight.victims or flight.waits):
            for uid, node in flight.seats.items():
                self.spawn(self._notifier.nominate(flight.pods[uid], node))
        todo = [victim for victim in flight.victims.values() if victim.uid not in flight.sent]
        if todo:
            self.spawn(self._evict(flight, todo))
        else:
            self._advance(flight)

    # -- evict ----------------------------------------------------------------------------

    async def _evict(self, flight: Flight, victims: list[Victim]) -> None:
        plan = flight.plan
        message = (
            f"preempted by {plan.gang} (priority {plan.priority}), which runs as a whole "
            f"once {len(plan.victims)} pods are gone"
        )
        try:
            await self._evictor.evict(
                victims,
                self._budgeted(victims),
                message,
                wanted=lambda uid: not flight.cancelled and uid in flight.victims,
                asked=lambda uid: self.leaving.ask(uid, flight.victims[uid].node),
                sent=lambda uid: self._sent(flight, uid, message),
            )
        except EvictionRefused as refused:
            if not flight.cancelled:
                why = f"an eviction was refused in rehearsal, nobody is evicted: {refused}"
                self.end(flight, "gave-up", why, penal=True)
            return
        if not flight.cancelled and flight.state is State.EVICTING:
            self._advance(flight)

    def _budgeted(self, victims: Iterable[Victim]) -> frozenset[str]:
        """Return the uids of victims that a respected PodDisruptionBudget covers."""
        snapshot = self._snapshot()
        if self._settings.plan.pdb_policy != "respect" or not snapshot.budgets:
            return frozenset()
        covered = set()
        for victim in victims:
            for pod in snapshot.bound.get(victim.node, ()):
                if pod.uid == victim.uid and any(
                    budget.namespace == pod.namespace and matches(budget.selector, pod.labels)
                    for budget in snapshot.budgets
                ):
                    covered.add(pod.uid)
        return frozenset(covered)

    def _sent(self, flight: Flight, uid: str, message: str) -> None:
        flight.sent.add(uid)
        victim = next(v for v in (*flight.plan.victims, *flight.plan.waits_for) if v.uid == uid)
        note = f"{message}; this pod (priority {victim.priority}): {victim.reason}"
        self.spawn(
            self._notifier.event(victim.uid, victim.namespace, victim.name, "Preempted", note)
        )
        if len(flight.sent) == 1:
            self._tell_members(flight)

    def _tell_members(self, flight: Flight) -> None:
        victims = flight.plan.victims
        names = ", ".join(f"{v.namespace}/{v.name} (priority {v.priority})" for v in victims[:8])
        more = f" and {len(victims) - 8} more" if len(victims) > 8 else ""
        note = (
            f"evicting {len(victims)} pods for {flight.key} (priority {flight.plan.priority}), "
            f"{flight.plan.proof}: {names}{more}"
        )
        for pod in list(flight.pods.values())[:MAX_TOLD]:
            self.spawn(
                self._notifier.event(pod.uid, pod.namespace, pod.name, "GangPreempting", note)
            )

    # -- wait, open -----------------------------------------------------------------------

    def _advance(self, flight: Flight) -> None:
        """Move to the state that what is left to go away calls for."""
        now = self._clocks.monotonic()
        if flight.victims or flight.waits:
            if flight.state is not State.WAITING:
                flight.state, flight.since = State.WAITING, now
            return
        if flight.state is not State.OPEN:
            flight.state, flight.since = State.OPEN, now
            flight.deadline = now + self._settings.seats.bind_seconds
            log.info("seats open", gang=str(flight.key), seats=len(flight.seats))
            self.spawn(self._wake_members(flight))

    async def _wake_members(self, flight: Flight) -> None:
        for pause in WAKE_PAUSES:
            left = flight.since + pause - self._clocks.monotonic()
            if left > 0:
                await asyncio.sleep(left)
            if flight.cancelled or not flight.seats:
                return
            moment = self._clocks.wall()
            await asyncio.gather(
                *(
                    self._notifier.wake(flight.pods[uid], node, moment)
                    for uid, node in list(flight.seats.items())
                )
            )

    def overdue(self, flight: Flight) -> str | None:
        """Return why the flight has taken too long, None when it has not."""
        now = self._clocks.monotonic()
        if flight.state is State.OPEN:
            if now < flight.deadline:
                return None
            names = ", ".join(flight.pods[uid].name for uid in sorted(flight.seats)[:5])
            return (
                f"{len(flight.seats)} members ({names}) did not bind within "
                f"{self._settings.seats.bind_seconds:g} s: the seats go back"
            )
        slack = self._settings.seats.victim_slack_seconds
        going = (*flight.victims.values(), *flight.waits.values())
        longest = max((victim.grace for victim in going), default=0)
        if now - flight.since <= longest + slack:
            return None
        stuck = ", ".join(sorted(victim.name for victim in going)[:5])
        unsent = len(flight.victims.keys() - flight.sent)
        refused = (
            f" ({unsent} evictions not accepted: {self._evictor.last_error})" if unsent else ""
        )
        return (
            f"{stuck} did not go away within the grace period and {slack:g} s{refused}: "
            "the seats go back, nothing further is evicted for this plan"
        )

    # -- end ------------------------------------------------------------------------------

    def leave(self, flight: Flight) -> None:
        """Take the flight out of the book: evictions not yet sent are cancelled."""
        flight.cancelled = True
        self.book.close(flight.key)
        for victim in (*flight.plan.victims, *flight.plan.waits_for):
            wanted = self._interest.get(victim.uid)
            if wanted is None:
                continue
            wanted.discard(flight.key)
            if not wanted:
                del self._interest[victim.uid]
                self.book.pod_left(victim.node, victim.uid)

    def end(self, flight: Flight, outcome: str, message: str, *, penal: bool = False) -> None:
        """Close a plan: seats back, record dropped, those kept waiting woken.

        ``penal``: the plan failed by itself, so the gang's next one has to wait.
        """
        held = seats_of(flight)
        self.leave(flight)
        self._decide(
            Decision(
                time=self._clocks.wall(),
                gang=str(flight.key),
                verb="loop",
                outcome=outcome,
                message=message,
                victims=flight.plan.victims,
                seats=flight.plan.seats if outcome == "done" else held,
                seconds=self._clocks.monotonic() - flight.started,
            )
        )
        self._ended(flight, outcome == "done", penal)
        if self._settings.seats.nominate and flight.plan.victims:
            for seat in held:
                self.spawn(self._notifier.nominate(flight.pods[seat.uid], ""))
        moment = self._clocks.wall()
        waiting, self._held_back = self._held_back, {}
        for pod in waiting.values():
            self.spawn(self._notifier.wake(pod, "", moment))
        self.spawn(self._drop_record(flight.key))

    async def _drop_record(self, key: GangKey) -> None:
        for pause in DROP_PAUSES:
            if self.book.get(key) is not None:
                return  # a new plan of the same gang has taken the record over
            try:
                await self._records.drop(key)
            except ApiError as error:
                log.warning("plan record not deleted", gang=str(key), error=str(error))
                await asyncio.sleep(pause)
            else:
                return

    def held_back(self, pod: Pod) -> None:
        """Remember a pod of no gang that a seat kept off a node."""
        if len(self._held_back) < MAX_HELD_BACK:
            self._held_back[pod.uid] = pod

    # -- what the cache reports -----------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        if new is None or new.finished:
            if old is not None or new is not None:
                self._gone(old or new)  # type: ignore[arg-type]
            return
        if new.deleting and not (old and old.deleting):
            flight = self.book.of_member(new.uid)
            if flight is not None:
                self._member_lost(flight, new)
        if new.node and not (old and old.node):
            self._bound(new)

    def _gone(self, pod: Pod) -> None:
        for key in self._interest.pop(pod.uid, set()):
            flight = self.book.get(key)
            if flight is None:
                continue
            flight.victims.pop(pod.uid, None)
            flight.waits.pop(pod.uid, None)
            if not flight.victims and not flight.waits:
                self._advance(flight)
        self.book.pod_left(pod.node, pod.uid)
        self._held_back.pop(pod.uid, None)
        self.leaving.gone(pod.uid)
        flight = self.book.of_member(pod.uid)
        if flight is not None:
            self._member_lost(flight, pod)

    def _member_lost(self, flight: Flight, pod: Pod) -> None:
        self.end(flight, "gave-up", f"member {pod.key} went away before it was bound")

    def _bound(self, pod: Pod) -> None:
        self._held_back.pop(pod.uid, None)
        flight = self.book.of_member(pod.uid)
        if flight is None:
            return
        seat = flight.seats.get(pod.uid)
        if seat != pod.node:
            log.warning("member bound elsewhere", pod=pod.key, node=pod.node, seat=seat)
        self.book.seat_taken(pod.uid)
        if not flight.seats:
            took = self._clocks.monotonic() - flight.started
            self.end(
                flight,
                "done",
                f"all {len(flight.plan.seats)} members are bound {took:.1f} s after the plan, "
                f"{len(flight.plan.victims)} pods were evicted",
            )

    # -- restart --------------------------------------------------------------------------

    def resume(self, record: Record) -> Flight | None:
        """Go on with a recorded plan where the cluster stands, or give it up cleanly."""
        plan = record.plan
        snapshot = self._snapshot()
        bound = {pod.uid: pod for pods in snapshot.bound.values() for pod in pods}
        waiting = {
            seat.uid: snapshot.pending[seat.uid]
            for seat in plan.seats
            if seat.uid in snapshot.pending and not snapshot.pending[seat.uid].deleting
        }
        lost = [s for s in plan.seats if s.uid not in waiting and s.uid not in bound]
        now = self._clocks.monotonic()
        staying = not_shown(plan.waits_for, snapshot)
        flight = Flight(
            plan=plan,
            pods=waiting,
            seats={seat.uid: seat.node for seat in plan.seats if seat.uid in waiting},
            state=State.EVICTING,
            since=now,
            victims={v.uid: v for v in (*plan.victims, *staying) if v.uid in bound},
            waits={v.uid: v for v in plan.waits_for if v.uid in bound and v not in staying},
            sent={v.uid for v in plan.victims if v.uid not in bound or bound[v.uid].deleting},
            started=now,
        )
        self.enter(flight)
        if lost:
            self.end(flight, "gave-up", f"{len(lost)} members went away while we were away")
            return None
        if not waiting:
            self.end(flight, "done", "all members were bound while we were away")
            return None
        return flight

    async def load_records(self) -> list[Record]:
        """Return the plans of a life before. Raises ApiError."""
        records, broken = await self._records.load()
        for name in broken:
            log.error("an unreadable plan record is left alone", config_map=name)
        return records

    async def close(self) -> None:
        """Stop background work. Plans stay recorded; the next start goes on with them."""
        await self._background.close()
