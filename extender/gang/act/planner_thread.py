"""The planner on a thread of its own, so that verbs and events go on meanwhile."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TypeVar

from extender.gang.act.heartbeats import Heartbeats
from extender.gang.plan.planner import Planner
from extender.model.gang import Gang
from extender.model.plan import Hold, Plan, Refusal, Victim
from extender.model.snapshot import Snapshot

SEE_SECONDS = 1.0
"""How often the planner takes in what has changed, whether a gang waits or not."""
Masks = Mapping[str, frozenset[str]]
"""Member uid -> node names."""
PLANNER = "planner"
"""Its name among the heartbeats."""
Answer = TypeVar("Answer")


class PlannerThread:
    """One planner and its thread: never two questions at a time, none beyond its seconds."""

    def __init__(
        self,
        planner: Planner,
        seconds: float,
        monotonic: Callable[[], float],
        heartbeats: Heartbeats,
    ) -> None:
        self.planner = planner
        self._seconds = seconds
        self._now = monotonic
        self._heartbeats = heartbeats
        self._asked = 0
        self._shown = -inf
        """Monotonic time at which the planner was last shown the cluster."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")

    async def plan(
        self,
        gang: Gang,
        snapshot: Snapshot,
        holds: Iterable[Hold],
        masks: Masks,
        offered: Masks | None,
    ) -> Plan | Refusal:
        """Ask the planner (see ``Planner.plan``); what takes longer than ``seconds`` is cut off."""
        loop = asyncio.get_running_loop()
        cancel = array("b", [0])
        timer = loop.call_later(self._seconds, cancel.__setitem__, 0, 1)
        deadline = time.monotonic() + self._seconds
        try:
            return await self._run(
                lambda: self.planner.plan(
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

    async def check(
        self,
        gang: Gang,
        seats: Mapping[str, str],
        going: Iterable[Victim],
        snapshot: Snapshot,
        holds: Iterable[Hold],
    ) -> str:
        """Ask whether a plan's seats can all be taken on this snapshot (``Planner.check``)."""
        return await self._run(lambda: self.planner.check(gang, seats, going, snapshot, holds))

    async def show(self, present: Callable[[], Snapshot]) -> None:
        """Show the planner how things stand: reading 150,000 pods must not wait for a gang."""
        now = self._now()
        if 0 <= now - self._shown < SEE_SECONDS:
            return
        self._shown = now
        snapshot = present()
        if snapshot.generation != self.planner.seen:
            await self._run(lambda: self.planner.see(snapshot))

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        """Run ``work`` on the thread; until it ends, life is expected of the thread."""
        self._asked += 1
        self._heartbeats.beat(PLANNER)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._asked -= 1
            if self._asked:
                self._heartbeats.beat(PLANNER)
            else:
                self._heartbeats.rest(PLANNER)

    def close(self) -> None:
        """Take no more questions; what runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
