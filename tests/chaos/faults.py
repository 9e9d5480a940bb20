"""The faults: which is drawn when, in three lanes beside each other.

Each lane has a seeded choice of its own and one fault at a time: ``processes`` (killed, stopped,
restarted), ``requests`` (the extender's way to the API server) and ``cluster`` (nodes and pods
that go away). What each fault does, for how long, and how it is undone, is in a class a kind.
"""

from __future__ import annotations

import asyncio
import functools
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from tests.chaos.bed import Bed
from tests.chaos.groups import GROUP_LABEL
from tests.chaos.history import SQUATTERS, History, PodLife
from tests.chaos.injecting import MOMENT_SECONDS, Act, Injection, Kinds
from tests.chaos.invariants import preemptor_of
from tests.chaos.proxy import Call, Harm, Rule
from tests.controlplane.client import ApiError
from tests.controlplane.objects import make_node, make_pdb, make_pod

NAME = "changed"


class BudgetFaults:
    """One at a time; the budget is gone when the fault is over."""

    def __init__(self, injection: Injection) -> None:
        self._injection = injection

    async def change(self, rng: random.Random) -> None:
        """A budget comes over a group that runs, most likely one that goes now: it allows
        nothing, then anything, and then it is deleted."""
        groups = self._groups(marked=True) or self._groups(marked=False)
        if not groups:
            return
        name, share = rng.choice(groups), rng.choice((1, "100%"))
        client = self._injection.bed.client
        tight = {"minAvailable": 1000} if rng.random() < 0.5 else {"maxUnavailable": 0}
        async with self._injection.fault("budget changed", f"{tight} on {name}"):
            self._injection.history.disturb(time.time(), f"budget over {name}")
            budget = make_pdb(NAME, {GROUP_LABEL: name}, **tight)
            await self._injection.blocking(lambda: client.create(budget))
            await self._injection.pause(rng.choice((0.5, 3.0, 8.0)))
            loose = {**dict.fromkeys(tight), "minAvailable": None, "maxUnavailable": share}
            await self._injection.blocking(
                lambda: client.patch("PodDisruptionBudget", NAME, {"spec": loose})
            )
            await self._injection.pause(rng.choice((0.0, 2.0)))
        await self.restore()

    async def restore(self) -> None:
        """Take the budget away, also one that was left since the API server was down."""
        client = self._injection.bed.client
        await self._injection.blocking(
            lambda: client.delete("PodDisruptionBudget", NAME, missing_ok=True)
        )

    def _groups(self, *, marked: bool) -> list[str]:
        """Groups that run; ``marked``: those of which pods are to go."""

        def meant(life: PodLife) -> bool:
            return bool(life.seen.disrupted) and life.exists if marked else life.seated

        history = self._injection.history
        found = {life.seen.group for life in history.pods.values() if meant(life)}
        return sorted(name for name in found if name in history.groups)


class PodFaults:
    """Each takes one pod, if there is one of its kind."""

    def __init__(self, injection: Injection) -> None:
        self._injection = injection

    def planned(self) -> list[PodLife]:
        """Members that wait for their seats."""
        return [life for life in self._waiting() if life.seen.nominated]

    def _waiting(self) -> list[PodLife]:
        """Pods without a node."""
        return [
            life
            for life in self._injection.history.pods.values()
            if life.alive and not life.seen.node and self._present(life.seen.group)
        ]

    async def delete_waiting(self, rng: random.Random) -> None:
        """A member that waits goes away, most likely one that a plan has a seat for."""
        names = [life.seen.name for life in self.planned() or self._waiting()]
        await self._delete_pod(rng, "waiting member deleted", names)

    async def delete_running(self, rng: random.Random) -> None:
        """A member that has a node goes away."""
        running = [
            life.seen.name
            for life in self._injection.history.pods.values()
            if life.seated and self._present(life.seen.group)
        ]
        await self._delete_pod(rng, "running member deleted", running)

    async def delete_victim(self, rng: random.Random) -> None:
        """A victim is deleted by hand too, or force deleted while it terminates."""
        for _ in range(40):
            marked = [
                life.seen.name
                for life in self._injection.history.pods.values()
                if life.exists and life.seen.disrupted and not life.finished_at
            ]
            if marked or self._injection.stop.is_set():
                break
            await self._injection.pause(0.2)
        await self._delete_pod(rng, "victim deleted", marked, grace=rng.choice((0, None)))

    def _present(self, group: str) -> bool:
        life = self._injection.history.groups.get(group)
        return life is not None and life.present

    async def _delete_pod(
        self, rng: random.Random, kind: str, names: list[str], grace: int | None = None
    ) -> None:
        if not names:
            return
        name = rng.choice(sorted(names))
        async with self._injection.fault(kind, name):
            self._injection.history.disturb(time.time(), f"{kind}: {name}")
            await self._injection.blocking(
                lambda: self._injection.bed.client.delete("Pod", name, grace=grace, missing_ok=True)
            )


SPARE_NODE = "spare"
NOT_READY = "node.kubernetes.io/not-ready"
LEFT_AS_IT_IS = 0.5
"""Share of node faults that are not undone before the run comes to rest."""


class NodeFaults:
    """``nodes``: name -> milli-CPU of each as it was at first."""

    def __init__(self, injection: Injection, pods: PodFaults, nodes: dict[str, int]) -> None:
        self._injection = injection
        self._pods = pods
        self._nodes = nodes

    async def _node_fault(
        self,
        rng: random.Random,
        kind: str,
        node: str,
        do: Callable[[], object],
        undo: Callable[[], object],
    ) -> None:
        seconds, lasts = rng.uniform(2.0, 10.0), rng.random() < LEFT_AS_IT_IS
        async with self._injection.fault(kind, f"{node} for {seconds:.1f} s"):
            self._injection.history.disturb(time.time(), f"{kind}: {node}")
            await self._injection.blocking(do)
            await self._injection.pause(seconds)
            if lasts and self._injection.stop.is_set():
                return
            self._injection.history.disturb(time.time(), f"no longer {kind}: {node}")
            await self._injection.blocking(undo)

    def _node(self, rng: random.Random) -> str:
        """A node, most likely one on which a plan has a seat."""
        seats = {life.seen.nominated for life in self._pods.planned()} & self._nodes.keys()
        return rng.choice(sorted(seats or self._nodes))

    async def cordon(self, rng: random.Random) -> None:
        """A node takes no pods any more."""
        node, client = self._node(rng), self._injection.bed.client
        await self._node_fault(
            rng,
            "node cordoned",
            node,
            lambda: client.patch("Node", node, {"spec": {"unschedulable": True}}),
            lambda: client.patch("Node", node, {"spec": {"unschedulable": None}}),
        )

    async def not_ready(self, rng: random.Random) -> None:
        """Taint a node as the node lifecycle controller taints one that is not ready."""
        node, client = self._node(rng), self._injection.bed.client
        taint = {"key": NOT_READY, "effect": "NoSchedule"}
        await self._node_fault(
            rng,
            "node not ready",
            node,
            lambda: client.patch("Node", node, {"spec": {"taints": [taint]}}),
            lambda: client.patch("Node", node, {"spec": {"taints": None}}),
        )

    async def delete_node(self, rng: random.Random) -> None:
        """A node goes, with its pods."""
        node = self._node(rng)
        await self._node_fault(
            rng,
            "node deleted",
            node,
            lambda: self._take_node(node),
            lambda: self._injection.bed.client.create(make_node(node, self._cores(node))),
        )

    async def add_node(self, rng: random.Random) -> None:
        """A node comes that was not there."""
        await self._node_fault(
            rng,
            "node added",
            SPARE_NODE,
            lambda: self._injection.bed.client.create(
                make_node(SPARE_NODE, self._cores(SPARE_NODE))
            ),
            lambda: self._take_node(SPARE_NODE),
        )

    def _cores(self, node: str) -> str:
        return f"{self._nodes.get(node, next(iter(self._nodes.values())))}m"

    def _take_node(self, node: str) -> None:
        """Delete a node, and its pods as the pod garbage collector does."""
        client = self._injection.bed.client
        client.delete("Node", node, missing_ok=True)
        for pod in client.list("Pod", fieldSelector=f"spec.nodeName={node}"):
            name = pod["metadata"]["name"]
            with suppress(ApiError):
                client.patch("Pod", name, {"status": {"phase": "Failed"}}, subresource="status")
            client.delete("Pod", name, grace=0, missing_ok=True)

    def restore(self) -> None:
        """Bring every node back as it was at first."""
        client = self._injection.bed.client
        for node in self._nodes:
            if client.get_or_none("Node", node) is None:
                client.create(make_node(node, self._cores(node)))
            client.patch("Node", node, {"spec": {"unschedulable": None, "taints": None}})
        if client.get_or_none("Node", SPARE_NODE) is not None:
            self._take_node(SPARE_NODE)


class ProcessFaults:
    """``pods`` and ``nodes``: what may happen while the extender is away."""

    def __init__(self, injection: Injection, pods: PodFaults, nodes: NodeFaults) -> None:
        self._injection = injection
        self._pods = pods
        self._nodes = nodes

    def kinds(self) -> Kinds:
        """Return what is drawn from."""
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
        async with self._injection.fault("extender kill -9", detail, blinds=True):
            await self._injection.bed.in_thread(lambda: self._injection.bed.extender.end(0))
            await self._injection.pause(away)
            await self._injection.start_extender()

    async def _kill_in_a_plan(self, rng: random.Random) -> None:
        """Kill when the API server has done a certain request, before its answer is told.

        Half of the time something the plan counts on goes away before the next start.
        """
        kind, count = self._injection.moment(rng)
        away = rng.choice((0.0, rng.uniform(0.5, 5.0)))
        meanwhile = rng.choice((None, None, None, "member", "node", "victim"))

        def kill() -> None:
            self._injection.bed.extender.meant_to_run = False
            self._injection.bed.extender.signal(signal.SIGKILL)

        if not await self._injection.at(kind, count, kill):
            return
        detail = f"extender killed after {kind} number {count}, started again after {away:.1f} s"
        async with self._injection.fault("extender kill -9 in a plan", detail, blinds=True):
            await self._injection.bed.in_thread(lambda: self._injection.bed.extender.end(0))
            await self._injection.pause(away)
            if meanwhile == "member":
                await self._pods.delete_waiting(rng)
            elif meanwhile == "victim":
                await self._pods.delete_victim(rng)
            elif meanwhile == "node":
                self._injection.start_beside(self._nodes.cordon(rng))
                await self._injection.pause(0.5)
            await self._injection.start_extender()

    async def _end_extender(self, rng: random.Random) -> None:
        async with self._injection.fault("extender SIGTERM", "extender restarted", blinds=True):
            await self._injection.bed.in_thread(lambda: self._injection.bed.extender.end(15))
            await self._injection.start_extender()

    async def _stop_extender(self, rng: random.Random) -> None:
        seconds = rng.uniform(0.5, 8.0)
        async with self._injection.fault("extender SIGSTOP", f"for {seconds:.1f} s", blinds=True):
            self._injection.bed.extender.signal(signal.SIGSTOP)
            await self._injection.pause(seconds)
            self._injection.bed.extender.signal(signal.SIGCONT)

    async def _kill_scheduler(self, rng: random.Random) -> None:
        plane = self._injection.bed.plane
        async with self._injection.fault(
            "scheduler kill -9", "and restarted", touches_scheduler=True
        ):
            process = plane.processes["kube-scheduler"]
            await self._injection.bed.in_thread(lambda: process.stop(grace=0))
            await self._injection.pause(rng.uniform(0.0, 3.0))
            await self._injection.bed.in_thread(plane.restart_scheduler)

    def _kill_server(self, server: str, kind: str) -> Act:
        async def act(rng: random.Random) -> None:
            away = rng.uniform(0.0, 4.0)
            detail = f"{server} killed, started again after {away:.1f} s"
            async with self._injection.fault(kind, detail, blinds=True, touches_scheduler=True):
                process = self._injection.bed.plane.processes[server]
                await self._injection.bed.in_thread(lambda: process.stop(grace=0))
                await self._injection.pause(away)
                await self._injection.bed.in_thread(
                    lambda: self._injection.bed.plane.restart(server)
                )

        return act

    def _stop_server(self, server: str, kind: str) -> Act:
        async def act(rng: random.Random) -> None:
            seconds = rng.uniform(0.5, 7.0)
            serves = server in ("kube-apiserver", "etcd")
            async with self._injection.fault(
                kind, f"{server} for {seconds:.1f} s", blinds=serves, touches_scheduler=serves
            ):
                process = self._injection.bed.plane.processes[server]
                process.signal(signal.SIGSTOP)
                try:
                    await self._injection.pause(seconds)
                finally:
                    process.signal(signal.SIGCONT)

        return act


class RequestFaults:
    """``cancel(group, why)`` takes a group away as its user would."""

    def __init__(
        self, injection: Injection, pods: PodFaults, cancel: Callable[[str, str], None]
    ) -> None:
        self._injection = injection
        self._pods = pods
        self._cancel = cancel

    def kinds(self) -> Kinds:
        """Return what is drawn from."""
        found: Kinds = {
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
        async with self._injection.fault(
            "plan ended amid its evictions", detail, blinds=True
        ) as fault:
            rule = Rule("refuse", meant, status=status)
            self._injection.bed.proxy.impose(rule)
            self._injection.bed.proxy.passed.append(passed)
            for _ in range(int(MOMENT_SECONDS / 0.2)):
                if (evicted and rule.hits) or self._injection.stop.is_set():
                    break
                await self._injection.pause(0.2)
            await self._injection.pause(rng.uniform(0.2, 1.0))
            preemptor = self._preemptor_of(evicted)
            if preemptor and rng.random() < 0.7:
                self._cancel(preemptor, "is cancelled by its user while it evicts")
            elif preemptor:
                await self._pods.delete_waiting(rng)
            await self._injection.pause(rng.uniform(1.0, 4.0))
            self._injection.bed.proxy.passed.remove(passed)
            self._injection.bed.proxy.lift(rule)
            fault.hits = rule.hits

    def _preemptor_of(self, victims: list[str]) -> str:
        """The gang that some of these pods go for, as their condition tells."""
        for life in self._injection.history.pods.values():
            if life.seen.name in victims and life.disrupted:
                preemptor = preemptor_of(self._injection.history, life)
                if preemptor is not None and preemptor.present:
                    return preemptor.spec.name
        return ""

    async def _impose(self, rule: Rule, kind: str, detail: str, seconds: float) -> None:
        async with self._injection.fault(kind, detail, blinds=True) as fault:
            self._injection.bed.proxy.impose(rule)
            try:
                await self._injection.pause(seconds)
            finally:
                self._injection.bed.proxy.lift(rule)
                fault.hits = rule.hits

    async def _cut_watches(self, rng: random.Random) -> None:
        """Cut all watches, perhaps again and again, perhaps without letting new ones through."""
        times, closed = rng.choice((1, 1, 4)), rng.random() < 0.3
        detail = f"{times} times" + (", new ones are held" if closed else "")
        async with self._injection.fault("watches cut", detail, blinds=True) as fault:
            rule = Rule("hold", lambda call: call.kind == "watch")
            if closed:
                self._injection.bed.proxy.impose(rule)
            fault.hits = 0
            for _ in range(times):
                fault.hits += self._injection.bed.proxy.cut_watches()
                await self._injection.pause(rng.uniform(0.5, 2.0) if times > 1 or closed else 0.0)
            self._injection.bed.proxy.lift(rule)


def _anything(call: Call) -> bool:
    return call.kind != "watch"


def _writes(call: Call) -> bool:
    return call.writes


def _records(call: Call) -> bool:
    return call.kind == "record"


ROOM_SECONDS = 6.0
"""How long it waits for room on the node: what a victim there has for its end."""
STAYS_SECONDS = 4.0
"""How long it waits for its pod's eviction."""
LOOK_SECONDS = 0.02
TINY = 10
ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}}
        ]
    }
}
"""Affinity that lets no other pod onto the node."""


class Squatters:
    """One at a time. Its pods are gone when the fault is over."""

    def __init__(self, injection: Injection, pods: PodFaults) -> None:
        self._injection = injection
        self._pods = pods

    async def squat(self, rng: random.Random) -> None:
        """A pod takes the room that a victim leaves, and another one when it is evicted itself."""
        seats = {life.seen.nominated for life in self._pods.planned()}
        if not seats:
            return
        node, cpu = rng.choice(sorted(seats)), rng.choice((TINY, 1000, 3000))
        times = rng.choice((1, 3, 6))
        client, history = self._injection.bed.client, self._injection.history
        async with self._injection.fault("squatter", f"{times} times {cpu}m on {node}"):
            for _ in range(times):
                if not await self._took(node, cpu):
                    break
            history.disturb(time.time(), "squatters leave")
            await self._injection.blocking(lambda: client.delete_all("Pod", SQUATTERS, grace=0))

    async def _took(self, node: str, cpu: int) -> bool:
        """Put a pod on a node when there is room; return whether it was evicted again."""
        if not await self._wait(ROOM_SECONDS, lambda: self._room(node) >= cpu):
            return False
        name = f"squatter-{time.time_ns()}"
        self._injection.history.disturb(time.time(), f"squatter: {name} on {node}")
        pod = make_pod(
            name,
            f"{cpu}m",
            namespace=SQUATTERS,
            priority_class="p0",
            node=node,
            spec={"affinity": ALONE} if cpu == TINY else None,
        )
        await self._injection.blocking(lambda: self._injection.bed.client.create(pod))
        return await self._wait(STAYS_SECONDS, lambda: self._gone(name))

    async def _wait(self, seconds: float, true: Callable[[], bool]) -> bool:
        """Wait for something, so long at most and not past the end of the lanes."""
        until = time.monotonic() + seconds
        while not true():
            if self._injection.stop.is_set() or time.monotonic() > until:
                return False
            await self._injection.pause(LOOK_SECONDS)
        return True

    def _room(self, node: str) -> int:
        history = self._injection.history
        used = sum(life.seen.cpu for life in history.on_node(node))
        return history.nodes.get(node, 0) - used

    def _gone(self, name: str) -> bool:
        lives = self._injection.history.pods.values()
        life: PodLife | None = next((each for each in lives if each.seen.name == name), None)
        return life is not None and not life.exists


PROCESSES = "processes"
REQUESTS = "requests"
CLUSTER = "cluster"
LANES = (PROCESSES, REQUESTS, CLUSTER)
PAUSES = {PROCESSES: (1.0, 6.0), REQUESTS: (0.5, 4.0), CLUSTER: (0.5, 4.0)}
"""Seconds between two faults of a lane."""


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
        self._rngs = {lane: random.Random(f"{seed}:{lane}") for lane in LANES}
        self._injection = injection = Injection(bed, history)
        self._pods = PodFaults(injection)
        self._budgets = BudgetFaults(injection)
        self._nodes = NodeFaults(injection, self._pods, nodes)
        self.restore_nodes = self._nodes.restore
        self.restore_budgets = self._budgets.restore
        self.kinds: dict[str, Kinds] = {
            PROCESSES: ProcessFaults(injection, self._pods, self._nodes).kinds(),
            REQUESTS: RequestFaults(injection, self._pods, cancel).kinds(),
            CLUSTER: self._cluster_faults(Squatters(injection, self._pods)),
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Run all lanes until told to stop and until the last fault is over."""
        self._injection.stop = stop
        await asyncio.gather(*(self._lane(lane) for lane in LANES))
        await self._injection.rest()

    def close(self) -> None:
        """Give the thread back."""
        self._injection.close()

    async def _lane(self, lane: str) -> None:
        rng, kinds = self._rngs[lane], self.kinds[lane]
        names = list(kinds)
        weights = [weight for weight, _ in kinds.values()]
        while True:
            await self._injection.pause(rng.uniform(*PAUSES[lane]))
            if self._injection.stop.is_set():
                return
            (name,) = rng.choices(names, weights)
            # A generator of its own: how one fault goes does not change which come after it.
            await kinds[name][1](random.Random(rng.random()))

    def _cluster_faults(self, squatters: Squatters) -> Kinds:
        nodes, pods = self._nodes, self._pods

        def amid(fault: Act) -> Act:
            return functools.partial(self._amid_a_plan, fault=fault)

        return {
            "node cordoned": (2, nodes.cordon),
            "node cordoned amid a plan": (4, amid(nodes.cordon)),
            "node not ready": (1, nodes.not_ready),
            "node not ready amid a plan": (2, amid(nodes.not_ready)),
            "node deleted": (1, nodes.delete_node),
            "node deleted amid a plan": (2, amid(nodes.delete_node)),
            "node added": (1, nodes.add_node),
            "waiting member deleted amid a plan": (4, amid(pods.delete_waiting)),
            "running member deleted": (2, pods.delete_running),
            "victim deleted": (3, pods.delete_victim),
            "squatter amid a plan": (4, amid(squatters.squat)),
            "budget changed amid a plan": (4, amid(self._budgets.change)),
        }

    async def _amid_a_plan(self, rng: random.Random, *, fault: Act) -> None:
        """Begin a fault when a plan has come to a certain point."""
        kind, count = self._injection.moment(rng)
        if await self._injection.at(kind, count, lambda: None):
            await self._injection.pause(rng.choice((0.0, 0.2, 1.0)))
            await fault(rng)
