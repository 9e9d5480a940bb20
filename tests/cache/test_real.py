"""The cache and the client against real API servers: what no double can prove."""

from __future__ import annotations

import asyncio

import pytest

from extender.cache.cache import Cache
from extender.kube.api_errors import ApiError, Conflict, NotFound
from extender.kube.client import KubeClient
from extender.settings.settings import CacheSettings
from tests.cache.conftest import by_label, until
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pdb, make_pod

SECONDS = 90.0


@pytest.mark.real
@pytest.mark.parametrize("watch_list", [True, False])
async def test_the_cache_follows_a_real_api_server(cluster: Cluster, *, watch_list: bool) -> None:
    nodes = await asyncio.to_thread(cluster.nodes, 2)
    await asyncio.to_thread(cluster.pod_group, "g", 2)
    await asyncio.to_thread(
        cluster.client.create_all,
        make_pdb("budget", {"app": "x"}, minAvailable=1),
        *(make_pod(f"p{index}", cpu=1, labels={"gang": "g"}) for index in range(3)),
    )
    await asyncio.to_thread(cluster.client.wait_running, "p0", "p1", "p2", timeout=SECONDS)

    client = await KubeClient.connect(str(cluster.control_plane.kubeconfig))
    cache = Cache(client, CacheSettings(watch_list=watch_list, page_size=2), by_label)
    try:
        await cache.start()
        await cache.wait_synced(SECONDS)
        await until(lambda: all(watch.up for watch in cache.stats.watches.values()), SECONDS)
        snapshot = cache.snapshot()
        assert set(nodes) <= set(snapshot.nodes)
        mine = [
            pod
            for pods in snapshot.bound.values()
            for pod in pods
            if pod.namespace == cluster.namespace
        ]
        assert {pod.name for pod in mine} == {"p0", "p1", "p2"}
        assert all(dict(pod.requests)["cpu"] == 1000 for pod in mine)
        assert snapshot.groups["core", cluster.namespace, "g"].min_count == 2
        assert "budget" in {budget.name for budget in snapshot.budgets}
        assert cluster.namespace in snapshot.namespaces
        assert "system-node-critical" in snapshot.priority_classes
        assert snapshot.server_version.startswith(f"v{cluster.control_plane.version}.")
        for node in nodes:
            free = cache.free(node)
            assert free is not None
            used = sum(1000 for pod in mine if pod.node == node)
            assert free["cpu"] == dict(snapshot.nodes[node].allocatable)["cpu"] - used
        # One way or the other, and never both.
        reads = cache.stats.watches["pods"]
        assert (reads.lists == 0) is watch_list
        assert cache.stats.decode_errors == 0

        generation = cache.generation
        await asyncio.to_thread(cluster.client.delete, "Pod", "p0")
        await until(lambda: cache.pod_named(cluster.namespace, "p0") is None, SECONDS)
        await asyncio.to_thread(cluster.client.create, make_pod("late", cpu=1))
        await until(lambda: cache.pod_named(cluster.namespace, "late") is not None, SECONDS)
        assert cache.generation > generation
        assert cache.problem() == ""
        assert [watch.errors for watch in cache.stats.watches.values() if watch.errors] == []
    finally:
        await cache.stop()
        await client.close()


@pytest.mark.real
async def test_the_cache_survives_a_restart_of_the_api_server(cluster: Cluster) -> None:
    async with await KubeClient.connect(str(cluster.control_plane.kubeconfig)) as client:
        cache = Cache(client, CacheSettings(), by_label)
        try:
            await cache.start()
            await cache.wait_synced(SECONDS)
            await asyncio.to_thread(cluster.control_plane.restart, "kube-apiserver")
            await asyncio.to_thread(cluster.client.create, make_pod("after", cpu=1))
            await until(lambda: cache.pod_named(cluster.namespace, "after") is not None, 90.0)
            await until(lambda: cache.problem() == "", 90.0)
            assert cache.stats.decode_errors == 0
        finally:
            await cache.stop()


@pytest.mark.real
async def test_the_client_s_preconditions_and_dry_runs(cluster: Cluster) -> None:
    base = f"/api/v1/namespaces/{cluster.namespace}/pods"
    async with await KubeClient.connect(str(cluster.control_plane.kubeconfig)) as client:
        with pytest.raises(NotFound):
            await client.get(f"{base}/absent")
        pod = await client.create(base, make_pod("victim", cpu=64))
        uid = pod["metadata"]["uid"]
        with pytest.raises(Conflict):
            await client.create(base, make_pod("victim", cpu=64))
        with pytest.raises(Conflict):
            await client.delete(f"{base}/victim", uid="somebody-else", grace=0)
        await client.delete(f"{base}/victim", uid=uid, grace=0, dry_run=True)
        await client.evict(cluster.namespace, "victim", uid=uid, dry_run=True)
        assert (await client.get(f"{base}/victim"))["metadata"]["uid"] == uid
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "Test"}
        patched = await client.patch(
            f"{base}/victim/status", {"status": {"conditions": [condition]}}, "strategic"
        )
        assert any(c["type"] == "DisruptionTarget" for c in patched["status"]["conditions"])
        with pytest.raises(ApiError):
            await client.patch(f"{base}/victim", {"spec": {"nodeName": 7}})
        await client.evict(cluster.namespace, "victim", uid=uid, grace=0)
        with pytest.raises(NotFound):
            await client.get(f"{base}/victim")
