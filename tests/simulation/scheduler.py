"""kube-scheduler: one scheduling cycle at a time, a watch of its own, assumed pods, binds beside.

What it decides is the sandbox's scheduler; here it sees late, binds late, and asks an extender
that may be dead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from math import inf
from typing import Any, Protocol

from extender.model.errors import ExtenderError
from extender.model.objects import Pod
from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.queue import Entry, SchedulingQueue
from extender.sandbox.resources import NAMESPACES, NODES, PODS
from extender.sandbox.scheduler import Scheduler
from extender.sandbox.storage import ADDED, StorageChange
from extender.sandbox.wire import ExtenderFailed, Filtered, Victims
from extender.server.verb_calls import Verbs
from extender.wire.bind_json import BindArgs
from extender.wire.filter_json import FilterArgs
from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.simulation.chance import Chance
from tests.simulation.filters import CpuState, Decoded
from tests.simulation.loop import SimLoop
from tests.simulation.server import Server

FLUSH_SECONDS = 300.0
"""Pods that nothing has woken are tried again this often."""
HTTP_TIMEOUT = 5.0
BIND_TIMEOUT = 45.0
"""httpTimeout of the entry with the bindVerb."""
WATCHED = frozenset((NODES.key, PODS.key, NAMESPACES.key))


class Answering(Protocol):
    """The extender as its callers see it."""

    @property
    def verbs(self) -> Verbs | None:
        """None: nobody listens."""

    def serve(self, call: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Let the extender's process run a call."""


class Asking:
    """Calls the verbs, with the time that takes, as sandbox.wire.ExtenderClient does by HTTP."""

    weight = 1

    def __init__(
        self,
        loop: SimLoop,
        chance: Chance,
        extender: Answering,
        told: Callable[..., None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._extender = extender
        self._told = told
        self._failed = failed
        self.decoded = Decoded()
        self._leaving: dict[int, Callable[[], None]] = {}
        """Closes the connection of each bind that is under way."""
        self._binds = 0
        self.lost_until = 0.0
        """Until when half of the answers are lost on the way."""
        self.doubled = 0.0
        """Share of the questions that are asked twice."""
        self.asked: deque[Callable[[Verbs], Coroutine[Any, Any, Any]]] | None = None
        """The last questions, where they may be repeated."""

    def repeat(self) -> None:
        """Ask some of the last questions once more; nobody hears the answers."""
        verbs = self._extender.verbs
        if verbs is None:
            return
        for verb in list(self.asked or ()):
            if self._chance.hit("repeat", 0.4):
                self._extender.serve(_unheard(verb(verbs)))

    async def close(self) -> None:
        """Nothing is kept open."""

    def die(self) -> None:
        """Close all connections: who asked is dead."""
        for leave in list(self._leaving.values()):
            leave()

    async def filter(self, pod: Obj, nodes: Sequence[str]) -> Filtered:
        """Ask which of the nodes the pod may use."""
        args = FilterArgs(self.decoded(pod), list(nodes))
        result = await self._call(lambda verbs: verbs.filter(args), kept=True)
        self._told("filter", pod, nodes, result.error or result.node_names)
        if result.error:
            raise ExtenderFailed(result.error)
        return Filtered(tuple(result.node_names), result.failed, result.failed_and_unresolvable)

    async def prioritize(self, pod: Obj, nodes: Sequence[str]) -> dict[str, int]:
        """Ask for scores."""
        args = FilterArgs(self.decoded(pod), list(nodes))
        try:
            scores = await self._call(lambda verbs: verbs.prioritize(args))
        except ExtenderFailed:
            return {}
        return {score.host: score.score for score in scores}

    async def preempt(self, pod: Obj, candidates: Victims) -> Victims:
        """Show victims on each node and take the extender's view of them."""
        args = PreemptArgs(
            self.decoded(pod),
            {
                node: NodeVictims(uids, violations)
                for node, (uids, violations) in candidates.items()
            },
        )
        result = await self._call(lambda verbs: verbs.preempt(args), kept=True)
        self._told("preempt", pod, list(candidates), list(result.candidates))
        return {node: (c.uids, c.pdb_violations) for node, c in result.candidates.items()}

    async def bind(self, pod: Pod, node: str) -> None:
        """Have the pod bound. Raises ExtenderFailed when it was not, as far as one can tell.

        A caller that leaves (time-out, its own end) only closes its connection.
        """
        left: asyncio.Future[None] = self._loop.create_future()

        async def gone() -> None:
            await asyncio.shield(left)

        def leave() -> None:
            if not left.done():
                left.set_result(None)

        self._binds += 1
        number = self._binds
        self._leaving[number] = leave
        args = BindArgs(pod.name, pod.namespace, pod.uid, node)
        try:
            result = await self._call(lambda verbs: verbs.bind(args, gone), BIND_TIMEOUT, leave)
        finally:
            leave()
            del self._leaving[number]
        if result.error:
            raise ExtenderFailed(result.error)

    async def _call(
        self,
        verb: Callable[[Verbs], Coroutine[Any, Any, Any]],
        timeout: float = HTTP_TIMEOUT,
        leave: Callable[[], None] | None = None,
        *,
        kept: bool = False,
    ) -> Any:
        """``leave``: how the connection is closed, where that does not end the work.

        ``kept``: it may be repeated.
        """
        await asyncio.sleep(self._chance.draw("ask") * 0.005)
        verbs = self._extender.verbs
        if verbs is None:
            raise ExtenderFailed("connection refused")
        if kept and self.asked is not None:
            self.asked.append(verb)
        call = self._extender.serve(verb(verbs))
        if kept and self.doubled and self._chance.hit("doubled", self.doubled):
            other = self._extender.serve(verb(verbs))
            if self._chance.hit("doubled-other", 0.5):
                call, other = other, call
            other.add_done_callback(_retrieved)
        over: asyncio.Future[bool] = self._loop.create_future()
        call.add_done_callback(lambda _: None if over.done() else over.set_result(True))

        def late() -> None:
            if leave is None:
                call.cancel()
                if self._loop.any_frozen and not over.done():
                    over.set_result(False)  # who stands still does not see that its caller left
            elif not over.done():
                leave()
                over.set_result(False)

        timer = self._loop.call_later(timeout, late)
        answered = await over
        timer.cancel()
        if not answered:
            raise ExtenderFailed("no answer came in time")
        if call.cancelled():
            raise ExtenderFailed("the connection was lost, or no answer came in time")
        error = call.exception()
        if isinstance(error, ExtenderError):
            raise ExtenderFailed(str(error))
        if error is not None:
            self._failed(error)
            raise ExtenderFailed("status 500")
        if self._loop.time() < self.lost_until and self._chance.hit("answer-lost", 0.5):
            raise ExtenderFailed("the connection was lost before the answer")
        return call.result()


def _retrieved(call: asyncio.Future[Any]) -> None:
    """Nobody hears how it ended."""
    if not call.cancelled():
        call.exception()


async def _unheard(call: Coroutine[Any, Any, Any]) -> None:
    with suppress(ExtenderError):
        await call


class SimScheduler(Scheduler):
    """The sandbox's scheduler with a late watch and late binds. ``lag`` is per change."""

    def __init__(
        self,
        loop: SimLoop,
        server: Server,
        chance: Chance,
        asking: Asking,
        lag: Callable[[], float],
        told: Callable[..., None],
    ) -> None:
        self._asking = asking
        super().__init__(
            server.api,
            asking,  # type: ignore[arg-type]
            state=CpuState(asking.decoded),
        )
        self._loop = loop
        self._chance = chance
        self._lag = lag
        self._told = told
        self._queue = SchedulingQueue(loop.time)
        self._last = 0.0
        self._busy = False
        self._coming: deque[StorageChange] = deque()
        self._life = 0
        """How often it was killed."""
        self._heard_from = 0
        """Requests of lives before this one are lost."""
        self._working: asyncio.Task[None] | None = None
        self._here = 0
        """How many of those that are coming have come."""
        self.bind_fails = 0.0
        """Share of binds that fail."""
        self.most_fails = inf
        """How often one pod's binds fail at most, all in all."""
        self._failed: dict[str, int] = {}
        self.slow_binds = False
        self.bind_verb = False
        """The extender binds (docs/barrier.md); what fails then fails before, in PreBind."""
        for resource in (NAMESPACES, NODES, PODS):
            for obj in server.storage.all(resource.key):
                self._apply(StorageChange(0, resource.key, ADDED, obj, None))
        server.storage.observe(self._see)
        loop.call_later(FLUSH_SECONDS, self._flush)

    def _see(self, change: StorageChange) -> None:
        if change.resource in WATCHED:
            self._last = max(self._last, self._loop.time() + self._lag())
            self._coming.append(change)
            # Timers of the same moment come in no order: each takes the oldest change.
            self._loop.call_at(self._last, self._arrives, self._life)

    def _arrives(self, life: int = 0) -> None:
        """A change has come; a cycle that is going on sees the cluster as at its beginning."""
        if life != self._life:
            return
        self._here += 1
        if not self._busy:
            self._catch_up()

    def _catch_up(self) -> None:
        while self._here:
            self._here -= 1
            self._apply(self._coming.popleft())

    def restart(self, down: float, *, unheard: bool = False) -> None:
        """Be killed, and start again after ``down`` seconds with what the API server has.

        ``unheard``: no request that is under way reaches that any more.
        """
        self._life += 1
        if unheard:
            self._heard_from = self._life
        self._asking.die()
        if self._working is not None:
            self._working.cancel()
        # Whoever caused it may be a request of the extender's: this is no part of its process.
        self._loop.call_later(down, self._begin, self._life, context=Context())

    def _begin(self, life: int) -> None:
        if life != self._life:
            return
        self._life += 1  # what has happened meanwhile is in what is read now
        self._state = CpuState(self._asking.decoded)
        self._queue = SchedulingQueue(self._loop.time)
        self._busy, self._here = False, 0
        self._coming.clear()
        for resource in (NAMESPACES, NODES, PODS):
            for obj in self._api.storage.all(resource.key):
                self._apply(StorageChange(0, resource.key, ADDED, obj, None))
        self._working = self._loop.create_task(self._work())

    async def run(self) -> None:
        """Work until cancelled."""
        self._working = self._loop.create_task(self._work())
        while True:
            working = self._working
            await asyncio.wait((working,))
            if self._working is working:
                if not working.cancelled():
                    working.result()
                await asyncio.sleep(0.01)  # killed: another one starts soon

    async def _work(self) -> None:
        while True:
            entry = await self._queue.pop()
            pod = self._state.pods.get(entry.uid)
            if pod is None or self._state.node_of(pod) or pod.deleting:
                self._queue.done(entry)
                continue
            self._busy = True
            await self._attempt(entry, pod)
            self._busy = False
            self._catch_up()

    def _flush(self) -> None:
        self._queue.wake("node")
        self._loop.call_later(FLUSH_SECONDS, self._flush)

    def _bind(self, entry: Entry, pod: Pod, node: str) -> None:
        self._state.assume(pod.uid, node)
        pause = 0.002 + self._chance.draw("bind") ** (1 if self.slow_binds else 4) * 2.0
        fails = self._chance.hit("bind-fails", self.bind_fails)
        if fails and self._failed.get(pod.uid, 0) < self.most_fails:
            self._failed[pod.uid] = self._failed.get(pod.uid, 0) + 1
            why = "a fault was planned here"
            self._loop.call_later(pause, self._unbound, entry, pod, why, self._life)
        elif self.bind_verb:
            self._loop.call_later(pause, self._hand_over, entry, pod, node, self._life)
        else:
            self._loop.call_later(pause, self._bind_now, entry, pod, node, self._life)

    def _bind_now(self, entry: Entry, pod: Pod, node: str, life: int) -> None:
        if life < self._heard_from:
            return
        if life != self._life and self._chance.hit("bind-lost", 0.7):
            return  # killed before the request had left
        target = {"metadata": {"uid": pod.uid}, "target": {"kind": "Node", "name": node}}
        try:
            self._api.bind(pod.namespace, pod.name, target)
        except StatusError as error:
            self._unbound(entry, pod, error.message, life)
            return
        self._told("bound", pod.name, node)
        if life == self._life:
            self._queue.done(entry)

    def _hand_over(self, entry: Entry, pod: Pod, node: str, life: int) -> None:
        if life == self._life:
            bound = self._bound_by_extender(entry, pod, node, life)
            self._loop.create_task(bound, context=Context())

    async def _bound_by_extender(self, entry: Entry, pod: Pod, node: str, life: int) -> None:
        try:
            await self._asking.bind(pod, node)
        except ExtenderFailed as error:
            self._unbound(entry, pod, str(error), life)
            return
        self._told("bound", pod.name, node)
        if life == self._life:
            self._queue.done(entry)

    def _unbound(self, entry: Entry, pod: Pod, why: str, life: int) -> None:
        if life != self._life:
            return
        self._told("not bound", pod.name, why)
        self._state.forget(pod.uid)
        self._report(pod, "SchedulerError", f"binding: {why}", nominated="")
        self._end(entry, retry=True)
        # The room that it had assumed is free again.
        self._queue.wake("pod-gone", pod.uid)
