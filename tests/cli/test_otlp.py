"""Lives as spans, and what becomes of them when the receiver does not do its part."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
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
from extender.model.errors import InvalidInput
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate
from extender.settings.tracing import TracingSettings

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
