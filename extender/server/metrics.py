"""Prometheus metrics, in a registry of their own.

Rooms below cannot import this one: they are given bound methods (``decided``,
``evicted``) or asked through callables (``source``) at the moment of a scrape.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from structlog import get_logger

PREFIX = "podgroup_extender_"
LATENCY = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
PAUSES = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
MOST_LOSERS = 1000
"""Namespaces and priorities that lost work is counted for: names have no end. What more of them
lose counts for none."""


class VerbMetrics:
    """The counters of one verb over one transport ("http" or "grpc"), looked up once."""

    def __init__(self, metrics: Metrics, verb: str, transport: str) -> None:
        self._metrics = metrics
        self._verb = verb
        self._transport = transport
        self._codes: dict[int | str, Counter] = {}
        self._seconds = metrics.seconds.labels(verb, transport)
        self._bytes = metrics.body_bytes.sums(verb, transport)
        self._nodes = metrics.nodes.sums(verb, transport)
        self._bad = metrics.bad_input.labels(verb, transport)

    def answered(self, code: int | str, seconds: float, bytes_in: int, bytes_out: int) -> None:
        """Count one call, whatever came of it."""
        counter = self._codes.get(code)
        if counter is None:
            labels = self._metrics.requests.labels(self._verb, self._transport, str(code))
            counter = self._codes[code] = labels
        counter.inc()
        self._seconds.observe(seconds)
        self._bytes.into += bytes_in
        self._bytes.out += bytes_out

    def weighed(self, nodes_in: int, nodes_out: int) -> None:
        """Count the nodes that were offered and those that were answered."""
        self._nodes.into += nodes_in
        self._nodes.out += nodes_out

    def malformed(self) -> None:
        """Count a call that was no proper question."""
        self._bad.inc()


class Metrics:
    """Every metric of the process. ``close`` takes the collector hook out again."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            PREFIX + "requests",
            "Calls, by verb, transport and status.",
            ["verb", "transport", "code"],
            registry=registry,
        )
        self.seconds = Histogram(
            PREFIX + "request_seconds",
            "Time from the first to the last byte of a call.",
            ["verb", "transport"],
            buckets=LATENCY,
            registry=registry,
        )
        self.body_bytes = Volumes("body_bytes", "Bytes of bodies read and written.")
        self.nodes = Volumes("nodes", "Nodes offered and answered.")
        registry.register(self.body_bytes)
        registry.register(self.nodes)
        self.bad_input = Counter(
            PREFIX + "bad_input",
            "Calls that were malformed.",
            ["verb", "transport"],
            registry=registry,
        )
        self._refusals = Counter(
            PREFIX + "refused",
            "Connections and calls that were not served, by reason.",
            ["reason"],
            registry=registry,
        )
        self._reloads = Counter(
            PREFIX + "certificate_reloads",
            "Changes of the certificate files, by what came of them.",
            ["result"],
            registry=registry,
        )
        self._decisions = Counter(
            PREFIX + "gang_decisions", "Decisions about gangs.", ["outcome"], registry=registry
        )
        self._evictions = Counter(
            PREFIX + "evictions", "Evictions, by how they ended.", ["result"], registry=registry
        )
        self._lost = Counter(
            PREFIX + "lost_gpu_seconds",
            "Work lost with evicted pods: GPUs held, times the seconds since start or checkpoint.",
            ["namespace", "priority"],
            registry=registry,
        )
        self._losers: set[tuple[str, str]] = set()
        self._backend = Gauge(
            PREFIX + "search_backend_info", "Which search is used.", ["backend"], registry=registry
        )
        ProcessCollector(registry=registry)
        self._expiries: dict[str, Callable[[], float]] = {}
        self._pauses = GcPauses()
        registry.register(self._pauses)
        gc.callbacks.append(self._pauses.on_gc)

    def verb(self, name: str, transport: str = "http") -> VerbMetrics:
        """Return the counters of one verb over one transport."""
        return VerbMetrics(self, name, transport)

    def refused(self, reason: str) -> None:
        """Count a connection or a call that was not served."""
        self._refusals.labels(reason).inc()

    def reloaded(self, result: str) -> None:
        """Count a change of the certificate files: "taken" or "refused"."""
        self._reloads.labels(result).inc()

    def decided(self, outcome: str) -> None:
        """Count a decision about a gang, for example "planned" or a refusal's code."""
        self._decisions.labels(outcome).inc()

    def evicted(self, result: str) -> None:
        """Count an eviction: "evicted", "gone" or "refused"."""
        self._evictions.labels(result).inc()

    def lost(self, namespace: str, priority: int, seconds: float) -> None:
        """Count the GPU-seconds of work that are lost with a pod of this namespace and priority."""
        named = (namespace, str(priority))
        if named not in self._losers and len(self._losers) >= MOST_LOSERS:
            named = ("", "")
        self._losers.add(named)
        self._lost.labels(*named).inc(seconds)

    def search_backend(self, name: str) -> None:
        """Say which search core is in use ("compiled" or "python")."""
        self._backend.clear()
        self._backend.labels(name).set(1)

    def source(
        self,
        name: str,
        documentation: str,
        read: Callable[[], Mapping[str, float]],
        *,
        label: str,
        counter: bool = False,
    ) -> None:
        """Show what ``read`` returns at each scrape: label value -> number.

        For cache statistics, reservations and the like, which their owners keep
        anyway. A source that raises is left out of that scrape and logged.
        Raises ValueError when the name is taken.
        """
        self.registry.register(
            ScrapedNumbers(PREFIX + name, documentation, read, label, counter=counter)
        )

    def certificate(self, use: str, expiry: Callable[[], float]) -> None:
        """Show when the certificate of one use ("server", "grpc") ends, asked at each scrape."""
        if not self._expiries:
            self.source(
                "certificate_expiry_timestamp_seconds",
                "When the certificate in use ends, in seconds since the epoch.",
                lambda: {use: read() for use, read in self._expiries.items()},
                label="use",
            )
        self._expiries[use] = expiry

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return (body, content type) in the format the scraper prefers."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type

    def close(self) -> None:
        """Stop timing the collector."""
        if self._pauses.on_gc in gc.callbacks:
            gc.callbacks.remove(self._pauses.on_gc)


class ScrapedNumbers(Collector):
    """Numbers that somebody else keeps, read at each scrape."""

    def __init__(
        self,
        name: str,
        documentation: str,
        read: Callable[[], Mapping[str, float]],
        label: str,
        *,
        counter: bool,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._read = read
        self._label = label
        self._family = CounterMetricFamily if counter else GaugeMetricFamily

    def describe(self) -> Iterable[Metric]:
        """Return the empty metric: registering must not ask a source not ready yet."""
        return [self._family(self._name, self._documentation, labels=[self._label])]

    def collect(self) -> Iterable[Metric]:
        """Read the source."""
        family = self._family(self._name, self._documentation, labels=[self._label])
        try:
            for value, number in self._read().items():
                family.add_metric([value], number)
        except Exception:
            get_logger().exception("metrics source failed", metric=self._name)
            return []
        return [family]


class VerbSums:
    """What came in and what went out of one verb over one transport."""

    __slots__ = ("into", "out")

    def __init__(self) -> None:
        self.into = 0
        self.out = 0


class Volumes(Collector):
    """Sums by verb, transport and direction.

    Plain numbers of the one event loop that answers: four Counters cost each call 4 microseconds.
    """

    def __init__(self, name: str, documentation: str) -> None:
        self._name = PREFIX + name
        self._documentation = documentation
        self._sums: dict[tuple[str, str], VerbSums] = {}

    def sums(self, verb: str, transport: str) -> VerbSums:
        """Return the sums of one verb over one transport."""
        return self._sums.setdefault((verb, transport), VerbSums())

    def describe(self) -> Iterable[Metric]:
        """Return the empty metric."""
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        """Return all sums."""
        family = self._family()
        for key, sums in self._sums.items():
            family.add_metric([*key, "in"], sums.into)
            family.add_metric([*key, "out"], sums.out)
        return [family]

    def _family(self) -> CounterMetricFamily:
        labels = ["verb", "transport", "direction"]
        return CounterMetricFamily(self._name, self._documentation, labels=labels)


class GcPauses(Collector):
    """How long the cyclic collector stopped the process, by generation.

    Kept in plain numbers: the hook runs inside any allocation, also one under a
    metric's lock, so it must take none.
    """

    def __init__(self) -> None:
        self._start = 0.0
        self._counts = [[0] * (len(PAUSES) + 1) for _ in range(3)]
        self._sums = [0.0] * 3

    def on_gc(self, phase: str, info: Mapping[str, int]) -> None:
        """Hook for gc.callbacks."""
        if phase == "start":
            self._start = perf_counter()
            return
        seconds = perf_counter() - self._start
        generation = info["generation"]
        self._counts[generation][bisect_left(PAUSES, seconds)] += 1
        self._sums[generation] += seconds

    def collect(self) -> Iterable[Metric]:
        """Return one histogram for each generation."""
        family = HistogramMetricFamily(
            PREFIX + "gc_pause_seconds", "Pauses of the cyclic collector.", labels=["generation"]
        )
        for generation, counts in enumerate(self._counts):
            running = 0
            buckets: list[tuple[str, float]] = []
            for bound, count in zip((*map(str, PAUSES), "+Inf"), counts, strict=True):
                running += count
                buckets.append((bound, running))
            family.add_metric([str(generation)], buckets, self._sums[generation])
        return [family]
