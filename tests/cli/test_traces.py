"""Lives as spans, as a real receiver gets them, and when it does not do its part."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from structlog.testing import capture_logs

from extender.app import otlp
from extender.app.otlp import Otlp, headers_of
from extender.app.traces import Traces
from extender.check import config
from extender.gang.tell.gang_traces import Life, LifeOutcome, LifeStep
from extender.kube.api_errors import NotFound
from extender.model.errors import InvalidInput
from extender.sandbox.resources import PODS
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate
from extender.settings.tracing import TracingSettings
from tests.cli.live_bed import Live, serving

HERE = TracingSettings(endpoint="http://127.0.0.1:4318")
LIFE = Life(
    gang="pod-group:team/high",
    began=10.0,
    ended=20.0,
    outcome=LifeOutcome.DONE,
    message="all sit",
    priority=7,
    steps=[
        LifeStep(name="search", start=10.0, end=11.5, attributes={"podgroup.proof": "optimal"}),
        LifeStep(name="evict", start=12.0, end=13.0, trouble="2 of its pods are still there"),
    ],
    moments=[LifeStep(name="refused", start=10.0, end=10.0, attributes={"podgroup.code": "x"})],
)


class Held(SpanExporter):
    """Takes a batch and keeps the sending thread until it is let go."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        assert self.go.wait(60)
        return SpanExportResult.SUCCESS


def test_a_life_is_one_trace_with_its_own_times() -> None:
    memory = InMemorySpanExporter()
    traced = Otlp(HERE, "pod-a", memory)
    traced.send(LIFE)
    traced.send(replace(LIFE, outcome=LifeOutcome.GAVE_UP, steps=[], message="no room"))
    assert traced.flush()
    search, evict, gang, second = memory.get_finished_spans()
    assert [each.name for each in (search, evict, gang, second)] == [
        "search",
        "evict",
        "gang",
        "gang",
    ]
    assert gang.parent is None
    for step in (search, evict):
        assert step.parent is not None
        assert step.parent.span_id == gang.context.span_id
        assert step.context.trace_id == gang.context.trace_id
    assert second.context.trace_id != gang.context.trace_id
    assert (gang.start_time, gang.end_time) == (10_000_000_000, 20_000_000_000)
    assert (search.start_time, search.end_time) == (10_000_000_000, 11_500_000_000)
    assert gang.attributes is not None
    assert gang.attributes["podgroup.gang"] == "pod-group:team/high"
    assert gang.attributes["k8s.namespace.name"] == "team"
    assert gang.attributes["podgroup.priority"] == 7
    assert type(gang.attributes["podgroup.outcome"]) is str
    assert gang.attributes["podgroup.outcome"] == "done"
    assert gang.resource.attributes["service.instance.id"] == "pod-a"
    assert gang.status.status_code is StatusCode.OK
    assert second.status.status_code is StatusCode.ERROR
    assert second.status.description == "no room"
    assert evict.status.description == "2 of its pods are still there"
    assert [event.name for event in gang.events] == ["refused"]
    assert traced.counts() == {"sent": 4.0, "failed": 0.0, "dropped": 0.0}
    traced.close().join(60)


def test_what_strangers_write_is_cut() -> None:
    memory = InMemorySpanExporter()
    traced = Otlp(HERE, "pod-a", memory)
    traced.send(replace(LIFE, gang="custom:team/" + "\U0001f600" * 10_000))
    traced.flush()
    for span in memory.get_finished_spans():
        for value in (span.attributes or {}).values():
            assert not isinstance(value, str) or len(value.encode()) <= 512
    traced.close().join(60)


def test_only_a_share_of_gangs_is_sent() -> None:
    memory = InMemorySpanExporter()
    traced = Otlp(replace(HERE, sample_ratio=0.2), "pod-a", memory)
    for _ in range(500):
        traced.send(replace(LIFE, steps=LIFE.steps[:1]))
    traced.flush()
    spans = memory.get_finished_spans()
    # Two spans each of some 100 of 500 gangs: so far from that no binomial comes.
    assert 40 < len(spans) < 500
    traces = {span.context.trace_id for span in spans}
    assert len(spans) == 2 * len(traces), "whole traces only"
    traced.close().join(60)


def test_a_receiver_that_takes_for_ever_costs_spans_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp, "MOST_QUEUED", 30)
    monkeypatch.setattr(otlp, "BATCH", 3)
    held = Held()
    traced = Otlp(HERE, "pod-a", held)
    traced.send(LIFE)
    assert held.entered.wait(60)
    for _ in range(99):
        traced.send(LIFE)  # would wait for ever if it waited at all
    assert traced.counts() == {"sent": 0.0, "failed": 0.0, "dropped": 270.0}
    thread = traced.close()
    assert thread.daemon
    held.go.set()
    thread.join(60)
    assert not thread.is_alive()
    assert traced.counts() == {"sent": 30.0, "failed": 0.0, "dropped": 270.0}


@pytest.mark.parametrize("raises", [True, False])
def test_a_receiver_that_refuses_is_told_once(*, raises: bool) -> None:
    class Refusing(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if raises:
                raise ConnectionError("refused")
            return SpanExportResult.FAILURE

    traced = Otlp(HERE, "pod-a", Refusing())
    with capture_logs() as logs:
        for _ in range(5):
            traced.send(LIFE)
            traced.flush()
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert traced.counts() == {"sent": 0.0, "failed": 15.0, "dropped": 0.0}
    traced.close().join(60)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{endpoint: 'collector:4318'}", "tracing.endpoint must be a URL"),
        ("{endpoint: 'ftp://c'}", "tracing.endpoint must be a URL"),
        ("{endpoint: 'http://c:port'}", "tracing.endpoint must be a URL"),
        ("{endpoint: 'https://u:p@c'}", "must have no user, password"),
        ("{endpoint: 'http://c', headersFile: /f}", "tracing.headersFile needs an endpoint with"),
        ("{endpoint: 'http://c', caFile: /f}", "tracing.caFile needs an endpoint with https"),
        ("{headersFile: /f}", "need tracing.endpoint"),
        ("{endpoint: 'http://c', sampleRatio: 0}", "tracing.sampleRatio must be above 0"),
        ("{endpoint: 'http://c', sampleRatio: 1.5}", "tracing.sampleRatio must be above 0"),
    ],
)
def test_settings_that_cannot_be(section: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        config.parse(f"tracing: {section}")


def test_observe_mode_has_no_traces() -> None:
    with pytest.raises(InvalidInput, match="needs mode: enforce"):
        validate(Settings(mode="observe", tracing=HERE))


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://c:4318", "https://c:4318/v1/traces"),
        ("https://c/", "https://c/v1/traces"),
        ("https://c/otlp/v1/traces", "https://c/otlp/v1/traces"),
    ],
)
def test_the_usual_path_need_not_be_written(endpoint: str, url: str) -> None:
    assert TracingSettings(endpoint=endpoint).url == url


def test_headers_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "headers"
    path.write_text("# a comment\nAuthorization: Bearer abc:def\n\nX-Scope: team\n")
    assert headers_of(str(path)) == {"Authorization": "Bearer abc:def", "X-Scope": "team"}


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (lambda path: None, "cannot be read"),
        (lambda path: path.write_text("secret\n"), "line 1 is not"),
        (lambda path: path.write_text("\nA b: secret\n"), "line 2 is not"),
        (lambda path: path.write_text("A: sec\x01ret\n"), "line 1 has a value"),
        (lambda path: path.write_text("A:\n"), "line 1 has a value"),
        (lambda path: path.write_text(""), "has 0 headers"),
        (lambda path: path.write_text("A: b\n" * 9999), "has more than"),
    ],
)
def test_bad_headers_are_named_and_not_repeated(
    write: Callable[[Path], Any], problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "headers"
    write(path)
    with pytest.raises(InvalidInput, match=problem) as told:
        headers_of(str(path))
    assert "secret" not in str(told.value)


def test_without_the_package_the_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "extender.app.otlp", None)
    with pytest.raises(InvalidInput, match=r"pip install 'podgroup-extender\[otel\]'") as told:
        Traces(Settings(tracing=HERE), "a")
    assert "tracing.endpoint" in str(told.value)
    Traces(Settings(), "a")  # off: it is not asked for


class Receiver:
    """What was sent so far. ``status``: what it answers with."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.headers: list[str] = []
        self.resources: list[dict[str, str]] = []
        self.asked = 0
        self.status = 200
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.headers.append(request.headers.get("Authorization", ""))
        if self.status != 200:
            return web.Response(status=self.status)
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        sent = ExportTraceServiceRequest.FromString(body)
        for each in sent.resource_spans:
            self.resources.append(
                {a.key: a.value.string_value for a in each.resource.attributes},
            )
            for scope in each.scope_spans:
                self.spans += scope.spans
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type="application/x-protobuf")

    async def until(self, name: str) -> Span:
        """The first span of this name, as soon as it is there."""
        async with asyncio.timeout(60):
            while True:
                for span in self.spans:
                    if span.name == name:
                        return span
                await asyncio.sleep(0.05)


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    monkeypatch.setattr(otlp, "DELAY_SECONDS", 0.1)
    found = Receiver()
    app = web.Application()
    app.router.add_post("/v1/traces", found.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


async def seats(live: Live, state: str) -> dict[str, str]:
    """Pod -> node, as soon as the plan of high is in that state."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as web_client:
        while True:
            async with web_client.get(f"{live.url}/debug/reservations") as answer:
                for plan in (await answer.json())["reservations"]:
                    if plan["state"] == state:
                        return {seat["name"]: seat["node"] for seat in plan["seats"]}
            await asyncio.sleep(0.02)


async def played(live: Live) -> None:
    """The gang high asks, low goes, and high is bound."""
    await live.preempt("high-0", "n0")
    await seats(live, "waiting")
    for i in range(4):
        try:
            await live.client.delete(f"{PODS.path('team')}/low-{i}", grace=0)
        except NotFound:
            pass
    for name, node in (await seats(live, "open")).items():
        binding: dict[str, Any] = {"metadata": {"name": name}, "target": {"name": node}}
        await live.client.create(f"{PODS.path('team')}/{name}/binding", binding)


async def metric(live: Live, result: str) -> float:
    name = f'podgroup_extender_trace_spans_total{{result="{result}"}}'
    async with aiohttp.ClientSession() as http, http.get(f"{live.url}/metrics") as answer:
        for line in (await answer.text()).splitlines():
            if line.startswith(name):
                return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


async def test_a_gangs_life_arrives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], receiver: Receiver
) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer token\n")
    tracing = TracingSettings(endpoint=receiver.url, headers_file=str(headers))
    async with serving(tmp_path, capsys, tracing=tracing) as live:
        await played(live)
        root = await receiver.until("gang")
        told = {a.key: a.value for a in root.attributes}
        assert told["podgroup.gang"].string_value == "pod-group:team/high"
        assert told["podgroup.outcome"].string_value == "done"
        assert told["podgroup.priority"].int_value == 100000
        mine = [span for span in receiver.spans if span.trace_id == root.trace_id]
        parts = {span.name: span for span in mine}
        names = {"gang", "search", "record", "evict", "wait for leaving pods", "seats open"}
        assert set(parts) >= names
        for span in mine:
            assert span is root or span.parent_span_id == root.span_id
            assert span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
            assert span.start_time_unix_nano >= root.start_time_unix_nano
        evicted = {a.key: a.value for a in parts["evict"].attributes}
        assert evicted["podgroup.unit"].string_value == "pod-group:team/low"
        assert evicted["podgroup.pods"].int_value == 4
        order = ["record", "wait for leaving pods", "seats open"]
        for before, after in pairwise(order):
            # Two clocks are read: they need not agree to the microsecond.
            slack = 10_000_000
            assert parts[before].end_time_unix_nano <= parts[after].start_time_unix_nano + slack
        assert receiver.resources[0]["service.name"] == "podgroup-extender"
        assert set(receiver.headers) == {"Bearer token"}
        # Counted when the answer is back.
        async with asyncio.timeout(60):
            while await metric(live, "sent") < len(names):
                await asyncio.sleep(0.05)
        assert await metric(live, "dropped") == 0


async def test_a_receiver_that_is_away_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], receiver: Receiver
) -> None:
    receiver.status = 404
    async with serving(tmp_path, capsys, tracing=TracingSettings(endpoint=receiver.url)) as live:
        await played(live)
        async with asyncio.timeout(60):
            while not await metric(live, "failed"):
                await asyncio.sleep(0.05)
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{live.url}/debug/decisions") as answer:
                outcomes = [each["outcome"] for each in (await answer.json())["decisions"]]
            async with http.get(f"{live.url}/readyz") as answer:
                assert answer.status == 200
        assert "done" in outcomes
        assert receiver.asked
        assert await metric(live, "sent") == 0
