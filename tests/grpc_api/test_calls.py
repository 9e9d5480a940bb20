"""One call each way: statuses, texts, metrics, callers that leave, and a server that stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any, cast

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from extender.grpc_api import decision_watch
from extender.grpc_api.calls import Calls
from extender.grpc_api.library_logs import LIBRARY
from extender.grpc_api.peers import cut
from extender.grpc_api.seats import SeatBoard
from extender.grpc_api.verb_methods import VerbMethods
from extender.model.errors import InvalidInput, NotReady, UnknownPod
from extender.pb.podgroup.v1 import extender_pb2
from extender.server.limits import Load
from extender.server.metrics import Metrics
from extender.settings.settings import BindSettings, GrpcSettings, ServerSettings, Settings
from extender.wire.filter_json import FilterArgs, FilterResult
from extender.wire.preempt_json import PreemptArgs
from tests.gang.held_binds import GANG, HELD, nodes_of, seated
from tests.gang.rig import Rig
from tests.grpc_api.site import LOCAL, Callers, Site, calling, serving, serving_rig
from tests.grpc_api.test_decisions import made
from tests.grpc_api.test_seats import Terms, ended
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


ON = BindSettings(enabled=True)
FEW = Settings(grpc=GrpcSettings(listen="127.0.0.1:0", max_calls=2), bind=ON)


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


def connected(family: socket.AddressFamily, host: str) -> tuple[socket.socket, socket.socket]:
    """(a caller's end, the server's end) of a new connection."""
    with socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as listener:
        address = "127.0.0.1" if host == "::" else host
        caller = socket.create_connection((address, listener.getsockname()[1]))
        server, _ = listener.accept()
    return caller, server


@pytest.mark.parametrize(
    ("host", "peer"),
    [("127.0.0.1", "ipv4:127.0.0.1:{}"), ("::1", "ipv6:%5B::1%5D:{}"), ("::", "ipv4:127.0.0.1:{}")],
)
def test_the_named_connection_is_closed_and_no_other(host: str, peer: str) -> None:
    """On a socket for both families an IPv4 caller has an address of the other kind."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    (caller, server), (other, others) = connected(family, host), connected(family, host)
    with caller, server, other, others:
        assert cut(peer.format(caller.getsockname()[1]))
        assert caller.recv(1) == b""
        others.sendall(b"x")
        assert other.recv(1) == b"x"


@pytest.mark.parametrize(
    "peer", ["unix:", "unix:/run/s", "ipv4:127.0.0.1:1", "ipv4:127.0.0.1", "", "ipv4:x:y"]
)
def test_who_is_not_there_or_has_no_name(peer: str) -> None:
    assert not cut(peer)


async def test_a_caller_that_was_gone_first_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Found by tests.fuzz.grpc_wire: a traceback for each call, as often as somebody liked."""
    library = logging.getLogger(LIBRARY)
    async with serving(Echo()):
        for error in (grpc.aio.InternalError("Failed"), RuntimeError("a fault")):
            try:
                raise error
            except Exception:
                library.exception("%s raised by servicer method [/x]", type(error).__name__)
    found = [each.getMessage() for each in caplog.records if each.name == library.name]
    assert found == ["RuntimeError raised by servicer method [/x]"]


class Gone:
    """A call whose caller went before it could be told how it ends, as grpcio shows that."""

    def __init__(self) -> None:
        self.tried: list[grpc.StatusCode] = []

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        self.tried.append(code)
        if len(self.tried) > 1:
            raise grpc.aio.UsageError("Abort already called!")
        raise grpc.aio.InternalError("Failed")


async def test_nor_is_it_one_that_it_is_told_in_vain() -> None:
    """It was logged with two tracebacks: of the telling, and of telling that the telling failed."""
    call = Gone()

    async def work(given: Any) -> None:
        await given.abort(grpc.StatusCode.NOT_FOUND, "there is no service")

    async with serving(Echo()) as site:
        with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
            await site.server.calls.beside("health", 1, work)(None, cast("Any", call))
    assert call.tried == [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.CANCELLED]
    assert [each for each in logs if each["log_level"] == "error"] == []


LARGE = b"x" * (1 << 20)
"""More than the window that a reader has who does not read."""
_sent: list[bytes] = []
"""What was encoded to be sent."""


def _large(*_: object) -> bytes:
    _sent.append(LARGE)
    return LARGE


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    _sent.clear()
    monkeypatch.setattr(decision_watch, "_encoded", _large)
    settings = Settings(grpc=LOCAL, server=ServerSettings(drain_seconds=0.1))
    async with serving(Echo(), settings, Terms()) as found:
        yield found


async def first_of(site: Site, callers: Callers) -> Any:
    """A watch whose first message is being sent and cannot arrive."""
    call = callers.raw_stream("/podgroup.v1.WatchService/WatchDecisions")(b"")
    await until(site.server.calls.streams)
    # A call that is counted is not yet one that waits for decisions.
    deadline = time.monotonic() + 60
    for number in count(1):
        site.feed.add(made(number))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await until(lambda: bool(_sent))
            break
        assert time.monotonic() < deadline, "nothing is sent"
    # The window is full long before this is over; nothing tells when.
    await asyncio.sleep(0.1)
    return call


@pytest.fixture
def _no_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.usefixtures("_no_error")
async def test_a_first_message_that_is_being_sent_arrives_before_the_end(site: Site) -> None:
    async with calling(site.target) as callers:
        call = await first_of(site, callers)
        site.stop.set()
        await asyncio.sleep(0.05)
        assert await asyncio.wait_for(call.read(), 60) == LARGE
        assert await ended(call) == (Code.UNAVAILABLE, "stopping")


@pytest.mark.usefixtures("_no_error")
async def test_a_reader_that_does_not_read_is_cut_off(site: Site) -> None:
    async with calling(site.target) as callers:
        call = await first_of(site, callers)
        site.stop.set()
        await until(lambda: not site.server.calls.streams())
        assert (await ended(call))[0] in (Code.UNAVAILABLE, Code.CANCELLED)


@pytest.mark.usefixtures("_no_error")
@pytest.mark.parametrize("turns", range(20))
async def test_a_stop_between_a_message_and_the_news_that_it_is_sent(turns: int) -> None:
    async with serving(Echo(), context=Terms()) as site, calling(site.target) as callers:
        watch = callers.raw_stream("/podgroup.v1.WatchService/WatchSeats")
        calls = [watch(b"") for _ in range(8)]
        for _ in range(turns):
            await asyncio.sleep(0)
        site.stop.set()
        for call in calls:
            # The library cancels what it had not handed over yet.
            assert (await ended(call))[0] in (Code.UNAVAILABLE, Code.CANCELLED)


WHOLE = [
    extender_pb2.FilterRequest(pod=POD, node_names=["n0", "n1"]).SerializeToString(),
    extender_pb2.PreemptRequest(
        pod=POD, candidates={"n0": extender_pb2.NodeVictims(pod_uids=["a"], num_pdb_violations=1)}
    ).SerializeToString(),
]


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A whole question with some bytes changed, cut off or put in."""
    data = bytearray(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 2)):
            case 0:
                data[place:] = b""
            case 1:
                data[place : place + 1] = draw(st.binary(max_size=3))
            case _:
                data[place:place] = draw(st.binary(max_size=9))
    return bytes(data)


@settings(max_examples=300, deadline=None)
@given(data=st.one_of(st.binary(max_size=200), spoilt()))
def test_any_bytes(data: bytes) -> None:
    async def ask() -> None:
        metrics = Metrics()
        nobody = cast("Any", None)
        options = Settings()
        every = Calls(metrics, options, nobody, Load(options.server))
        calls = VerbMethods(Echo(), every, SeatBoard(nobody, "x"))
        for verb in (calls.filter, calls.prioritize, calls.preempt):
            with contextlib.suppress(InvalidInput):
                message, nodes_in, nodes_out = await verb(data, nobody)
                message.SerializeToString()
                assert nodes_in >= 0 <= nodes_out
        metrics.close()

    asyncio.run(ask())
