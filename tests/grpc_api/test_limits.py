"""What a caller can make the gRPC side hold, and for how long: the limits of HTTP.

See docs/security.md, row 8.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from msgspec.structs import replace

from extender.grpc_api.health import MOST
from extender.pb.podgroup.v1 import extender_pb2
from extender.settings.settings import GrpcSettings, ServerSettings, Settings
from tests.grpc_api.frames import Raw, message
from tests.grpc_api.site import LOCAL, Site, calling, serving
from tests.grpc_api.test_calls import FILTER, POD, refused, until
from tests.server.doubles import Echo, Gate

Code = grpc.StatusCode
QUESTION = extender_pb2.FilterRequest(pod=POD, node_names=["n0"])
SHORT = ServerSettings(
    max_body_bytes=64 * 1024,
    max_bytes_in_flight=256 * 1024,
    max_connections=4,
    head_seconds=0.5,
    body_seconds=0.3,
)
PATIENT = replace(SHORT, head_seconds=5.0, body_seconds=2.0)
"""Where a caller has to be answered as well: a busy machine takes its time."""
SEATS = "/podgroup.v1.WatchService/WatchSeats"


def port(site: Site) -> int:
    return int(site.target.rpartition(":")[2])


async def counted(site: Site, reason: str) -> None:
    await until(lambda: f'refused_total{{reason="{reason}"}}' in site.scrape())


@pytest.mark.parametrize("half", [b"", message(b"half", announced=1000)])
async def test_a_message_that_does_not_come(half: bytes) -> None:
    async with serving(Echo(), Settings(grpc=LOCAL, server=SHORT)) as site:
        async with Raw(port(site)) as raw:
            raw.data(raw.call(FILTER), half)
            said = await raw.until(b"no complete message within 0.3 s")
            assert b"grpc-status\x014" in said, "DEADLINE_EXCEEDED"
        await counted(site, "body-late")
        assert site.load.budget.held == 0
        assert 'code="DEADLINE_EXCEEDED",transport="grpc",verb="filter"} 1.0' in site.scrape()


async def test_no_message_at_all() -> None:
    async with serving(Echo()) as site, Raw(port(site)) as raw:
        raw.data(raw.call(FILTER), b"", end=True)
        assert b"grpc-status\x013" in await raw.until(b"no message came"), "INVALID_ARGUMENT"


async def test_bytes_being_read_are_taken_from_the_budget_of_http() -> None:
    """At the largest that a message may be: its size is known when it is there."""
    gate, verbs = Gate(), Echo()
    verbs.hook = gate
    async with serving(verbs, Settings(grpc=LOCAL, server=PATIENT)) as site:
        budget = site.load.budget
        async with Raw(port(site)) as raw, calling(site.target) as callers:
            raw.data(raw.call(FILTER), message(b"half", announced=1000))
            await until(lambda: budget.held == PATIENT.max_body_bytes)
            call = asyncio.ensure_future(_of(callers.extender.Filter(QUESTION)))
            await gate.entered.wait()
            await until(lambda: budget.held == QUESTION.ByteSize())  # the other was late
            gate.opened.set()
            await call
        assert budget.held == 0


async def _of(call: Any) -> Any:
    return await call


async def test_without_room_a_call_waits_and_then_is_refused() -> None:
    verbs = Echo()
    async with serving(verbs, Settings(grpc=LOCAL, server=PATIENT)) as site:
        budget = site.load.budget
        budget.take(budget.limit, 0)  # by bodies over HTTP
        async with calling(site.target) as callers:
            code, text = await refused(callers.extender.Filter(QUESTION))
            assert code is Code.RESOURCE_EXHAUSTED
            assert text == "the bodies being read exceed 262144 bytes; try again"
            await counted(site, "bytes")
            assert not verbs.asked
            call = asyncio.ensure_future(_of(callers.extender.Filter(QUESTION)))
            await until(lambda: site.server.calls.working)
            budget.give(budget.limit)
            assert (await call).unchanged
        assert budget.held == 0


async def test_a_message_that_nobody_wants_is_not_read() -> None:
    """Who may not call, or comes when there is no place, is told so before it has sent all."""
    verbs, gate = Echo(), Gate()
    verbs.hook = gate
    settings = Settings(grpc=GrpcSettings(listen="127.0.0.1:0", max_calls=1))
    async with serving(verbs, settings) as site, calling(site.target) as callers:
        call = asyncio.ensure_future(_of(callers.extender.Filter(QUESTION)))
        await gate.entered.wait()
        async with Raw(port(site)) as raw:
            raw.data(raw.call(FILTER), message(b"half", announced=10_000_000))
            assert b"grpc-status\x018" in await raw.until(b"1 call is being answered already")
        gate.opened.set()
        await call


async def test_an_answer_that_is_not_read() -> None:
    """It keeps its place until its connection is closed, which is done at once."""
    settings = Settings(grpc=GrpcSettings(listen="127.0.0.1:0", max_calls=1), server=PATIENT)
    async with serving(Echo(), settings) as site:
        async with Raw(port(site), window=0) as raw:
            raw.data(raw.call(FILTER), message(QUESTION.SerializeToString()), end=True)
            await raw.closed()
        await counted(site, "answer-not-read")
        async with calling(site.target) as callers:
            await until_answered(callers)


async def until_answered(callers: Any) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                answer = await callers.extender.Filter(QUESTION)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.01)
                continue
            assert answer.unchanged
            return


async def test_connections_are_bounded_and_places_come_back() -> None:
    async with serving(Echo(), Settings(grpc=LOCAL, server=PATIENT)) as site:
        crowd = [Raw(port(site)) for _ in range(4)]
        for raw in crowd:
            await raw.__aenter__()
            raw.call(FILTER)
            await raw.until(b"\0")
        async with Raw(port(site)) as more:
            await more.closed()
        for raw in crowd:
            raw.writer.close()
        async with calling(site.target) as callers:
            await until_answered(callers)


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with serving(Echo(), Settings(grpc=LOCAL, server=SHORT)) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", port(site))
        async with asyncio.timeout(60):
            while await reader.read(1000):
                pass
        writer.close()


async def test_headers_are_bounded() -> None:
    async with serving(Echo()) as site, calling(site.target) as callers:
        code, _ = await refused(
            callers.extender.Filter(QUESTION, metadata=(("x-long", "a" * 17_000),))
        )
        assert code is Code.RESOURCE_EXHAUSTED


async def test_watchers_of_health_keep_nobody_out() -> None:
    async with serving(Echo()) as site, calling(site.target) as callers:
        stub: Any = health_pb2_grpc.HealthStub(callers.channel)
        watches = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(200)]
        told = await asyncio.gather(*map(_of_stream, watches))
        assert told.count("SERVING") == MOST
        assert told.count(f"{MOST} calls about health are open already") == 200 - MOST
        assert (await callers.extender.Filter(QUESTION)).unchanged
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def _of_stream(watch: Any) -> str:
    try:
        answer = await watch.read()
    except grpc.aio.AioRpcError as error:
        return error.details() or ""
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


async def test_a_watch_that_asks_at_length_is_refused() -> None:
    """What it asks is kept as long as it is open."""
    async with serving(Echo()) as site, calling(site.target) as callers:
        watch = callers.raw_stream(SEATS)(b"\xfa\x01\x80\x80\x10" + b" " * 262_144)
        code, text = await refused(watch.read())
        assert code is Code.INVALID_ARGUMENT
        assert "65536" in text


async def test_verbs_of_both_transports_take_turns() -> None:
    verbs, gate = Echo(), Gate()
    verbs.hook = gate
    turn = asyncio.Event()
    async with serving(verbs) as site, calling(site.target) as callers:
        site.load.turns.take = turn.wait  # type: ignore[method-assign, assignment]
        calls = [asyncio.ensure_future(_of(callers.extender.Filter(QUESTION)))]
        await gate.entered.wait()  # alone: at work without a turn
        calls += [asyncio.ensure_future(_of(callers.extender.Filter(QUESTION))) for _ in range(5)]
        await until(lambda: site.server.calls.working == 6)
        stub: Any = health_pb2_grpc.HealthStub(callers.channel)
        await stub.Check(health_pb2.HealthCheckRequest())
        assert len(verbs.asked) == 1
        gate.opened.set()
        turn.set()
        assert all(answer.unchanged for answer in await asyncio.gather(*calls))


@pytest.mark.parametrize("flagged", [False, True])
async def test_nothing_is_unpacked(*, flagged: bool) -> None:
    """A MiB of packed zeros is a GiB, which the library makes before it looks at the size."""
    asked = QUESTION.SerializeToString() + b"\xfa\x01\x80\x80\x80\x02" + b" " * (4 << 20)
    packed = gzip.compress(asked)
    verbs = Echo()
    async with serving(verbs) as site, Raw(port(site)) as raw:
        more = (("grpc-encoding", "gzip"),) if flagged else ()
        stream = raw.call(FILTER, *more)
        raw.data(stream, b"\1" + message(packed)[1:], end=True)
        said = await raw.until(b"grpc-message")
        assert b"grpc-status\x010" not in said
        assert not verbs.asked
        async with calling(site.target) as callers:
            assert (await callers.extender.Filter(QUESTION)).unchanged
