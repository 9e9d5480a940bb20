"""The API server subset keeps the contract that clients rely on: what is read and watched."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from extender.kube import api_errors
from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.resources import served
from extender.sandbox.rest import Api
from extender.sandbox.storage import Storage
from tests.event_time import passes, turns
from tests.sandbox.conftest import PODS, pod

WATCH = {"watch": "true", "allowWatchBookmarks": "true"}


async def events(client: KubeClient, count: int, **params: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    async with asyncio.timeout(60):
        async for line in client.stream("/api/v1/pods", {**WATCH, **params}):
            event = json.loads(line)
            found.append((event["type"], event["object"]))
            if len(found) == count:
                break
    return found


def shown(found: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(kind, obj["metadata"].get("name", "")) for kind, obj in found]


async def test_lists_come_in_pages_of_one_moment(client: KubeClient) -> None:
    for index in range(5):
        await client.create(PODS, pod(f"p{index}"))
    first = await client.get("/api/v1/pods", params={"limit": 2})
    await client.create(PODS, pod("later"))
    names = [item["metadata"]["name"] for item in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        page = await client.get("/api/v1/pods", params={"limit": 2, "continue": token})
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
    assert names == [f"p{index}" for index in range(5)]
    whole = await client.get("/api/v1/pods", params={"limit": 2, "resourceVersion": "0"})
    assert len(whole["items"]) == 6


async def test_an_old_page_token_is_expired(server: ApiServer, client: KubeClient) -> None:
    for name in ("a", "b"):
        await client.create(PODS, pod(name))
    first = await client.get("/api/v1/pods", params={"limit": 1})
    server.expire_watches()
    with pytest.raises(api_errors.Gone):
        await client.get("/api/v1/pods", params={"continue": first["metadata"]["continue"]})


async def test_selectors(client: KubeClient) -> None:
    for name, labels in (("a", {"app": "x"}), ("b", {"app": "y"}), ("c", {})):
        body = pod(name)
        body["metadata"]["labels"] = labels
        await client.create(PODS, body)
    await client.create(f"{PODS}/a/binding", {"target": {"name": "n"}})

    async def named(**params: str) -> list[str]:
        answer = await client.get("/api/v1/pods", params=params)
        return [item["metadata"]["name"] for item in answer["items"]]

    assert await named(labelSelector="app in (x, y)") == ["a", "b"]
    assert await named(labelSelector="app notin (x)") == ["b", "c"]
    assert await named(labelSelector="!app") == ["c"]
    assert await named(labelSelector="app,app!=x") == ["b"]
    assert await named(fieldSelector="spec.nodeName=n") == ["a"]
    assert await named(fieldSelector="status.phase!=Succeeded,metadata.name=b") == ["b"]


async def test_watch_list_sends_the_state_then_its_end_then_changes(client: KubeClient) -> None:
    await client.create(PODS, pod("a"))
    reading = asyncio.ensure_future(
        events(client, 4, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    )
    await turns()
    await client.create(PODS, pod("b"))
    found = await reading
    assert shown(found)[0] == ("ADDED", "a")
    assert found[1][0] == "BOOKMARK"
    assert found[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert "BOOKMARK" in [kind for kind, _ in found[2:]]


async def test_watch_list_is_refused_on_demand_and_without_its_match(
    server: ApiServer, client: KubeClient
) -> None:
    with pytest.raises(api_errors.Invalid):
        await events(client, 1, sendInitialEvents="true")
    server.faults.refuse_watch_list = True
    with pytest.raises(api_errors.Invalid):
        await events(client, 1, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")


async def test_a_watch_replays_from_its_version(client: KubeClient) -> None:
    made = await client.create(PODS, pod("a"))
    await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
    await client.delete(f"{PODS}/a")
    found = await events(client, 2, resourceVersion=made["metadata"]["resourceVersion"])
    assert shown(found) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_leaving_the_selector_is_a_deletion(client: KubeClient) -> None:
    start = (await client.get("/api/v1/pods"))["metadata"]["resourceVersion"]
    await client.create(PODS, pod("a"))
    await client.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    await client.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    found = await events(client, 3, resourceVersion=start, fieldSelector="status.phase!=Succeeded")
    assert shown(found) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_bookmarks_never_overtake_changes(server: ApiServer, client: KubeClient) -> None:
    start = (await client.get("/api/v1/pods"))["metadata"]["resourceVersion"]
    reading = asyncio.ensure_future(events(client, 40, resourceVersion=start))
    for index in range(30):
        await client.create(PODS, pod(f"p{index}"))
        await asyncio.sleep(0.01 * (index % 10))
    found = await reading
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in found]
    assert versions == sorted(versions)
    assert sum(kind == "ADDED" for kind, _ in found) >= 10


async def test_a_compacted_version_ends_the_watch_with_410(
    server: ApiServer, client: KubeClient
) -> None:
    made = await client.create(PODS, pod("a"))
    await client.create(PODS, pod("b"))
    reading = asyncio.ensure_future(
        events(client, 99, resourceVersion=str(server.api.storage.version), timeoutSeconds="5")
    )
    await turns()
    server.expire_watches()
    found = await events(client, 1, resourceVersion=made["metadata"]["resourceVersion"])
    assert (found[0][0], found[0][1]["code"]) == ("ERROR", 410)
    assert ("ERROR", 410) in [(kind, obj.get("code")) for kind, obj in await reading]


async def test_timeout_seconds_end_a_watch_quietly(client: KubeClient) -> None:
    found = await events(client, 1000, resourceVersion="0", timeoutSeconds="1")
    assert {kind for kind, _ in found} == {"BOOKMARK"}


async def test_faults_strike_as_often_as_planned(server: ApiServer, client: KubeClient) -> None:
    busy = Fault(2, "GET", "/pods", status=429, reason="TooManyRequests", retry_after=3)
    server.faults.plan(busy)
    for _ in range(2):
        with pytest.raises(api_errors.TooManyRequests) as refused:
            await client.get("/api/v1/pods")
        assert refused.value.retry_after == 3
    await client.get("/api/v1/pods")
    assert busy.hits == 2


async def test_an_answer_can_be_lost_before_and_after_the_write(
    server: ApiServer, client: KubeClient
) -> None:
    server.faults.plan(Fault(1, "POST", "/pods", drop="before"))
    server.faults.plan(Fault(1, "POST", "/pods", drop="after"))
    for name in ("lost", "kept"):
        with pytest.raises(api_errors.Unavailable):
            await client.create(PODS, pod(name))
    found = await client.get("/api/v1/pods")
    assert [item["metadata"]["name"] for item in found["items"]] == ["kept"]


async def test_a_stall_holds_the_watch_back_without_closing_it(
    server: ApiServer, client: KubeClient
) -> None:
    server.faults.stall()
    reading = asyncio.ensure_future(events(client, 1, resourceVersion="0"))
    await passes(1)
    assert not reading.done()
    server.faults.flow()
    assert (await reading)[0][0] == "BOOKMARK"


async def test_a_pause_answers_nobody(server: ApiServer, client: KubeClient) -> None:
    server.faults.pause()
    reading = asyncio.ensure_future(client.get("/api/v1/pods"))
    await passes(10)
    assert not reading.done()
    server.faults.resume()
    assert (await reading)["items"] == []


@pytest.mark.parametrize(
    ("minor", "version", "mode"), [("1.36", "v1alpha2", "Pod"), ("1.37", "v1beta1", {"single": {}})]
)
async def test_each_minor_serves_its_pod_groups(minor: str, version: str, mode: Any) -> None:
    server = ApiServer(minor)
    await server.start()
    path = f"/apis/scheduling.k8s.io/{version}"
    async with await KubeClient.connect(server=server.url) as client:
        kinds = [item["kind"] for item in (await client.get(path))["resources"]]
        assert "PodGroup" in kinds
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        body = {"metadata": {"name": "g"}, "spec": spec}
        group = await client.create(f"{path}/namespaces/default/podgroups", body)
        assert (group["spec"]["disruptionMode"], group["spec"]["priority"]) == (mode, 0)
        body = {"metadata": {"name": "h"}, "spec": {**spec, "disruptionMode": 3}}
        with pytest.raises(api_errors.Invalid):
            await client.create(f"{path}/namespaces/default/podgroups", body)
        names = [group["name"] for group in (await client.get("/apis"))["groups"]]
        assert "scheduling.x-k8s.io" in names
    await server.close()


async def test_a_dropped_namespace_takes_its_objects_along(client: KubeClient) -> None:
    await client.create("/api/v1/namespaces", {"metadata": {"name": "play"}})
    await client.create("/api/v1/namespaces/play/pods", pod())
    await client.delete("/api/v1/namespaces/play")
    assert (await client.get("/api/v1/pods"))["items"] == []


def test_the_log_forgets_its_oldest_changes() -> None:
    api = Api(Storage(keep=2), served("1.37"))
    assert api.storage.compacted > 0


async def test_discovery_tells_versions_groups_and_subresources(client: KubeClient) -> None:
    assert (await client.get("/version"))["minor"] == "37"
    assert (await client.get("/api"))["versions"] == ["v1"]
    group = await client.get("/apis/scheduling.k8s.io")
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta1"]
    core = await client.get("/api/v1")
    names = {item["name"] for item in core["resources"]}
    assert {"pods", "pods/status", "pods/binding", "pods/eviction", "nodes"} <= names
    with pytest.raises(api_errors.NotFound):
        await client.get("/apis/scheduling.k8s.io/v1alpha2")
    assert await client.request("GET", "/readyz") == b"ok"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/namespaces/default/pods", 405),
        ("GET", "/api/v1/pods/p", 400),
        ("GET", "/api/v1/namespaces/default/pods/p/log", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/elsewhere", 404),
        ("POST", "/api/v1/namespaces/default/pods/p/binding", 404),
    ],
)
async def test_what_is_not_served_says_so(
    client: KubeClient, method: str, path: str, status: int
) -> None:
    body: Any = {} if method == "POST" else None
    with pytest.raises(api_errors.ApiError) as refused:
        await client.request(method, path, body=body)
    assert refused.value.status == status


async def test_a_slow_answer_comes_all_the_same(server: ApiServer, client: KubeClient) -> None:
    slow = server.faults.plan(Fault(1, "GET", "/nodes", delay=0.1))
    assert (await client.get("/api/v1/nodes"))["items"] == []
    assert slow.hits == 1
