"""The observer misses nothing, even when its watch does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.objects import ACTOR
from extender.sandbox.observer import Observer
from tests.sandbox.conftest import pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def observer(client: KubeClient) -> AsyncIterator[Observer]:
    observer = Observer(client, "default")
    await observer.start()
    yield observer
    await observer.close()


async def make(client: KubeClient, name: str) -> None:
    body = pod(name, "1500m")
    body["metadata"]["labels"] = {ACTOR: "a"}
    await client.create(PODS, body)
    await client.create(f"{PODS}/{name}/binding", {"target": {"name": "n"}})


def told(observer: Observer) -> list[tuple[str, str]]:
    return [(event.what, event.pod.name) for event in observer.events]


async def test_a_pod_s_life(client: KubeClient, observer: Observer) -> None:
    await make(client, "p")
    await client.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    await client.delete(f"{PODS}/p", grace=0)
    assert await observer.until(lambda: ("gone", "p") in told(observer), 5)
    assert [what for what, _ in told(observer)] == ["made", "bound", "running", "evicted", "gone"]
    seen = observer.evicted()[0]
    assert (seen.actor, seen.cpu, seen.node) == ("a", 1500, "n")
    assert observer.of("a") == []


async def test_what_has_finished_or_is_ours_is_not_evicted(
    client: KubeClient, observer: Observer
) -> None:
    await make(client, "done")
    await client.patch(f"{PODS}/done/status", {"status": {"phase": "Succeeded"}})
    await client.delete(f"{PODS}/done")
    assert await observer.until(lambda: ("gone", "done") in told(observer), 5)
    observer.ours.add("a")
    await make(client, "ours")
    await client.delete(f"{PODS}/ours", grace=0)
    assert await observer.until(lambda: ("gone", "ours") in told(observer), 5)
    assert observer.evicted() == []


async def test_a_lost_watch_is_made_up_for(
    server: ApiServer, client: KubeClient, observer: Observer
) -> None:
    await make(client, "p")
    assert await observer.until(lambda: ("bound", "p") in told(observer), 5)
    server.faults.plan(Fault(3, "GET", r"/pods", status=500))
    server.expire_watches()
    await client.delete(f"{PODS}/p", grace=0)
    await make(client, "q")
    assert await observer.until(lambda: ("bound", "q") in told(observer), 10)
    assert ("evicted", "p") in told(observer)
    server.expire_watches()
    await asyncio.sleep(0.1)
    await client.patch(f"{PODS}/q/status", {"status": {"phase": "Running"}})
    assert await observer.until(lambda: ("running", "q") in told(observer), 10)
    assert told(observer).count(("made", "q")) == 1


async def test_waiting_in_vain_ends(observer: Observer) -> None:
    assert not await observer.until(lambda: False, 0.05)
