"""The comparison's smoke form: what it measures holds, on the newest release."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.rival.against_kubernetes import main
from bench.rival.comparison import Run


@pytest.mark.real
def test_never_more_victims_than_the_optimum_or_kube_scheduler(tmp_path: Path) -> None:
    out, table = tmp_path / "run.json", tmp_path / "run.md"
    status = main(["--smoke", "--out", str(out), "--report", str(table)])
    run = msgspec.json.decode(out.read_bytes(), type=Run)
    assert len(run.compared) >= 5
    for each in run.compared:
        theirs = each.rivals["workload-aware"]
        assert each.possible, each.name
        assert theirs.ran, table.read_text()
        assert set(each.ours) == {"gangs-by-priority", "fewest-pods"}
        for order, ours in each.ours.items():
            plan = each.plans[order]
            assert ours.ran, table.read_text()
            assert plan.proof == "optimal", each.name
            assert ours.damage.cost(order) == plan.damage.cost(order), table.read_text()
            assert ours.damage.half_broken == 0, each.name
            assert ours.damage.cost(order) <= theirs.damage.cost(order), table.read_text()
        assert each.ours["fewest-pods"].damage.pods <= theirs.damage.pods, table.read_text()
        assert each.anatomy is not None
        assert each.anatomy.least <= each.anatomy.least_there <= each.anatomy.evicted
    assert sum(each.rivals["workload-aware"].damage.pods for each in run.compared) > sum(
        each.ours["gangs-by-priority"].damage.pods for each in run.compared
    )
    assert status == 0, table.read_text()
