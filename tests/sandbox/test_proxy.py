"""The proxy passes everything through, and strikes between two evictions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.kube.api_errors import ApiError, Conflict, NotFound
from extender.kube.client import KubeClient
from extender.kube.credentials import Access
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.proxy import ApiProxy
from tests.event_time import passes
from tests.sandbox.conftest import pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def proxy(server: ApiServer) -> AsyncIterator[ApiProxy]:
    proxy = ApiProxy(Access(server=server.url))
    await proxy.start()
    yield proxy
    await proxy.close()


@pytest.fixture
async def through(proxy: ApiProxy) -> AsyncIterator[KubeClient]:
    async with await KubeClient.connect(server=proxy.url) as client:
        yield client


async def test_reads_writes_errors_and_watches_pass(through: KubeClient) -> None:
    made = await through.create(PODS, pod("a"))
    await through.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
    with pytest.raises(Conflict):
        await through.create(PODS, pod("a"))
    with pytest.raises(NotFound):
        await through.get(f"{PODS}/b")
    found = await through.get(PODS, params={"labelSelector": "x=1"})
    assert [item["metadata"]["uid"] for item in found["items"]] == [made["metadata"]["uid"]]
    async for line in through.stream("/api/v1/pods", {"watch": True, "resourceVersion": "0"}):
        assert b"ADDED" in line
        break


async def test_it_strikes_after_the_first_of_many_and_lets_no_second_one_through(
    proxy: ApiProxy, through: KubeClient, client: KubeClient
) -> None:
    names = [f"p{i}" for i in range(6)]
    for name in names:
        await client.create(PODS, pod(name))
    victim = await KubeClient.connect(server=proxy.url)

    async def kill() -> None:
        await victim.close()

    proxy.strike_after(1, kill)
    await victim.delete(f"{PODS}/p0", dry_run=True)
    done = await asyncio.gather(
        *(victim.delete(f"{PODS}/{name}") for name in names), return_exceptions=True
    )
    assert all(isinstance(each, (ApiError, RuntimeError)) for each in done)
    await passes(3)
    assert len((await through.get(PODS))["items"]) == 5
    assert proxy.evictions == 1
    await through.delete(f"{PODS}/{names[-1]}")
    assert proxy.evictions == 2


async def test_an_api_server_that_is_gone_is_a_bad_gateway(
    server: ApiServer, through: KubeClient
) -> None:
    await server.close()
    with pytest.raises(ApiError) as refused:
        await through.get(PODS)
    assert refused.value.status == 502
