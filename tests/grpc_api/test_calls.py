"""One call each way: statuses, texts, metrics, limits, and callers that leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from extender.model.errors import InvalidInput, NotReady, UnknownPod
from extender.pb.podgroup.v1 import extender_pb2
from extender.settings.settings import GrpcSettings, ServerSettings, Settings
from extender.wire.filter_json import FilterArgs, FilterResult
from extender.wire.preempt_json import PreemptArgs
from tests.grpc_api.site import LOCAL, Callers, Site, calling, serving
from tests.server.doubles import Echo, Gate

POD = b'{"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {}}'
FILTER = "/podgroup.v1.ExtenderService/Filter"
Code = grpc.StatusCode


class One:
    """A server around an Echo, and a caller."""

    def __init__(self, verbs: Echo, site: Site, callers: Callers) -> None:
        self.verbs = verbs
        self.site = site
        self.callers = callers

    def filter(self, *names: str, pod: bytes = POD, **more: Any) -> Any:
        asked = extender_pb2.FilterRequest(pod=pod, node_names=names)
        return self.callers.extender.Filter(asked, **more)

    def raw(self, data: bytes, method: str = FILTER) -> Any:
        return self.callers.raw(method)(data)


@pytest.fixture
async def one() -> AsyncIterator[One]:
    verbs = Echo()
    async with serving(verbs) as site, calling(site.target) as callers:
        yield One(verbs, site, callers)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


async def test_the_verbs_are_asked_what_the_caller_says(one: One) -> None:
    answer = await one.filter("n0", "n1")
    assert answer.unchanged
    assert not answer.node_names
    asked = extender_pb2.PrioritizeRequest(pod=POD, node_names=["n0", "n1"])
    scores = (await one.callers.extender.Prioritize(asked)).scores
    assert [(each.node_name, each.score) for each in scores] == [("n0", 3), ("n1", 3)]
    victims = extender_pb2.NodeVictims(pod_uids=["a", "b"], num_pdb_violations=1)
    found = await one.callers.extender.Preempt(
        extender_pb2.PreemptRequest(pod=POD, candidates={"n0": victims})
    )
    assert dict(found.candidates) == {"n0": victims}
    assert [each.pod.name for each in one.verbs.asked] == ["p"] * 3
    assert isinstance(one.verbs.asked[0], FilterArgs)
    assert one.verbs.asked[0].node_names == ["n0", "n1"]
    assert isinstance(one.verbs.asked[2], PreemptArgs)
    assert one.verbs.asked[2].candidates["n0"].uids == ("a", "b")


async def test_refused_nodes_come_by_reason(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    async def some(args: FilterArgs) -> FilterResult:
        return FilterResult(["n3"], {"n4": "later"}, {"n0": "held", "n1": "held", "n2": "another"})

    monkeypatch.setattr(one.verbs, "filter", some)
    answer = await one.filter("n0", "n1", "n2", "n3", "n4")
    assert not answer.unchanged
    assert list(answer.node_names) == ["n3"]
    assert [(each.reason, list(each.node_names)) for each in answer.failed_and_unresolvable] == [
        ("held", ["n0", "n1"]),
        ("another", ["n2"]),
    ]
    assert [(each.reason, list(each.node_names)) for each in answer.failed] == [("later", ["n4"])]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InvalidInput("is odd", "Pod.spec"), Code.INVALID_ARGUMENT, "Pod.spec: is odd"),
        (NotReady("another replica leads"), Code.UNAVAILABLE, "another replica leads"),
        (UnknownPod("no such pod"), Code.FAILED_PRECONDITION, "no such pod"),
        (InvalidInput("x" * 100_000), Code.INVALID_ARGUMENT, "x" * 1000),
        (RuntimeError("secret"), Code.INTERNAL, "internal error, see the log"),
    ],
)
async def test_an_error_becomes_its_status(
    one: One, error: Exception, code: grpc.StatusCode, text: str
) -> None:
    one.verbs.fail_with(error)
    assert await refused(one.filter("n0")) == (code, text)
    labels = f'code="{code.name}",transport="grpc",verb="filter"'
    assert f"requests_total{{{labels}}} 1.0" in one.site.scrape()
    one.verbs.hook = None
    assert (await one.filter("n0")).unchanged, "the next call is answered"


async def test_filters_own_error_is_unavailable(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP it travels in a 200, where kube-scheduler looks for it."""

    async def stale(args: FilterArgs) -> FilterResult:
        return FilterResult([], error="the cache is stale")

    monkeypatch.setattr(one.verbs, "filter", stale)
    assert await refused(one.filter("n0")) == (Code.UNAVAILABLE, "the cache is stale")


BROKEN = [
    b"\xff",
    b"{not json",
    b"\x0a\xff\xff\xff\xff\x0f",  # a pod of 4 GiB, cut off
    extender_pb2.FilterRequest(pod=b"{", node_names=["n"]).SerializeToString(),
    extender_pb2.FilterRequest(pod=b"null").SerializeToString(),
    extender_pb2.FilterRequest(pod=b"[" * 100_000).SerializeToString(),
    b"\x12\x02\xc3\x28",  # a node name that is not UTF-8
]


@pytest.mark.parametrize("data", BROKEN)
async def test_a_malformed_message_is_answered_and_counted(one: One, data: bytes) -> None:
    for method in ("Filter", "Prioritize", "Preempt"):
        code, text = await refused(one.raw(data, f"/podgroup.v1.ExtenderService/{method}"))
        assert code is Code.INVALID_ARGUMENT
        assert text
    assert one.verbs.asked == []
    for verb in ("filter", "prioritize", "preempt"):
        assert f'bad_input_total{{transport="grpc",verb="{verb}"}} 1.0' in one.site.scrape()


@pytest.mark.parametrize(
    ("victims", "where"),
    [
        (extender_pb2.NodeVictims(pod_uids=["a", ""]), "pod_uids[1]"),
        (extender_pb2.NodeVictims(num_pdb_violations=-1), "num_pdb_violations"),
    ],
)
async def test_bad_candidates_are_named(
    one: One, victims: extender_pb2.NodeVictims, where: str
) -> None:
    asked = extender_pb2.PreemptRequest(pod=POD, candidates={"n7": victims})
    code, text = await refused(one.callers.extender.Preempt(asked))
    assert code is Code.INVALID_ARGUMENT
    assert where in text
    assert "n7" in text


async def test_unknown_methods_are_unimplemented(one: One) -> None:
    code, _ = await refused(one.raw(b"", "/podgroup.v1.ExtenderService/Bind"))
    assert code is Code.UNIMPLEMENTED


async def test_too_large_a_message_is_refused_before_it_is_read() -> None:
    settings = Settings(grpc=LOCAL, server=ServerSettings(max_body_bytes=64 * 1024))
    verbs = Echo()
    async with serving(verbs, settings) as site, calling(site.target) as callers:
        asked = extender_pb2.FilterRequest(pod=b" " * 70_000)
        code, text = await refused(callers.extender.Filter(asked))
        assert code is Code.RESOURCE_EXHAUSTED
        assert "65536" in text
        asked = extender_pb2.FilterRequest(pod=POD, node_names=["n" * 60_000])
        assert (await callers.extender.Filter(asked)).unchanged
    assert len(verbs.asked) == 1


async def test_one_call_too_many_is_refused_and_those_before_it_answered() -> None:
    settings = Settings(grpc=GrpcSettings(listen="127.0.0.1:0", max_calls=2))
    verbs, gate = Echo(), Gate()
    verbs.hook = gate
    async with serving(verbs, settings) as site, calling(site.target) as callers:
        asked = extender_pb2.FilterRequest(pod=POD)
        first = [asyncio.ensure_future(_call(callers.extender.Filter(asked))) for _ in range(2)]
        while len(verbs.asked) < 2:
            await asyncio.sleep(0.005)
        code, text = await refused(callers.extender.Filter(asked))
        assert (code, text) == (Code.RESOURCE_EXHAUSTED, "2 calls are being answered already")
        gate.opened.set()
        assert all(answer.unchanged for answer in await asyncio.gather(*first))


async def _call(call: Any) -> Any:
    return await call


async def test_a_caller_that_leaves_is_not_waited_for_and_its_verb_goes_on() -> None:
    settings = Settings(grpc=GrpcSettings(listen="127.0.0.1:0", max_calls=1))
    verbs, gate = Echo(), Gate()
    finished: list[bool] = []

    async def work() -> None:
        await gate()
        finished.append(True)

    verbs.hook = work
    async with serving(verbs, settings) as site, calling(site.target) as callers:
        asked = extender_pb2.FilterRequest(pod=POD)
        call = callers.extender.Filter(asked)
        waiting = asyncio.ensure_future(_call(call))
        await gate.entered.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        labels = 'code="CANCELLED",transport="grpc",verb="filter"'
        await until(lambda: f"requests_total{{{labels}}} 1.0" in site.scrape())
        code, _ = await refused(callers.extender.Filter(asked))
        assert code is Code.RESOURCE_EXHAUSTED, "it takes its place until it is through"
        gate.opened.set()
        await until(lambda: finished)
        await until(lambda: not site.server.calls._left)
        assert (await callers.extender.Filter(asked)).unchanged


async def test_a_deadline_ends_the_waiting(one: One) -> None:
    gate = Gate()
    one.verbs.hook = gate
    code, _ = await refused(one.filter("n0", timeout=0.2))
    assert code is Code.DEADLINE_EXCEEDED
    await until(lambda: 'transport="grpc",verb="filter"} 1.0' in one.site.scrape())
    gate.opened.set()


async def until(fine: Any) -> None:
    async with asyncio.timeout(60):
        while not fine():
            await asyncio.sleep(0.01)


async def test_stopping_answers_calls_in_preemption() -> None:
    verbs, gate = Echo(), Gate()
    verbs.hook = gate
    async with serving(verbs) as site, calling(site.target) as callers:
        asked = extender_pb2.FilterRequest(pod=POD)
        call = asyncio.ensure_future(_call(callers.extender.Filter(asked)))
        await gate.entered.wait()
        site.stop.set()
        await asyncio.sleep(0)
        gate.opened.set()
        assert (await call).unchanged


async def test_what_lasts_longer_than_the_drain_is_told_so() -> None:
    settings = Settings(grpc=LOCAL, server=ServerSettings(drain_seconds=0.1))
    verbs, gate = Echo(), Gate()
    verbs.hook = gate
    async with serving(verbs, settings) as site, calling(site.target) as callers:
        asked = extender_pb2.FilterRequest(pod=POD)
        call = asyncio.ensure_future(refused(callers.extender.Filter(asked)))
        await gate.entered.wait()
        site.stop.set()
        code, text = await call
        assert code is Code.UNAVAILABLE
        assert text == "stopping: the time for open calls is over"
