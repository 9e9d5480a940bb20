"""``serve`` with mode: observe, over HTTP: verbs, pages, and rights that only read."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import ClientTimeout, web
from aiohttp.test_utils import TestServer
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from structlog.testing import capture_logs

from extender.app import serve_command
from extender.app.main import main
from extender.gang.controller import coordinator
from extender.kube.client import KubeClient
from extender.kube.read_only import ReadOnlyClient, WriteRefused
from extender.model.errors import InvalidInput
from extender.model.objects import Pod
from extender.observe.file import decode
from extender.observe.observe_verbs import ObserveVerbs
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.process import ExtenderProcess, write_kubeconfig
from extender.settings.mode import ObserveSettings
from extender.settings.settings import BindSettings, GrpcSettings, Settings
from extender.settings.settings_rules import validate
from extender.wire.bind_json import BindArgs
from extender.wire.filter_json import decode_filter_args, encode_filter_result, encode_priorities
from extender.wire.preempt_json import NodeVictims, decode_preempt_args, encode_preempt_result
from tests.cli.live_bed import Live, serving
from tests.console.reading import Read

KEPT = ObserveSettings(save_seconds=1.0)


@pytest.fixture
async def live(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Live]:
    kept = replace(KEPT, file=str(tmp_path / "observe.json"))
    async with serving(tmp_path, capsys, observing=kept) as made:
        yield made


async def get(live: Live, path: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as http, http.get(f"{live.url}{path}") as answer:
        text = await answer.text()
        return answer.status, text if path == "/metrics" else msgspec.json.decode(text)


async def until(live: Live, path: str, fine: Callable[[Any], bool]) -> Any:
    """Ask a page until it says what it should."""
    async with asyncio.timeout(60):
        while True:
            status, found = await get(live, path)
            if status == 200 and fine(found):
                return found
            await asyncio.sleep(0.05)


async def post(live: Live, verb: str, body: dict[str, Any]) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{live.url}/{verb}", json=body) as answer,
    ):
        return answer.status, msgspec.json.decode(await answer.read())


async def test_gang_is_planned_for_and_nothing_is_done(live: Live) -> None:
    await until(live, "/debug/gangs", lambda found: len(found["gangs"]) == 2)
    pod = await live.client.get("/api/v1/namespaces/team/pods/high-0")
    candidates = {"n0": {"Pods": [{"UID": "x"}], "NumPDBViolations": 1}}
    question = {"Pod": pod, "NodeNameToVictims": {}, "NodeNameToMetaVictims": candidates}
    assert await post(live, "preempt", question) == (200, {"NodeNameToMetaVictims": candidates})
    tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await live.client.patch(
        "/api/v1/namespaces/team/pods/high-0/status", {"status": {"conditions": [tried]}}
    )
    found = await until(live, "/debug/decisions", lambda found: found["decisions"] != [])
    (decision,) = found["decisions"]
    assert decision["outcome"] == "plan"
    assert len(decision["victims"]) == 4
    assert (await get(live, "/debug/reservations"))[1] == {"reservations": []}
    status, dump = await get(live, f"/debug/snapshot?generation={decision['generation']}")
    assert (status, dump["kind"]) == (200, "PodgroupExtenderSnapshot")
    for i in range(4):
        low = await live.client.get(f"/api/v1/namespaces/team/pods/low-{i}")
        assert "deletionTimestamp" not in low["metadata"]
    metrics = (await get(live, "/metrics"))[1]
    assert 'podgroup_extender_observed_gangs_total{outcome="planned"} 1.0' in metrics
    assert 'podgroup_extender_observed_evictions_total{by="extender"} 4.0' in metrics
    status, out, err = await live.ask("report")
    assert (status, err) == (0, "")
    assert "| pods evicted for gangs | 0 | 4 |" in out
    assert "pod-group:team/high" in out


async def test_other_commands_understand_it(live: Live) -> None:
    """Who asks an observer gets what it knows, and no traceback."""
    await until(live, "/debug/gangs", lambda found: len(found["gangs"]) == 2)
    for words in (["gangs"], ["why", "high"], ["seats"], ["decisions"]):
        status, out, err = await live.ask(*words)
        assert (status, err) == (0, ""), (words, out)
    metrics = (await get(live, "/metrics"))[1]
    assert 'podgroup_extender_mode{mode="observe"} 1.0' in metrics


async def test_bind_is_not_served(live: Live) -> None:
    status, _ = await post(live, "bind", {"PodName": "p"})
    assert status == 404


async def test_report_is_of_observe_mode_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(tmp_path, capsys) as acting:
        status, _, err = await acting.ask("report")
        assert status == 1
        assert "this server acts (mode: enforce)" in err


async def test_verbs_are_answered_before_anything_is_known(
    tmp_path: Path,
) -> None:
    """The API server does not answer at all, and kube-scheduler has its own answers."""
    write_kubeconfig(tmp_path / "nowhere", "http://127.0.0.1:9")
    extender = ExtenderProcess(tmp_path, tmp_path / "nowhere", replace(Settings(), mode="observe"))
    extender._ready_path = "/readyz"
    try:
        await extender.start()
        names = {"Pod": {"metadata": {"name": "p", "uid": "u"}}, "NodeNames": ["b", "a"]}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{extender.url}/filter", json=names) as answer,
        ):
            assert answer.status == 200
            assert (await answer.json())["NodeNames"] == ["b", "a"]
    finally:
        await extender.close()


async def test_process_asks_with_get_only_and_keeps_its_file(tmp_path: Path) -> None:
    api = ApiServer(bookmark_seconds=0.2)
    await api.start()
    write_kubeconfig(tmp_path / "kubeconfig", api.url)
    kept = tmp_path / "observe.json"
    settings = replace(
        Settings(), mode="observe", observe=replace(KEPT, file=str(kept), save_seconds=3600.0)
    )
    extender = ExtenderProcess(tmp_path, tmp_path / "kubeconfig", settings)
    try:
        await extender.start()
        assert extender._process is not None
        assert not kept.exists()
        os.kill(extender._process.pid, signal.SIGTERM)
        assert await asyncio.wait_for(extender._process.wait(), 60) == 0
        assert set(extender.asked) == {"GET"}
        assert decode(kept.read_bytes()).weeks == []
    finally:
        await extender.close()
        await api.close()


def test_what_writes_is_not_even_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """serve takes the other way before it has made anything that could act."""

    def made(*given: object, **more: object) -> None:
        raise AssertionError("something that acts was made in observe mode")

    ran: list[Settings] = []

    async def observed(settings: Settings, kubeconfig: str | None) -> None:
        ran.append(settings)

    monkeypatch.setattr(coordinator.Coordinator, "__init__", made)
    monkeypatch.setattr("extender.app.serve_command.KubeClient.__init__", made)
    monkeypatch.setattr("extender.app.observing.observe", observed)
    monkeypatch.setattr(serve_command, "leave_behind", lambda status: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    monkeypatch.setattr(serve_command, "configure_logs", lambda level: None)
    written = tmp_path / "config.yaml"
    written.write_text("mode: observe\n")
    assert main(["serve", "--config", str(written)]) == 0
    assert [settings.mode for settings in ran] == ["observe"]


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        (Settings(mode="observe", bind=BindSettings(enabled=True)), "bind.enabled needs mode"),
        (
            Settings(mode="observe", grpc=GrpcSettings(listen="unix:/run/x.sock")),
            "grpc.listen needs mode",
        ),
        (Settings(observe=ObserveSettings(file="/x")), "observe.file needs mode"),
        (Settings(mode="observe", observe=ObserveSettings(weeks=0)), "observe.weeks"),
        (Settings(mode="observe", observe=ObserveSettings(gangs_per_week=0)), "gangsPerWeek"),
        (Settings(mode="observe", observe=ObserveSettings(save_seconds=0)), "saveSeconds"),
    ],
)
def test_settings_that_contradict_the_mode_are_errors(settings: Settings, wrong: str) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        validate(settings)


def test_unknown_mode_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "config.yaml"
    written.write_text("mode: obsreve\n")
    assert main(["serve", "--config", str(written)]) == 2
    assert "mode" in capsys.readouterr().err


async def words(live: Live, page: str, **form: str) -> str:
    async with aiohttp.ClientSession() as web:
        way = web.post if form else web.get
        async with way(f"{live.url}/ui/{page}", data=form or None) as answer:
            assert answer.status == 200, await answer.text()
            read = Read(await answer.text())
            assert not read.suspicious
            return read.words


async def shows(live: Live, page: str, text: str) -> str:
    """Ask a page until it says that; a picture may be a second old."""
    async with asyncio.timeout(60):
        while text not in (found := await words(live, page)):
            await asyncio.sleep(0.05)
    return found


async def test_what_would_be_done_is_shown_beside_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(tmp_path, capsys, observing=ObserveSettings()) as live:
        front = await shows(live, "", "low team · pod-group ● running")
        assert "Observe mode: nothing is done" in front
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await live.client.patch(
            "/api/v1/namespaces/team/pods/high-0/status", {"status": {"conditions": [tried]}}
        )
        found = await shows(live, "observed", "4 seats, 4 pods evicted, with pod-group:team/low")
        assert "schedulers did" in found
        assert "extender would have" in found
        assert "pods evicted for gangs 0 4" in found
        gang = await shows(live, "gang?name=high", "What was done, and what would have been")
        assert "Nothing was done by the extender" in gang
        assert "would be planned" not in gang
        assert "team/low-0 on n0" in gang
        assert "n3" in await words(live, "cluster")
        assert "▶ plan made pod-group:team/high" in await words(live, "decisions")
        asked = await words(live, "what-if", gang="high", priority="1")
        assert "It would not run any more." in asked


async def test_a_process_that_acts_has_no_such_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        serving(tmp_path, capsys) as live,
        aiohttp.ClientSession() as web,
        web.get(f"{live.url}/ui/observed") as answer,
    ):
        assert answer.status == 404
        assert "mode: observe" in await answer.text()


NAMES = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=20)
UIDS = st.text(alphabet="0123456789abcdef-", min_size=1, max_size=36)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": NAMES, "namespace": NAMES, "uid": UIDS},
            optional={
                "labels": st.dictionaries(
                    st.sampled_from(("a", "scheduling.x-k8s.io/pod-group", "skypilot-cluster")),
                    NAMES,
                )
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "priority": st.integers(-(2**31), 2**31 - 1),
                "schedulingGroup": st.fixed_dictionaries({"podGroupName": NAMES}),
                "nodeName": NAMES,
            },
        ),
        "status": st.fixed_dictionaries({}, optional={"nominatedNodeName": NAMES}),
    }
)


class Deaf:
    """Hears nothing, or breaks down at each question."""

    def __init__(self, *, breaks: bool) -> None:
        self._breaks = breaks

    def offered(self, told: Pod, nodes: Iterable[str]) -> None:
        if self._breaks:
            raise RuntimeError("a defect of the observer")

    def preempting(self, told: Pod, candidates: dict[str, NodeVictims]) -> None:
        if self._breaks:
            raise RuntimeError("a defect of the observer")


async def _run(verb: str, body: bytes, *, breaks: bool) -> Any:
    verbs = ObserveVerbs(Deaf(breaks=breaks))
    if verb == "preempt":
        return json.loads(encode_preempt_result(await verbs.preempt(decode_preempt_args(body))))
    args = decode_filter_args(body)
    if verb == "filter":
        return json.loads(encode_filter_result(await verbs.filter(args), args))
    return json.loads(encode_priorities(await verbs.prioritize(args)))


def _answer(verb: str, question: dict[str, Any], *, breaks: bool) -> Any:
    """The answer, which must be there without waiting for anything."""
    running = _run(verb, json.dumps(question).encode(), breaks=breaks)
    with capture_logs(), pytest.raises(StopIteration) as answered:
        running.send(None)
    return answered.value.value


@settings(deadline=None)
@given(pod=PODS, names=st.lists(NAMES, unique=True, max_size=8), breaks=st.booleans())
def test_filter_passes_every_name_on_in_its_order(
    pod: dict[str, Any], names: list[str], *, breaks: bool
) -> None:
    question = {"Pod": pod, "Nodes": None, "NodeNames": names}
    assert _answer("filter", question, breaks=breaks) == {
        "Nodes": None,
        "NodeNames": names,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert _answer("prioritize", question, breaks=breaks) == []


@settings(deadline=None)
@given(pod=PODS, names=st.lists(NAMES, unique=True, max_size=4), breaks=st.booleans())
def test_filter_passes_whole_nodes_on_as_they_came(
    pod: dict[str, Any], names: list[str], *, breaks: bool
) -> None:
    items = [{"metadata": {"name": name}, "spec": {"x": name}} for name in names]
    answer = _answer(
        "filter", {"Pod": pod, "Nodes": {"items": items}, "NodeNames": None}, breaks=breaks
    )
    assert answer["Nodes"]["items"] == items
    assert not answer["FailedNodes"]
    assert not answer["FailedAndUnresolvableNodes"]
    assert not answer["Error"]


@settings(deadline=None)
@given(
    pod=PODS,
    candidates=st.dictionaries(
        NAMES, st.tuples(st.lists(UIDS, max_size=4), st.integers(0, 9)), max_size=5
    ),
    breaks=st.booleans(),
)
def test_preempt_passes_every_candidate_on(
    pod: dict[str, Any], candidates: dict[str, tuple[list[str], int]], *, breaks: bool
) -> None:
    meta = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for node, (uids, violations) in candidates.items()
    }
    question = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
    assert _answer("preempt", question, breaks=breaks) == {"NodeNameToMetaVictims": meta}


async def test_bind_binds_nothing() -> None:
    async def gone() -> None:
        raise AssertionError("nothing is held, so nobody is waited for")

    result = await ObserveVerbs(Deaf(breaks=False)).bind(BindArgs("p", "ns", "u", "n"), gone)
    assert "bindVerb" in result.error


PATH = "/api/v1/namespaces/default/pods/p"
WRITES: dict[str, Callable[[KubeClient], Awaitable[object]]] = {
    "create": lambda client: client.create(PATH, {}),
    "create, dry run": lambda client: client.create(PATH, {}, dry_run=True),
    "replace": lambda client: client.replace(PATH, {}),
    "patch": lambda client: client.patch(PATH, {}),
    "delete": lambda client: client.delete(PATH, uid="u"),
    "evict": lambda client: client.evict("default", "p", uid="u"),
    "evict, dry run": lambda client: client.evict("default", "p", uid="u", dry_run=True),
    "request": lambda client: client.request("DELETE", PATH),
    "request, spelt otherwise": lambda client: client.request("get", PATH),
    "request, a GET with a body": lambda client: client.request("GET", PATH, body={}),
}
READS = {"get", "batches", "stream"}
NEITHER = {"close", "connect"}


class Site:
    """An API server that counts what reaches it."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.methods.append(request.method)
        return web.json_response({})


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, str]]:
    found = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.answer)
    async with TestServer(app) as server:
        yield found, str(server.make_url("")).rstrip("/")


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_is_refused_before_it_leaves(name: str, site: tuple[Site, str]) -> None:
    found, url = site
    async with await ReadOnlyClient.connect(server=url) as client:
        with pytest.raises(WriteRefused, match="observe mode"):
            await WRITES[name](client)
        assert found.methods == []
        await client.get(PATH)
    assert found.methods == ["GET"]


def test_every_method_of_the_client_is_known_here() -> None:
    """A method that is added to KubeClient has to be looked at."""
    methods = {
        name for name, _ in inspect.getmembers(KubeClient, callable) if not name.startswith("_")
    }
    assert methods == READS | NEITHER | {name.partition(",")[0] for name in WRITES}


def test_the_client_talks_in_one_place_only() -> None:
    """The refusal stands before that place, so it stands before everything."""
    assert inspect.getsource(KubeClient).count("self._session.request(") == 1
    assert "self._session.request(" in inspect.getsource(KubeClient._send)


@settings(deadline=None)
@given(st.text(max_size=12).filter(lambda method: method != "GET"))
def test_no_other_method_passes(method: str) -> None:
    client = ReadOnlyClient.__new__(ReadOnlyClient)
    sending = client._send(method, PATH, None, None, "", ClientTimeout())
    with pytest.raises(WriteRefused):
        sending.__aenter__().send(None)
