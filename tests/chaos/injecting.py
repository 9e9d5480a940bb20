"""What every fault is made with: its moment, how long it lasts, and that it is told."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from http.client import HTTPException

from tests.chaos.bed import Bed
from tests.chaos.history import Fault, History
from tests.chaos.proxy import Call
from tests.controlplane.client import ApiError
from tests.controlplane.processes import ProcessError

Act = Callable[[random.Random], Awaitable[None]]
Kinds = dict[str, tuple[int, Act]]
"""Name of a kind of fault -> how often it is drawn beside the others, and what it does."""
MOMENT_SECONDS = 8.0
"""How long a fault that is meant for the middle of a plan waits for one."""


class Injection:
    """One round's. Faults that wait are cut short once ``stop`` is set."""

    def __init__(self, bed: Bed, history: History) -> None:
        self.bed = bed
        self.history = history
        self.stop = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="faults")
        self._beside: set[asyncio.Task[None]] = set()

    async def rest(self) -> None:
        """Wait for faults that were begun beside others."""
        await asyncio.gather(*self._beside)

    def close(self) -> None:
        """Give the thread back."""
        self._thread.shutdown(wait=False)

    async def pause(self, seconds: float) -> None:
        """Sleep, but not past the end of the lanes."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)

    @asynccontextmanager
    async def fault(
        self, kind: str, detail: str, *, blinds: bool = False, touches_scheduler: bool = False
    ) -> AsyncIterator[Fault]:
        """Tell of a fault from its begin to its end."""
        fault = Fault(kind, detail, time.time(), blinds=blinds, touches_scheduler=touches_scheduler)
        self.history.begin(fault)
        try:
            yield fault
        finally:
            self.history.end(fault, time.time())

    async def start_extender(self) -> None:
        """Start the extender. One that ends again, or is never ready, is the runner's to judge."""
        with suppress(ProcessError):
            await self.bed.in_thread(self.bed.extender.start)

    async def blocking(self, what: Callable[[], object]) -> None:
        """Run a request to the API server; what fails now is no fault then."""
        with suppress(OSError, HTTPException, ApiError, LookupError):
            await asyncio.get_running_loop().run_in_executor(self._thread, what)

    def moment(self, rng: random.Random) -> tuple[str, int]:
        """A request in the life of a plan, and which one of its kind."""
        kind = rng.choice(("record", "rehearsal", "status", "eviction", "eviction", "touch"))
        return kind, 1 if kind == "record" else rng.randint(1, 4)

    async def at(self, kind: str, count: int, then: Callable[[], None]) -> bool:
        """Call when the API server has done so many requests of a kind; False if it never did."""
        reached = asyncio.Event()
        left = count

        def passed(call: Call) -> None:
            nonlocal left
            if call.kind == kind:
                left -= 1
                if left == 0:
                    then()
                    reached.set()

        listeners = self.bed.proxy.passed
        listeners.append(passed)
        with suppress(TimeoutError):
            await asyncio.wait_for(reached.wait(), MOMENT_SECONDS)
        listeners.remove(passed)
        return reached.is_set()

    def start_beside(self, what: Coroutine[None, None, None]) -> None:
        """Let a fault go on beside the one that began it."""
        self._beside.add(task := asyncio.ensure_future(what))
        task.add_done_callback(self._beside.discard)
