"""What pods, their owners and kube-scheduler are told in the course of a plan.

Nominations, wake-ups and events. The seats do not rest on any of it (they are held in the
filter verb), so a failure is passed over; but a nomination that is not cleared makes
kube-scheduler keep room free for nobody, so clearing is tried until it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice

import structlog

from extender.gang.act.background import Background
from extender.gang.act.book import Book, Flight
from extender.gang.act.clocks import Clocks
from extender.gang.act.evictions import Unit
from extender.gang.act.notifier import Notifier
from extender.gang.act.owner_warnings import OwnerWarnings, words_of
from extender.gang.act.records import Aside
from extender.model.objects import GangKey, Pod
from extender.model.plan import Refusal, Victim
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")

WAKE_PAUSES = (0.0, 1.0, 3.0, 8.0, 20.0)
"""Seconds after the seats open at which members without a node are woken again."""
CLEAR_PAUSE = 0.5
LONGEST_CLEAR_PAUSE = 30.0
MAX_TOLD = 64
"""Members that get an event of their own; the rest of a big gang can read theirs."""
MAX_WARNED = 4
"""Members of a refused gang that get an event: they all wait for the same."""
MAX_HELD_BACK = 4096
CONCURRENCY = 32
"""Hints under way at a time: those of a gang of thousands must not crowd evictions out."""


class Notices:
    """Tells what flights do. ``snapshot`` gives the newest state."""

    def __init__(
        self,
        notifier: Notifier,
        book: Book,
        snapshot: Callable[[], Snapshot],
        clocks: Clocks,
        background: Background,
    ) -> None:
        self._notifier = notifier
        self._book = book
        self._snapshot = snapshot
        self._clocks = clocks
        self._spawn = background.spawn
        self._held_back: dict[str, Pod] = {}
        """Pods of no gang that a seat kept off a node, to be woken when a plan ends."""
        self._clearing: set[str] = set()
        self._gate = asyncio.Semaphore(CONCURRENCY)
        self.warnings = OwnerWarnings(clocks.monotonic)

    # -- nominations, wake-ups ------------------------------------------------------------

    async def nominate(self, pod: Pod, node: str) -> None:
        """Write a member's seat into status.nominatedNodeName."""
        async with self._gate:
            await self._notifier.nominate(pod, node)
        flight = self._book.of_member(pod.uid)
        if flight is None or flight.seats.get(pod.uid) != node:
            self.clear_nominations([pod])  # the plan was over before the write was done

    def clear_nominations(self, pods: Iterable[Pod]) -> None:
        """Clear status.nominatedNodeName of members that have no seat, until it is done."""
        for pod in pods:
            if pod.uid not in self._clearing:
                self._clearing.add(pod.uid)
                self._spawn(self._clear(pod))

    async def _clear(self, pod: Pod) -> None:
        pause = CLEAR_PAUSE
        try:
            while self._book.of_member(pod.uid) is None and pod.uid in self._snapshot().pending:
                if await self._notifier.nominate(pod, ""):
                    return
                await asyncio.sleep(pause)
                pause = min(LONGEST_CLEAR_PAUSE, pause * 2)
        finally:
            self._clearing.discard(pod.uid)

    def clear_orphans(self, starts_whole: Callable[[GangKey], bool], keys: Keys) -> None:
        """Clear nominations of waiting gang members that no plan here has made.

        kube-scheduler never nominates a member (preempt answers it with no node), so it is
        what a life before has left.
        """
        orphans = [
            pod
            for pod in self._snapshot().pending.values()
            if pod.nominated
            and self._book.of_member(pod.uid) is None
            and (key := keys(pod)) is not None
            and starts_whole(key)
        ]
        self.clear_nominations(orphans)

    async def wake_members(self, flight: Flight) -> None:
        """Make kube-scheduler try members again, now and some times more until they sit."""
        for pause in WAKE_PAUSES:
            left = flight.since + pause - self._clocks.monotonic()
            if left > 0:
                await asyncio.sleep(left)
            if flight.over or not flight.seats:
                return
            moment = self._clocks.wall()
            await asyncio.gather(
                *(
                    self._wake(flight.pods[uid], node, moment)
                    for uid, node in list(flight.seats.items())
                )
            )

    async def _wake(self, pod: Pod, node: str, moment: float) -> None:
        async with self._gate:
            await self._notifier.wake(pod, node, moment)

    def held_back(self, pod: Pod) -> None:
        """Remember a pod of no gang that a seat kept off a node."""
        if len(self._held_back) < MAX_HELD_BACK:
            self._held_back[pod.uid] = pod

    def gone(self, pod: Pod) -> None:
        """Forget a pod that is bound or gone."""
        self._held_back.pop(pod.uid, None)

    def wake_held_back(self) -> None:
        """Wake the pods of no gang that a seat has kept waiting."""
        moment = self._clocks.wall()
        waiting, self._held_back = self._held_back, {}
        for pod in waiting.values():
            self._spawn(self._wake(pod, "", moment))

    # -- events ---------------------------------------------------------------------------

    def evicted(self, unit: Unit, victim: Victim, flight: Flight | None, *, first: bool) -> None:
        """Tell a victim why it goes, and with a plan's first victim its members."""
        why = f": {victim.reason}" if victim.reason else ""
        note = f"{unit.message}; this pod (priority {victim.priority}){why}"
        self._event(victim, "Preempted", note)
        if first and flight is not None:
            self._tell_members(flight)

    def broken(self, unit: Unit, victim: Victim, why: str, flight: Flight | None) -> None:
        """Warn both gangs that a unit has gone in part and the rest cannot be evicted."""
        left = len(unit.victims)
        note = (
            f"{unit.name} was to go as a whole for {unit.preemptor}, and {left} of its pods are "
            f"still there: the eviction of {victim.namespace}/{victim.name} is refused: {why}"
        )
        log.error(
            "a gang is evicted in part",
            gang=unit.name,
            preemptor=str(unit.preemptor),
            left=left,
            pod=f"{victim.namespace}/{victim.name}",
            why=why,
        )
        for each in list(unit.victims.values())[:MAX_TOLD]:
            self._event(each, "GangBroken", note, "Warning")
        members = [] if flight is None else list(flight.pods.values())
        for pod in members[:MAX_TOLD]:
            self._warn(pod.uid, pod.namespace, pod.name, "PreemptionIncomplete", note)

    def refused(self, refusal: Refusal) -> None:
        """Warn a gang's owner of a refusal that is theirs to mend, or to know of."""
        words = words_of(refusal)
        if words is None:
            return
        reason, note = words
        members = self._snapshot().members.get(refusal.gang, ())
        waiting = (pod for pod in members if not pod.node and not pod.deleting)
        for pod in islice(waiting, MAX_WARNED):
            self._warn(pod.uid, pod.namespace, pod.name, reason, note)

    def record_aside(self, namespace: str, aside: Aside) -> None:
        """Warn of a plan record that is not taken for one."""
        note = (
            f"This ConfigMap looks like a record of a plan in flight, but {aside.why}. Nothing is "
            "done with it, and it is not deleted; if no plan of an earlier version was in flight, "
            "find out who wrote it"
        )
        uid = aside.uid or aside.name
        self._warn(uid, namespace, aside.name, "PlanRecordKeptAside", note, "ConfigMap")

    def _event(self, victim: Victim, reason: str, note: str, kind: str = "Normal") -> None:
        if kind == "Warning":
            self._warn(victim.uid, victim.namespace, victim.name, reason, note)
            return
        self._spawn(
            self._notifier.event(victim.uid, victim.namespace, victim.name, reason, note, kind)
        )

    def _warn(
        self, uid: str, namespace: str, name: str, reason: str, note: str, about: str = "Pod"
    ) -> None:
        if self.warnings.due(uid, reason):
            self._spawn(self._tell(uid, namespace, name, reason, note, about))

    async def _tell(
        self, uid: str, namespace: str, name: str, reason: str, note: str, about: str
    ) -> None:
        async with self._gate:
            await self._notifier.event(uid, namespace, name, reason, note, "Warning", about)

    def _tell_members(self, flight: Flight) -> None:
        victims = flight.plan.victims
        names = ", ".join(f"{v.namespace}/{v.name} (priority {v.priority})" for v in victims[:8])
        more = f" and {len(victims) - 8} more" if len(victims) > 8 else ""
        note = (
            f"evicting {len(victims)} pods for {flight.key} (priority {flight.plan.priority}), "
            f"{flight.plan.proof}: {names}{more}"
        )
        for pod in list(flight.pods.values())[:MAX_TOLD]:
            self._spawn(
                self._notifier.event(pod.uid, pod.namespace, pod.name, "GangPreempting", note)
            )


Keys = Callable[[Pod], GangKey | None]
