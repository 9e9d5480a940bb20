"""Kubelets and the Job controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from extender.sandbox.jobs import INDEX
from extender.sandbox.resources import JOBS, NODES, PODS
from extender.sandbox.rest import Api
from extender.sandbox.world import World
from tests.event_time import passes
from tests.sandbox.conftest import node, pod

Obj = dict[str, Any]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with World(recreate_seconds=0.05) as world:
        yield world.server.api
        world.check()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def pods(api: Api) -> list[Obj]:
    return api.storage.all(PODS.key, "default")


def job(**spec: Any) -> Obj:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(restartPolicy="Never")["spec"]}
    return {
        "metadata": {"name": "j"},
        "spec": {"completions": 2, "parallelism": 2, "template": template, **spec},
    }


async def test_a_node_becomes_ready(api: Api) -> None:
    api.create(NODES, "", node("n"))
    await until(lambda: "conditions" in api.get(NODES, "", "n")["status"])
    assert api.get(NODES, "", "n")["status"]["allocatable"]["cpu"] == "4"


async def test_a_bound_pod_runs_and_goes_when_its_grace_is_over(api: Api) -> None:
    made = api.create(PODS, "default", pod(terminationGracePeriodSeconds=600))
    api.bind("default", "p", {"target": {"name": "n"}})
    await until(lambda: api.get(PODS, "default", "p")["status"]["phase"] == "Running")
    assert api.get(PODS, "default", "p")["status"]["startTime"]
    api.delete(PODS, "default", "p", uid=made["metadata"]["uid"])
    await passes(300)
    assert "deletionTimestamp" in pods(api)[0]["metadata"]
    await passes(301)
    assert not pods(api)


async def test_a_finalizer_outlives_the_containers(api: Api) -> None:
    body = pod(terminationGracePeriodSeconds=0)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(PODS, "default", body)
    api.bind("default", "p", {"target": {"name": "n"}})
    await until(lambda: pods(api)[0]["status"]["phase"] == "Running")
    api.delete(PODS, "default", "p")
    await until(lambda: pods(api)[0]["status"]["phase"] == "Failed")


async def test_a_job_makes_its_pods_and_makes_them_again(api: Api) -> None:
    made = api.create(JOBS, "default", job())
    await until(lambda: len(pods(api)) == 2)
    first = {p["metadata"]["annotations"][INDEX]: p for p in pods(api)}
    assert set(first) == {"0", "1"}
    for each in first.values():
        assert each["metadata"]["labels"]["a"] == "b"
        assert each["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    gone = first["1"]["metadata"]
    api.delete(PODS, "default", gone["name"])
    await until(lambda: len(pods(api)) == 2)
    again = {p["metadata"]["annotations"][INDEX]: p["metadata"]["uid"] for p in pods(api)}
    assert again["0"] == first["0"]["metadata"]["uid"]
    assert again["1"] != gone["uid"]


async def test_succeeded_pods_count_and_complete_the_job(api: Api) -> None:
    def pending() -> list[Obj]:
        return [p for p in pods(api) if p["status"]["phase"] == "Pending"]

    def status() -> Obj:
        found: Obj = api.get(JOBS, "default", "j").get("status") or {}
        return found

    api.create(JOBS, "default", job(parallelism=1))
    for done in (1, 2):
        await until(pending)
        api.set_status(PODS, pending()[0], {"phase": "Succeeded"})
        await until(lambda done=done: status().get("succeeded") == done)  # type: ignore[misc]
    assert status()["conditions"][0]["type"] == "Complete"
    assert status()["active"] == 0
    assert len(pods(api)) == 2


async def test_a_deleted_job_takes_its_pods_along(api: Api) -> None:
    api.create(JOBS, "default", job())
    await until(lambda: len(pods(api)) == 2)
    api.delete(JOBS, "default", "j")
    await until(lambda: not pods(api))
