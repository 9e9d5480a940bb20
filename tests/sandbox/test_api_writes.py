"""The API server's writes: what they fill in, refuse and keep."""

from __future__ import annotations

from typing import Any

import pytest

from extender.kube import api_errors
from extender.kube.client import KubeClient
from extender.sandbox.resources import BUDGETS
from tests.sandbox.conftest import PODS, node, pod


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
    with pytest.raises(api_errors.Conflict) as refused:
        await client.create(PODS, pod())
    assert refused.value.reason == "AlreadyExists"
    with pytest.raises(api_errors.NotFound):
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
    with pytest.raises(api_errors.Invalid):
        await client.create(PODS, body)


@pytest.mark.parametrize(
    ("operator", "values", "fine"),
    [
        ("NotIn", [], False),
        ("NotIn", None, False),
        ("In", [], False),
        ("Exists", ["x"], False),
        ("Gt", ["1"], False),
        ("NotIn", ["x"], True),
        ("Exists", [], True),
    ],
)
async def test_a_budget_whose_selector_breaks_the_rules_is_invalid(
    client: KubeClient, operator: str, values: list[str] | None, *, fine: bool
) -> None:
    """As ValidateLabelSelector says, which the real API server asks for a PodDisruptionBudget."""
    rule = {"key": "app", "operator": operator, "values": values}
    spec = {"selector": {"matchExpressions": [rule]}, "minAvailable": 1}
    path, body = BUDGETS.path("default"), {"metadata": {"name": "b"}, "spec": spec}
    if fine:
        await client.create(path, body)
        return
    with pytest.raises(api_errors.Invalid):
        await client.create(path, body)


async def test_unknown_paths_and_bodies_get_a_status(client: KubeClient) -> None:
    with pytest.raises(api_errors.NotFound):
        await client.get("/api/v1/widgets")
    with pytest.raises(api_errors.ApiError) as refused:
        await client.request("POST", PODS, body=b"{not json")
    assert refused.value.status == 400
    with pytest.raises(api_errors.ApiError) as wrong:
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
    with pytest.raises(api_errors.Forbidden):
        await client.create(PODS, pod("d", priorityClassName="missing"))


async def test_an_update_needs_the_present_version_and_uid(client: KubeClient) -> None:
    made = await client.create("/api/v1/nodes", node("n"))
    stale = {**made, "metadata": {**made["metadata"], "labels": {"a": "1"}}}
    await client.replace("/api/v1/nodes/n", stale)
    with pytest.raises(api_errors.Conflict):
        await client.replace("/api/v1/nodes/n", stale)
    with pytest.raises(api_errors.Conflict):
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
    with pytest.raises(api_errors.ApiError) as refused:
        await client.patch(f"{PODS}/p", {}, "json")
    assert refused.value.status == 415


async def test_delete_keeps_the_grace_of_a_bound_pod(client: KubeClient) -> None:
    await client.create("/api/v1/nodes", node("n"))
    waiting = await client.create(PODS, pod("waiting"))
    with pytest.raises(api_errors.Conflict):
        await client.delete(f"{PODS}/waiting", uid="another")
    await client.delete(f"{PODS}/waiting", uid=waiting["metadata"]["uid"])
    with pytest.raises(api_errors.NotFound):
        await client.get(f"{PODS}/waiting")

    await client.create(PODS, pod("bound"))
    await client.create(f"{PODS}/bound/binding", {"target": {"kind": "Node", "name": "n"}})
    await client.delete(f"{PODS}/bound")
    dying = await client.get(f"{PODS}/bound")
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 30
    with pytest.raises(api_errors.Conflict):
        await client.create(f"{PODS}/bound/binding", {"target": {"name": "n"}})
    await client.delete(f"{PODS}/bound", grace=60)
    assert (await client.get(f"{PODS}/bound")) == dying
    await client.delete(f"{PODS}/bound", grace=0)
    with pytest.raises(api_errors.NotFound):
        await client.get(f"{PODS}/bound")


async def test_a_finalizer_keeps_the_object_until_it_is_taken_off(client: KubeClient) -> None:
    body = pod()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(PODS, body)
    await client.delete(f"{PODS}/p", grace=0)
    assert "deletionTimestamp" in (await client.get(f"{PODS}/p"))["metadata"]
    await client.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    with pytest.raises(api_errors.NotFound):
        await client.get(f"{PODS}/p")


async def test_binding_is_once_only(client: KubeClient) -> None:
    await client.create(PODS, pod())
    await client.create(f"{PODS}/p/binding", {"target": {"name": "n1"}})
    with pytest.raises(api_errors.Conflict, match="already assigned"):
        await client.create(f"{PODS}/p/binding", {"target": {"name": "n2"}})
    with pytest.raises(api_errors.Invalid):
        await client.patch(f"{PODS}/p", {"spec": {"nodeName": "n2"}})


async def test_dry_run_changes_nothing(client: KubeClient) -> None:
    await client.create(PODS, pod(), dry_run=True)
    assert (await client.get("/api/v1/pods"))["items"] == []
    await client.create(PODS, pod())
    await client.delete(f"{PODS}/p", dry_run=True)
    assert len((await client.get("/api/v1/pods"))["items"]) == 1


async def test_defaults_come_from_limits_and_the_rules_are_kept(client: KubeClient) -> None:
    body = pod()
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    made = await client.create(PODS, body)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    with pytest.raises(api_errors.Forbidden):
        await client.create(PODS, pod("q", priority=7))
    with pytest.raises(api_errors.Invalid):
        await client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "x"}}
        )
    for policy in ({}, {"gang": {"minCount": 0}}, {"gang": {"minCount": 1}, "basic": {}}):
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}
        with pytest.raises(api_errors.Invalid):
            await client.create(
                "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", group
            )
