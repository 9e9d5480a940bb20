"""The recorder misses nothing, even when its watch does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.pod_recorder import PodRecorder
from extender.sandbox.scenario_objects import ACTOR
from tests.sandbox.conftest import pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def recorder(client: KubeClient) -> AsyncIterator[PodRecorder]:
    recorder = PodRecorder(client, "default")
    await recorder.start()
    yield recorder
    await recorder.close()


async def make(client: KubeClient, name: str) -> None:
    body = pod(name, "1500m")
    body["metadata"]["labels"] = {ACTOR: "a"}
    await client.create(PODS, body)
    await client.create(f"{PODS}/{name}/binding", {"target": {"name": "n"}})


def told(recorder: PodRecorder) -> list[tuple[str, str]]:
    return [(event.what, event.pod.name) for event in recorder.events]


async def test_a_pod_s_life(client: KubeClient, recorder: PodRecorder) -> None:
    await make(client, "p")
    await client.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    await client.delete(f"{PODS}/p", grace=0)
    assert await recorder.until(lambda: ("gone", "p") in told(recorder), 5)
    assert [what for what, _ in told(recorder)] == ["made", "bound", "running", "evicted", "gone"]
    seen = recorder.evicted()[0]
    assert (seen.actor, seen.cpu, seen.node) == ("a", 1500, "n")
    assert recorder.of("a") == []


async def test_what_has_finished_or_is_ours_is_not_evicted(
    client: KubeClient, recorder: PodRecorder
) -> None:
    await make(client, "done")
    await client.patch(f"{PODS}/done/status", {"status": {"phase": "Succeeded"}})
    await client.delete(f"{PODS}/done")
    assert await recorder.until(lambda: ("gone", "done") in told(recorder), 5)
    recorder.ours.add("a")
    await make(client, "ours")
    await client.delete(f"{PODS}/ours", grace=0)
    assert await recorder.until(lambda: ("gone", "ours") in told(recorder), 5)
    assert recorder.evicted() == []


async def test_a_lost_watch_is_made_up_for(
    server: ApiServer, client: KubeClient, recorder: PodRecorder
) -> None:
    await make(client, "p")
    assert await recorder.until(lambda: ("bound", "p") in told(recorder), 5)
    server.faults.plan(Fault(3, "GET", r"/pods", status=500))
    server.expire_watches()
    await client.delete(f"{PODS}/p", grace=0)
    await make(client, "q")
    assert await recorder.until(lambda: ("bound", "q") in told(recorder), 10)
    assert ("evicted", "p") in told(recorder)
    server.expire_watches()
    await asyncio.sleep(0.1)
    await client.patch(f"{PODS}/q/status", {"status": {"phase": "Running"}})
    assert await recorder.until(lambda: ("running", "q") in told(recorder), 10)
    assert told(recorder).count(("made", "q")) == 1


async def test_waiting_in_vain_ends(recorder: PodRecorder) -> None:
    assert not await recorder.until(lambda: False, 0.05)
