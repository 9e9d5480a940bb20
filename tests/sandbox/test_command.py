"""The command: exit codes, bad input, and an extender that does not start."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.model.errors import InvalidInput
from extender.model.settings import Settings
from extender.sandbox.command import find, run_sandbox, scenario_names
from extender.sandbox.process import ExtenderBroke

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
    assert "expected 1 evicted pods of p, seen 0" in out.getvalue()


def test_a_scenario_nobody_knows_names_those_that_exist() -> None:
    with pytest.raises(InvalidInput, match="known: a-room-for-two"):
        find("no-such-thing")
    assert find(None).name == find("jobset").name
    assert "jobset" in scenario_names()


async def test_an_extender_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    server = replace(Settings().server, tls_cert_file="/nowhere.crt", tls_key_file="/nowhere.key")
    with pytest.raises(ExtenderBroke, match="ended by itself"):
        await run_sandbox("jobset", replace(Settings(), server=server), folder=tmp_path)
