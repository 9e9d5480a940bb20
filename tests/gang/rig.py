"""Everything but kube-scheduler: sandbox API server, real cache, coordinator and verbs.

Tests play kube-scheduler by asking the verbs and binding pods themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Self

import pytest
from msgspec.structs import replace

from extender.cache.cache import Cache
from extender.gang.controller.coordinator import SWEEP, TICK, coordinate
from extender.gang.controller.planning_rounds import PLANNING
from extender.gang.plan.candidates import Candidates
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.verdicts import Verifier
from extender.groups.resolver import Resolver
from extender.kube.client import KubeClient
from extender.model.objects import GangKey, Pod
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.settings.policy import DEFAULT, EVERYBODY, PolicySettings
from extender.settings.settings import GroupSettings, SeatSettings, Settings
from extender.verbs.room_beside_reservations import Spare
from extender.verbs.verbs import ExtenderVerbs
from extender.wire.filter_json import FilterArgs, FilterResult
from extender.wire.preempt_json import NodeVictims, PreemptArgs, PreemptResult
from tests.gang.hearing import Hearing

Obj = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
FAST = Settings(
    seats=SeatSettings(bind_seconds=30.0, victim_slack_seconds=1.0),
    groups=GroupSettings(settle_seconds=0.2),
    policy=PolicySettings(opt_out={DEFAULT: EVERYBODY}),
)
LOW = ("low-0", "low-1")
HIGH = ("high-0", "high-1")
REAL_DELETE = r"(?!.*dryRun)"
"""The sandbox sees ?dryRun=All in the path of a rehearsal."""


class Rig:
    """A context manager; ``kill`` and ``restart`` replace the extender on the same cluster."""

    patience = 60.0
    """Seconds that something may take to come true."""

    def __init__(self, settings: Settings = FAST) -> None:
        self.settings = settings
        self.server = ApiServer(bookmark_seconds=0.05)
        self.listener = Hearing()
        self.record_key = b""
        self.verifier: Verifier | None = None

    async def __aenter__(self) -> Self:
        await self.server.start()
        self.client = await KubeClient.connect(server=self.server.url)
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.server.faults.clear()
        await self.kill()
        await self.client.close()
        await self.server.close()

    async def start(self) -> None:
        """A new extender: cache, coordinator, verbs; recovered and looping."""
        await self.warm()
        await self.lead()

    async def warm(self) -> None:
        """A standby: it knows the cluster and does not act."""
        settings = self.settings
        self.own = await KubeClient.connect(server=self.server.url)
        resolver = Resolver(settings.groups)
        self.cache = Cache(
            self.own,
            settings.cache,
            resolver.member_key,
            workload_priority=settings.groups.workload_priority,
        )

        async def no_sleep(seconds: float) -> None:
            await asyncio.sleep(0)

        self.coordinator = coordinate(
            self.own,
            self.cache,
            settings,
            resolver,
            "kube-system",
            record_key=self.record_key,
            clocks=Clocks(sleep=no_sleep),
            blind_seconds=0.0,
            listener=self.listener,
            verifier=self.verifier,
        )

        def observe(change: Any) -> None:
            if change.kind == "pod":
                self.coordinator.observe(change.old, change.new)
            elif change.kind == "node":
                self.coordinator.observe_node(change.old, change.new)

        self.cache.subscribe(observe)
        spare = Spare(self.coordinator.reservations, self.cache, self.coordinator.clocks)
        self.verbs = ExtenderVerbs(self.cache, self.coordinator, spare, settings)
        await self.cache.start()
        await self.cache.wait_synced(60)

    async def lead(self) -> None:
        """Go on with what is recorded, and act."""
        await self.coordinator.recover()
        self._stop = asyncio.Event()
        self._loop = asyncio.create_task(self.coordinator.run(self._stop, 0.05))

    async def stop_rounds(self) -> None:
        """Let no round run of itself any more: a test asks for each by hand."""
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)

    async def rounds(self, number: int = 4) -> None:
        """Wait until each loop has gone round so often, and then for an answer of the API.

        Whatever rounds from now on would have begun has begun then, however slow this machine is.
        """
        heartbeats = self.coordinator._term.heartbeats
        beats: Counter[str] = Counter()
        beat = type(heartbeats).beat

        def counted(name: str) -> None:
            beats[name] += 1
            beat(heartbeats, name)

        heartbeats.beat = counted  # type: ignore[method-assign]
        await self.until(
            lambda: all(beats[name] > number for name in (TICK, PLANNING, SWEEP)), "rounds go on"
        )
        heartbeats.beat = partial(beat, heartbeats)  # type: ignore[method-assign]
        await self.own.get("/api/v1/nodes")

    async def kill(self) -> None:
        """Stop the extender at once; nothing is told to the API."""
        await self.stop_rounds()
        await self.coordinator.close()
        await self.cache.stop()
        await self.own.close()

    async def restart(self) -> None:
        """kill -9 and start again."""
        await self.kill()
        await self.start()

    # -- the cluster ----------------------------------------------------------------------

    async def nodes(self, count: int, cpu: int = 4, *, first: int = 0) -> None:
        for i in range(first, first + count):
            await self.client.create(
                "/api/v1/nodes",
                {
                    "metadata": {"name": f"n{i}", "labels": {"kubernetes.io/hostname": f"n{i}"}},
                    "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
                },
            )

    async def classes(self, **values: int) -> None:
        for name, value in values.items():
            await self.client.create(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": name}, "value": value},
            )

    async def group(self, name: str, count: int, cls: str, *, whole: bool = True) -> None:
        await self.client.create(
            GROUPS,
            {
                "metadata": {"name": name},
                "spec": {
                    "schedulingPolicy": {"gang": {"minCount": count}},
                    "disruptionMode": {"all": {}} if whole else {"single": {}},
                    "priorityClassName": cls,
                },
            },
        )

    async def pod(
        self,
        name: str,
        *,
        cls: str = "",
        group: str = "",
        on: str = "",
        cpu: str = "3",
        grace: int = 0,
        labels: dict[str, str] | None = None,
        job: str = "",
    ) -> Obj:
        spec: Obj = {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            "terminationGracePeriodSeconds": grace,
        }
        if cls:
            spec["priorityClassName"] = cls
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if on:
            spec["nodeName"] = on
        metadata: Obj = {"name": name, "labels": labels or {}}
        if job:
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}"}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
        return await self.client.create(PODS, {"metadata": metadata, "spec": spec})

    async def gang(
        self, name: str, count: int, cls: str, *, on: str = "", grace: int = 0, whole: bool = True
    ) -> None:
        """A PodGroup and its pods: bound to n0, n1, ... when ``on`` is given."""
        await self.group(name, count, cls, whole=whole)
        for i in range(count):
            await self.pod(
                f"{name}-{i}", cls=cls, group=name, on=f"{on}{i}" if on else "", grace=grace
            )
        await self.until(
            lambda: self.cache.pod_named("default", f"{name}-{count - 1}") is not None,
            f"gang {name} is cached",
        )
        await self.until_cached("/api/v1/nodes", lambda: set(self.cache.snapshot().nodes))
        await self.until_cached(GROUPS, lambda: {key[2] for key in self.cache.snapshot().groups})

    async def until_cached(self, path: str, cached: Callable[[], Collection[str]]) -> None:
        """Wait until all objects of a list are cached: each kind has a watch of its own, and a
        refusal for what is not seen yet stands until kube-scheduler asks again."""
        items = (await self.client.get(path))["items"]
        there = {item["metadata"]["name"] for item in items}
        await self.until(lambda: there <= set(cached()), f"{path} is cached")

    async def names(self) -> set[str]:
        return {item["metadata"]["name"] for item in (await self.client.get(PODS))["items"]}

    async def bind(self, name: str, node: str) -> None:
        await self.client.create(
            f"{PODS}/{name}/binding",
            {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}},
        )

    async def remove(self, name: str) -> None:
        await self.client.delete(f"{PODS}/{name}", grace=0)

    async def records(self) -> list[Obj]:
        answer = await self.client.get("/api/v1/namespaces/kube-system/configmaps")
        items: list[Obj] = answer["items"]
        return items

    # -- kube-scheduler's part ------------------------------------------------------------

    def cached(self, name: str) -> Pod:
        pod = self.cache.pod_named("default", name)
        assert pod is not None, f"{name} is not cached"
        return pod

    def resolver_key(self, name: str) -> GangKey:
        key = self.coordinator.resolver.member_key(self.cached(name))
        assert key is not None
        return key

    async def filter(self, name: str, *nodes: str, nominated: str = "") -> FilterResult:
        await self.until(lambda: self.cache.pod_named("default", name) is not None, name)
        pod = replace(self.cached(name), nominated=nominated)
        return await self.verbs.filter(FilterArgs(pod, list(nodes)))

    async def preempt(
        self, name: str, nominated: str | None = None, /, **victims: list[str]
    ) -> PreemptResult:
        """``nominated``: what the attempt was made with, where that is not what is cached."""
        await self.until(lambda: self.cache.pod_named("default", name) is not None, name)
        pod = self.cached(name)
        if nominated is not None:
            pod = replace(pod, nominated=nominated)
        candidates = {
            node: NodeVictims(tuple(self.cached(victim).uid for victim in found))
            for node, found in victims.items()
        }
        answer = await self.verbs.preempt(PreemptArgs(pod, candidates))
        assert isinstance(answer, PreemptResult), (
            "no answer is not the answer that there is no node"
        )
        return answer

    def outcomes(self, gang: str) -> list[str]:
        """Outcomes (refusals as their code) of a core PodGroup's decisions, oldest first."""
        found = [
            str(d.code or d.outcome)
            for d in self.coordinator.decisions
            if d.gang.endswith(f"default/{gang}")
        ]
        return found[::-1]

    def messages(self, gang: str) -> str:
        return "\n".join(
            " ".join((d.outcome, d.message, *d.explanation))
            for d in self.coordinator.decisions
            if d.gang.endswith(f"default/{gang}")
        )

    async def until(
        self, fine: Callable[[], bool], what: str = "condition", timeout: float | None = None
    ) -> None:
        deadline = time.monotonic() + (timeout or self.patience)
        while not fine():
            assert time.monotonic() < deadline, f"{what} did not come true"
            await asyncio.sleep(0.01)

    async def until_names(self, *names: str) -> None:
        """Wait until exactly these pods exist, in the API and in the cache."""
        deadline = time.monotonic() + self.patience
        while await self.names() != set(names):
            assert time.monotonic() < deadline, f"{await self.names()} is not {set(names)}"
            await asyncio.sleep(0.01)
        await self.until(
            lambda: {pod.name for pod in self.cache.store.pods.by_uid.values()} == set(names),
            "the cache has the same pods",
        )


def held_back(rig: Rig, method: str, path: str, *, times: int = 1) -> Fault:
    """Let the next requests wait until let_go: what comes meanwhile comes in between for sure."""
    return rig.server.faults.plan(Fault(times, method, path, released=asyncio.Event()))


def let_go(fault: Fault) -> None:
    """Let the requests that are held back go on."""
    assert fault.released is not None
    fault.released.set()


def anywhere(rig: Rig) -> Candidates:
    """Every node is a candidate."""
    return Candidates(frozenset(rig.cache.snapshot().nodes), rig.coordinator.clocks.monotonic())


def low_pods(rig: Rig) -> list[Pod]:
    return [pod for pod in rig.cache.store.pods.by_uid.values() if pod.name.startswith("low")]


async def full_cluster(rig: Rig, *, grace: int = 0) -> None:
    """Two nodes held by a low gang of two; a high gang of two waits."""
    await rig.gang("low", 2, "low", on="n", grace=grace)
    await rig.gang("high", 2, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 4, "four pods")


async def half_evicted(rig: Rig) -> None:
    """Of two singles, on a node each, one goes for a gang of two; the other's eviction is tried
    again and again, until the faults are cleared."""
    for name, node in (("low-0", "n0"), ("low-1", "n1")):
        await rig.pod(name, cls="low", on=node)
    refused = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
    )
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1")
    await rig.until_names("low-1", *HIGH)
    await rig.until(lambda: refused.hits > 0, "the other eviction is refused")


async def until_no_records(rig: Rig) -> None:
    deadline = time.monotonic() + 60
    while await rig.records():
        assert time.monotonic() < deadline, "a plan record stays"
        await asyncio.sleep(0.02)


def refuse(rig: Rig, name: str) -> Fault:
    """Let every eviction of a pod be refused, for a reason that passes."""
    return rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"{name}{REAL_DELETE}", status=429)
    )


def answered_later(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the eviction of low-0 be done at once and answered when the event is set."""
    go_on, delete = asyncio.Event(), rig.own.delete

    async def late(path: str, **named: Any) -> Any:
        answer = await delete(path, **named)
        if path.endswith("low-0") and not named["dry_run"]:
            await go_on.wait()
        return answer

    monkeypatch.setattr(rig.own, "delete", late)
    return go_on
