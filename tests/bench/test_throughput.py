"""The throughput benchmark runs and says what it measured."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from bench.inputs.throughput_inputs import waiting
from bench.rival.throughput import WAYS, cpu_seconds, main, table


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
        "load before": 0.5,
        "gangs": 10,
        "kubernetes": "v",
        "pods per second": rates,
        "median": dict.fromkeys(WAYS, 75.0),
        "share of none": dict.fromkeys(WAYS, 0.5),
        "KiB a pod": {way: [0.0, 0.0] if way == "none" else [8.25, 2.0] for way in WAYS},
        "CPU ms a pod": {
            way: {"kube-scheduler": 1.5, **({} if way == "none" else {"extender": 0.25})}
            for way in WAYS
        },
    }
    text = table(done)
    assert "10 % of the pods are in gangs of 8" in text
    assert "gangs" not in table(done | {"gangs": 0})
    for way in WAYS:
        assert f"| {way} | 100, 50 | 75 | 0.50 |" in text
    assert "| none | 1.50 |  | 1.50 |  |" in text
    assert "| extender | 1.50 | 0.25 | 1.75 | 8.2 + 2.0 |" in text


def test_cpu_time_of_a_process_grows_with_what_it_does() -> None:
    me = {"me": os.getpid()}
    before, end = cpu_seconds(me)["me"], time.process_time() + 0.1
    while time.process_time() < end:
        sum(range(1000))
    assert 0.05 < cpu_seconds(me)["me"] - before < 5


def test_every_tenth_pod_is_in_a_gang_and_seats_are_to_be_held() -> None:
    given = waiting(500, 1000, 0.1)
    groups = Counter(pod.group for pod in given.state.pods)
    assert groups.pop("") == 1000 - 12 * 8
    assert groups == {group.name: group.min_count for group in given.state.groups}
    nodes = {node.name: node for node in given.state.nodes}
    assert {pod.node for pod in given.staying} == {n for n in nodes if n.startswith("held")}
    assert len(given.staying) == len(given.state.members) == 25
    # All that a member needs is what a staying pod has, and nobody else has it.
    for pod in given.staying:
        assert pod.wants.gpu == given.state.members[0].wants.gpu == nodes[pod.node].size.gpu
        assert pod.priority < given.state.members[0].priority


def test_without_gangs_there_are_plain_pods_and_nodes_alone() -> None:
    given = waiting(5, 30)
    assert len(given.state.nodes) == 5
    assert len(given.measured) == 30
    assert not given.staying
    assert not given.state.groups
    assert not given.state.members


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


@pytest.mark.real
def test_gangs_are_scheduled_beside_held_seats(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    words = ["--nodes", "10", "--pods", "60", "--rounds", "1", "--gangs", "20", "--out", str(out)]
    assert main([*words, "--way", "none", "--way", "plugin"]) == 0
    assert all(rate > 0 for rate in json.loads(out.read_text())["median"].values())
