"""The API server subset keeps the contract that clients rely on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from extender.kube import errors
from extender.kube.client import KubeClient
from extender.sandbox.api import Api
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.resources import served
from extender.sandbox.storage import Storage
from tests.event_time import passes, turns
from tests.sandbox.conftest import node, pod

PODS = "/api/v1/namespaces/default/pods"
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


async def test_create_fills_in_what_the_server_owns(client: KubeClient) -> None:
    made = await client.create(PODS, pod())
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert made["status"]["phase"] == "Pending"
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["spec"]["priority"] == 0
    other = await client.create(PODS, {**pod(), "metadata": {"generateName": "x-"}})
    assert other["metadata"]["name"].startswith("x-")
    assert int(other["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_a_name_in_use_and_a_missing_namespace_are_refused(client: KubeClient) -> None:
    await client.create(PODS, pod())
    with pytest.raises(errors.Conflict) as refused:
        await client.create(PODS, pod())
    assert refused.value.reason == "AlreadyExists"
    with pytest.raises(errors.NotFound):
        await client.create("/api/v1/namespaces/nowhere/pods", pod())


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "p"}, "spec": {}},
        {"metadata": {}, "spec": pod()["spec"]},
        {"metadata": {"name": "No Such Name"}, "spec": pod()["spec"]},
    ],
)
async def test_an_object_against_the_rules_is_invalid(
    client: KubeClient, body: dict[str, Any]
) -> None:
    with pytest.raises(errors.Invalid):
        await client.create(PODS, body)


async def test_unknown_paths_and_bodies_get_a_status(client: KubeClient) -> None:
    with pytest.raises(errors.NotFound):
        await client.get("/api/v1/widgets")
    with pytest.raises(errors.ApiError) as refused:
        await client.request("POST", PODS, body=b"{not json")
    assert refused.value.status == 400
    with pytest.raises(errors.ApiError) as wrong:
        await client.get("/api/v1/pods", params={"labelSelector": "a in"})
    assert wrong.value.status == 400


async def test_priority_comes_from_the_class_or_the_global_default(client: KubeClient) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.create(classes, {"metadata": {"name": "high"}, "value": 100000})
    await client.create(classes, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    never = {"metadata": {"name": "never"}, "value": 5, "preemptionPolicy": "Never"}
    await client.create(classes, never)
    high = await client.create(PODS, pod("a", priorityClassName="high"))
    usual = await client.create(PODS, pod("b"))
    polite = await client.create(PODS, pod("c", priorityClassName="never"))
    assert (high["spec"]["priority"], usual["spec"]["priority"]) == (100000, 7)
    assert usual["spec"]["priorityClassName"] == "usual"
    assert polite["spec"]["preemptionPolicy"] == "Never"
    with pytest.raises(errors.Forbidden):
        await client.create(PODS, pod("d", priorityClassName="missing"))


async def test_an_update_needs_the_present_version_and_uid(client: KubeClient) -> None:
    made = await client.create("/api/v1/nodes", node("n"))
    stale = {**made, "metadata": {**made["metadata"], "labels": {"a": "1"}}}
    await client.replace("/api/v1/nodes/n", stale)
    with pytest.raises(errors.Conflict):
        await client.replace("/api/v1/nodes/n", stale)
    with pytest.raises(errors.Conflict):
        await client.patch("/api/v1/nodes/n", {"metadata": {"uid": "other"}})


async def test_a_write_that_changes_nothing_makes_no_version(client: KubeClient) -> None:
    await client.create(PODS, pod())
    patch = {"metadata": {"annotations": {"a": "1"}}}
    first = await client.patch(f"{PODS}/p", patch)
    second = await client.patch(f"{PODS}/p", patch)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_status_is_its_own_subresource(client: KubeClient) -> None:
    await client.create(PODS, pod())
    await client.patch(f"{PODS}/p", {"status": {"phase": "Running"}})
    assert (await client.get(f"{PODS}/p"))["status"]["phase"] == "Pending"
    await client.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    assert (await client.get(f"{PODS}/p"))["status"]["phase"] == "Running"


async def test_strategic_merge_keeps_the_other_conditions(client: KubeClient) -> None:
    await client.create(PODS, pod())
    for kind, status in (("A", "True"), ("B", "False"), ("A", "False")):
        patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
        await client.patch(f"{PODS}/p/status", patch, "strategic")
    conditions = (await client.get(f"{PODS}/p"))["status"]["conditions"]
    assert {c["type"]: c["status"] for c in conditions} == {"A": "False", "B": "False"}
    with pytest.raises(errors.ApiError) as refused:
        await client.patch(f"{PODS}/p", {}, "json")
    assert refused.value.status == 415


async def test_delete_keeps_the_grace_of_a_bound_pod(client: KubeClient) -> None:
    await client.create("/api/v1/nodes", node("n"))
    waiting = await client.create(PODS, pod("waiting"))
    with pytest.raises(errors.Conflict):
        await client.delete(f"{PODS}/waiting", uid="another")
    await client.delete(f"{PODS}/waiting", uid=waiting["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await client.get(f"{PODS}/waiting")

    await client.create(PODS, pod("bound"))
    await client.create(f"{PODS}/bound/binding", {"target": {"kind": "Node", "name": "n"}})
    await client.delete(f"{PODS}/bound")
    dying = await client.get(f"{PODS}/bound")
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 30
    with pytest.raises(errors.Conflict):
        await client.create(f"{PODS}/bound/binding", {"target": {"name": "n"}})
    await client.delete(f"{PODS}/bound", grace=60)
    assert (await client.get(f"{PODS}/bound")) == dying
    await client.delete(f"{PODS}/bound", grace=0)
    with pytest.raises(errors.NotFound):
        await client.get(f"{PODS}/bound")


async def test_a_finalizer_keeps_the_object_until_it_is_taken_off(client: KubeClient) -> None:
    body = pod()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(PODS, body)
    await client.delete(f"{PODS}/p", grace=0)
    assert "deletionTimestamp" in (await client.get(f"{PODS}/p"))["metadata"]
    await client.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    with pytest.raises(errors.NotFound):
        await client.get(f"{PODS}/p")


async def test_binding_is_once_only(client: KubeClient) -> None:
    await client.create(PODS, pod())
    await client.create(f"{PODS}/p/binding", {"target": {"name": "n1"}})
    with pytest.raises(errors.Conflict, match="already assigned"):
        await client.create(f"{PODS}/p/binding", {"target": {"name": "n2"}})
    with pytest.raises(errors.Invalid):
        await client.patch(f"{PODS}/p", {"spec": {"nodeName": "n2"}})


async def test_dry_run_changes_nothing(client: KubeClient) -> None:
    await client.create(PODS, pod(), dry_run=True)
    assert (await client.get("/api/v1/pods"))["items"] == []
    await client.create(PODS, pod())
    await client.delete(f"{PODS}/p", dry_run=True)
    assert len((await client.get("/api/v1/pods"))["items"]) == 1


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
    with pytest.raises(errors.Gone):
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
    with pytest.raises(errors.Invalid):
        await events(client, 1, sendInitialEvents="true")
    server.faults.refuse_watch_list = True
    with pytest.raises(errors.Invalid):
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
        with pytest.raises(errors.TooManyRequests) as refused:
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
        with pytest.raises(errors.Unavailable):
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
        with pytest.raises(errors.Invalid):
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
    with pytest.raises(errors.NotFound):
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
    with pytest.raises(errors.ApiError) as refused:
        await client.request(method, path, body=body)
    assert refused.value.status == status


async def test_a_slow_answer_comes_all_the_same(server: ApiServer, client: KubeClient) -> None:
    slow = server.faults.plan(Fault(1, "GET", "/nodes", delay=0.1))
    assert (await client.get("/api/v1/nodes"))["items"] == []
    assert slow.hits == 1


async def test_defaults_come_from_limits_and_the_rules_are_kept(client: KubeClient) -> None:
    body = pod()
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    made = await client.create(PODS, body)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    with pytest.raises(errors.Forbidden):
        await client.create(PODS, pod("q", priority=7))
    with pytest.raises(errors.Invalid):
        await client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "x"}}
        )
    for policy in ({}, {"gang": {"minCount": 0}}, {"gang": {"minCount": 1}, "basic": {}}):
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}
        with pytest.raises(errors.Invalid):
            await client.create(
                "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", group
            )
