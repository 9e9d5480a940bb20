"""``serve`` as a process, asked over its Unix socket, and stopped."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
from msgspec.structs import replace

from extender.pb.podgroup.v1 import extender_pb2, plan_pb2, types_pb2, watch_pb2
from extender.sandbox.process import ExtenderProcess, write_kubeconfig
from extender.settings.settings import GrpcSettings, LeadershipSettings, Settings
from tests.gang.rig import FAST, Rig
from tests.grpc_api.asking import MANIFEST
from tests.grpc_api.site import Callers, calling
from tests.grpc_api.test_decisions import read
from tests.grpc_api.test_seats import ended, next_of

State = plan_pb2.ExplainResponse


async def test_a_gang_is_planned_explained_and_watched_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        # The rig's own extender gives way to the process.
        await rig.kill()
        write_kubeconfig(tmp_path / "kubeconfig", rig.server.url)
        settings: Settings = replace(
            FAST,
            grpc=GrpcSettings(listen=f"unix:{path}"),
            leadership=LeadershipSettings(enabled=True, retry_seconds=0.1),
        )
        extender = ExtenderProcess(tmp_path, tmp_path / "kubeconfig", settings)
        await extender.start()
        try:
            async with calling(f"unix:{path}") as callers:
                await asked(rig, callers)
                watch = callers.watch.WatchSeats(watch_pb2.WatchSeatsRequest())
                await next_of(watch)
                await extender.close()
                assert (await ended(watch))[0] is grpc.StatusCode.UNAVAILABLE
        finally:
            await extender.close()
        assert not path.exists()
        log = extender.log.read_text()
        assert '"event":"serving gRPC"' in log
        assert '"level":"error"' not in log, log
        await rig.start()  # for the rig's own end


async def asked(rig: Rig, callers: Callers) -> None:
    answer = await callers.plan.Plan(plan_pb2.PlanRequest(gang="new", manifest=MANIFEST))
    assert {each.pod.name for each in answer.plan.victims} == {"low-0", "low-1"}
    assert await rig.names() == {"low-0", "low-1"}

    watch = callers.watch.WatchSeats(watch_pb2.WatchSeatsRequest())
    assert (await next_of(watch)).full
    told = callers.watch.WatchDecisions(watch_pb2.WatchDecisionsRequest(backlog=9))
    await rig.group("high", 2, "high")
    for i in range(2):
        await rig.pod(f"high-{i}", cls="high", group="high")
    members = {f"high-{i}": await whole(rig, f"high-{i}") for i in range(2)}
    places: dict[str, str] = {}
    async with asyncio.timeout(60):
        while len(places) < 2:
            for name in members.keys() - places.keys():
                pod = json.dumps(await whole(rig, name)).encode()
                request = extender_pb2.FilterRequest(pod=pod, node_names=["n0", "n1"])
                given = await callers.extender.Filter(request)
                if given.node_names:
                    places[name] = given.node_names[0]
                    await rig.bind(name, places[name])
            await asyncio.sleep(0.05)
    assert set(places.values()) == {"n0", "n1"}
    seen = await next_of(watch)
    assert {seat.pod_uid for node in seen.nodes for seat in node.seats} == {
        pod["metadata"]["uid"] for pod in members.values()
    }
    watch.cancel()
    gone = types_pb2.PodReference(namespace="default", name="low-0")
    found = await callers.plan.Explain(plan_pb2.ExplainRequest(pod=gone))
    assert found.state == State.STATE_GONE
    assert {each.gang for each in found.evicted_by} == {"pod-group:default/high"}
    assert (await read(told)).decision.gang == "pod-group:default/high"
    told.cancel()


async def whole(rig: Rig, name: str) -> dict[str, Any]:
    return await rig.client.get(f"/api/v1/namespaces/default/pods/{name}")


def test_without_a_place_to_listen_nothing_of_grpc_is_loaded() -> None:
    code = (
        "import sys\n"
        "import extender.app.serve_command as serve\n"
        "from extender.settings.settings import Settings\n"
        "serve.GrpcSide(Settings())\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('grpc', 'google')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
