"""The comparison of cost orders by the work they lose."""

from __future__ import annotations

import pytest

from bench.search.lost_work import lost, main, states


def test_no_order_loses_less_work_where_all_victims_have_one_priority() -> None:
    """Restarts are part of what the order counts, and not of what is told."""
    one_priority = list(states(40, 1))[:6]
    seen = 0
    for state in one_priority:
        ours, fewest = lost(state, "default"), lost(state, "fewest-pods")
        if ours is None or fewest is None or not fewest.pods:
            continue
        assert ours.proved
        assert ours.gpu_hours <= fewest.gpu_hours * 1.02
        assert ours.pods >= fewest.pods
        seen += 1
    assert seen


def test_a_table_for_each_size_and_one_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "10", "--seeds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "10 nodes, " in printed
    assert "all, " in printed
    assert printed.count("| `gangs-by-priority` |") == 2
