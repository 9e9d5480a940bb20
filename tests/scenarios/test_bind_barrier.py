"""The bind barrier on a stock kube-scheduler: a gang starts whole, or no member gets a node.

The extender has the rights of manifests/rbac.yaml and manifests/barrier/rbac.yaml and no others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import BindSettings, SeatSettings, Settings
from tests.controlplane.client import wait_for
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import BINDER, scheduler_config
from tests.controlplane.watching import Watch
from tests.scenarios import volumes

SECONDS = 90.0
GPU = "nvidia.com/gpu"


class Bed:
    """A cluster whose pods are bound by the extender."""

    def __init__(self, cluster: Cluster, extender: ExtenderProcess) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.extender = extender
        self.watch: Watch | None = None

    def schedule(self, **entry: Any) -> None:
        """Start a stock kube-scheduler with the barrier's entry, changed where said."""
        config = scheduler_config(self.extender.url)
        config["extenders"].append({"urlPrefix": self.extender.url, **BINDER, **entry})
        self.cluster.use_scheduler(config)

    def gang(
        self, name: str, count: int, specs: dict[int, Any] | None = None, **more: Any
    ) -> list[str]:
        """Make a gang; return its pods' names. ``specs`` are parts of single members' specs."""
        self.cluster.pod_group(name, count, disruption="all", priority_class="high")
        self.watch = self.watch or self.cluster.watch()
        for i in range(count):
            self.member(name, i, (specs or {}).get(i), **more)
        return [f"{name}-{i}" for i in range(count)]

    def member(self, name: str, i: int, spec: Any = None, **more: Any) -> None:
        self.client.create(
            make_pod(
                f"{name}-{i}",
                **{"cpu": 3, "priority_class": "high", "pod_group": name, "spec": spec, **more},
            )
        )

    def ever_bound(self, name: str) -> set[str]:
        """The pods of a gang that had a node at any moment."""
        assert self.watch is not None
        return {
            event.name
            for event in self.watch.events
            if event.name.startswith(f"{name}-") and event.object["spec"].get("nodeName")
        }

    def first_bound(self, name: str) -> float:
        """When (monotonic) the first pod of a gang had a node; the watch may show it late."""
        watch = self.watch
        assert watch is not None

        def bound() -> list[float]:
            return [
                event.at
                for event in watch.events
                if event.name.startswith(f"{name}-") and event.object["spec"].get("nodeName")
            ]

        return min(wait_for(bound, SECONDS, f"a pod of {name} is seen bound"))

    def nodes_of(self, *names: str) -> dict[str, str]:
        return {name: self.client.get("Pod", name)["spec"].get("nodeName", "") for name in names}

    async def until(self, fine: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not await asyncio.to_thread(fine):
            assert time.monotonic() < deadline, f"{what} did not come true"
            self.extender.check()
            await asyncio.sleep(0.1)

    async def held(self) -> dict[str, str]:
        """The members whose bind is held, and on which node each is."""
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.extender.url}/debug/binds") as answer,
        ):
            found = (await answer.json())["binds"]
        return {
            each["pod"].partition("/")[2]: each["node"] for gang in found for each in gang["held"]
        }

    async def metric(self, name: str, value: str) -> float:
        """A sample of the extender's, 0 when it is not there."""
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.extender.url}/metrics") as answer,
        ):
            text = await answer.text()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"podgroup_extender_{name}" and value in sample.labels.values():
                    return sample.value
        return 0.0

    async def until_metric(self, name: str, value: str, at_least: float) -> None:
        deadline = time.monotonic() + SECONDS
        while await self.metric(name, value) < at_least:
            assert time.monotonic() < deadline, f"{name}{{{value}}} is below {at_least}"
            await asyncio.sleep(0.1)


@pytest.fixture
async def bed(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Bed]:
    hold = getattr(request, "param", 30.0)
    grant_manifest(cluster.client, barrier=True)
    settings = replace(
        Settings(),
        seats=SeatSettings(record_namespace=cluster.namespace, bind_seconds=SECONDS),
        bind=BindSettings(enabled=True, hold_seconds=hold),
    )
    extender = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await extender.start()
        made = Bed(cluster, extender)
        await asyncio.to_thread(made.schedule)
        await asyncio.to_thread(cluster.priority_classes, low=1, high=1000)
        await asyncio.to_thread(volumes.storage_class, cluster.client)
        yield made
    finally:
        await extender.close()
        await asyncio.to_thread(volumes.let_go, cluster.client)


def waiting_for_a_volume(bed: Bed, name: str, i: int) -> dict[int, Any]:
    """A member whose volume does not come until the test makes it."""
    return {i: volumes.claim(bed.client, f"{name}-data")}


async def held_without(bed: Bed, name: str, count: int, slow: int) -> list[str]:
    """A gang of which one member's volume does not come: all others are held."""
    specs = await asyncio.to_thread(waiting_for_a_volume, bed, name, slow)
    names = await asyncio.to_thread(bed.gang, name, count, specs)
    await bed.until_metric("binds_held", "all", count - 1)
    await bed.until(lambda: volumes.selected(bed.client, f"{name}-data"), "PreBind waits")
    return names


@pytest.mark.real
async def test_a_plain_gang_and_a_plain_pod(bed: Bed) -> None:
    """A full cluster: an urgent gang evicts a whole one and is bound through the barrier."""
    client = bed.client
    nodes = await asyncio.to_thread(bed.cluster.nodes, 3)
    await asyncio.to_thread(bed.cluster.pod_group, "low", 3, disruption="all", priority_class="low")
    low = [make_pod(f"low-{i}", cpu=3, priority_class="low", pod_group="low") for i in range(3)]
    await asyncio.to_thread(client.create_all, *low)
    await asyncio.to_thread(client.wait_running, "low-0", "low-1", "low-2")
    assert await bed.metric("bind_barriers_total", "opened") == 1
    await asyncio.to_thread(client.create, make_pod("plain", cpu="500m"))
    await asyncio.to_thread(client.wait_running, "plain")
    high = await asyncio.to_thread(bed.gang, "high", 3)
    await asyncio.to_thread(client.wait_running, *high, timeout=SECONDS)
    assert set((await asyncio.to_thread(bed.nodes_of, *high)).values()) == set(nodes)
    assert await bed.metric("bind_barriers_total", "opened") == 2
    assert await bed.metric("bindings_total", "bound") == 7
    assert await bed.metric("bind_barriers_total", "failed") == 0


@pytest.mark.real
async def test_pods_without_the_managed_resource_are_left_to_kube_scheduler(bed: Bed) -> None:
    managed = [{"name": GPU, "ignoredByScheduler": False}]
    await asyncio.to_thread(bed.schedule, managedResources=managed)
    await asyncio.to_thread(bed.cluster.nodes, 2, resources={GPU: 1})
    await asyncio.to_thread(bed.client.create, make_pod("plain", cpu="500m"))
    names = await asyncio.to_thread(bed.gang, "g", 2, resources={GPU: 1})
    await asyncio.to_thread(bed.client.wait_running, "plain", *names, timeout=SECONDS)
    assert await bed.metric("bindings_total", "bound") == 2
    assert await bed.metric("bind_barriers_total", "opened") == 1


@pytest.mark.real
@pytest.mark.parametrize("bed", [3.0], indirect=True)
async def test_a_volume_that_cannot_be_bound_for_the_third_of_four(bed: Bed) -> None:
    """First it does not come at all, then it comes where the member has no seat."""
    client = bed.client
    await asyncio.to_thread(bed.cluster.nodes, 3)
    others = await asyncio.to_thread(bed.cluster.nodes, 2, prefix="v", labels={"disks": "yes"})
    specs = await asyncio.to_thread(waiting_for_a_volume, bed, "g", 2)
    specs[2] |= {"nodeSelector": {"disks": "yes"}}
    names = await asyncio.to_thread(bed.gang, "g", 4, specs)
    await bed.until(lambda: volumes.selected(client, "g-data"), "PreBind waits for the volume")
    seat = await asyncio.to_thread(volumes.selected, client, "g-data")
    assert seat in others
    # Those that are held are refused when their time is over, again and again: nobody is bound.
    await bed.until_metric("bind_barriers_total", "failed", 2)
    assert bed.ever_bound("g") == set()
    (elsewhere,) = set(others) - {seat}
    came = time.monotonic()
    await asyncio.to_thread(volumes.provision, client, "g-data", elsewhere)
    await asyncio.to_thread(client.wait_running, *names, timeout=SECONDS)
    assert bed.first_bound("g") > came
    found = await asyncio.to_thread(bed.nodes_of, *names)
    assert found["g-2"] == elsewhere
    assert len(set(found.values())) == 4
    assert await bed.metric("bind_barriers_total", "opened") == 1


@pytest.mark.real
@pytest.mark.parametrize("bed", [3.0], indirect=True)
async def test_a_volume_that_comes_where_another_member_is_held(bed: Bed) -> None:
    """The node it needs is taken by a member that waits for it, so nobody is asked about it."""
    client = bed.client
    await asyncio.to_thread(bed.cluster.nodes, 3)
    names = await held_without(bed, "g", 3, slow=2)
    shown = await bed.held()
    came = time.monotonic()
    await asyncio.to_thread(volumes.provision, client, "g-data", shown["g-0"])
    await asyncio.to_thread(client.wait_running, *names, timeout=SECONDS)
    found = await asyncio.to_thread(bed.nodes_of, *names)
    assert bed.first_bound("g") > came
    assert found["g-2"] == shown["g-0"]
    assert len(set(found.values())) == 3
    assert await bed.metric("bind_barriers_total", "opened") == 1


@pytest.mark.real
@pytest.mark.parametrize("bed", [8.0], indirect=True)
async def test_a_node_deleted_between_filter_and_bind(bed: Bed) -> None:
    client = bed.client
    await asyncio.to_thread(bed.cluster.nodes, 4)
    names = await held_without(bed, "g", 3, slow=2)
    gone = (await bed.held())["g-0"]
    await asyncio.to_thread(client.delete, "Node", gone)
    log = bed.extender.log
    await bed.until(lambda: f"node {gone} is gone" in log.read_text(), "the node is missed")
    assert bed.ever_bound("g") == set()
    # There is another plan; the volume comes where kube-scheduler has wanted it, seat or not.
    came = time.monotonic()
    await bed.until(
        lambda: volumes.selected(client, "g-data") not in ("", gone), "a node is wanted"
    )
    node = await asyncio.to_thread(volumes.selected, client, "g-data")
    await asyncio.to_thread(volumes.provision, client, "g-data", node)
    await asyncio.to_thread(client.wait_running, *names, timeout=SECONDS)
    found = await asyncio.to_thread(bed.nodes_of, *names)
    assert bed.first_bound("g") > came
    assert gone not in found.values()
    assert len(set(found.values())) == 3


@pytest.mark.real
async def test_a_member_deleted_while_binds_are_held(bed: Bed) -> None:
    client = bed.client
    await asyncio.to_thread(bed.cluster.nodes, 3)
    names = await held_without(bed, "g", 3, slow=2)
    await asyncio.to_thread(client.delete, "Pod", "g-2")
    await bed.until_metric("bind_barriers_total", "failed", 1)
    await asyncio.to_thread(client.wait_gone, "Pod", "g-2")
    assert bed.ever_bound("g") == set()
    again = time.monotonic()
    await asyncio.to_thread(bed.member, "g", 2)
    await asyncio.to_thread(client.wait_running, *names, timeout=SECONDS)
    assert bed.first_bound("g") > again
    assert await bed.metric("bind_barriers_total", "opened") == 1


@pytest.mark.real
async def test_killed_while_binds_are_held(bed: Bed) -> None:
    client = bed.client
    await asyncio.to_thread(bed.cluster.nodes, 3)
    names = await held_without(bed, "g", 3, slow=2)
    await bed.extender.kill_extender()
    # The volume comes while nobody is there to let anybody through.
    node = await asyncio.to_thread(volumes.selected, client, "g-data")
    await asyncio.to_thread(volumes.provision, client, "g-data", node)
    await bed.until(lambda: _failed(client, names), "kube-scheduler has its errors")
    assert bed.ever_bound("g") == set()
    came = time.monotonic()
    await bed.extender.start_extender()
    await asyncio.to_thread(client.wait_running, *names, timeout=SECONDS)
    assert bed.first_bound("g") > came
    assert await bed.metric("bind_barriers_total", "opened") == 1


def _failed(client: Any, names: list[str]) -> bool:
    """Whether kube-scheduler has told of each that its binding, or its next try, has failed."""
    told = {
        event["regarding"]["name"] if "regarding" in event else event["involvedObject"]["name"]
        for event in client.list("Event")
        if event["reason"] == "FailedScheduling"
    }
    return told >= set(names)
