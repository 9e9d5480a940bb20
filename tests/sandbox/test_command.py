"""The command: exit codes, bad input, and an extender that does not start."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.app.main import main
from extender.model.errors import InvalidInput
from extender.sandbox.command import find, run_sandbox, scenario_titles
from extender.settings.settings import Settings

SHORT = """
name: short
about: one pod
nodes: [{count: 1, cpu: 4}]
steps:
  - create: {pod: p, cpu: 1}
  - waitRunning: p
  - expect: {evicted: EVICTED}
"""


async def test_it_says_how_the_play_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.sandbox.runner.EXPECT_SECONDS", 0.3)
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(SHORT.replace("EVICTED", "{}"))
    bad.write_text(SHORT.replace("EVICTED", "{p: 1}"))
    out = io.StringIO()
    assert await run_sandbox(good, Settings(), folder=tmp_path, out=out) == 0
    assert "OK" in out.getvalue()
    assert await run_sandbox(str(bad), Settings(), out=out) == 1
    assert "expected 1 evicted pod of p, seen 0" in out.getvalue()


def test_a_scenario_nobody_knows_names_those_that_exist() -> None:
    with pytest.raises(InvalidInput, match="known: a-room-for-two"):
        find("no-such-thing")
    assert find(None).name == find("jobset").name


def test_the_list_gives_each_scenario_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    titles = scenario_titles()
    assert titles["jobset"] == find("jobset").name
    assert main(["sandbox", "--list"]) == 0
    listed = [line.split("  ", 1) for line in capsys.readouterr().out.splitlines()]
    assert {name: title.strip() for name, title in listed} == titles


async def test_an_extender_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    server = replace(Settings().server, tls_cert_file="/nowhere.crt", tls_key_file="/nowhere.key")
    out = io.StringIO()
    settings = replace(Settings(), server=server)
    assert await run_sandbox("jobset", settings, folder=tmp_path, out=out) == 1
    assert "the extender ended by itself" in out.getvalue()
    assert "/nowhere" in out.getvalue()


async def test_an_api_server_that_refuses_an_arrival_is_told(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    odd = SHORT.replace("EVICTED", "{}").replace("waitRunning: p", "sleep: 0")
    path.write_text(odd.replace("pod: p,", "pod: 'P p',"))
    out = io.StringIO()
    assert await run_sandbox(path, Settings(), folder=tmp_path, out=out) == 1
    assert "step 0 (create)" in out.getvalue()
    assert "must be a lowercase RFC 1123 name" in out.getvalue()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_who_is_told_to_stop_leaves_nothing_behind(tmp_path: Path, how: signal.Signals) -> None:
    """No ``serve`` without the API server that it asks, and no folder."""
    scenario, home = tmp_path / "short.yaml", tmp_path / "home"
    scenario.write_text(SHORT.replace("EVICTED", "{}"))
    home.mkdir()
    command = [sys.executable, "-m", "extender.app.main", "sandbox", str(scenario), "--keep"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(home)},
        # What a shell starts in the background ignores SIGINT, and so would this.
        preexec_fn=lambda: signal.signal(how, signal.SIG_DFL),
    ) as played:
        try:
            assert played.stdout is not None
            assert any("Everything stays up" in line for line in played.stdout)
            (serving,) = Path(f"/proc/{played.pid}/task/{played.pid}/children").read_text().split()
            assert list(home.iterdir())
            played.send_signal(how)
            assert played.wait(timeout=120) == 130
        finally:
            played.kill()  # nobody waits for it for ever
    assert not Path(f"/proc/{serving}").exists()
    assert not list(home.iterdir())
