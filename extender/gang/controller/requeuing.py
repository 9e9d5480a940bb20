"""Brings kube-scheduler to try the members of a plan on their seats, once these are open.

A member is woken by a change of its object. Where kube-scheduler may look at a part of the nodes
only, it is nominated to its seat right before that: the nominated node is tried alone and first.
An attempt that was under way meanwhile may clear the nomination when it fails, untried
(docs/nominations.md), so members are called again, with pauses, until they have been asked about
with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from extender.gang.controller.nominations import Nominations
from extender.gang.controller.notifier import Notifier
from extender.gang.core.reservations import Preemption, Tries
from extender.gang.plan.lists import samples
from extender.gang.runtime.background import Background, each
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.tell.preemption_state import PreemptionState

PAUSES = (0.0, 1.0, 3.0, 8.0, 20.0)
"""Seconds after the seats open at which members without a node are called, at least."""
FIRST_PAUSE = 0.1
"""How long an attempt that has just been answered may take to end, in seconds."""
LONGEST_PAUSE = 2.0
"""After how long a member that was tried elsewhere is called again, at most."""


class Requeuing:
    """Nominates and wakes. ``gate`` bounds all hints."""

    def __init__(
        self,
        notifier: Notifier,
        nominations: Nominations,
        source: ClusterSource,
        clocks: Clocks,
        background: Background,
        gate: asyncio.Semaphore,
        at_a_time: int,
        *,
        nominate: bool,
    ) -> None:
        self._notifier = notifier
        self._nominations = nominations
        self._source = source
        self._clocks = clocks
        self._spawn = background.spawn
        self._gate = gate
        self._at_a_time = at_a_time
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

        await each(uids, self._at_a_time, one)

    def _nominated(self, uid: str) -> str:
        pod = self._source.snapshot().pending.get(uid)
        return "" if pod is None else pod.nominated
