"""The eviction subresource asks the disruption budgets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.kube import api_errors
from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.eviction import keep_budgets
from tests.sandbox.conftest import pod

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture(autouse=True)
async def budgets(server: ApiServer) -> AsyncIterator[None]:
    task = asyncio.ensure_future(keep_budgets(server.api))
    yield
    task.cancel()


async def running(client: KubeClient, name: str) -> str:
    body = pod(name)
    body["metadata"]["labels"] = {"app": "x"}
    made = await client.create(PODS, body)
    await client.create(f"{PODS}/{name}/binding", {"target": {"name": "n"}})
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "conditions": ready}
    await client.patch(f"{PODS}/{name}/status", {"status": status})
    return str(made["metadata"]["uid"])


async def allowed(client: KubeClient, name: str, wanted: int) -> None:
    async with asyncio.timeout(60):
        while True:
            status = (await client.get(f"{BUDGETS}/{name}")).get("status", {})
            if status.get("disruptionsAllowed") == wanted:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("rule", "free"),
    [({"minAvailable": 2}, 1), ({"maxUnavailable": "34%"}, 2), ({"minAvailable": "100%"}, 0)],
)
async def test_the_status_counts_healthy_pods(
    client: KubeClient, rule: dict[str, object], free: int
) -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, **rule}
    await client.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    for name in ("a", "b", "c"):
        await running(client, name)
    await allowed(client, "b", free)


async def test_a_spent_budget_answers_429_until_there_is_room_again(client: KubeClient) -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
    await client.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    uids = {name: await running(client, name) for name in ("a", "b")}
    await allowed(client, "b", 1)
    with pytest.raises(api_errors.Conflict):
        await client.evict("default", "a", uid="another")
    await client.evict("default", "a", uid=uids["a"])
    gone = await client.get(f"{PODS}/a")
    assert "deletionTimestamp" in gone["metadata"]
    assert [c["reason"] for c in gone["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    with pytest.raises(api_errors.TooManyRequests):
        await client.evict("default", "b", uid=uids["b"])
    await running(client, "c")
    await allowed(client, "b", 1)
    await client.evict("default", "b", uid=uids["b"], grace=0)
    with pytest.raises(api_errors.NotFound):
        await client.get(f"{PODS}/b")


async def test_two_budgets_on_one_pod_are_an_error(client: KubeClient) -> None:
    for name in ("one", "two"):
        spec = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 0}
        await client.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    uid = await running(client, "a")
    with pytest.raises(api_errors.Unavailable, match="more than one"):
        await client.evict("default", "a", uid=uid)
