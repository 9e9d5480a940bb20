"""Rounds of kill -9 while a gang is being seated: nothing lost, nothing doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extender.sandbox.ports import Ports
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import EXTENDER_USER
from tests.controlplane.objects import make_pod
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import scheduler_config
from tests.replicas.bed import ReplicaProcess, Service, leader_of, question_of, wait

SIZE = 4
BIG = 8
GANGS = {"small": SIZE, "big": BIG}
"""What fills the cluster."""
GRACE = 1
"""With none the API server deletes in two steps, and a caller that dies between them leaves a
pod that only a kubelet would remove; kwok does not."""
SEATED_SECONDS = 120.0


@dataclass
class Pair:
    """Two replicas behind a Service, on a cluster that two gangs fill."""

    cluster: Cluster
    replicas: list[ReplicaProcess]
    service: Service

    def other(self, one: ReplicaProcess) -> ReplicaProcess:
        return next(each for each in self.replicas if each is not one)


@contextmanager
def pair(
    cluster: Cluster,
    folder: Path,
    lease: dict[str, float] | None = None,
    *,
    differences: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
) -> Iterator[Pair]:
    """Start both replicas and point kube-scheduler at them."""
    grant_manifest(cluster.client)
    ports = Ports()
    settings: dict[str, Any] = {
        "seats": {"recordNamespace": cluster.namespace},
        "leadership": {"enabled": True, **(lease or {})},
    }
    kubeconfig = cluster.control_plane.extender_kubeconfig
    replicas = [
        ReplicaProcess(name, ports.reserve(), folder, kubeconfig, {**settings, **more})
        for name, more in zip(("one", "two"), differences, strict=True)
    ]
    service = Service(replicas)
    question = question_of(cluster)
    try:
        for each in replicas:
            each.question = question
            each.start()
            wait(each.warm, 60, f"{each.name} is warm")
            leader_of(replicas)
        config = scheduler_config(service.url)
        config["podInitialBackoffSeconds"] = config["podMaxBackoffSeconds"] = 1
        cluster.use_scheduler(config)
        yield Pair(cluster, replicas, service)
    finally:
        for each in replicas:
            each.stop()
        service.close()
        ports.close()


@dataclass
class Told:
    """What the rounds have shown."""

    takeover: list[float] = field(default_factory=list)
    """Seconds from kill -9 to the first verb that the other replica answered."""
    seated: list[float] = field(default_factory=list)
    """Seconds from kill -9 until the whole gang ran."""
    killed_before_first_eviction: int = 0
    killed_amid_evictions: int = 0
    killed_after_last_eviction: int = 0
    violations: list[str] = field(default_factory=list)

    def table(self) -> str:
        """Return the figures as lines."""
        return "\n".join(
            [
                f"kills: {len(self.takeover)}",
                f"kill to first good verb: {quantiles(self.takeover)}",
                f"kill to gang running:    {quantiles(self.seated)}",
                f"killed before the first eviction {self.killed_before_first_eviction}, amid them "
                f"{self.killed_amid_evictions}, after the last {self.killed_after_last_eviction}",
                f"violations: {len(self.violations)}",
                *self.violations,
            ]
        )


def replaced(running: Pair, *, kill: bool) -> float:
    """End the leader, by kill -9 or by SIGTERM; return the seconds to the other's first verb."""
    leader = leader_of(running.replicas)
    other = running.other(leader)
    if kill:
        leader.kill()
    else:
        leader.terminate()
    took = wait(other.answers, 60, f"{other.name} answers")
    leader.stop()
    leader.start()
    wait(leader.warm, 60, f"{leader.name} is warm again")
    return took


def quantiles(values: list[float]) -> str:
    """Return p50, p90 and the longest as text."""
    ordered = sorted(values)
    at = {q: ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.9)}
    return f"p50 {at[0.5]:.2f} s, p90 {at[0.9]:.2f} s, longest {ordered[-1]:.2f} s"


class Kills:
    """Plays round after round on a pair."""

    def __init__(self, running: Pair, seed: int) -> None:
        self.pair = running
        self.told = Told()
        self._rng = random.Random(seed)
        cluster = running.cluster
        self._client = cluster.client
        cluster.priority_classes(low=1, high=100000)
        cluster.nodes(SIZE + BIG, cpu=4)
        for name, size in GANGS.items():
            cluster.pod_group(name, size, disruption="all", priority_class="low")
            self._fill(name, size)

    def _fill(self, gang: str, size: int) -> None:
        names = [f"{gang}-{index}" for index in range(size)]
        for name in names:
            self._client.create(
                make_pod(name, 3, priority_class="low", pod_group=gang, grace=GRACE)
            )
        self._client.wait_running(*names, timeout=SEATED_SECONDS)

    def _moment(self, victims: set[str]) -> None:
        """Wait some time, or until the plan is recorded, or until the first eviction is sent."""
        client = self._client
        kind = self._rng.choice(("time", "record", "eviction"))
        end = time.monotonic() + (self._rng.uniform(0.0, 0.25) if kind == "time" else 5.0)

        def reached() -> bool:
            if kind == "record":
                maps = client.list("ConfigMap")
                return any(each["metadata"]["name"].startswith("podgroup-plan-") for each in maps)
            if kind == "eviction":
                pods = {each["metadata"]["uid"]: each["metadata"] for each in client.list("Pod")}
                return any("deletionTimestamp" in pods.get(uid, {}) for uid in victims)
            return False

        while time.monotonic() < end and not reached():
            time.sleep(0.001)

    def round(self, number: int) -> None:
        """The urgent gang comes, the leader is killed, the other replica finishes.

        The optimum is the small gang: one gang and four pods, where the big one would cost eight.
        """
        client, cluster = self._client, self.pair.cluster
        urgent = f"urgent-{number}"
        before = {each["metadata"]["uid"]: each["metadata"]["name"] for each in client.list("Pod")}
        expected = {uid for uid, name in before.items() if name.startswith("small-")}
        leader = leader_of(self.pair.replicas)
        other = self.pair.other(leader)
        began = time.time()
        cluster.pod_group(urgent, SIZE, disruption="all", priority_class="high")
        members = [f"{urgent}-{index}" for index in range(SIZE)]
        for name in members:
            client.create(make_pod(name, 3, priority_class="high", pod_group=urgent))
        self._moment(expected)
        leader.kill()
        killed = time.monotonic()
        staying = {
            each["metadata"]["uid"]
            for each in client.list("Pod")
            if "deletionTimestamp" not in each["metadata"]
        }
        gone = len(expected - staying)
        wait(other.answers, 60, f"{other.name} answers after the kill")
        self.told.takeover.append(time.monotonic() - killed)
        leader.start()
        try:
            client.wait_running(*members, timeout=SEATED_SECONDS)
        except TimeoutError as problem:
            self.told.violations.append(f"round {number}: lost: {problem}")
        self.told.seated.append(time.monotonic() - killed)
        if gone == 0:
            self.told.killed_before_first_eviction += 1
        elif gone < SIZE:
            self.told.killed_amid_evictions += 1
        else:
            self.told.killed_after_last_eviction += 1
        left = {each["metadata"]["uid"] for each in client.list("Pod")}
        went = {name for uid, name in before.items() if uid not in left}
        if went != {before[uid] for uid in expected}:
            self.told.violations.append(f"round {number}: {sorted(went)} went, not the optimum")
        asked = [
            (record["objectRef"]["name"], record["responseStatus"]["code"])
            for record in cluster.control_plane.removals(since=int(began))
            if record["user"]["username"] == EXTENDER_USER
            and record["objectRef"]["namespace"] == cluster.namespace
            and "dryRun" not in record["requestURI"]
        ]
        # A DELETE whose caller was killed may be done and yet be recorded as an error.
        done = {name for name, code in asked if code < 300}
        if not done <= went <= {name for name, _ in asked}:
            self.told.violations.append(f"round {number}: {asked} deleted, {sorted(went)} went")
        for name in members:
            client.delete("Pod", name)
        for name in members:
            client.wait_gone("Pod", name)
        client.delete("PodGroup", urgent)
        for gang, size in GANGS.items():
            present = [p["metadata"]["name"] for p in client.list("Pod")]
            left_of = [name for name in present if name.startswith(f"{gang}-")]
            if len(left_of) < size:
                for name in left_of:
                    client.delete("Pod", name)
                    client.wait_gone("Pod", name)
                self._fill(gang, size)
        wait(leader.warm, 60, f"{leader.name} is warm again")
