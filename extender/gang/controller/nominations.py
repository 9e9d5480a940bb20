"""status.nominatedNodeName of members: written when a plan acts, cleared when it is over.

A hint only, but one that is not cleared makes kube-scheduler keep room free for nobody, so
clearing is tried until it is done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from extender.gang.controller.notifier import Notifier
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.runtime.background import Background, each
from extender.gang.runtime.cluster_source import ClusterSource
from extender.model.objects import GangKey, Pod

CLEAR_PAUSE = 0.5
LONGEST_CLEAR_PAUSE = 5.0
CLEARING = 8
"""How many are cleared at a time."""

Keys = Callable[[Pod], GangKey | None]


class Nominations:
    """Writes and clears them. ``gate`` bounds all hints."""

    def __init__(
        self,
        notifier: Notifier,
        reservations: Reservations,
        source: ClusterSource,
        background: Background,
        gate: asyncio.Semaphore,
        at_a_time: int,
    ) -> None:
        self._notifier = notifier
        self._reservations = reservations
        self._source = source
        self._spawn = background.spawn
        self._gate = gate
        self._at_a_time = at_a_time
        self._queue: deque[Pod] = deque()
        self._clearing: dict[str, str] = {}
        """Uids that are queued or just being cleared -> the node that one has to be nominated to
        still, "" = whichever."""
        self._busy = 0

    async def write(self, preemption: Preemption) -> None:
        """Write each member's seat."""

        async def one(uid: str) -> None:
            await self.write_one(preemption, uid)

        await each(list(preemption.seats), self._at_a_time, one)

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
