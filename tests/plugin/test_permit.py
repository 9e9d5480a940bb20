"""Permit as the barrier: members go on to be bound together, on a real control plane.

The last member is another kube-scheduler's, which does not run: so the others wait at Permit for as
long as a test likes, until it binds that member itself.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.plugin.telling import ENDED, told
from tests.scenarios.ways import Plugin

pytestmark = pytest.mark.real

SECONDS = 90.0
BARRIER_SECONDS = 3
"""How long members wait before they are refused and tried again."""
WAITS = re.compile(r'"A member waits for the others of its gang".* pod="([^"]*)" node="([^"]*)"')
GANG = ("g-0", "g-1", "g-2")
LATE = "g-2"
OURS, THEIRS = "default-scheduler", "elsewhere"


class Bed:
    """Nodes, a gang, and what kube-scheduler with the plugin says."""

    def __init__(self, cluster: Cluster, extender: ExtenderProcess) -> None:
        self.cluster, self.client, self.extender = cluster, cluster.client, extender
        self.log = cluster.control_plane.layout.log("kube-scheduler")
        self.watch = cluster.watch()

    def member(self, name: str) -> None:
        spec = {"schedulerName": THEIRS} if name == LATE else None
        self.client.create(make_pod(name, cpu=3, priority_class="high", pod_group="g", spec=spec))

    def waits(self) -> list[tuple[str, str]]:
        """Who came to wait at Permit, and on which node, as often as that was."""
        space = f"{self.cluster.namespace}/"
        found = WAITS.findall(self.log.read_text())
        return [(pod.removeprefix(space), node) for pod, node in found if pod.startswith(space)]

    def times(self, name: str) -> int:
        return sum(pod == name for pod, _ in self.waits())

    def bound(self) -> dict[str, float]:
        """When (monotonic) each pod of the gang first had a node, by UID."""
        first: dict[str, float] = {}
        for event in self.watch.events:
            if event.object["spec"].get("nodeName"):
                first.setdefault(event.uid, event.at)
        return first

    def places(self) -> set[str]:
        return {self.client.get("Pod", name)["spec"].get("nodeName", "") for name in GANG}

    async def until(self, fine: Callable[[], Any], what: str) -> None:
        await asyncio.to_thread(self.client.wait_for, fine, SECONDS, what)

    async def hold(self) -> None:
        """Make the gang; return when the others wait for the last one."""
        await asyncio.to_thread(
            self.cluster.pod_group, "g", len(GANG), disruption="all", priority_class="high"
        )
        for name in GANG:
            await asyncio.to_thread(self.member, name)
        await self.again()

    async def again(self) -> None:
        """Return when each of the others has come to wait once more."""
        others = [name for name in GANG if name != LATE]
        before = {name: self.times(name) for name in others}
        await self.until(
            lambda: all(self.times(name) > before[name] for name in others), "the others wait"
        )

    async def seats(self) -> dict[str, str]:
        """The node of each untaken seat, by member, as the extender has it now."""
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.extender.url}/debug/reservations") as answer,
        ):
            plans = (await answer.json())["reservations"]
        return {seat["name"]: seat["node"] for plan in plans for seat in plan["seats"]}

    async def settled(self) -> dict[str, str]:
        """Return the seats when all others wait on theirs: a changing plan has moved them."""
        async with asyncio.timeout(SECONDS):
            while True:
                seats = await self.seats()
                if LATE in seats and dict(self.waits()).items() <= seats.items():
                    return seats
                await asyncio.sleep(0.1)

    async def finish(self) -> None:
        """Bind the last member to its seat: all run, on nodes of their own, and none did before."""
        seats = await self.settled()
        assert self.bound() == {}
        since = time.monotonic()
        await asyncio.to_thread(self._bind, LATE, seats[LATE])
        await asyncio.to_thread(self.client.wait_running, *GANG, timeout=SECONDS)
        assert len(self.bound()) == len(GANG)
        assert min(self.bound().values()) > since
        assert len(await asyncio.to_thread(self.places)) == len(GANG)

    def _bind(self, name: str, node: str) -> None:
        """As another kube-scheduler would."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{name}/binding"
        self.client.request("POST", path, binding)


@pytest.fixture
async def bed(rights: Cluster, tmp_path: Path, sockets: Path) -> AsyncIterator[Bed]:
    way = Plugin(sockets, barrierTimeout=f"{BARRIER_SECONDS}s")
    seats = SeatSettings(record_namespace=rights.namespace, bind_seconds=SECONDS)
    extender = ExtenderProcess(
        tmp_path,
        rights.control_plane.extender_kubeconfig,
        way.settings(replace(Settings(), seats=seats, scheduler_names=(OURS, THEIRS))),
    )
    try:
        await extender.start()
        await way.schedule(rights, extender)
        await asyncio.to_thread(rights.priority_classes, low=1, high=1000)
        yield Bed(rights, extender)
    finally:
        await extender.close()


async def test_a_member_that_cannot_be_bound_keeps_all_from_starting(bed: Bed) -> None:
    """They are refused when their time is over, and come again: nobody is bound."""
    await asyncio.to_thread(bed.cluster.nodes, 3)
    await bed.hold()
    await bed.again()
    await bed.finish()


async def test_a_node_deleted_while_members_wait(bed: Bed) -> None:
    await asyncio.to_thread(bed.cluster.nodes, 4)
    await bed.hold()
    gone = dict(bed.waits())["g-0"]
    await asyncio.to_thread(bed.client.delete, "Node", gone)
    while gone in (await bed.seats() or {"": gone}).values():
        await asyncio.sleep(0.1)
    await bed.finish()
    assert gone not in await asyncio.to_thread(bed.places)


async def test_a_member_deleted_while_the_others_wait(bed: Bed) -> None:
    await asyncio.to_thread(bed.cluster.nodes, 3)
    await bed.hold()
    await asyncio.to_thread(bed.client.delete, "Pod", "g-0", grace=0)
    await bed.until(lambda: "2 of 3 exist" in told(bed.client, "g-1"), "g-1 is told of it")
    assert bed.bound() == {}
    await asyncio.to_thread(bed.member, "g-0")
    await bed.again()
    await bed.finish()


async def test_the_extender_killed_while_members_wait(bed: Bed) -> None:
    await asyncio.to_thread(bed.cluster.nodes, 3)
    await bed.hold()
    before = bed.log.read_text().count(ENDED)
    await bed.extender.kill_extender()
    await bed.until(lambda: bed.log.read_text().count(ENDED) > before, ENDED)
    # Their time is over before anybody says whether the seats are still so.
    await bed.until(lambda: "it is not known" in told(bed.client, "g-1"), "g-1 is told of it")
    assert bed.bound() == {}
    await bed.extender.start_extender()
    await bed.again()
    await bed.finish()
