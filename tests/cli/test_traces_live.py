"""The traces of a real server, as a real OTLP/HTTP receiver gets them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from extender.app import otlp
from extender.kube.api_errors import NotFound
from extender.sandbox.resources import PODS
from extender.settings.tracing import TracingSettings
from tests.cli.live_bed import Live, serving


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
