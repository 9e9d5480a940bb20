"""The chaos runner, its bed and its proxy: what they play is what happens."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from extender.kube.credentials import Access
from extender.settings.settings import Settings
from tests.chaos.bed import Extender
from tests.chaos.groups import GROUP_LABEL, GroupSpec
from tests.chaos.history import Fault, History
from tests.chaos.invariants import Problem
from tests.chaos.observing import AuditLog, node_room, pod_seen
from tests.chaos.proxy import Call, FaultProxy, Harm, Rule, call_of
from tests.chaos.report import (
    Measures,
    Run,
    Sample,
    Violation,
    percentile,
    report_of,
    resources,
    story_of,
    text_of,
    to_placement,
)
from tests.controlplane.build import ensure
from tests.controlplane.fixtures import selected_versions
from tests.event_time import passes

ROOT = Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("PODGROUP_CHAOS_SECONDS", "300"))
"""Trouble and rests; starting, the last round's rest and stopping come on top of it."""


@pytest.mark.real
def test_nothing_is_done_by_halves(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    minors = selected_versions(request.config)
    for minor in minors:
        ensure(minor)
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.chaos", "--minor", ",".join(minors)]
    command += ["--seconds", str(SECONDS), "--seed", os.environ.get("PODGROUP_CHAOS_SEED", "1")]
    done = subprocess.run(
        [*command, "--report", str(report)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    found = json.loads(report.read_text())
    for minor in minors:
        part = found[minor] if len(minors) > 1 else found
        assert part["violations"] == []
        assert part["cases"] == 3
        # A run in which little happens shows nothing.
        assert part["faults"][-1]["count"] >= SECONDS / 20
        assert part["evictions"]["extender"] >= SECONDS / 20
        assert part["gangs_placed"] >= SECONDS / 20


@pytest.fixture
def cut_off() -> Iterator[int]:
    """A port on which each answer ends before its body, as that of a killed process may."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    caller, _ = listener.accept()
                except OSError:
                    return
                with caller:
                    caller.recv(65536)
                    caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 152\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_is_cut_off_is_no_good_answer(cut_off: int, tmp_path: Path) -> None:
    extender = Extender(tmp_path, Settings())
    extender.url = f"http://127.0.0.1:{cut_off}"
    assert not extender.verb(b"{}")
    assert extender.decisions() == []
    assert not extender.ready()


POD = "/api/v1/namespaces/chaos/pods/a"


class Api:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.proxy: FaultProxy

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path}")
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"{}\n")
            await asyncio.sleep(30)
        return web.json_response({})


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    made = Api()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.proxy = FaultProxy(Access(server=f"http://127.0.0.1:{runner.addresses[0][1]}"), "1")
    await made.proxy.start()
    yield made
    await made.proxy.close()
    await runner.cleanup()


async def evict(api: Api) -> int:
    """Evict the pod through the proxy; 0 without an answer.

    A POST, because aiohttp sends a DELETE a second time by itself when it has lost the answer.
    """
    try:
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{api.proxy.url}{POD}/eviction", timeout=aiohttp.ClientTimeout(total=60)
            ) as answer,
        ):
            await answer.read()
            return answer.status
    except (aiohttp.ClientError, TimeoutError):
        return 0


@pytest.mark.parametrize(
    ("harm", "status", "reached"),
    [
        ("refuse", 403, 0),
        ("lose", 0, 1),
        ("unclear", 403, 1),
        ("repeat", 200, 2),
        ("delay", 200, 1),
    ],
)
async def test_a_harm_and_its_end(api: Api, harm: Harm, status: int, reached: int) -> None:
    rule = Rule(harm, lambda call: call.kind == "eviction", status=403, seconds=0.05)
    api.proxy.impose(rule)
    assert await evict(api) == status
    assert (len(api.seen), rule.hits) == (reached, 1)
    api.proxy.lift(rule)
    assert await evict(api) == 200
    assert rule.hits == 1


@pytest.mark.parametrize(("late", "status", "reached"), [(False, 0, 0), (True, 200, 1)])
async def test_held_until_the_fault_is_over(
    api: Api, *, late: bool, status: int, reached: int
) -> None:
    rule = Rule("hold", lambda call: call.writes, late=late)
    api.proxy.impose(rule)
    asked = asyncio.create_task(evict(api))
    await passes(20)
    assert api.seen == []
    api.proxy.lift(rule)
    assert (await asked, len(api.seen)) == (status, reached)


async def test_requests_that_no_rule_is_meant_for_pass(api: Api) -> None:
    api.proxy.impose(Rule("refuse", lambda call: call.kind == "record"))
    assert await evict(api) == 200


async def test_watches_are_cut(api: Api) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{api.proxy.url}/x?watch=1") as answer:
        assert await answer.content.readline() == b"{}\n"
        assert api.proxy.cut_watches() == 1
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(answer.content.readline(), 2)


async def test_a_done_write_is_told_before_its_answer(api: Api) -> None:
    told: list[Call] = []
    api.proxy.passed.append(told.append)
    assert await evict(api) == 200
    assert told == [Call("eviction", "a")]


@pytest.mark.parametrize(
    ("method", "path", "query", "kind"),
    [
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch"),
        ("GET", "/api/v1/pods", {}, "read"),
        ("DELETE", POD, {}, "eviction"),
        ("DELETE", POD, {"dryRun": "All"}, "rehearsal"),
        ("POST", f"{POD}/eviction", {}, "eviction"),
        ("PATCH", f"{POD}/status", {}, "status"),
        ("PATCH", POD, {}, "touch"),
        ("POST", "/api/v1/namespaces/chaos/configmaps", {}, "record"),
        ("PUT", "/api/v1/namespaces/chaos/configmaps/podgroup-extender-status", {}, "other"),
        ("POST", "/api/v1/namespaces/chaos/events", {}, "event"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/chaos/leases/x", {}, "other"),
    ],
)
def test_what_a_request_is_about(method: str, path: str, query: dict[str, str], kind: str) -> None:
    assert call_of(method, path, query).kind == kind


def removal(name: str = "a", code: int = 200, **more: Any) -> dict[str, Any]:
    return {
        "verb": "delete",
        "user": {"username": "extender"},
        "objectRef": {"namespace": "chaos", "name": name},
        "responseStatus": {"code": code},
        "requestURI": f"/api/v1/namespaces/chaos/pods/{name}",
        "requestReceivedTimestamp": "1970-01-01T00:00:01.250000Z",
        **more,
    }


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_accepted_removals_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, "chaos")
    assert list(log.new()) == []
    path.write_text(lines(removal(requestObject={"preconditions": {"uid": "u"}})))
    assert list(log.new()) == [(1.25, "extender", "a", "u", False)]
    assert list(log.new()) == []


@pytest.mark.parametrize(
    "record",
    [
        removal(code=409),
        removal(requestURI="/x?dryRun=All"),
        removal(requestObject={"dryRun": ["All"]}),
        removal(requestObject={"deleteOptions": {"dryRun": ["All"]}}),
        removal(objectRef={"namespace": "other", "name": "a"}),
    ],
)
def test_what_removes_nothing_is_not_told(tmp_path: Path, record: dict[str, Any]) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(lines(record))
    assert list(AuditLog(path, "chaos").new()) == []


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    whole = lines(removal("a"), removal("b"))
    path.write_text(whole[:-20])
    log = AuditLog(path, "chaos")
    assert [each.name for each in log.new()] == ["a"]
    path.write_text(whole)
    assert [each.name for each in log.new()] == ["b"]


def test_an_eviction_names_its_pod_in_its_options(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(
        lines(removal(requestObject={"deleteOptions": {"preconditions": {"uid": "v"}}}))
    )
    assert [each.uid for each in AuditLog(path, "chaos").new()] == ["v"]


def test_a_pod_is_reduced() -> None:
    seen = pod_seen(
        {
            "metadata": {"uid": "u", "name": "a", "labels": {GROUP_LABEL: "g1"}},
            "spec": {
                "priority": 7,
                "nodeName": "n0",
                "containers": [{"resources": {"requests": {"cpu": "1500m"}}}, {}],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "message": "why"}],
            },
        }
    )
    assert (seen.group, seen.cpu, seen.priority, seen.node, seen.disrupted) == (
        "g1",
        1500,
        7,
        "n0",
        "why",
    )


@pytest.mark.parametrize(
    ("spec", "takes_pods"),
    [
        ({}, True),
        ({"unschedulable": True}, False),
        ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, False),
        ({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}, True),
    ],
)
def test_a_node_is_open_or_closed(spec: dict[str, Any], *, takes_pods: bool) -> None:
    node = {"spec": spec, "status": {"allocatable": {"cpu": "4"}}}
    assert node_room(node) == (4000, takes_pods)


def test_recovery_is_counted_from_the_end_of_a_fault() -> None:
    history, measures = History(), Measures()
    measures.good_verbs = [(9.0, 9.1), (11.0, 11.5)]
    history.placed = [(9.5, "g1"), (14.0, "g2")]
    fault = Fault("x", "", 8.0, ended=10.0)
    assert measures.to_good_verb(fault) == 1.5
    assert to_placement(history, fault) == 4.0
    assert measures.to_good_verb(Fault("x", "", 8.0, ended=12.0)) is None


def test_percentiles() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(value) for value in range(10)], 0.9) == 9.0


def test_resources_of_several_processes() -> None:
    found = resources([Sample(0, 1, 50, 9), Sample(9, 1, 60, 12), Sample(10, 2, 40, 10)])
    assert found["rss_mib"] == {"start": 50, "max": 60, "end": 40}
    assert found["longest_life"] == {"seconds": 9, "rss_mib": [50, 60], "fds": [9, 12]}


def test_a_report_tells_a_violation_with_its_story() -> None:
    run = Run("1.37", 5)
    run.history.arrive(GroupSpec("g1"), 100.0)
    run.history.arrive(GroupSpec("g10"), 101.0)
    fault = Fault("etcd kill -9", "killed", 102.0)
    run.history.begin(fault)
    run.history.end(fault, 103.0)
    problem = Problem("half gone", "g1", "one of two left")
    run.violations.append(Violation(104.0, problem, story_of(run.history, problem, 90.0)))
    report = report_of(run, "v1.37.0")
    text = text_of(report)
    assert "violation 1: half gone: one of two left" in text
    assert "arrives: single g1 (" in text
    assert "g10" not in text
    assert "| etcd kill -9 | 1 | 1 | - | - | - | - |" in text
    assert text.endswith("1 faults, 1 violations: 1 half gone")
