"""A cluster that changes at random, through the cache's own store."""

from __future__ import annotations

import random

from msgspec.structs import replace

from extender.cache.stats import CacheStats
from extender.cache.store import Store
from extender.groups.resolver import Resolver
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    HostPort,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    PriorityClass,
    Requirement,
    Taint,
)
from extender.model.snapshot import Snapshot
from tests.gang.world import NOW, gang_key

GPU = "example.com/gpu"
URGENT = ("urgent-0", "urgent-1", "urgent-2")
VICTIMS = tuple(f"team-{i}" for i in range(6))
APPS = ("red", "green", "blue")


def _budgeted(rng: random.Random) -> LabelSelector:
    """What a budget picks: one kind of pods, all but one, all, or none."""
    operator = rng.choice(("In", "In", "In", "NotIn", "Exists", "DoesNotExist"))
    values = (rng.choice(APPS),) if operator.endswith("In") else ()
    return LabelSelector((Requirement("app", operator, values),))


def _app(name: str) -> LabelSelector:
    return LabelSelector((Requirement("app", "In", (name,)),))


APART = PodShape(
    anti_affinity=(PodAffinityTerm("kubernetes.io/hostname", _app("red"), ("default",)),)
)
PORT = PodShape(host_ports=(HostPort("", "TCP", 8080),))
PLAIN = PodShape()


class Churn:
    """Every ``step`` is one event that an API server could send; seeded."""

    def __init__(self, seed: int, resolver: Resolver) -> None:
        self.rng = random.Random(seed)
        self.now = NOW
        self.store = Store(resolver.member_key, lambda: self.now, CacheStats())
        self._version = 0
        self._made = 0
        for i in range(6):
            self._node(f"n{i}")
        for i, name in enumerate((*URGENT, *VICTIMS)):
            self._group(name, urgent=i < len(URGENT))
        for _ in range(25):
            self._start()

    def snapshot(self) -> Snapshot:
        """The store's present snapshot."""
        return self.store.snapshot()

    def urgent(self) -> GangKey:
        """One of the gangs that want in."""
        return gang_key(self.rng.choice(URGENT))

    def step(self) -> None:
        """One random event."""
        kinds = (
            (self._start, 10),
            (self._bind, 1),
            (self._finish, 1),
            (self._end, 6),
            (self._terminate, 3),
            (self._annotate, 1),
            (self._wait, 6),
            (lambda: self._node(f"n{self.rng.randrange(8)}"), 1),
            (self._drop_node, 0.3),
            (self._collect, 3),
            (lambda: self._group(self.rng.choice(VICTIMS), urgent=False), 1),
            (lambda: self._group(self.rng.choice(URGENT), urgent=True), 0.5),
            (self._drop_group, 0.3),
            (self._budget, 0.7),
            (self._readiness, 0.5),
            (self._nominate, 0.15),
            (self._class, 0.3),
        )
        self.rng.choices([do for do, _ in kinds], [weight for _, weight in kinds])[0]()

    def _next(self) -> int:
        self._version += 1
        return self._version

    def _node(self, name: str) -> None:
        taints = (Taint("reserved"),) if self.rng.random() < 0.1 else ()
        amounts = {"cpu": 16_000, GPU: self.rng.choice((4, 4, 4, 0)), "pods": 30}
        self.store.nodes.put(
            Node(
                name=name,
                uid=f"node-{name}",
                labels={"kubernetes.io/hostname": name, "rack": f"r{int(name[1:]) % 3}"},
                taints=taints,
                unschedulable=self.rng.random() < 0.05,
                allocatable=tuple(sorted((k, v) for k, v in amounts.items() if v)),
                version=self._next(),
            )
        )

    def _drop_node(self) -> None:
        if len(self.store.nodes.rows) > 4:
            self.store.nodes.remove(self.rng.choice(list(self.store.nodes.rows.values())))

    def _collect(self) -> None:
        """The pod garbage collector deletes the pods of nodes that are not there."""
        for pod in list(self.store.pods.by_uid.values()):
            if pod.node and pod.node not in self.store.nodes.rows:
                self.store.pods.remove(pod)

    def _group(self, name: str, *, urgent: bool) -> None:
        self.store.groups["core"].put(
            GroupObject(
                source="core",
                uid=f"group-{name}",
                namespace="default",
                name=name,
                min_count=self.rng.choice((2, 3, 4) if urgent else (1, 2, 3)),
                disrupt_all=self.rng.random() < 0.6,
                priority=100 if urgent else self.rng.choice((1, 2, 50, 200)),
                topology_key="rack" if urgent and self.rng.random() < 0.15 else "",
                preempts=self.rng.random() < 0.9,
                version=self._next(),
            )
        )

    def _drop_group(self) -> None:
        name = self.rng.choice(VICTIMS)
        found = self.store.groups["core"].rows.get(("core", "default", name))
        if found is not None:
            self.store.groups["core"].remove(found)

    def _start(self) -> None:
        """A new pod: waiting for one of the urgent gangs, else bound, mostly where it fits."""
        self._made += 1
        rng = self.rng
        urgent = rng.random() < 0.35
        gang = rng.choice(URGENT) if urgent else rng.choice((*VICTIMS, "", "", "", ""))
        gpus, cpu = rng.choice((0, 0, 1, 1, 2, 4)), rng.choice((1000, 2000, 4000))
        if urgent:
            # One kind of member, but for the last gang, which has two.
            gpus = {URGENT[0]: 4, URGENT[1]: 2}.get(gang, rng.choice((1, 4)))
            cpu = 2000
        shape = rng.choices((PLAIN, APART, PORT), (40, 1, 1))[0]
        nodes = sorted(self.store.nodes.rows)
        if rng.random() < 0.9:
            wants = (("cpu", cpu), (GPU, gpus)) if gpus else (("cpu", cpu),)
            nodes = [name for name in nodes if not self.store.amounts.short(name, wants)]
            if not nodes:
                return
        self.store.pods.put(
            Pod(
                uid=f"uid-{rng.randrange(10**6):06}-{self._made}",
                namespace="default",
                name=f"pod-{self._made}",
                node="" if urgent else rng.choice(nodes),
                phase="Pending" if urgent else "Running",
                priority=100 if urgent else rng.choice((0, 1, 2, 3, 100)),
                labels={"app": APPS[0] if urgent else rng.choice(APPS)},
                requests=tuple(
                    sorted((k, v) for k, v in {"cpu": cpu, GPU: gpus, "pods": 1}.items() if v)
                ),
                pod_group=gang,
                created=self.now,
                started=0.0 if urgent else self.now - rng.randrange(500),
                shape=shape,
                version=self._next(),
            )
        )

    def _pod(self, *, bound: bool) -> Pod | None:
        pods = [pod for pod in self.store.pods.by_uid.values() if bool(pod.node) == bound]
        return self.rng.choice(pods) if pods else None

    def _bind(self) -> None:
        pod = self._pod(bound=False)
        if pod is not None and self.rng.random() < 0.5:
            node = self.rng.choice(sorted(self.store.nodes.rows))
            self._change(pod, node=node, phase="Running", started=self.now)

    def _finish(self) -> None:
        """All bound members of an urgent gang are done."""
        name = self.rng.choice(URGENT)
        for pod in list(self.store.pods.by_uid.values()):
            if pod.pod_group == name and pod.node:
                self.store.pods.remove(pod)

    def _end(self) -> None:
        pod = self._pod(bound=self.rng.random() < 0.8)
        if pod is not None:
            self.store.pods.remove(pod)

    def _terminate(self) -> None:
        pod = self._pod(bound=True)
        if pod is not None and not pod.deleting:
            ends = self.now + self.rng.choice((5, 30, 90, 300, 10**6))
            self._change(pod, deleting=ends, disrupted=self.rng.random() < 0.5)

    def _readiness(self) -> None:
        """A pod fails its probe, has its images pulled anew, or is ready."""
        pod = self._pod(bound=True)
        if pod is not None:
            if pod.phase == "Pending":
                self._change(pod, phase="Running", unready=False)
            elif pod.unready:
                self._change(pod, phase="Pending")
            else:
                self._change(pod, unready=True)

    def _nominate(self) -> None:
        """kube-scheduler makes room for a pod, or gives it up."""
        pod = self._pod(bound=False)
        if pod is not None:
            name = self.rng.choice(sorted(self.store.nodes.rows))
            self._change(pod, nominated="" if pod.nominated else name)

    def _annotate(self) -> None:
        pod = self._pod(bound=True)
        if pod is not None:
            self._change(pod, annotations={"podgroup-extender.io/protected": "true"})

    def _change(self, pod: Pod, **fields: object) -> None:
        self.store.pods.put(replace(pod, version=self._next(), **fields))

    def _wait(self) -> None:
        self.now += self.rng.choice((0.4, 1, 7, 40))

    def _budget(self) -> None:
        name = f"budget-{self.rng.randrange(3)}"
        old = self.store.budgets.rows.get(("default", name))
        if old is not None and self.rng.random() < 0.6:
            self.store.budgets.remove(old)
            return
        self.store.budgets.put(
            DisruptionBudget(
                uid=name,
                namespace="default",
                name=name,
                selector=_budgeted(self.rng),
                allowed=self.rng.randrange(3),
                unready_free=self.rng.random() < 0.4,
                version=self._next(),
            )
        )

    def _class(self) -> None:
        self.store.priority_classes.put(
            PriorityClass(
                f"class-{self.rng.randrange(3)}", self.rng.randrange(100), version=self._next()
            )
        )
