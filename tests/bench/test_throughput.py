"""The throughput benchmark runs and says what it measured."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from bench.throughput import WAYS, cpu_seconds, main, table


def test_pods_that_cannot_all_fit_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "1", "--pods", "101"]) == 2
    assert "100 pods a node" in capsys.readouterr().err


def test_shares_need_what_they_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--way", "plugin"]) == 2
    assert "none" in capsys.readouterr().err


def test_the_table_has_every_way() -> None:
    rates = {way: [100.0, 50.0] for way in WAYS}
    done = {
        "command": "c",
        "machine": "m",
        "kubernetes": "v",
        "pods per second": rates,
        "median": dict.fromkeys(WAYS, 75.0),
        "share of none": dict.fromkeys(WAYS, 0.5),
        "CPU ms a pod": {
            way: {"kube-scheduler": 1.5, **({} if way == "none" else {"extender": 0.25})}
            for way in WAYS
        },
    }
    text = table(done)
    for way in WAYS:
        assert f"| {way} | 100, 50 | 75 | 0.50 |" in text
    assert "| none | 1.50 |  | 1.50 |" in text
    assert "| extender | 1.50 | 0.25 | 1.75 |" in text


def test_cpu_time_of_a_process_grows_with_what_it_does() -> None:
    me = {"me": os.getpid()}
    before, end = cpu_seconds(me)["me"], time.process_time() + 0.1
    while time.process_time() < end:
        sum(range(1000))
    assert 0.05 < cpu_seconds(me)["me"] - before < 5


@pytest.mark.real
def test_every_way_schedules_all_pods(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    assert main(["--nodes", "10", "--pods", "60", "--rounds", "1", "--out", str(out)]) == 0
    done = json.loads(out.read_text())
    assert set(done["median"]) == set(WAYS)
    assert all(rate > 0 for rate in done["median"].values())
    assert done["share of none"]["none"] == 1
    without = {way for way in WAYS if way.startswith("none")}
    assert not any("extender" in done["CPU ms a pod"][way] for way in without)
    assert all("extender" in done["CPU ms a pod"][way] for way in set(WAYS) - without)
