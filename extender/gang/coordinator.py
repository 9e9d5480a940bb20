"""Takes gangs from a question to bound members: plan, record, evict, hold, release.

One coordinator acts at a time. Verbs and the controller loop ask ``ensure``;
the cache tells it of every change through ``observe``; ``tick`` looks at
deadlines and at gangs nobody has asked about. Planning is serialised by a lock,
so two gangs are never planned against the same free room.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import structlog
from msgspec import Struct
from msgspec.structs import replace

from extender.fit.selectors import matches
from extender.gang.book import Book, Flight, State, seats_of
from extender.gang.decisions import Decision, Decisions, of_plan, of_refusal
from extender.gang.evictor import EvictionRefused, Evictor
from extender.gang.herald import Herald
from extender.gang.planner import Planner
from extender.gang.record import Record, Records
from extender.groups.resolver import Resolver
from extender.kube.errors import ApiError
from extender.model.errors import NotReady
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Refusal, Victim
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")

SINGLE = "pod"
"""Dialect name of a plan for one pod of no gang."""
WAKE_PAUSES = (0.0, 1.0, 3.0, 8.0, 20.0)
"""Seconds after the seats open at which members without a node are woken again."""
MISSED_SECONDS = 3.0
"""A seat that kube-scheduler does not offer for this long is changed."""
MAX_PENALTY = 60.0


class Source(Protocol):
    """What the coordinator needs of the cache."""

    @property
    def synced(self) -> bool:
        """Whether every list has been read once."""

    def snapshot(self) -> Snapshot:
        """Return the present state."""

    def stale_for(self) -> float:
        """Return how many seconds a needed watch has been silent while down."""


class Clocks(Struct, frozen=True):
    """Injected time. ``monotonic`` drives deadlines, ``wall`` is only written down."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class Penalty(Struct):
    """A gang whose plan was given up waits before the next one."""

    until: float
    times: int


class Answered(Struct, frozen=True):
    """A refusal and when it may be looked at again."""

    refusal: Refusal
    generation: int
    book_version: int
    until: float


class Coordinator:
    """Owns the book of plans in flight."""

    def __init__(
        self,
        source: Source,
        settings: Settings,
        resolver: Resolver,
        records: Records,
        evictor: Evictor,
        herald: Herald,
        *,
        clocks: Clocks | None = None,
        decided: Callable[[Decision], None] = lambda decision: None,
    ) -> None:
        self.book = Book()
        self.decisions = Decisions()
        self.resolver = resolver
        self._source = source
        self._settings = settings
        self._records = records
        self._evictor = evictor
        self._herald = herald
        self._clocks = clocks or Clocks()
        self._decided = decided
        self._planner = Planner(settings, resolver)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")
        self._lock = asyncio.Lock()
        self._refused: dict[GangKey, Answered] = {}
        self._penalties: dict[GangKey, Penalty] = {}
        self._masks: dict[GangKey, dict[str, frozenset[str]]] = {}
        self._grown: dict[GangKey, float] = {}
        """Gang -> monotonic time at which its last member was first seen."""
        self._interest: dict[str, set[GangKey]] = {}
        """Uid of a victim or waited-for pod -> plans that want it gone."""
        self._held_back: dict[str, Pod] = {}
        """Pods of no gang that a reservation kept off a node, to wake when it ends."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.recovered = False

    # -- asking -------------------------------------------------------------------------

    def gang_of(self, pod: Pod, snapshot: Snapshot) -> Gang | None:
        """Return the pod's gang as resolved, None for a pod of no gang."""
        key = self.resolver.member_key(pod)
        return None if key is None else self.resolver.resolve(key, snapshot)

    def stale(self) -> str | None:
        """Return why gangs cannot be decided now: the cache may be behind the cluster."""
        age = self._source.stale_for()
        if age > self._settings.cache.stale_seconds:
            return f"the cache is stale: a watch has been down for {age:.0f} s"
        return None

    async def ensure(
        self,
        key: GangKey,
        verb: str,
        offered: Mapping[str, frozenset[str]] | None = None,
        single: Gang | None = None,
        masks: Mapping[str, frozenset[str]] | None = None,
    ) -> Flight | Refusal:
        """Return the gang's plan in flight, making one if that can be; else why not.

        ``offered`` tells, per member uid, which nodes kube-scheduler accepts for
        it at this moment. ``single`` is a gang of one made for a pod of no gang,
        with the nodes it must not use in ``masks``. Raises NotReady before
        recovery is over.
        """
        if not self.recovered or not self._source.synced:
            raise NotReady("caches are not synced and plans not recovered yet")
        flight = self.book.get(key)
        if flight is not None:
            return flight
        stale = self.stale()
        if stale is not None:
            return self._note(Refusal(gang=key, code="stale", message=stale), verb, 0.0)
        kept = self._kept_refusal(key)
        if kept is not None:
            return kept
        async with self._lock:
            flight = self.book.get(key)
            if flight is not None:
                return flight
            return await self._plan(key, verb, offered, single, masks)

    async def ask(self, gang: Gang, masks: Mapping[str, frozenset[str]]) -> Plan | Refusal:
        """Return what would be planned, without acting on it."""
        async with self._lock:
            return await self._search(gang, self._source.snapshot(), masks, None)

    async def _search(
        self,
        gang: Gang,
        snapshot: Snapshot,
        masks: Mapping[str, frozenset[str]],
        offered: Mapping[str, frozenset[str]] | None,
    ) -> Plan | Refusal:
        """Plan on the worker thread, so that other calls and events go on meanwhile."""
        loop = asyncio.get_running_loop()
        seconds = self._settings.plan.seconds
        cancel = array("b", [0])
        timer = loop.call_later(seconds, cancel.__setitem__, 0, 1)
        holds = self.book.holds()
        deadline = time.monotonic() + seconds
        try:
            return await loop.run_in_executor(
                self._pool,
                lambda: self._planner.plan(
                    gang,
                    snapshot,
                    holds,
                    masks,
                    deadline=deadline,
                    cancel=cancel,
                    offered=offered,
                ),
            )
        finally:
            timer.cancel()

    def _kept_refusal(self, key: GangKey) -> Refusal | None:
        """Return the last refusal while nothing changed or while it is too early to ask."""
        kept = self._refused.get(key)
        if kept is None:
            return None
        unchanged = (
            kept.generation == self._source.snapshot().generation
            and kept.book_version == self.book.version
            and key not in self._masks
        )
        early = self._clocks.monotonic() < kept.until
        waits_for_time = kept.refusal.code in ("settling", "penalty")
        return kept.refusal if early or (unchanged and not waits_for_time) else None

    async def _plan(
        self,
        key: GangKey,
        verb: str,
        offered: Mapping[str, frozenset[str]] | None,
        single: Gang | None,
        masks: Mapping[str, frozenset[str]] | None,
    ) -> Flight | Refusal:
        snapshot = self._source.snapshot()
        gang = single or self.resolver.resolve(key, snapshot)
        waiting = self._must_wait(gang)
        if waiting is not None:
            return self._refuse(waiting, verb, 0.0)
        struck = {uid: frozenset(names) for uid, names in self._masks.get(key, {}).items()}
        for uid, names in (masks or {}).items():
            struck[uid] = struck.get(uid, frozenset()) | names
        began = self._clocks.monotonic()
        answer = await self._search(gang, snapshot, struck, offered)
        seconds = self._clocks.monotonic() - began
        if isinstance(answer, Refusal):
            self._masks.pop(key, None)
            return self._refuse(answer, verb, seconds)
        return await self._commit(answer, gang, snapshot, verb, seconds)

    def _must_wait(self, gang: Gang) -> Refusal | None:
        now = self._clocks.monotonic()
        penalty = self._penalties.get(gang.key)
        if penalty is not None and now < penalty.until:
            left = penalty.until - now
            return Refusal(
                gang=gang.key,
                code="penalty",
                message=f"its last plan was given up; the next one is made in {left:.1f} s",
            )
        if not gang.size_known and not gang.problems:
            quiet = now - self._grown.get(gang.key, float("-inf"))
            settle = self._settings.groups.settle_seconds
            if quiet < settle:
                return Refusal(
                    gang=gang.key,
                    code="settling",
                    message=f"its size is stated nowhere: {len(gang.members)} members exist, "
                    f"the last came {quiet:.1f} s ago, and {settle:g} s without a new one are "
                    "waited for",
                )
        return None

    def _refuse(self, refusal: Refusal, verb: str, seconds: float) -> Refusal:
        """Keep a refusal for a time that grows with what it cost to find."""
        pause = min(self._settings.plan.retry_seconds, max(0.05, 10 * seconds))
        self._refused[refusal.gang] = Answered(
            refusal=refusal,
            generation=refusal.generation,
            book_version=self.book.version,
            until=self._clocks.monotonic() + pause,
        )
        return self._note(refusal, verb, seconds)

    def _note(self, refusal: Refusal, verb: str, seconds: float) -> Refusal:
        self._decide(of_refusal(refusal, time=self._clocks.wall(), verb=verb, seconds=seconds))
        return refusal

    def _decide(self, decision: Decision) -> None:
        if self.decisions.add(decision):
            self._decided(decision)

    # -- acting -------------------------------------------------------------------------

    async def _commit(
        self, plan: Plan, gang: Gang, snapshot: Snapshot, verb: str, seconds: float
    ) -> Flight | Refusal:
        """Hold the seats, write the record, then (and only then) start the evictions."""
        for key in plan.takes_over:
            other = self.book.get(key)
            if other is not None:
                self._end(other, "gave-up", f"its seats went to the more urgent {plan.gang}")
        members = {pod.uid: pod for pod in gang.members}
        now = self._clocks.monotonic()
        flight = Flight(
            plan=plan,
            pods={seat.uid: members[seat.uid] for seat in plan.seats},
            seats={seat.uid: seat.node for seat in plan.seats},
            state=State.EVICTING,
            since=now,
            victims={victim.uid: victim for victim in plan.victims},
            waits={victim.uid: victim for victim in plan.waits_for},
            started=now,
        )
        self._enter(flight, snapshot)
        try:
            await self._records.save(plan, self._clocks.wall())
        except ApiError as error:
            self._leave(flight)
            return self._refuse(
                Refusal(
                    gang=plan.gang,
                    code="api",
                    message=f"the plan's record cannot be written, so nothing is evicted: {error}",
                ),
                verb,
                seconds,
            )
        self._refused.pop(plan.gang, None)
        self._masks.pop(plan.gang, None)
        self._decide(of_plan(plan, time=self._clocks.wall(), verb=verb, seconds=seconds))
        self._start(flight)
        return flight

    def _enter(self, flight: Flight, snapshot: Snapshot) -> None:
        gone = {*flight.victims, *flight.waits}
        leaving = [
            (pod.node, pod.uid, pod.requests)
            for victim in (*flight.victims.values(), *flight.waits.values())
            for pod in snapshot.bound.get(victim.node, ())
            if pod.uid == victim.uid
        ]
        self.book.open_flight(flight, leaving)
        for uid in gone:
            self._interest.setdefault(uid, set()).add(flight.key)

    def _leave(self, flight: Flight) -> None:
        flight.cancelled = True
        self.book.close(flight.key)
        for victim in (*flight.plan.victims, *flight.plan.waits_for):
            wanted = self._interest.get(victim.uid)
            if wanted is not None:
                wanted.discard(flight.key)
                if not wanted:
                    del self._interest[victim.uid]
                    self.book.pod_left(victim.node, victim.uid)

    def _start(self, flight: Flight) -> None:
        """Begin (or, after a restart, go on with) what the plan needs next."""
        if self._settings.seats.nominate:
            for uid, node in flight.seats.items():
                self._spawn(self._herald.nominate(flight.pods[uid], node))
        todo = [victim for victim in flight.victims.values() if victim.uid not in flight.sent]
        if todo:
            self._spawn(self._evict(flight, todo))
        else:
            self._advance(flight)

    async def _evict(self, flight: Flight, victims: list[Victim]) -> None:
        plan = flight.plan
        message = (
            f"preempted by {plan.gang} (priority {plan.priority}), which runs as a whole "
            f"once {len(plan.victims)} pods are gone"
        )
        budgeted = self._budgeted(victims)
        try:
            await self._evictor.evict(
                victims,
                budgeted,
                message,
                wanted=lambda uid: not flight.cancelled and uid in flight.victims,
                sent=lambda uid: self._sent(flight, uid, message),
            )
        except EvictionRefused as refused:
            if flight.cancelled:
                return
            lost = f"{len(flight.sent)} of {len(plan.victims)} were evicted before"
            self._end(flight, "gave-up", f"an eviction was refused: {refused}; {lost}", penal=True)
            return
        if not flight.cancelled and flight.state is State.EVICTING:
            self._advance(flight)

    def _budgeted(self, victims: Iterable[Victim]) -> frozenset[str]:
        """Return the uids of victims that a respected PodDisruptionBudget covers."""
        if self._settings.plan.pdb_policy != "respect":
            return frozenset()
        snapshot = self._source.snapshot()
        if not snapshot.budgets:
            return frozenset()
        labels = {pod.uid: pod.labels for pods in snapshot.bound.values() for pod in pods}
        return frozenset(
            victim.uid
            for victim in victims
            for budget in snapshot.budgets
            if budget.namespace == victim.namespace
            and matches(budget.selector, labels.get(victim.uid, {}))
        )

    def _sent(self, flight: Flight, uid: str, message: str) -> None:
        flight.sent.add(uid)
        victim = next(v for v in flight.plan.victims if v.uid == uid)
        note = f"{message}; this pod (priority {victim.priority}): {victim.reason}"
        self._spawn(
            self._herald.event(
                victim.uid, victim.namespace, victim.name, "Preempted", note, warning=False
            )
        )
        if len(flight.sent) == 1:
            names = ", ".join(f"{v.namespace}/{v.name}" for v in flight.plan.victims[:8])
            more = len(flight.plan.victims) - 8
            note = f"evicting {len(flight.plan.victims)} pods for {flight.key}: {names}" + (
                f" and {more} more" if more > 0 else ""
            )
            for pod in list(flight.pods.values())[:64]:
                self._spawn(
                    self._herald.event(
                        pod.uid, pod.namespace, pod.name, "GangPreempting", note, warning=False
                    )
                )

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
            self._spawn(self._wake_members(flight))

    async def _wake_members(self, flight: Flight) -> None:
        for pause in WAKE_PAUSES:
            left = flight.since + pause - self._clocks.monotonic()
            if left > 0:
                await asyncio.sleep(left)
            if flight.cancelled or flight.state is not State.OPEN or not flight.seats:
                return
            moment = self._clocks.wall()
            await asyncio.gather(
                *(
                    self._herald.wake(flight.pods[uid], node, moment)
                    for uid, node in list(flight.seats.items())
                )
            )

    def _end(self, flight: Flight, outcome: str, message: str, *, penal: bool = False) -> None:
        """Close a plan: seats back, record dropped, those kept waiting woken.

        ``penal``: the plan failed by itself, so the gang's next one has to wait.
        """
        key = flight.key
        held = seats_of(flight)
        self._leave(flight)
        now = self._clocks.monotonic()
        self._decide(
            Decision(
                time=self._clocks.wall(),
                gang=str(key),
                verb="loop",
                outcome=outcome,
                message=message,
                victims=flight.plan.victims,
                seats=flight.plan.seats if outcome == "done" else held,
                seconds=now - flight.started,
            )
        )
        if outcome == "done":
            self._penalties.pop(key, None)
        elif penal:
            times = self._penalties[key].times + 1 if key in self._penalties else 1
            self._penalties[key] = Penalty(until=now + min(MAX_PENALTY, 2.0**times), times=times)
        for seat in held:
            if self._settings.seats.nominate:
                self._spawn(self._herald.nominate(flight.pods[seat.uid], ""))
        moment = self._clocks.wall()
        waiting, self._held_back = self._held_back, {}
        for pod in waiting.values():
            self._spawn(self._herald.wake(pod, "", moment))
        self._spawn(self._drop_record(key))

    async def _drop_record(self, key: GangKey) -> None:
        for pause in (0.5, 2.0, 8.0, 0.0):
            if self.book.get(key) is not None:
                return  # a new plan of the same gang has taken the record over
            try:
                await self._records.drop(key)
            except ApiError as error:
                log.warning("plan record not deleted", gang=str(key), error=str(error))
                await asyncio.sleep(pause)
            else:
                return

    # -- what verbs report --------------------------------------------------------------

    def seat_not_offered(self, flight: Flight, pod: Pod, others: frozenset[str]) -> None:
        """Note that kube-scheduler would not put the member on its seat.

        Swap with an interchangeable member whose seat is offered; else, when it
        stays so (the scheduler's own cache may only be behind), plan again
        without that node.
        """
        now = self._clocks.monotonic()
        for other, node in flight.seats.items():
            twin = flight.pods[other]
            if (
                other != pod.uid
                and node in others
                and (twin.requests, twin.shape) == (pod.requests, pod.shape)
                and other in flight.missed
            ):
                self.book.swap(flight, pod.uid, other)
                flight.missed.clear()
                return
        since = flight.missed.setdefault(pod.uid, now)
        if now - since >= MISSED_SECONDS and now - flight.since >= MISSED_SECONDS:
            flight.missed.clear()
            self._spawn(self._change_seat(flight, pod))

    async def _change_seat(self, flight: Flight, pod: Pod) -> None:
        """Plan again without the refused node for this member's class."""
        async with self._lock:
            if flight.cancelled or pod.uid not in flight.seats:
                return
            node = flight.seats[pod.uid]
            why = f"kube-scheduler does not accept {pod.name} on {node}"
            if flight.replans >= self._settings.seats.max_replans:
                why += f", and seats were changed {flight.replans} times already"
                self._end(flight, "gave-up", why, penal=True)
                return
            masks = self._masks.setdefault(flight.key, {})
            for uid, twin in flight.pods.items():
                if (twin.requests, twin.shape) == (pod.requests, pod.shape):
                    masks[uid] = masks.get(uid, frozenset()) | {node}
            self._leave(flight)
            result = await self._plan(flight.key, "loop", None, self._single_gang(flight), masks)
            if isinstance(result, Flight):
                result.replans = flight.replans + 1
                result.started = flight.started
            else:
                why += f", and there is no other plan: {result.message}"
                self._end(flight, "gave-up", why, penal=True)

    def _single_gang(self, flight: Flight) -> Gang | None:
        if flight.key.dialect != SINGLE:
            return None
        return single_gang(next(iter(flight.pods.values())))

    def held_back(self, pod: Pod) -> None:
        """Remember a pod of no gang that a reservation kept off a node."""
        if len(self._held_back) < 4096:
            self._held_back[pod.uid] = pod

    # -- what the cache reports ---------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        pod = new or old
        assert pod is not None
        if new is None or new.finished:
            self._pod_gone(pod)
            return
        if new.deleting and not (old and old.deleting):
            flight = self.book.of_member(new.uid)
            if flight is not None:
                self._member_lost(flight, new)
        if new.node and not (old and old.node):
            self._pod_bound(new)
        if old is None and not new.node:
            key = self.resolver.member_key(new)
            if key is not None:
                self._grown[key] = self._clocks.monotonic()

    def _pod_gone(self, pod: Pod) -> None:
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
        flight = self.book.of_member(pod.uid)
        if flight is not None:
            self._member_lost(flight, pod)

    def _member_lost(self, flight: Flight, pod: Pod) -> None:
        """A member went away before it sat down: what is not yet evicted stays."""
        self._end(flight, "gave-up", f"member {pod.namespace}/{pod.name} went away before binding")

    def _pod_bound(self, pod: Pod) -> None:
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
            self._end(
                flight,
                "done",
                f"all {len(flight.plan.seats)} members are bound, "
                f"{len(flight.plan.victims)} pods were evicted, {took:.1f} s after the plan",
            )

    # -- time ---------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, period: float = 0.25) -> None:
        """Look at deadlines and waiting gangs until ``stop`` is set."""
        while not stop.is_set():
            try:
                await self.tick()
            except Exception:  # one bad gang must not end the loop for all others
                log.exception("tick failed")
            try:
                await asyncio.wait_for(stop.wait(), period)
            except TimeoutError:
                continue

    async def tick(self) -> None:
        """One round: end overdue plans, then plan waiting gangs, most urgent first."""
        if not self.recovered or not self._source.synced:
            return
        now = self._clocks.monotonic()
        for flight in self.book:
            overdue = self._overdue(flight, now)
            if overdue is not None:
                self._end(flight, "gave-up", overdue, penal=True)
        if self.stale() is not None:
            return
        snapshot = self._source.snapshot()
        for gang in self._waiting(snapshot):
            await self.ensure(gang.key, "loop")

    def _overdue(self, flight: Flight, now: float) -> str | None:
        if flight.state is State.OPEN:
            if now < flight.deadline:
                return None
            names = ", ".join(flight.pods[uid].name for uid in sorted(flight.seats)[:5])
            return (
                f"{len(flight.seats)} members ({names}) did not bind within "
                f"{self._settings.seats.bind_seconds:g} s: the seats go back"
            )
        slack = self._settings.seats.victim_slack_seconds
        longest = max(
            (v.grace for v in (*flight.victims.values(), *flight.waits.values())), default=0
        )
        if now - flight.since <= longest + slack:
            return None
        stuck = sorted(v.name for v in (*flight.victims.values(), *flight.waits.values()))
        return (
            f"{', '.join(stuck[:5])} did not go away within the grace period and {slack:g} s: "
            "the seats go back, nothing further is evicted for this plan"
        )

    def _waiting(self, snapshot: Snapshot) -> list[Gang]:
        """Return gangs that kube-scheduler has tried and that have no plan, most urgent first."""
        keys: dict[GangKey, None] = {}
        for pod in snapshot.pending.values():
            if pod.tried and not pod.gated and self._ours(pod):
                key = self.resolver.member_key(pod)
                if key is not None and self.book.get(key) is None:
                    keys[key] = None
        gangs = [self.resolver.resolve(key, snapshot) for key in keys]
        ready = [g for g in gangs if g.starts_whole and g.missing and g.complete]
        ready.sort(key=lambda g: (-g.preemptor_priority, min(p.created for p in g.members), g.key))
        return ready

    def _ours(self, pod: Pod) -> bool:
        names = self._settings.scheduler_names
        return not names or pod.shape.scheduler in names

    # -- restart ------------------------------------------------------------------------

    async def recover(self) -> None:
        """Read the plan records and go on with each, or give it up cleanly.

        To be called once, after the caches are synced and before any verb is
        answered. Raises ApiError when the records cannot be read: acting
        without them could forget seats.
        """
        records, broken = await self._records.load()
        for name in broken:
            log.error("unreadable plan record is left alone", config_map=name)
        snapshot = self._source.snapshot()
        for record in records:
            self._resume(record, snapshot)
        self.recovered = True

    def _resume(self, record: Record, snapshot: Snapshot) -> None:
        plan = record.plan()
        bound = {pod.uid: pod for pods in snapshot.bound.values() for pod in pods}
        seats = {
            seat.uid: seat.node
            for seat in plan.seats
            if seat.uid in snapshot.pending and not snapshot.pending[seat.uid].deleting
        }
        lost = [s for s in plan.seats if s.uid not in seats and s.uid not in bound]
        now = self._clocks.monotonic()
        flight = Flight(
            plan=plan,
            pods={uid: snapshot.pending[uid] for uid in seats},
            seats=seats,
            state=State.EVICTING,
            since=now,
            victims={v.uid: v for v in plan.victims if v.uid in bound},
            waits={v.uid: v for v in plan.waits_for if v.uid in bound},
            sent={v.uid for v in plan.victims if v.uid not in bound or bound[v.uid].deleting},
            started=now,
        )
        self._enter(flight, snapshot)
        if not seats or lost:
            done = not lost
            message = (
                "all members were bound while we were away"
                if done
                else f"{len(lost)} members went away while we were away"
            )
            self._end(flight, "done" if done else "gave-up", message)
            return
        self._decide(
            replace(
                of_plan(plan, time=self._clocks.wall(), verb="recovery", seconds=0.0),
                message=f"goes on after a restart: {len(seats)} seats to fill, "
                f"{len(flight.victims)} victims left, "
                f"{len(flight.victims.keys() - flight.sent)} evictions to send",
            )
        )
        self._start(flight)

    # -- tasks --------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._reap)

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed", exc_info=task.exception())

    async def close(self) -> None:
        """Stop background work. Plans stay recorded; the next start goes on with them."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)


def single_gang(pod: Pod) -> Gang:
    """Return a gang of one for a pod of no gang."""
    return Gang(
        key=GangKey(SINGLE, pod.namespace, pod.name),
        members=(pod,),
        min_count=1,
        unit=UNIT_ALL,
        preemptor_priority=pod.priority,
        victim_priority=pod.priority,
        preempts=pod.preempts,
    )
