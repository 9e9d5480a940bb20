"""How kube-scheduler is brought to try pods again: nominations and wake-ups, behind one gate."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from extender.gang.controller.notifier import Notifier
from extender.gang.core.reservations import Preemption, Reservations, Tries
from extender.gang.incremental.enforcement import Enforcement
from extender.gang.plan.lists import samples
from extender.gang.plan.nominated import victims_leave
from extender.gang.runtime.background import Background, each
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.fair_lru import Shares
from extender.model.memory_limits import OVERSIZE
from extender.model.objects import EXCLUSIVE_DISK, VOLUME_CLAIM, GangKey, Pod
from extender.model.snapshot import Snapshot

CONCURRENCY = 32
"""Hints and events under way at a time: those of a gang of thousands must not crowd evictions
out."""
CLEAR_PAUSE = 0.5
LONGEST_CLEAR_PAUSE = 5.0
CLEARING = 8
"""How many are cleared at a time."""

Keys = Callable[[Pod], GangKey | None]


class Nominations:
    """status.nominatedNodeName of members: written when a plan acts, cleared when it is over.

    A hint only, but one that is not cleared makes kube-scheduler keep room free for nobody, so
    clearing is tried until it is done. ``gate`` bounds all hints.
    """

    def __init__(
        self,
        notifier: Notifier,
        reservations: Reservations,
        source: ClusterSource,
        background: Background,
        gate: asyncio.Semaphore,
    ) -> None:
        self._notifier = notifier
        self._reservations = reservations
        self._source = source
        self._spawn = background.spawn
        self._gate = gate
        self._queue: deque[Pod] = deque()
        self._clearing: dict[str, str] = {}
        """Uids that are queued or just being cleared -> the node that one has to be nominated to
        still, "" = whichever."""
        self._busy = 0

    async def write(self, preemption: Preemption) -> None:
        """Write each member's seat."""

        async def one(uid: str) -> None:
            await self.write_one(preemption, uid)

        await each(list(preemption.seats), CONCURRENCY, one)

    async def write_one(self, preemption: Preemption, uid: str) -> None:
        """Write one member's seat, if it has one still."""
        node = preemption.seats.get(uid)
        if node is None or preemption.over:
            return
        async with self._gate:
            await self._notifier.nominate(preemption.pods[uid], node)
        holder = self._reservations.of_member(uid)
        if holder is None or holder.seats.get(uid) != node:
            self.clear([preemption.pods[uid]])  # the plan was over before the write was done

    def clear(self, pods: Iterable[Pod], node: str = "") -> None:
        """Clear the nominations of members that have no seat, until it is done.

        ``node``: only the nomination to it; another one is kube-scheduler's word of a later day.
        """
        for pod in pods:
            if pod.uid not in self._clearing:
                self._clearing[pod.uid] = node
                self._queue.append(pod)
            elif self._clearing[pod.uid] != node:
                self._clearing[pod.uid] = ""  # a plan that is over has perhaps written another one
        for _ in range(min(len(self._queue), CLEARING - self._busy)):
            self._busy += 1
            self._spawn(self._clear_queued())

    async def _clear_queued(self) -> None:
        pause = CLEAR_PAUSE
        try:
            while self._queue:
                pod = self._queue.popleft()
                wanted = self._clearing[pod.uid]
                try:
                    done = await self._cleared(pod, wanted)
                except BaseException:
                    del self._clearing[pod.uid]
                    raise
                if done and self._clearing[pod.uid] == wanted:
                    del self._clearing[pod.uid]
                    pause = CLEAR_PAUSE
                    continue
                # Others first: it may be this pod alone that cannot be written.
                self._queue.append(pod)
                await asyncio.sleep(pause)
                pause = min(LONGEST_CLEAR_PAUSE, pause * 2)
        finally:
            self._busy -= 1

    async def _cleared(self, pod: Pod, node: str) -> bool:
        """Clear one, or find that nothing is left to clear; False when it has to be tried again."""
        async with self._gate:
            waits = self._source.snapshot().pending.get(pod.uid)
            if self._reservations.of_member(pod.uid) is not None or waits is None:
                return True
            if node and waits.nominated != node:
                return True
            return await self._notifier.nominate(pod, "")

    def clear_orphans(self, starts_whole: Callable[[GangKey], bool], keys: Keys) -> None:
        """Clear nominations of waiting gang members that no plan here has made.

        kube-scheduler never nominates a member (preempt answers it with no node), so it is
        what a life before has left.
        """
        self.clear(
            pod
            for pod in self._source.snapshot().pending.values()
            if pod.nominated
            and self._reservations.of_member(pod.uid) is None
            and (key := keys(pod)) is not None
            and starts_whole(key)
        )


PAUSES = (0.0, 1.0, 3.0, 8.0, 20.0)
"""Seconds after the seats open at which members without a node are called, at least."""
FIRST_PAUSE = 0.1
"""How long an attempt that has just been answered may take to end, in seconds."""
LONGEST_PAUSE = 2.0
"""After how long a member that was tried elsewhere is called again, at most."""


class Requeuing:
    """Brings kube-scheduler to try the members of a plan on their seats, once these are open.

    A member is woken by a change of its object. Where kube-scheduler may look at a part of the
    nodes only, it is nominated to its seat right before that: the nominated node is tried alone and
    first. An attempt that was under way meanwhile may clear the nomination when it fails, untried
    (docs/nominations.md), so members are called again, with pauses, until they have been asked
    about with it. ``gate`` bounds all hints.
    """

    def __init__(
        self,
        notifier: Notifier,
        nominations: Nominations,
        source: ClusterSource,
        clocks: Clocks,
        background: Background,
        gate: asyncio.Semaphore,
        *,
        nominate: bool,
    ) -> None:
        self._notifier = notifier
        self._nominations = nominations
        self._source = source
        self._clocks = clocks
        self._spawn = background.spawn
        self._gate = gate
        self._nominate = nominate

    def needs_nominations(self) -> bool:
        """Whether a seat may be missing in a list although kube-scheduler would accept it."""
        return self._nominate and samples(len(self._source.snapshot().nodes))

    async def until_seated(self, preemption: Preemption) -> None:
        """Call the members of a plan whose seats have just opened, some times."""
        for pause in PAUSES:
            left = preemption.since + pause - self._clocks.monotonic()
            if left > 0:
                await asyncio.sleep(left)
            if preemption.state is not PreemptionState.OPEN or not preemption.seats:
                return  # it is over, or another plan is searched for
            await self._call(preemption, list(preemption.seats))

    def again(self, preemption: Preemption, uid: str) -> None:
        """Call a member once more, in a moment: it was tried, and not on its seat."""
        tries = preemption.tries.setdefault(uid, Tries())
        if tries.awaited or not self.needs_nominations():
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** tries.call_again())
        self._spawn(self._later(preemption, uid, tries, pause))

    def now(self, preemption: Preemption, uids: Sequence[str]) -> None:
        """Call members at once: what kept them off their seats is over."""
        if uids:
            self._spawn(self._call(preemption, uids))

    def after(self, preemption: Preemption, seconds: float, work: Callable[[], None]) -> None:
        """Do something after a while, if the seats are open then."""

        async def later() -> None:
            await asyncio.sleep(seconds)
            if preemption.state is PreemptionState.OPEN:
                work()

        self._spawn(later())

    async def _later(self, preemption: Preemption, uid: str, tries: Tries, pause: float) -> None:
        await asyncio.sleep(pause)
        tries.called()
        if preemption.state is PreemptionState.OPEN:
            await self._call(preemption, [uid])

    async def _call(self, preemption: Preemption, uids: Sequence[str]) -> None:
        moment = self._clocks.wall()
        every = self.needs_nominations()

        async def one(uid: str) -> None:
            node = preemption.seats.get(uid)
            if preemption.state is not PreemptionState.OPEN:
                return
            nominated = self._nominated(uid)
            # To another node by a plan before, it keeps room there from the other members. Where
            # pods were evicted, one that is cleared tells that the seat was tried and refused.
            wrong = self._nominate and (nominated or preemption.plan.victims)
            if node not in (None, nominated) and (every or wrong):
                await self._nominations.write_one(preemption, uid)
            async with self._gate:
                node = preemption.seats.get(uid)
                if node is not None and preemption.state is PreemptionState.OPEN:
                    await self._notifier.wake(preemption.pods[uid], node, moment)

        await each(uids, CONCURRENCY, one)

    def _nominated(self, uid: str) -> str:
        pod = self._source.snapshot().pending.get(uid)
        return "" if pod is None else pod.nominated


MAX_UNSEEN = 256
"""Pods that were asked about before they were seen."""
MAX_HELD_BACK = 4096
"""Who is not among them waits until kube-scheduler tries it of itself, five minutes at most: where
there are more, the namespace with most of them makes room."""
FIRST_WAKE_PAUSE = 0.5
LONGEST_WAKE_PAUSE = 5.0

Value = TypeVar("Value")


PARKED_SECONDS = 30.0
"""After how long a pod that was refused in preempt is tried again if nothing else has woken it."""
TRIED_SECONDS = 300.0
"""After how long kube-scheduler tries each pod again (podMaxInUnschedulablePodsDuration)."""
PARKED_PAUSE = 1.0
"""Seconds between two looks: each such wake makes kube-scheduler try others, too."""


class _Held(Struct, frozen=True):
    pod: Pod
    unit: str = ""
    """What it waits to see gone, "" = a seat is in its way."""
    node: str = ""
    """A node on which it may preempt, where it was refused in preempt."""
    victims: frozenset[str] = frozenset()
    """Uids of pods that it may preempt once their binding shows."""
    since: float = 0.0
    """Monotonic time."""
    allowed: frozenset[str] = frozenset()
    """Nodes on which it was allowed to preempt: it waits to be seen nominated to one of them."""


class _Asked(Struct, frozen=True):
    uid: str
    node: str
    since: float


class HeldBack:
    """Pods without a seat that others' seats kept waiting, and how kube-scheduler is made to try
    them.

    It tries a pod that an extender refused when a pod or node changes, at the latest after five
    minutes; that a plan is over is no such change, so the pod itself is touched.

    A pod that was refused in preempt alone was refused by kube-scheduler's own filters on every
    node. It waits for an event of those plugins, and a changed annotation is none. A nomination
    that ends is one: kube-scheduler takes it for a pod deleted from that node, for all pods of the
    same priority or less (updatePodInSchedulingQueue in pkg/scheduler/eventhandlers.go), and
    NodeResourcesFit waits for that. So such a pod is nominated to a node, and the nomination is
    cleared at once. ``gate`` bounds all hints.
    """

    def __init__(
        self,
        notifier: Notifier,
        source: ClusterSource,
        clocks: Clocks,
        background: Background,
        enforcement: Enforcement,
        gate: asyncio.Semaphore,
    ) -> None:
        self._notifier = notifier
        self._source = source
        self._clocks = clocks
        self._spawn = background.spawn
        self._enforcement = enforcement
        self._gate = gate
        self._kept: Shares[str, _Held] = Shares(MAX_HELD_BACK)
        """By uid, to be woken when a plan ends."""
        self._for_bindings: set[str] = set()
        """Those of them that have ``victims``, and some that had."""
        self._unseen: Shares[str, _Asked] = Shares(MAX_UNSEEN)
        """By uid, pods that are not known here, or were not when they were asked about."""
        self._failed: Shares[str, _Held] = Shares(MAX_HELD_BACK)
        """By uid, those that could not be woken."""
        self._parked_at = 0.0
        """When a pod was tried again for having waited, monotonic."""
        self._again_at = 0.0
        self._pause = FIRST_WAKE_PAUSE

    def note(self, pod: Pod, unit: str = "") -> None:
        """Remember a pod without a seat that a seat kept off a node: of no gang, or beyond the
        quorum that is being seated; or that waits until its ``unit`` has gone."""
        _put(self._kept, pod, _Held(pod, unit))

    def park(
        self, pod: Pod, node: str, victims: AbstractSet[str] = frozenset(), *, soon: bool = False
    ) -> None:
        """Remember a pod that was refused in preempt for now, where it might preempt on ``node``;
        for as long as a seat is in its way, or until one of ``victims`` is seen bound or gone.

        ``soon``: what stood against it may be over already.
        """
        if not node:
            return
        since = -inf if soon else self._clocks.monotonic()
        _put(self._kept, pod, _Held(pod, "", node, frozenset(victims), since))
        if victims:
            self._for_bindings.add(pod.uid)

    def asked(self, uid: str, namespace: str, nodes: Iterable[str]) -> None:
        """Remember that kube-scheduler asks whether a pod may preempt on these nodes. To it an
        error or a lost answer is an attempt without a node, and no event may follow."""
        node = min(nodes, default="")
        pod = self._source.snapshot().pending.get(uid)
        if pod is not None:
            self.park(pod, node)
        elif node:
            self._unseen.put(uid, _Asked(uid, node, self._clocks.monotonic()), namespace)

    def allowed(self, pod: Pod, nodes: Collection[str]) -> None:
        """Remember a pod that may preempt on these nodes until it is seen nominated to one: the
        answer may be lost."""
        now = self._clocks.monotonic()
        _put(self._kept, pod, _Held(pod, "", min(nodes), since=now, allowed=frozenset(nodes)))

    def settled(self, pod: Pod) -> None:
        """Forget a pod that need not be tried again."""
        self._kept.pop(pod.uid)

    def tried(self, pod: Pod) -> None:
        """kube-scheduler tries a pod again of itself: it need not be woken for what was before."""
        self._failed.pop(pod.uid)

    def gone(self, pod: Pod) -> None:
        """Forget a pod that is bound or gone, and wake those that may preempt it now."""
        self._kept.pop(pod.uid)
        self._failed.pop(pod.uid)
        for uid in list(self._for_bindings):
            held = self._kept.get(uid)
            if held is None or not held.victims:
                self._for_bindings.discard(uid)
            elif pod.uid in held.victims:
                self._kept.pop(uid)
                self._spawn(self._wake([held]))

    def pods(self) -> list[Pod]:
        """Return those that are to be woken when a plan ends, the oldest first."""
        return [held.pod for held in self._kept.values()]

    def wake_all(self) -> None:
        """Wake the pods that a seat has kept waiting."""
        self._wake_those(lambda held: not held.allowed)

    def units(self) -> set[str]:
        """Return what some of them wait to see gone."""
        return {held.unit for held in self._kept.values() if held.unit}

    def unit_ended(self, name: str) -> None:
        """Wake those who wait until this unit has gone, or goes no more."""
        self._wake_those(lambda held: held.unit == name)

    def _wake_those(self, chosen: Callable[[_Held], bool]) -> None:
        waiting = [held for held in self._kept.values() if chosen(held)]
        for held in waiting:
            self._kept.pop(held.pod.uid)
        if waiting:
            self._spawn(self._wake(waiting))

    def wake(self, pods: Sequence[Pod]) -> None:
        """Wake pods that have no seat."""
        if pods:
            self._spawn(self._wake([_Held(pod) for pod in pods]))

    def retry(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """Have pods tried again at once that were refused in preempt, each also on a node."""
        if waiting := [_Held(pod, node=node) for pod, node in pods]:
            self._spawn(self._wake(waiting))

    def round(self) -> None:
        """Try again to wake some that could not be written, namespaces by turns.

        Not all at once: it may be that none can be, or none of a namespace with thousands.
        """
        now = self._clocks.monotonic()
        self._look_at_parked(now)
        if not len(self._failed) or now < self._again_at:
            return
        self._again_at = now + self._pause
        self._pause = min(LONGEST_WAKE_PAUSE, 2 * self._pause)
        pending = self._source.snapshot().pending
        failed = [self._failed.take() for _ in range(CONCURRENCY)]
        again = [held for held in failed if held is not None and held.pod.uid in pending]
        if again:
            self._spawn(self._wake(again))

    def _look_at_parked(self, now: float) -> None:
        """Wake pods that were refused in preempt long ago: what stood against them may have ended
        in a way that is not seen here."""
        if now - self._parked_at < PARKED_PAUSE:
            return
        self._unseen.forget(lambda asked: now - asked.since > TRIED_SECONDS)
        pending = self._source.snapshot().pending if len(self._unseen) else {}
        for asked in list(self._unseen.values()):
            if asked.uid in pending:
                self._unseen.pop(asked.uid)
                self.park(pending[asked.uid], asked.node)
        long = now - PARKED_SECONDS
        if any(held.node and held.since <= long for held in self._kept.values()):
            self._parked_at = now
            self._wake_those(lambda held: bool(held.node) and held.since <= long)

    async def _wake(self, waiting: Sequence[_Held]) -> None:
        moment = self._clocks.wall()

        async def one(group: list[_Held]) -> None:
            for held in group:
                async with self._gate:
                    if not held.node:
                        woken = await self._notifier.wake(held.pod, "", moment)
                    else:
                        woken = await self._notifier.end_nomination(held.pod, held.node)
                if woken:
                    self._pause = FIRST_WAKE_PAUSE
                    return
                _put(self._failed, held.pod, held)

        groups = _by_event(self._to_write(waiting), self._source.snapshot())
        await each(groups, CONCURRENCY, one)

    def _to_write(self, waiting: Sequence[_Held]) -> list[_Held]:
        """Return those for which something is written now; others are parked again, or forgotten
        where nothing may be written."""
        snapshot, now = self._source.snapshot(), self._clocks.monotonic()
        found = []
        for held in waiting:
            pod = snapshot.pending.get(held.pod.uid)
            if not held.node:
                found.append(held)
            elif pod is None or pod.nominated in held.allowed:
                continue  # gone or bound, or the answer has come to kube-scheduler
            elif self._enforcement.acts_for(pod.namespace, snapshot):
                if pod.nominated:
                    # It may have been cleared just now, which does not show yet.
                    _put(self._kept, pod, replace(held, since=now))
                if not victims_leave(pod, pod.nominated, snapshot):
                    found.append(replace(held, pod=pod))
        return found


def _by_event(waiting: Sequence[_Held], snapshot: Snapshot) -> list[list[_Held]]:
    """Group those that one event wakes: of pods refused in preempt, the most urgent of a scheduler
    wakes the others. It is the first of its group.

    Source: NodeVolumeLimits waits for the end of a pod with volumes, VolumeRestrictions for that of
    a pod with the same claim or disk (isSchedulableAfterAssignedPodDeleted).
    """
    groups: dict[tuple[str, bool, str], list[_Held]] = {}
    alone: list[list[_Held]] = []
    # All pods of the cluster are asked for it: not where one pod waits, as in each preempt.
    several = sum(1 for held in waiting if held.node and held.pod.shape.volumes) > 1
    used = _claims_used(snapshot) if several else frozenset[tuple[str, str]]()
    for held in waiting:
        if held.node:
            shape, at = held.pod.shape, held.pod.namespace
            own = any(
                kind in (EXCLUSIVE_DISK, OVERSIZE) or (at, kind) in used for kind in shape.volumes
            )
            event = (shape.scheduler, bool(shape.volumes), held.pod.uid if own else "")
            groups.setdefault(event, []).append(held)
        else:
            alone.append([held])
    for group in groups.values():
        group.sort(key=lambda held: -held.pod.priority)
    return [*alone, *groups.values()]


def _claims_used(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """Return the namespace and kind (PodShape.volumes) of claims that pods on nodes name."""
    return frozenset(
        (pod.namespace, kind)
        for pods in snapshot.bound.values()
        for pod in pods
        if pod.shape.unmodelled
        for kind in pod.shape.volumes
        if kind != VOLUME_CLAIM
    )


def _put(kept: Shares[str, Value], pod: Pod, value: Value) -> None:
    if pod.uid in kept or kept.takes(pod.namespace):
        kept.put(pod.uid, value, pod.namespace)


@dataclass(frozen=True)
class Hints:
    """Seats do not rest on any of it (they are held in the filter verb): a failure is passed
    over."""

    nominations: Nominations
    held_back: HeldBack
    requeuing: Requeuing
