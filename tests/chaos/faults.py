"""The faults: what each one does, for how long, and how it is undone.

Three lanes run beside each other, each with a seeded choice of its own and one fault at a time:
``processes`` (killed, stopped, restarted), ``requests`` (the extender's way to the API server)
and ``cluster`` (nodes and pods that go away).
"""

from __future__ import annotations

import asyncio
import functools
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from http.client import HTTPException

from tests.chaos.bed import Bed
from tests.chaos.history import Fault, History, PodLife
from tests.chaos.invariants import preemptor_of
from tests.chaos.proxy import Call, Harm, Rule
from tests.controlplane.client import ApiError
from tests.controlplane.objects import make_node
from tests.controlplane.processes import ProcessError

Act = Callable[[random.Random], Awaitable[None]]

PROCESSES = "processes"
REQUESTS = "requests"
CLUSTER = "cluster"
LANES = (PROCESSES, REQUESTS, CLUSTER)

PAUSES = {PROCESSES: (1.0, 6.0), REQUESTS: (0.5, 4.0), CLUSTER: (0.5, 4.0)}
"""Seconds between two faults of a lane."""
MOMENT_SECONDS = 8.0
"""How long a fault that is meant for the middle of a plan waits for one."""
SPARE_NODE = "spare"
NOT_READY = "node.kubernetes.io/not-ready"
LEFT_AS_IT_IS = 0.5
"""Share of node faults that are not undone before the run comes to rest."""


class Faults:
    """Injects faults until told to stop; then undoes what must not last."""

    def __init__(
        self,
        bed: Bed,
        history: History,
        seed: str,
        nodes: dict[str, int],
        cancel: Callable[[str, str], None],
    ) -> None:
        """Prepare; ``cancel(group, why)`` takes a group away as its user would."""
        self._bed = bed
        self._cancel = cancel
        self._history = history
        self._seed = seed
        self._nodes = nodes
        self._rngs = {lane: random.Random(f"{seed}:{lane}") for lane in LANES}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="faults")
        self._stop = asyncio.Event()
        self._beside: set[asyncio.Task[None]] = set()
        self.kinds: dict[str, dict[str, tuple[int, Act]]] = {
            PROCESSES: self._process_faults(),
            REQUESTS: self._request_faults(),
            CLUSTER: self._cluster_faults(),
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Run all lanes until told to stop and until the last fault is over."""
        self._stop = stop
        await asyncio.gather(*(self._lane(lane) for lane in LANES))
        await asyncio.gather(*self._beside)

    def close(self) -> None:
        """Give the thread back."""
        self._thread.shutdown(wait=False)

    async def _lane(self, lane: str) -> None:
        rng, kinds = self._rngs[lane], self.kinds[lane]
        names = list(kinds)
        weights = [weight for weight, _ in kinds.values()]
        while True:
            await self._pause(rng.uniform(*PAUSES[lane]))
            if self._stop.is_set():
                return
            (name,) = rng.choices(names, weights)
            # A generator of its own: how one fault goes does not change which come after it.
            await kinds[name][1](random.Random(rng.random()))

    async def _pause(self, seconds: float) -> None:
        """Sleep, but not past the end of the lanes."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    @asynccontextmanager
    async def _fault(
        self, kind: str, detail: str, *, blinds: bool = False, touches_scheduler: bool = False
    ) -> AsyncIterator[Fault]:
        fault = Fault(kind, detail, time.time(), blinds=blinds, touches_scheduler=touches_scheduler)
        self._history.begin(fault)
        try:
            yield fault
        finally:
            self._history.end(fault, time.time())

    async def _start_extender(self) -> None:
        """Start the extender. One that ends again, or is never ready, is the runner's to judge."""
        with suppress(ProcessError):
            await self._bed.in_thread(self._bed.extender.start)

    async def _blocking(self, what: Callable[[], object]) -> None:
        """Run a request to the API server; what fails now is no fault then."""
        with suppress(OSError, HTTPException, ApiError, LookupError):
            await asyncio.get_running_loop().run_in_executor(self._thread, what)

    # -- processes --------------------------------------------------------------------------

    def _process_faults(self) -> dict[str, tuple[int, Act]]:
        return {
            "extender kill -9": (3, self._kill_extender),
            "extender kill -9 in a plan": (5, self._kill_in_a_plan),
            "extender SIGTERM": (2, self._end_extender),
            "extender SIGSTOP": (2, self._stop_extender),
            "scheduler kill -9": (2, self._kill_scheduler),
            "scheduler SIGSTOP": (1, self._stop_server("kube-scheduler", "scheduler SIGSTOP")),
            "apiserver kill -9": (1, self._kill_server("kube-apiserver", "apiserver kill -9")),
            "apiserver SIGSTOP": (2, self._stop_server("kube-apiserver", "apiserver SIGSTOP")),
            "etcd kill -9": (1, self._kill_server("etcd", "etcd kill -9")),
            "etcd SIGSTOP": (1, self._stop_server("etcd", "etcd SIGSTOP")),
            "kubelets SIGSTOP": (1, self._stop_server("kwok", "kubelets SIGSTOP")),
        }

    async def _kill_extender(self, rng: random.Random) -> None:
        away = rng.choice((0.0, 0.0, rng.uniform(0.5, 6.0)))
        detail = f"extender killed, started again after {away:.1f} s"
        async with self._fault("extender kill -9", detail, blinds=True):
            await self._bed.in_thread(lambda: self._bed.extender.end(0))
            await self._pause(away)
            await self._start_extender()

    async def _kill_in_a_plan(self, rng: random.Random) -> None:
        """Kill when the API server has done a certain request, before its answer is told.

        Half of the time something the plan counts on goes away before the next start.
        """
        kind, count = self._moment(rng)
        away = rng.choice((0.0, rng.uniform(0.5, 5.0)))
        meanwhile = rng.choice((None, None, None, "member", "node", "victim"))

        def kill() -> None:
            self._bed.extender.meant_to_run = False
            self._bed.extender.signal(signal.SIGKILL)

        if not await self._at(kind, count, kill):
            return
        detail = f"extender killed after {kind} number {count}, started again after {away:.1f} s"
        async with self._fault("extender kill -9 in a plan", detail, blinds=True):
            await self._bed.in_thread(lambda: self._bed.extender.end(0))
            await self._pause(away)
            if meanwhile == "member":
                await self._delete_waiting(rng)
            elif meanwhile == "victim":
                await self._delete_victim(rng)
            elif meanwhile == "node":
                self._start_beside(self._cordon(rng))
                await self._pause(0.5)
            await self._start_extender()

    def _moment(self, rng: random.Random) -> tuple[str, int]:
        """A request in the life of a plan, and which one of its kind."""
        kind = rng.choice(("record", "rehearsal", "status", "eviction", "eviction", "touch"))
        return kind, 1 if kind == "record" else rng.randint(1, 4)

    async def _at(self, kind: str, count: int, then: Callable[[], None]) -> bool:
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

        listeners = self._bed.proxy.passed
        listeners.append(passed)
        with suppress(TimeoutError):
            await asyncio.wait_for(reached.wait(), MOMENT_SECONDS)
        listeners.remove(passed)
        return reached.is_set()

    def _start_beside(self, what: Coroutine[None, None, None]) -> None:
        """Let a fault go on beside the one that began it."""
        self._beside.add(task := asyncio.ensure_future(what))
        task.add_done_callback(self._beside.discard)

    async def _end_extender(self, rng: random.Random) -> None:
        async with self._fault("extender SIGTERM", "extender restarted", blinds=True):
            await self._bed.in_thread(lambda: self._bed.extender.end(15))
            await self._start_extender()

    async def _stop_extender(self, rng: random.Random) -> None:
        seconds = rng.uniform(0.5, 8.0)
        async with self._fault("extender SIGSTOP", f"for {seconds:.1f} s", blinds=True):
            self._bed.extender.signal(signal.SIGSTOP)
            await self._pause(seconds)
            self._bed.extender.signal(signal.SIGCONT)

    async def _kill_scheduler(self, rng: random.Random) -> None:
        plane = self._bed.plane
        async with self._fault("scheduler kill -9", "and restarted", touches_scheduler=True):
            process = plane.processes["kube-scheduler"]
            await self._bed.in_thread(lambda: process.stop(grace=0))
            await self._pause(rng.uniform(0.0, 3.0))
            await self._bed.in_thread(plane.restart_scheduler)

    def _kill_server(self, server: str, kind: str) -> Act:
        async def act(rng: random.Random) -> None:
            away = rng.uniform(0.0, 4.0)
            detail = f"{server} killed, started again after {away:.1f} s"
            async with self._fault(kind, detail, blinds=True, touches_scheduler=True):
                process = self._bed.plane.processes[server]
                await self._bed.in_thread(lambda: process.stop(grace=0))
                await self._pause(away)
                await self._bed.in_thread(lambda: self._bed.plane.restart(server))

        return act

    def _stop_server(self, server: str, kind: str) -> Act:
        async def act(rng: random.Random) -> None:
            seconds = rng.uniform(0.5, 7.0)
            serves = server in ("kube-apiserver", "etcd")
            async with self._fault(
                kind, f"{server} for {seconds:.1f} s", blinds=serves, touches_scheduler=serves
            ):
                process = self._bed.plane.processes[server]
                process.signal(signal.SIGSTOP)
                try:
                    await self._pause(seconds)
                finally:
                    process.signal(signal.SIGCONT)

        return act

    # -- requests ---------------------------------------------------------------------------

    def _request_faults(self) -> dict[str, tuple[int, Act]]:
        found: dict[str, tuple[int, Act]] = {
            "requests delayed": (3, self._rule("delay", "requests delayed", _anything)),
            "writes delayed": (2, self._rule("delay", "writes delayed", _writes)),
            "answers lost": (3, self._rule("lose", "answers lost", _writes)),
            "done but answered 500": (3, self._rule("unclear", "done but answered 500", _writes)),
            "requests repeated": (2, self._rule("repeat", "requests repeated", _writes)),
            "requests held": (2, self._rule("hold", "requests held", _anything)),
            "requests late": (2, self._rule("hold", "requests late", _writes, late=True)),
            "watches cut": (4, self._cut_watches),
            "one pod's DELETE refused": (5, self._refuse_one_pod),
            "plan ended amid its evictions": (8, self._end_amid_evictions),
        }
        for status in (403, 409, 429, 500, 503):
            kind = f"writes refused {status}"
            found[kind] = (1, self._rule("refuse", kind, _writes, status=status))
        for status in (409, 429, 503):
            kind = f"plan records refused {status}"
            found[kind] = (1, self._rule("refuse", kind, _records, status=status))
        return found

    def _rule(
        self,
        harm: Harm,
        kind: str,
        meant: Callable[[Call], bool],
        *,
        status: int = 500,
        late: bool = False,
    ) -> Act:
        async def act(rng: random.Random) -> None:
            chance, seconds = rng.choice((0.2, 0.5, 1.0)), rng.uniform(2.0, 8.0)
            rule = Rule(harm, meant, chance, rng.choice((0.3, 1.5, 4.0)), status, late)
            await self._impose(rule, kind, f"{chance:.0%} of them for {seconds:.1f} s", seconds)

        return act

    async def _refuse_one_pod(self, rng: random.Random) -> None:
        """Refuse the real eviction of some pods only, after a rehearsal that went well."""
        status, seconds = rng.choice((403, 429, 500, 503)), rng.choice((5.0, 10.0, 30.0))
        share, rest = rng.choice((2, 2, 3)), rng.randint(0, 3)

        def meant(call: Call) -> bool:
            return call.kind == "eviction" and sum(call.name.encode()) % share == rest % share

        detail = f"{status} for one pod in {share}, {seconds:.1f} s"
        await self._impose(
            Rule("refuse", meant, status=status), "one pod's DELETE refused", detail, seconds
        )

    async def _end_amid_evictions(self, rng: random.Random) -> None:
        """Let the first evictions through and no more; then whom they are for goes away."""
        count, status = rng.choice((1, 1, 2)), rng.choice((429, 500, 503))
        through: set[str] = set()
        evicted: list[str] = []

        def meant(call: Call) -> bool:
            if call.kind == "eviction" and len(through) < count:
                through.add(call.name)
            return call.kind == "eviction" and call.name not in through

        def passed(call: Call) -> None:
            if call.kind == "eviction":
                evicted.append(call.name)

        detail = f"{status} for all evictions after {count}"
        async with self._fault("plan ended amid its evictions", detail, blinds=True) as fault:
            rule = Rule("refuse", meant, status=status)
            self._bed.proxy.impose(rule)
            self._bed.proxy.passed.append(passed)
            for _ in range(int(MOMENT_SECONDS / 0.2)):
                if (evicted and rule.hits) or self._stop.is_set():
                    break
                await self._pause(0.2)
            await self._pause(rng.uniform(0.2, 1.0))
            preemptor = self._preemptor_of(evicted)
            if preemptor and rng.random() < 0.7:
                self._cancel(preemptor, "is cancelled by its user while it evicts")
            elif preemptor:
                await self._delete_waiting(rng)
            await self._pause(rng.uniform(1.0, 4.0))
            self._bed.proxy.passed.remove(passed)
            self._bed.proxy.lift(rule)
            fault.hits = rule.hits

    def _preemptor_of(self, victims: list[str]) -> str:
        """The gang that some of these pods go for, as their condition tells."""
        for life in self._history.pods.values():
            if life.seen.name in victims and life.disrupted:
                preemptor = preemptor_of(self._history, life)
                if preemptor is not None and preemptor.present:
                    return preemptor.spec.name
        return ""

    async def _impose(self, rule: Rule, kind: str, detail: str, seconds: float) -> None:
        async with self._fault(kind, detail, blinds=True) as fault:
            self._bed.proxy.impose(rule)
            try:
                await self._pause(seconds)
            finally:
                self._bed.proxy.lift(rule)
                fault.hits = rule.hits

    async def _cut_watches(self, rng: random.Random) -> None:
        """Cut all watches, perhaps again and again, perhaps without letting new ones through."""
        times, closed = rng.choice((1, 1, 4)), rng.random() < 0.3
        detail = f"{times} times" + (", new ones are held" if closed else "")
        async with self._fault("watches cut", detail, blinds=True) as fault:
            rule = Rule("hold", lambda call: call.kind == "watch")
            if closed:
                self._bed.proxy.impose(rule)
            fault.hits = 0
            for _ in range(times):
                fault.hits += self._bed.proxy.cut_watches()
                await self._pause(rng.uniform(0.5, 2.0) if times > 1 or closed else 0.0)
            self._bed.proxy.lift(rule)

    # -- the cluster --------------------------------------------------------------------------

    def _cluster_faults(self) -> dict[str, tuple[int, Act]]:
        def amid(fault: Act) -> Act:
            return functools.partial(self._amid_a_plan, fault=fault)

        return {
            "node cordoned": (2, self._cordon),
            "node cordoned amid a plan": (4, amid(self._cordon)),
            "node not ready": (1, self._not_ready),
            "node not ready amid a plan": (2, amid(self._not_ready)),
            "node deleted": (1, self._delete_node),
            "node deleted amid a plan": (2, amid(self._delete_node)),
            "node added": (1, self._add_node),
            "waiting member deleted amid a plan": (4, amid(self._delete_waiting)),
            "running member deleted": (2, self._delete_running),
            "victim deleted": (3, self._delete_victim),
        }

    async def _node_fault(
        self,
        rng: random.Random,
        kind: str,
        node: str,
        do: Callable[[], object],
        undo: Callable[[], object],
    ) -> None:
        seconds, lasts = rng.uniform(2.0, 10.0), rng.random() < LEFT_AS_IT_IS
        async with self._fault(kind, f"{node} for {seconds:.1f} s"):
            self._history.disturb(time.time(), f"{kind}: {node}")
            await self._blocking(do)
            await self._pause(seconds)
            if lasts and self._stop.is_set():
                return
            self._history.disturb(time.time(), f"no longer {kind}: {node}")
            await self._blocking(undo)

    def _node(self, rng: random.Random) -> str:
        """A node, most likely one on which a plan has a seat."""
        seats = {life.seen.nominated for life in self._planned()} & self._nodes.keys()
        return rng.choice(sorted(seats or self._nodes))

    def _planned(self) -> list[PodLife]:
        """Members that wait for their seats."""
        return [life for life in self._waiting() if life.seen.nominated]

    def _waiting(self) -> list[PodLife]:
        """Pods without a node."""
        return [
            life
            for life in self._history.pods.values()
            if life.alive and not life.seen.node and self._present(life.seen.group)
        ]

    async def _amid_a_plan(self, rng: random.Random, *, fault: Act) -> None:
        """Begin a fault when a plan has come to a certain point."""
        kind, count = self._moment(rng)
        if await self._at(kind, count, lambda: None):
            await self._pause(rng.choice((0.0, 0.2, 1.0)))
            await fault(rng)

    async def _cordon(self, rng: random.Random) -> None:
        node, client = self._node(rng), self._bed.client
        await self._node_fault(
            rng,
            "node cordoned",
            node,
            lambda: client.patch("Node", node, {"spec": {"unschedulable": True}}),
            lambda: client.patch("Node", node, {"spec": {"unschedulable": None}}),
        )

    async def _not_ready(self, rng: random.Random) -> None:
        """Taint a node as the node lifecycle controller taints one that is not ready."""
        node, client = self._node(rng), self._bed.client
        taint = {"key": NOT_READY, "effect": "NoSchedule"}
        await self._node_fault(
            rng,
            "node not ready",
            node,
            lambda: client.patch("Node", node, {"spec": {"taints": [taint]}}),
            lambda: client.patch("Node", node, {"spec": {"taints": None}}),
        )

    async def _delete_node(self, rng: random.Random) -> None:
        node = self._node(rng)
        await self._node_fault(
            rng,
            "node deleted",
            node,
            lambda: self._take_node(node),
            lambda: self._bed.client.create(make_node(node, self._cores(node))),
        )

    async def _add_node(self, rng: random.Random) -> None:
        await self._node_fault(
            rng,
            "node added",
            SPARE_NODE,
            lambda: self._bed.client.create(make_node(SPARE_NODE, self._cores(SPARE_NODE))),
            lambda: self._take_node(SPARE_NODE),
        )

    def _cores(self, node: str) -> str:
        return f"{self._nodes.get(node, next(iter(self._nodes.values())))}m"

    def _take_node(self, node: str) -> None:
        """Delete a node, and its pods as the pod garbage collector does."""
        client = self._bed.client
        client.delete("Node", node, missing_ok=True)
        for pod in client.list("Pod", fieldSelector=f"spec.nodeName={node}"):
            name = pod["metadata"]["name"]
            with suppress(ApiError):
                client.patch("Pod", name, {"status": {"phase": "Failed"}}, subresource="status")
            client.delete("Pod", name, grace=0, missing_ok=True)

    def restore_nodes(self) -> None:
        """Bring every node back as it was at first."""
        client = self._bed.client
        for node in self._nodes:
            if client.get_or_none("Node", node) is None:
                client.create(make_node(node, self._cores(node)))
            client.patch("Node", node, {"spec": {"unschedulable": None, "taints": None}})
        if client.get_or_none("Node", SPARE_NODE) is not None:
            self._take_node(SPARE_NODE)

    async def _delete_waiting(self, rng: random.Random) -> None:
        """A member that waits goes away, most likely one that a plan has a seat for."""
        names = [life.seen.name for life in self._planned() or self._waiting()]
        await self._delete_pod(rng, "waiting member deleted", names)

    async def _delete_running(self, rng: random.Random) -> None:
        running = [
            life.seen.name
            for life in self._history.pods.values()
            if life.seated and self._present(life.seen.group)
        ]
        await self._delete_pod(rng, "running member deleted", running)

    async def _delete_victim(self, rng: random.Random) -> None:
        """A victim is deleted by hand too, or force deleted while it terminates."""
        for _ in range(40):
            marked = [
                life.seen.name
                for life in self._history.pods.values()
                if life.exists and life.seen.disrupted and not life.finished_at
            ]
            if marked or self._stop.is_set():
                break
            await self._pause(0.2)
        await self._delete_pod(rng, "victim deleted", marked, grace=rng.choice((0, None)))

    def _present(self, group: str) -> bool:
        life = self._history.groups.get(group)
        return life is not None and life.present

    async def _delete_pod(
        self, rng: random.Random, kind: str, names: list[str], grace: int | None = None
    ) -> None:
        if not names:
            return
        name = rng.choice(sorted(names))
        async with self._fault(kind, name):
            self._history.disturb(time.time(), f"{kind}: {name}")
            await self._blocking(
                lambda: self._bed.client.delete("Pod", name, grace=grace, missing_ok=True)
            )


def _anything(call: Call) -> bool:
    return call.kind != "watch"


def _writes(call: Call) -> bool:
    return call.writes


def _records(call: Call) -> bool:
    return call.kind == "record"
