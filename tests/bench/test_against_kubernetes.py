"""The comparison's smoke form: what it measures holds, on the newest release."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.against_kubernetes import main
from bench.rival.comparison import Run


@pytest.mark.real
def test_never_more_victims_than_the_optimum_or_kube_scheduler(tmp_path: Path) -> None:
    out, table = tmp_path / "run.json", tmp_path / "run.md"
    status = main(["--smoke", "--out", str(out), "--report", str(table)])
    run = msgspec.json.decode(out.read_bytes(), type=Run)
    assert len(run.compared) >= 5
    for each in run.compared:
        ours, theirs = each.outcomes["extender"], each.outcomes["workload-aware"]
        assert each.optimum.possible, each.name
        assert ours.ran, table.read_text()
        assert each.optimum.proof == "optimal", each.name
        assert ours.damage.vector == each.optimum.damage.vector, table.read_text()
        assert ours.damage.half_broken == 0, each.name
        assert theirs.ran, table.read_text()
        assert ours.damage.pods <= theirs.damage.pods, table.read_text()
    assert sum(each.outcomes["workload-aware"].damage.pods for each in run.compared) > sum(
        each.outcomes["extender"].damage.pods for each in run.compared
    )
    assert status == 0, table.read_text()
