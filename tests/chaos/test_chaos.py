"""A bounded run on each Kubernetes version, side by side. Longer ones: ``./run nightly``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.build import ensure
from tests.controlplane.fixtures import selected_versions

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
