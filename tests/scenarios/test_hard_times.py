"""The real API server goes away and comes back: nothing wrong is done, nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import CacheSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod

STALE = 2.0
SECONDS = 120.0


async def ask(url: str, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    async with aiohttp.ClientSession() as http, http.post(f"{url}/{verb}", json=body) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def until(fine: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not await asyncio.to_thread(fine):
        assert time.monotonic() < deadline, f"{what} did not come true"
        await asyncio.sleep(0.2)


@pytest.mark.real
async def test_gangs_wait_while_the_api_server_is_away_and_go_on_after(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Full cluster, API server killed, an urgent gang's member is asked for: refused as stale,
    while pods of no gang are served. When it is back the gang evicts and runs."""
    client, plane = cluster.client, cluster.control_plane
    settings = replace(Settings(), cache=CacheSettings(stale_seconds=STALE))
    extender = ExtenderProcess(tmp_path, plane.kubeconfig, settings)

    def gang(name: str, cls: str) -> list[dict[str, Any]]:
        more = {"schedulingGroup": {"podGroupName": name}, "priorityClassName": cls}
        return [make_pod(f"{name}-{i}", cpu=3, grace=0, spec=more) for i in range(2)]

    def prepare() -> list[str]:
        nodes = cluster.nodes(2)
        cluster.priority_classes(low=1, high=1000)
        cluster.pod_group("low", 2, disruption="all", priority_class="low")
        cluster.pod_group("high", 2, disruption="all", priority_class="high")
        return nodes

    def running(name: str) -> bool:
        pods = [client.get_or_none("Pod", f"{name}-{i}") for i in range(2)]
        return all(pod is not None and pod["status"].get("phase") == "Running" for pod in pods)

    try:
        await extender.start()
        await asyncio.to_thread(cluster.use_extender, extender.url)
        nodes = await asyncio.to_thread(prepare)
        await asyncio.to_thread(client.create_all, *gang("low", "low"))
        await until(lambda: running("low"), "the low gang runs")
        await asyncio.to_thread(plane.stop_scheduler)
        await asyncio.to_thread(client.create_all, *gang("high", "high"))
        member = await asyncio.to_thread(client.get, "Pod", "high-0")
        plain = make_pod("plain", cpu=1, namespace=cluster.namespace)
        plain["metadata"]["uid"] = "plain"
        await asyncio.sleep(1.0)

        plane.processes["kube-apiserver"].stop(grace=0)
        await asyncio.sleep(STALE + 2.0)
        refused = await ask(extender.url, "filter", {"Pod": member, "NodeNames": nodes})
        assert "stale" in refused["Error"], refused
        served = await ask(extender.url, "filter", {"Pod": plain, "NodeNames": nodes})
        assert served["NodeNames"] == nodes
        nothing = await ask(
            extender.url,
            "preempt",
            {"Pod": member, "NodeNameToMetaVictims": {nodes[0]: {"Pods": [{"UID": "x"}]}}},
        )
        assert nothing["NodeNameToMetaVictims"] == {}
        assert extender.extender_alive()

        since = time.time()
        await asyncio.to_thread(plane.ensure_servers)
        assert await asyncio.to_thread(running, "low")
        await asyncio.to_thread(plane.restart_scheduler)
        await until(lambda: running("high"), "the urgent gang runs")
        gone = {
            record["objectRef"]["name"]
            for record in await asyncio.to_thread(plane.removals, since)
            if record["objectRef"].get("namespace") == cluster.namespace
        }
        assert gone == {"low-0", "low-1"}
    finally:
        await extender.close()
