"""The planner on a thread of its own, so that verbs and events go on meanwhile.

No search may keep the others waiting for ever. After its seconds it is asked to come back with
the best answer it has; later to come back with nothing; and when it does not hear that either,
an exception is raised in its thread, the thread is left to itself and another one made, with a
planner that knows nothing of what the old one may have left half done. What not even an
exception reaches is compiled code, which asks its clock: a thread that is still there after all
this makes /livez fail (docs/search-solvers.md says what bounds each loop).
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any, TypeVar

import structlog

from extender.gang.controller.rounds import Heartbeats
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion, Masks, SeatsQuestion
from extender.gang.runtime.clocks import Clocks
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search import highs

log = structlog.get_logger("gang")

SEE_SECONDS = 1.0
"""How often the planner takes in what has changed, whether a gang waits or not."""
FORCED_SECONDS = 5.0
"""How long a thread may take to end after an exception was raised in it."""
THREADS = "search"
"""How names of its threads begin."""
PLANNER = "planner"
"""Its name among the heartbeats."""
Answer = TypeVar("Answer")


class Overran(Exception):  # noqa: N818 - what has happened, not a fault of the caller
    """The search did not end in time, nor when it was told to: its thread was given up."""


class _Killed(BaseException):
    """Raised in a thread from outside; nothing but its own frame may catch it."""


class PlannerThread:
    """One planner and its thread: never two questions at a time, none beyond its seconds."""

    def __init__(
        self,
        make: Callable[[], Planner],
        seconds: float,
        overrun: float,
        clocks: Clocks,
        heartbeats: Heartbeats,
    ) -> None:
        """``make`` returns a planner that knows nothing; ``overrun``: seconds beyond its
        ``seconds`` after which a search is ended by force."""
        self._make = make
        self._seconds = seconds
        self._overrun = overrun
        self._clocks = clocks
        self._heartbeats = heartbeats
        self._asked = 0
        self._stuck = 0
        self._closed = False
        self._under_way: tuple[array[int], list[int]] | None = None
        """Flag and thread of the search that runs."""
        # Here, and not in the time of a search, nor where a thread may be ended in the midst of it.
        highs.available()
        self._new()

    def _new(self) -> None:
        self.planner = self._make()
        self._shown = -inf
        """Monotonic time at which the planner was last shown the cluster."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=THREADS)

    async def plan(
        self,
        gang: Gang,
        snapshot: Snapshot,
        holds: Iterable[Hold],
        masks: Masks,
        offered: Masks | None,
    ) -> Plan | Refusal:
        """Ask the planner (see ``Planner.plan``); what takes longer than ``seconds`` is cut off.

        Raises Overran when it would not be cut off, NotReady after ``close``.
        """
        self._require_open()
        planner = self.planner
        await self.take_in(snapshot)  # not a matter of the gang's seconds
        if planner is not self.planner:
            return await self.plan(gang, snapshot, holds, masks, offered)
        cancel = array("b", [0])
        thread: list[int] = []
        """The thread while it searches, 0 afterwards; empty before."""
        deadline = time.monotonic() + self._seconds

        def work() -> Plan | Refusal:
            thread.append(threading.get_ident())
            try:
                question = GangQuestion(gang, snapshot, holds, masks, offered, quick=True)
                return planner.plan(question, deadline=deadline, cancel=cancel)
            finally:
                thread[0] = 0

        loop = asyncio.get_running_loop()
        timers = [
            loop.call_later(self._seconds, cancel.__setitem__, 0, 1),
            loop.call_later(self._seconds + self._overrun / 2, cancel.__setitem__, 0, 2),
        ]
        self._under_way = (cancel, thread)
        running = asyncio.ensure_future(self._run(work))
        try:
            done: set[asyncio.Future[Plan | Refusal]] = set()
            while not done and not thread:  # it may wait for another look at the cluster
                limit = self._seconds + self._overrun / 2
                done, _ = await asyncio.wait({running}, timeout=limit)
            if not done:
                # A process that was stopped finds all its timers due at once: from when it is
                # told to come back with nothing, the search has its time whatever the clock says.
                cancel[0] = 2
                done, _ = await asyncio.wait({running}, timeout=self._overrun / 2)
            if not done:
                await self._give_up(gang, thread, running)
            self._require_open()
            return running.result()
        except asyncio.CancelledError:
            running.cancel()
            raise
        finally:
            if self._closed:
                running.add_done_callback(_forget)
            if self._under_way == (cancel, thread) and running.done():
                self._under_way = None
            for timer in timers:
                timer.cancel()

    async def _give_up(
        self, gang: Gang, thread: list[int], running: asyncio.Future[Plan | Refusal]
    ) -> None:
        """End the search by force and go on with another planner. Raises Overran."""
        seconds = self._seconds + self._overrun
        log.error("a search did not end and is stopped by force", gang=str(gang.key))
        pool = self._pool
        self._new()
        pool.shutdown(wait=False, cancel_futures=True)
        self._stuck += 1
        name = f"{PLANNER} of {gang.key}"
        self._heartbeats.beat(name)

        def over(_: object) -> None:
            self._stuck -= 1
            self._heartbeats.rest(name)
            if not running.cancelled():
                running.exception()  # told already

        running.add_done_callback(over)
        kill(thread[0])
        await asyncio.wait({running}, timeout=FORCED_SECONDS)
        if not running.done():
            self._heartbeats.died(name, f"it did not end within {seconds:g} s, nor by force")
        raise Overran

    async def ask(self, question: Callable[[Planner], Answer]) -> Answer:
        """Ask the planner something that is answered without a search. Raises as ``plan``."""
        return await self._run(lambda: question(self.planner))

    async def check(self, asked: SeatsQuestion) -> str | None:
        """As Planner.check; None where that cannot be told in time. Raises NotReady after
        ``close``."""
        try:
            return await self.ask(lambda planner: planner.check(asked))
        except Overran:
            return None

    async def to_blame(self, asked: SeatsQuestion, suspects: Sequence[Pod]) -> Sequence[Pod]:
        """As Planner.to_blame; nobody where that cannot be told in time. Raises as ``check``."""
        try:
            return await self.ask(lambda planner: planner.to_blame(asked, suspects))
        except Overran:
            return ()

    async def show(self, present: Callable[[], Snapshot]) -> Mapping[str, float]:
        """Show the planner how things stand: reading 150,000 pods must not wait for a gang.

        Returns what ``take_in`` does.
        """
        now = self._clocks.monotonic()
        if 0 <= now - self._shown < SEE_SECONDS:
            return {}
        self._shown = now
        return await self.take_in(present())

    async def take_in(self, snapshot: Snapshot) -> Mapping[str, float]:
        """Show the planner a snapshot; return the seconds that budgets of a namespace took of it.

        It is in proportion to the cluster, not to a gang, and limited by plan.budgetsPerNamespace.
        Raises NotReady after ``close``.
        """
        self._require_open()
        planner = self.planner
        if snapshot.generation == planner.seen:
            return {}

        def look() -> Mapping[str, float]:
            began = time.monotonic()
            planner.see(snapshot)
            seconds = time.monotonic() - began
            return {name: share * seconds for name, share in planner.budget_shares().items()}

        return await self._run(look)

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        """Run ``work`` on the thread; until it ends, life is expected of the thread."""
        self._require_open()
        pool = self._pool
        self._asked += 1
        self._heartbeats.beat(PLANNER)
        try:
            answer = await asyncio.get_running_loop().run_in_executor(pool, _contained, work)
            self._require_open()
            return answer
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if pool is not self._pool and task is not None and not task.cancelling():
                raise Overran from None  # it waited behind a search that was given up
            raise
        finally:
            self._asked -= 1
            if self._asked > self._stuck:
                self._heartbeats.beat(PLANNER)
            else:
                self._heartbeats.rest(PLANNER)

    def _require_open(self) -> None:
        """What is found after the end of a term must not be acted on. Raises NotReady."""
        if self._closed:
            raise NotReady("the leadership term of this call is over")

    def close(self) -> None:
        """Take no more questions, give no more answers; what runs is stopped, not waited for."""
        self._closed = True
        if self._under_way is not None:
            # A process ends only when its threads have: nobody looks at the clock any more.
            cancel, thread = self._under_way
            cancel[0] = 2
            if thread:
                kill(thread[0])
        self._pool.shutdown(wait=False, cancel_futures=True)


def _forget(running: asyncio.Future[Any]) -> None:
    """Take what became of a search that nobody waits for any more."""
    if not running.cancelled():
        running.exception()


def _contained(work: Callable[[], Answer]) -> Answer:
    """Run ``work``; an exception raised from outside ends it as any other error would."""
    try:
        return work()
    except _Killed:
        raise Overran from None


def kill(thread: int) -> None:
    """Raise an exception in a thread, at its next step in Python.

    Compiled code is not reached before it returns. 0: there is nothing to end.
    """
    if not thread:
        return
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Killed))
