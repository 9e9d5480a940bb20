"""Searches that nothing comes of, away from the ones that do.

They have a planner and a thread of their own: a question must not hold up a gang that waits, nor
what its planner keeps. One runs at a time and a few wait; the planner is let go of when nobody
has asked for a while, since it keeps sums over all pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from extender.gang.plan import manifest
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.what_if import added_gangs, find_gang, only_gang, with_added
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput, NotReady
from extender.model.gang import Gang
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted
from extender.settings.settings import Settings

MOST_WAITING = 4
KEPT_SECONDS = 60.0
MOST_PODS = 10_000
"""How many pods the Jobs of one manifest may have together."""
MOST_BYTES = 64 * 1024 * 1024
"""How large they may be together: a template is copied for each."""
READ_SECONDS = 10.0
"""For what a manifest says to be made into pods."""
THREAD = "search-what-if"
"""The end of the process waits a moment, and no longer, for threads of searches: by this name."""
STOPPING = "stopping"
MANIFEST = "manifest"
"""What errors call it."""


class TooManyAsked(Exception):  # noqa: N818 - reads as the condition it is
    """So many questions wait already that another one is not taken."""


class WhatIf(Struct, frozen=True):
    """One question."""

    gang: str
    """NAME, NAMESPACE/NAME or DIALECT:NAMESPACE/NAME; "" for the one that the manifest adds."""
    manifest: str
    snapshot: Snapshot
    holds: tuple[Hold, ...]
    masks: Mapping[str, frozenset[str]]
    """Member uid -> nodes known to be refused by what is not modelled."""
    seconds: float
    """For the search alone."""
    priority: int | None = None
    """In place of the gang's own."""
    min_count: int | None = None
    """In place of the gang's own."""
    cost_order: str = ""
    """Name of the order to plan by; "" for the configured one."""


class WhatIfs:
    """Asks a planner of its own."""

    def __init__(
        self,
        settings: Settings,
        resolver: Resolver,
        read_manifest: Callable[[str, str], Iterable[object]],
    ) -> None:
        self._settings = settings
        self._resolver = resolver
        self._read_manifest = read_manifest
        self._planners: dict[str, Planner] = {}
        """Cost order -> planner: of the configured order, and of one other at most."""
        self._asked = 0
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=THREAD)
        self._dropping: asyncio.TimerHandle | None = None
        self._closed = False
        self._flags: list[array[int]] = []
        """Of the questions asked; nonzero ends a search."""

    async def ask(self, question: WhatIf) -> Plan | Refusal:
        """Return the answer; cancelled, the search ends as well.

        Raises InvalidInput for a gang or a manifest that is not understood, TooManyAsked when too
        many wait already, NotReady when the process stops before it has begun.
        """
        if self._closed:
            raise NotReady(STOPPING)
        if self._asked > MOST_WAITING:
            raise TooManyAsked(f"{counted(self._asked, 'question', 'waits', 'wait')} already")
        cancel = array("b", [0])
        self._asked += 1
        if self._dropping is not None:
            self._dropping.cancel()
        loop = asyncio.get_running_loop()
        work = self._pool.submit(self._answer, question, cancel)
        # Not before the thread is through with it, whoever still waits.
        self._flags.append(cancel)
        work.add_done_callback(lambda _: _told(loop, partial(self._answered, cancel)))
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            # The thread looks at it all the time; one that has not begun was taken back.
            cancel[0] = 1
            if self._closed and work.cancelled():
                raise NotReady(STOPPING) from None
            raise

    def _answer(self, question: WhatIf, cancel: array[int]) -> Plan | Refusal:
        snapshot = question.snapshot
        key = None
        if question.manifest:
            values = self._read_manifest(question.manifest, MANIFEST)
            until = time.monotonic() + READ_SECONDS
            try:
                added = manifest.read(
                    values,
                    snapshot.priority_classes,
                    MOST_PODS,
                    MOST_BYTES,
                    partial(_going_on, cancel, until),
                )
            except InvalidInput as problem:
                raise InvalidInput(f"{MANIFEST}: {problem}") from problem
            if not question.gang:
                there = added_gangs(added, self._resolver.member_key)
                key = only_gang(there, added, "name the one that is meant as the gang")
            snapshot = with_added(snapshot, added, self._resolver.member_key)
        key = key or find_gang(question.gang, snapshot)
        gang = _changed(self._resolver.resolve(key, snapshot), question)
        planner = self._planner(question.cost_order)
        planner.see(snapshot)
        return planner.plan(
            GangQuestion(gang, snapshot, question.holds, question.masks),
            deadline=time.monotonic() + question.seconds,
            cancel=cancel,
        )

    def _planner(self, order: str) -> Planner:
        own = self._settings.plan.cost_order
        order = order or own
        planner = self._planners.get(order)
        if planner is None:
            settings = replace(self._settings, plan=replace(self._settings.plan, cost_order=order))
            planner = Planner(settings, self._resolver)
            kept = {own: self._planners[own]} if own in self._planners else {}
            self._planners = {**kept, order: planner}
        return planner

    def _answered(self, cancel: array[int]) -> None:
        self._asked -= 1
        self._flags = [each for each in self._flags if each is not cancel]
        if not self._asked and not self._closed:
            loop = asyncio.get_running_loop()
            self._dropping = loop.call_later(KEPT_SECONDS, self._drop)

    def _drop(self) -> None:
        self._planners = {}

    def close(self) -> None:
        """Take no more questions; what runs is told to stop, and not waited for."""
        self._closed = True
        for cancel in self._flags:
            cancel[0] = 1
        if self._dropping is not None:
            self._dropping.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _going_on(cancel: array[int], until: float) -> None:
    """Raises InvalidInput once nobody waits for the answer, or it took too long to begin."""
    if cancel[0]:
        raise InvalidInput("no caller waits for the answer any more")
    if time.monotonic() > until:
        raise InvalidInput(f"it takes more than {READ_SECONDS:g} s to make its pods")


def _changed(gang: Gang, question: WhatIf) -> Gang:
    """Return the gang as the question wants it."""
    if question.priority is not None:
        gang = replace(gang, preemptor_priority=question.priority)
    if question.min_count is not None:
        gang = replace(gang, min_count=question.min_count, size_known=True)
    return gang


def _told(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
        loop.call_soon_threadsafe(what)
