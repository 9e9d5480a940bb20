"""The benchmark of bindings runs and says what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.serving.bind_bench import main, table


def test_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pods", "0"]) == 2
    assert "at least one" in capsys.readouterr().err


def test_both_ways_bind_every_pod(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    arguments = ["--nodes", "5", "--pods", "40", "--rounds", "1", "--connections", "8"]
    assert main([*arguments, "--out", str(out)]) == 0
    done = json.loads(out.read_text())
    assert set(done["ways"]) == {"direct", "extender"}
    assert all(one["rate"] > 0 for one in done["ways"].values())
    assert "| extender |" in table(done)
