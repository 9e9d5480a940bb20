"""Which victims are worked on now: so many at a time, units that have gone in part first.

A plan may have ten thousand victims. A task each, all started in one turn of the event loop,
would keep verbs and events waiting; and all but a few would only stand at the evictor's gate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from extender.gang.core.unit import EvictionUnit
from extender.model.plan import Victim

log = structlog.get_logger("gang")


class Dispatch:
    """Runs ``work(unit, victim)`` for queued victims that ``wanted(unit, victim)`` still names.

    At most ``limit`` run at a time; those that only wait (``rest``) do not count.
    """

    def __init__(
        self,
        limit: int,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        wanted: Callable[[EvictionUnit, Victim], bool],
        work: Callable[[EvictionUnit, Victim], Awaitable[None]],
    ) -> None:
        self._limit = limit
        self._spawn = spawn
        self._wanted = wanted
        self._work = work
        self._first: deque[tuple[EvictionUnit, Victim]] = deque()
        """Of units that have gone in part."""
        self._later: deque[tuple[EvictionUnit, Victim]] = deque()
        self._busy = 0

    @property
    def waiting(self) -> int:
        """How many victims wait for their turn, at most."""
        return len(self._first) + len(self._later)

    def add(self, unit: EvictionUnit) -> None:
        """Queue the unit's victims that nobody looks after."""
        queue = self._first if unit.touched else self._later
        for victim in unit.unsent:
            if victim.uid not in unit.driven and victim.uid not in unit.queued:
                unit.queued.add(victim.uid)
                queue.append((unit, victim))
        self._fill()

    def hurry(self, unit: EvictionUnit) -> None:
        """The unit has gone in part: what is left of it goes before everybody else."""
        unit.queued.clear()  # in the other queue they will be found done
        self.add(unit)

    async def rest(self, wait: Awaitable[None]) -> None:
        """Wait for ``wait`` within ``work``, and let others work meanwhile."""
        self._busy -= 1
        self._fill()
        await wait
        self._busy += 1

    def _fill(self) -> None:
        while self._busy < self._limit and (self._first or self._later):
            unit, victim = (self._first or self._later).popleft()
            unit.queued.discard(victim.uid)
            if victim.uid not in unit.driven and self._wanted(unit, victim):
                unit.driven.add(victim.uid)
                self._busy += 1
                self._spawn(self._run(unit, victim))

    async def _run(self, unit: EvictionUnit, victim: Victim) -> None:
        try:
            await self._work(unit, victim)
        except Exception:  # a defect must not take a place for good; ``add`` finds the victim again
            log.exception("an eviction was not looked after", pod=victim.name)
        unit.driven.discard(victim.uid)
        self._busy -= 1
        self._fill()
