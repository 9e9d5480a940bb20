"""Lives of gangs as OpenTelemetry spans, sent over OTLP/HTTP by a thread of the SDK.

The only place that knows the SDK; loaded only where ``tracing.endpoint`` is set. What the receiver
does, or does not, delays nothing here: a life is handed over in memory, what does not fit into the
queue is dropped and counted, and trouble is told once an hour.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from extender import __version__
from extender.gang.tell.gang_traces import LONGEST, Life, LifeOutcome, LifeStep, Value
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey
from extender.model.texts import counted, cut
from extender.settings.tracing import TracingSettings

log = structlog.get_logger("traces")

SERVICE: Final = "podgroup-extender"
MOST_QUEUED: Final = 8192
"""Spans that wait for the receiver, those being sent among them; some ten megabytes."""
BATCH: Final = 512
DELAY_SECONDS: Final = 2.0
SEND_SECONDS: Final = 10.0
"""One request, its repetitions included."""
TELL_SECONDS: Final = 3600.0
MOST_HEADERS: Final = 64
MOST_HEADER_BYTES: Final = 8192


class Sending(SpanExporter):
    """Counts what another exporter does, keeps its errors to itself, and tells them seldom."""

    def __init__(self, exporter: SpanExporter, now: Callable[[], float] = time.monotonic) -> None:
        self._exporter = exporter
        self._now = now
        self._told = float("-inf")
        self.counts = {"sent": 0, "failed": 0}
        """Written by the sending thread."""
        self.complaint = ""
        """What the SDK has logged last."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        self.complaint = ""
        try:
            result = self._exporter.export(spans)
        except Exception as error:
            self.complaint = f"{type(error).__name__}: {error}"
            result = SpanExportResult.FAILURE
        fine = result is SpanExportResult.SUCCESS
        self.counts["sent" if fine else "failed"] += len(spans)
        if not fine and self._now() - self._told >= TELL_SECONDS:
            self._told = self._now()
            why = cut(self.complaint, 2 * LONGEST) or "no reason is known"
            log.warning("traces are not sent, which costs nothing else", error=why)
        return result

    def shutdown(self) -> None:
        """End what is under way."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return at once: nothing is kept here."""
        return True


class Bounded(SpanProcessor):
    """Takes spans as long as few wait, counts the others."""

    def __init__(self, sending: Sending, inner: SpanProcessor) -> None:
        self._sending = sending
        self._inner = inner
        self._taken = 0
        self.dropped = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Hand a span to the sending thread, or drop it."""
        if self._taken - sum(self._sending.counts.values()) >= MOST_QUEUED:
            self.dropped += 1
            return
        self._taken += 1
        self._inner.on_end(span)

    def shutdown(self) -> None:
        """Send what waits."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Send what waits now, on the caller's thread."""
        return self._inner.force_flush(timeout_millis)


class _Complaints(logging.Handler):
    """Keeps the SDK's log lines from our log: one a batch would be one every few seconds."""

    def __init__(self, sending: Sending) -> None:
        super().__init__(logging.WARNING)
        self._sending = sending

    def emit(self, record: logging.LogRecord) -> None:
        self._sending.complaint = record.getMessage()


class Otlp:
    """Where lives are sent. One event loop calls; ``exporter`` is another one in tests."""

    def __init__(
        self, settings: TracingSettings, identity: str, exporter: SpanExporter | None = None
    ) -> None:
        """Raises InvalidInput when a file cannot be read as configured."""
        self._sending = Sending(exporter or _exporter(settings))
        batches = BatchSpanProcessor(
            self._sending,
            max_queue_size=MOST_QUEUED,
            schedule_delay_millis=DELAY_SECONDS * 1000,
            max_export_batch_size=BATCH,
        )
        self._bounded = Bounded(self._sending, batches)
        resource = {
            "service.name": SERVICE,
            "service.version": __version__,
            "service.instance.id": identity,
        }
        self._provider = TracerProvider(
            sampler=TraceIdRatioBased(settings.sample_ratio),
            resource=Resource.create(resource),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(self._bounded)
        self._tracer = self._provider.get_tracer(SERVICE, __version__)
        library = logging.getLogger("opentelemetry")
        library.handlers[:] = [_Complaints(self._sending)]
        library.propagate = False

    def counts(self) -> Mapping[str, float]:
        """Return what became of spans so far."""
        counts = {**self._sending.counts, "dropped": self._bounded.dropped}
        return {result: float(count) for result, count in counts.items()}

    def send(self, life: Life) -> None:
        """Make a trace of a life that is over. Waits for nothing."""
        key = GangKey.read(life.gang)
        attributes: dict[str, Value] = {
            "podgroup.gang": cut(life.gang, 2 * LONGEST),
            "k8s.namespace.name": cut(key.namespace, LONGEST),
            "podgroup.dialect": cut(key.dialect, LONGEST),
            "podgroup.outcome": str(life.outcome or ""),
            "podgroup.message": life.message,
        }
        if life.priority is not None:
            attributes["podgroup.priority"] = life.priority
        if life.left_out:
            attributes["podgroup.left_out"] = life.left_out
        root = self._tracer.start_span(
            "gang", Context(), attributes=attributes, start_time=_ns(life.began)
        )
        if root.is_recording():
            context = set_span_in_context(root)
            for step in life.steps:
                span = self._tracer.start_span(
                    step.name, context, attributes=step.attributes, start_time=_ns(step.start)
                )
                if step.trouble:
                    span.set_status(Status(StatusCode.ERROR, cut(step.trouble, LONGEST)))
                span.end(_ns(max(step.start, step.end)))
            for moment in life.moments:
                root.add_event(moment.name, _told(moment), _ns(moment.start))
        if life.outcome in (LifeOutcome.DONE, LifeOutcome.SEATED):
            root.set_status(Status(StatusCode.OK))
        elif life.outcome is LifeOutcome.GAVE_UP:
            root.set_status(Status(StatusCode.ERROR, life.message))
        root.end(_ns(max(life.began, life.ended)))

    def flush(self) -> bool:
        """Send what waits, on the caller's thread; for tests."""
        return self._provider.force_flush()

    def close(self) -> threading.Thread:
        """Begin to send what waits, and take nothing more; return the thread that does it.

        It may take as long as the receiver likes: whoever stops waits as long as that is worth,
        and a daemon thread keeps no process.
        """
        thread = threading.Thread(target=self._provider.shutdown, daemon=True, name="traces")
        thread.start()
        return thread


def _told(moment: LifeStep) -> dict[str, Value]:
    trouble = {"podgroup.message": cut(moment.trouble, LONGEST)} if moment.trouble else {}
    return {**moment.attributes, **trouble}


def _ns(seconds: float) -> int:
    return max(0, round(seconds * 1e9))


def _exporter(settings: TracingSettings) -> SpanExporter:
    if settings.ca_file and not Path(settings.ca_file).is_file():
        raise InvalidInput("is no file", f"tracing.caFile: {settings.ca_file}")
    return OTLPSpanExporter(
        endpoint=settings.url,
        certificate_file=settings.ca_file or None,
        headers=headers_of(settings.headers_file),
        timeout=SEND_SECONDS,
    )


def headers_of(path: str) -> dict[str, str]:
    """Return the headers of a file, one "Name: value" a line. Raises InvalidInput, which names
    lines and repeats no value."""
    if not path:
        return {}
    place = f"tracing.headersFile: {path}"
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_HEADER_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", place) from None
    if len(data) > MOST_HEADER_BYTES:
        raise InvalidInput(f"has more than {MOST_HEADER_BYTES} bytes", place)
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode("latin-1").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        token = name.replace("-", "").replace("_", "")
        if not (colon and token.isascii() and token.isalnum()):
            raise InvalidInput(f'line {number} is not "Name: value"', place)
        if not value or not value.isascii() or not value.isprintable():
            raise InvalidInput(f"line {number} has a value that no header may have", place)
        found[name] = value
    if not 0 < len(found) <= MOST_HEADERS:
        raise InvalidInput(
            f"has {counted(len(found), 'header')}; 1 to {MOST_HEADERS} are possible", place
        )
    return found
