"""Bind over gRPC: held as over HTTP, no busy call meanwhile, and ended by its caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from extender.pb.podgroup.v1 import extender_pb2
from extender.settings.settings import BindSettings, GrpcSettings, ServerSettings, Settings
from tests.gang.held_binds import GANG, HELD, nodes_of, seated
from tests.gang.rig import Rig
from tests.grpc_api.site import LOCAL, Callers, calling, serving, serving_rig
from tests.server.doubles import Echo

POD = b'{"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {}}'
ON = BindSettings(enabled=True)
FEW = Settings(grpc=GrpcSettings(listen="127.0.0.1:0", max_calls=2), bind=ON)
Code = grpc.StatusCode


def asked(node: str, name: str = "p") -> extender_pb2.BindRequest:
    return extender_pb2.BindRequest(
        pod_name=name, pod_namespace="default", pod_uid="u", node_name=node
    )


async def status(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code()


async def held(callers: Callers, echo: Echo, count: int) -> list[Any]:
    calls = [callers.extender.Bind(asked("held", f"p{i}")) for i in range(count)]
    async with asyncio.timeout(60):
        while len(echo.binds) < count:
            await asyncio.sleep(0.01)
    return calls


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, Callers]]:
    verbs = Echo()
    async with serving(verbs, FEW) as site, calling(site.target) as callers:
        yield verbs, callers


async def test_more_are_held_than_calls_are_answered_at_a_time(echo: tuple[Echo, Callers]) -> None:
    verbs, callers = echo
    calls = [(await held(callers, verbs, 1))[0]]
    for i in range(1, 6):  # one after the other: each is a busy call for a moment
        calls.append(callers.extender.Bind(asked("held", f"p{i}")))
        async with asyncio.timeout(60):
            while len(verbs.binds) <= i:
                await asyncio.sleep(0.01)
    assert (await callers.extender.Filter(extender_pb2.FilterRequest(pod=POD))).unchanged
    verbs.stopping()
    assert {(await call).error for call in calls} == {"stopping"}


async def test_a_caller_whose_deadline_passes_is_gone(echo: tuple[Echo, Callers]) -> None:
    _, callers = echo
    call = callers.extender.Bind(asked("held"), timeout=0.2)
    assert await status(call) is Code.DEADLINE_EXCEEDED
    assert (await callers.extender.Bind(asked("n1"))).error == "n1"


async def test_malformed(echo: tuple[Echo, Callers]) -> None:
    _, callers = echo
    assert await status(callers.extender.Bind(asked(""))) is Code.INVALID_ARGUMENT


async def test_it_is_not_served_unless_configured() -> None:
    async with serving(Echo(), Settings(grpc=LOCAL)) as site, calling(site.target) as callers:
        assert await status(callers.extender.Bind(asked("n1"))) is Code.UNIMPLEMENTED


async def test_a_stop_answers_what_is_held() -> None:
    verbs = Echo()
    settings = Settings(grpc=LOCAL, bind=ON, server=ServerSettings(drain_seconds=5.0))
    async with serving(verbs, settings) as site, calling(site.target) as callers:
        (call,) = await held(callers, verbs, 1)
        site.stop.set()
        assert (await call).error == "stopping"


async def test_a_gang_is_bound_together() -> None:
    async with Rig(HELD) as rig:
        await rig.classes(low=1, high=1000)
        await rig.nodes(4)
        seats = await seated(rig)
        settings = Settings(grpc=LOCAL, bind=ON)
        async with serving_rig(rig, settings) as site, calling(site.target) as callers:

            def bind(name: str) -> Any:
                return callers.extender.Bind(
                    extender_pb2.BindRequest(
                        pod_name=name,
                        pod_namespace="default",
                        pod_uid=rig.cached(name).uid,
                        node_name=seats[name],
                    )
                )

            first = [bind(name) for name in GANG[:2]]
            await rig.until(lambda: rig.coordinator.bindings.barrier.count == 2, "two are held")
            assert set((await nodes_of(rig)).values()) == {""}
            assert [(await call).error for call in (*first, bind("g-2"))] == ["", "", ""]
            assert await nodes_of(rig) == seats
