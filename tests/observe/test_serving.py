"""``serve`` with mode: observe, over HTTP, on the sandbox's API server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from extender.app import serve_command
from extender.app.main import main
from extender.gang.controller import coordinator
from extender.model.errors import InvalidInput
from extender.observe.file import decode
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.process import ExtenderProcess, write_kubeconfig
from extender.settings.mode import ObserveSettings
from extender.settings.settings import BindSettings, GrpcSettings, Settings
from extender.settings.settings_rules import validate
from tests.cli.live_bed import Live, serving

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
