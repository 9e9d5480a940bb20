"""An event loop whose time is simulated: when nothing is ready it jumps to the next timer.

Who is served first among those that are ready at the same moment is decided by the seed. What
goes to an executor runs at once, and its result arrives a while later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop, heappush
from typing import Any
from unittest.mock import patch

from tests.simulation.chance import Chance

OWNER: ContextVar[int] = ContextVar("OWNER", default=0)
"""Which process of the simulation the running code belongs to; 0 is the world itself."""


class Stuck(Exception):  # noqa: N818 - reads as what has happened
    """Nothing is ready and nobody waits for a time: the simulation would stand still for ever."""


class SimHandle(list[Any]):
    """A callback that waits for its turn or its time, as asyncio.Handle and TimerHandle.

    Holds (callback, arguments, context); nothing any more once it is cancelled. It has none of
    what those have for debugging, and no constructor of its own: a simulation makes thousands.
    """

    __slots__ = ()

    def cancel(self) -> None:
        """See asyncio.Handle."""
        self.clear()

    def cancelled(self) -> bool:
        """See asyncio.Handle."""
        return not self


class SimTask(asyncio.Task[Any]):
    """A task with a number, so that sets of tasks have the same order in every run."""

    number: int

    def __new__(cls, *args: Any, **named: Any) -> SimTask:
        self = super().__new__(cls)
        self.number = named["loop"].next_number()
        return self

    def __hash__(self) -> int:
        return self.number


def unlisted() -> AbstractContextManager[object]:
    """Keep no list of all tasks meanwhile: nobody asks for it, and each costs a weak reference.

    Python 3.12 and newer keep no such list in Python: there is nothing to leave out.
    """
    listed = getattr(asyncio.tasks, "_all_tasks", None)
    if listed is None:
        return nullcontext()
    return patch.object(listed, "add", lambda task: None)


class SimLoop(asyncio.BaseEventLoop):
    """``slow`` says how long an executor takes; ``shuffle``: ready handles run in any order."""

    def __init__(
        self, chance: Chance, *, slow: Callable[[], float] = lambda: 0.0, shuffle: bool = False
    ) -> None:
        super().__init__()
        self.steps = 0
        """Handles run so far."""
        self.stop_at = -1
        """Number of steps at which ``stopped`` is called."""
        self.stopped: Callable[[], None] = lambda: None
        self.tasks: dict[int, list[SimTask]] = {}
        """Owner -> the tasks it has started, finished ones among them."""
        self._chance = chance
        self._slow = slow
        self._shuffle = shuffle
        self._seconds = 0.0
        self._numbers = 0
        self._timers = 0
        self._heap: list[tuple[float, int, SimHandle]] = []
        self._frozen: dict[int, float] = {}
        """Owner -> until when its process stands still."""
        self.set_task_factory(self._new_task)

    # -- time -----------------------------------------------------------------------------

    def time(self) -> float:
        """Return the simulated seconds since the start."""
        return self._seconds

    def next_number(self) -> int:
        """Return a number that no task has yet."""
        self._numbers += 1
        return self._numbers

    def _run_once(self) -> None:
        """Run what is ready, and jump to the next timer when nothing is, until told to stop."""
        ready = self._ready  # type: ignore[attr-defined]
        pop = ready.popleft
        while not self._stopping:  # type: ignore[attr-defined]
            if not ready:
                self._jump()
            if self._shuffle and len(ready) > 1 and self._chance.hit("shuffle", 0.3):
                ready.rotate(self._chance.number("shuffled", 0, len(ready) - 1))
            for _ in range(len(ready)):
                handle = pop()
                if not handle:
                    continue
                callback, args, context = handle
                if self._frozen and self._kept(handle, context):
                    continue
                try:
                    context.run(callback, *args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler({"message": "a callback", "exception": error})
                self.steps += 1
                if self.steps == self.stop_at:
                    self.stopped()
                if self._stopping:  # type: ignore[attr-defined]
                    break

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimHandle:
        """See asyncio."""
        handle = SimHandle((callback, args, copy_context() if context is None else context))
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> SimHandle:
        """See asyncio: timers of the same moment run in the order in which they were set."""
        self._timers += 1
        if context is None:
            context = copy_context()
        handle = SimHandle((callback, args, context))
        heappush(self._heap, (when, self._timers, handle))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> SimHandle:
        """See asyncio."""
        self._timers += 1
        when = self._seconds + delay
        if context is None:
            context = copy_context()
        handle = SimHandle((callback, args, context))
        heappush(self._heap, (when, self._timers, handle))
        return handle

    def freeze(self, owner: int, seconds: float) -> float:
        """Let a process stand still; return until when. All that comes due waits until then."""
        until = self._frozen[owner] = max(self._seconds + seconds, self._frozen.get(owner, 0.0))
        return until

    def frozen(self, owner: int) -> bool:
        """Whether a process stands still."""
        return self._seconds < self._frozen.get(owner, 0.0)

    def _thaw(self, owner: int) -> None:
        """Let a process go on: it is killed."""
        if self._frozen.pop(owner, None) is None:
            return
        mine = [entry for entry in self._heap if entry[2] and entry[2][2].get(OWNER, 0) == owner]
        # The same handles, as whoever set them may still cancel them.
        self._ready.extend(entry[2] for entry in sorted(mine))  # type: ignore[attr-defined]
        kept = {entry[1] for entry in mine}
        self._heap = [entry for entry in self._heap if entry[1] not in kept]
        heapify(self._heap)

    @property
    def any_frozen(self) -> bool:
        """Whether some process stands still."""
        return bool(self._frozen)

    def _kept(self, handle: SimHandle, context: Context) -> bool:
        """Put off what is ready of a process that stands still; return whether it was."""
        owner = context.get(OWNER, 0)
        until = self._frozen.get(owner)
        if until is None:
            return False
        if self._seconds >= until:
            del self._frozen[owner]
            return False
        self._timers += 1
        heappush(self._heap, (until, self._timers, handle))
        return True

    def _jump(self) -> None:
        """Go on to the next timer; make all that are due then ready."""
        heap = self._heap
        ready = self._ready  # type: ignore[attr-defined]
        while heap and not heap[0][2]:
            heappop(heap)
        if not heap:
            raise Stuck
        now = self._seconds = max(self._seconds, heap[0][0])
        while heap and heap[0][0] <= now:
            handle = heappop(heap)[2]
            if handle:
                ready.append(handle)

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""

    def _process_events(self, event_list: Any) -> None:
        """There are no sockets."""

    # -- work -----------------------------------------------------------------------------

    def _new_task(
        self, loop: Any, coroutine: Any, context: Context | None = None, **named: Any
    ) -> SimTask:
        # Python 3.13.3 and newer give the factory the name too, older ones set it afterwards.
        task = SimTask(coroutine, loop=self, context=context, **named)
        owner = OWNER.get() if context is None else context.get(OWNER, 0)
        held = self.tasks.get(owner)
        if held is None:
            held = self.tasks[owner] = []
        held.append(task)
        return task

    def cancel_all(self, owner: int) -> None:
        """Cancel every unfinished task of one process, oldest first."""
        self._thaw(owner)
        for task in self.tasks.pop(owner, ()):
            task.cancel()

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run ``func`` now; its result is there after ``slow()`` seconds."""
        future = self.create_future()
        try:
            result, error = func(*args), None
        except Exception as raised:
            result, error = None, raised

        def settle() -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self._slow(), settle)
        return future
