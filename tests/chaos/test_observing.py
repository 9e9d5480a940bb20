"""Reading pods, nodes and the audit log; measuring and telling a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.groups import GROUP_LABEL, GroupSpec
from tests.chaos.history import Fault, History
from tests.chaos.invariants import Problem
from tests.chaos.measuring import Measures, Sample, percentile, resources, to_placement
from tests.chaos.observing import AuditLog, node_room, pod_seen
from tests.chaos.outcome import Run, Violation, story_of
from tests.chaos.report import report_of, text_of


def removal(name: str = "a", code: int = 200, **more: Any) -> dict[str, Any]:
    return {
        "verb": "delete",
        "user": {"username": "extender"},
        "objectRef": {"namespace": "chaos", "name": name},
        "responseStatus": {"code": code},
        "requestURI": f"/api/v1/namespaces/chaos/pods/{name}",
        "requestReceivedTimestamp": "1970-01-01T00:00:01.250000Z",
        **more,
    }


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_accepted_removals_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, "chaos")
    assert list(log.new()) == []
    path.write_text(lines(removal(requestObject={"preconditions": {"uid": "u"}})))
    assert list(log.new()) == [(1.25, "extender", "a", "u", False)]
    assert list(log.new()) == []


@pytest.mark.parametrize(
    "record",
    [
        removal(code=409),
        removal(requestURI="/x?dryRun=All"),
        removal(requestObject={"dryRun": ["All"]}),
        removal(requestObject={"deleteOptions": {"dryRun": ["All"]}}),
        removal(objectRef={"namespace": "other", "name": "a"}),
    ],
)
def test_what_removes_nothing_is_not_told(tmp_path: Path, record: dict[str, Any]) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(lines(record))
    assert list(AuditLog(path, "chaos").new()) == []


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    whole = lines(removal("a"), removal("b"))
    path.write_text(whole[:-20])
    log = AuditLog(path, "chaos")
    assert [each.name for each in log.new()] == ["a"]
    path.write_text(whole)
    assert [each.name for each in log.new()] == ["b"]


def test_an_eviction_names_its_pod_in_its_options(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(
        lines(removal(requestObject={"deleteOptions": {"preconditions": {"uid": "v"}}}))
    )
    assert [each.uid for each in AuditLog(path, "chaos").new()] == ["v"]


def test_a_pod_is_reduced() -> None:
    seen = pod_seen(
        {
            "metadata": {"uid": "u", "name": "a", "labels": {GROUP_LABEL: "g1"}},
            "spec": {
                "priority": 7,
                "nodeName": "n0",
                "containers": [{"resources": {"requests": {"cpu": "1500m"}}}, {}],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "message": "why"}],
            },
        }
    )
    assert (seen.group, seen.cpu, seen.priority, seen.node, seen.disrupted) == (
        "g1",
        1500,
        7,
        "n0",
        "why",
    )


@pytest.mark.parametrize(
    ("spec", "takes_pods"),
    [
        ({}, True),
        ({"unschedulable": True}, False),
        ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, False),
        ({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}, True),
    ],
)
def test_a_node_is_open_or_closed(spec: dict[str, Any], *, takes_pods: bool) -> None:
    node = {"spec": spec, "status": {"allocatable": {"cpu": "4"}}}
    assert node_room(node) == (4000, takes_pods)


def test_recovery_is_counted_from_the_end_of_a_fault() -> None:
    history, measures = History(), Measures()
    measures.good_verbs = [(9.0, 9.1), (11.0, 11.5)]
    history.placed = [(9.5, "g1"), (14.0, "g2")]
    fault = Fault("x", "", 8.0, ended=10.0)
    assert measures.to_good_verb(fault) == 1.5
    assert to_placement(history, fault) == 4.0
    assert measures.to_good_verb(Fault("x", "", 8.0, ended=12.0)) is None


def test_percentiles() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(value) for value in range(10)], 0.9) == 9.0


def test_resources_of_several_processes() -> None:
    found = resources([Sample(0, 1, 50, 9), Sample(9, 1, 60, 12), Sample(10, 2, 40, 10)])
    assert found["rss_mib"] == {"start": 50, "max": 60, "end": 40}
    assert found["longest_life"] == {"seconds": 9, "rss_mib": [50, 60], "fds": [9, 12]}


def test_a_report_tells_a_violation_with_its_story() -> None:
    run = Run("1.37", 5)
    run.history.arrive(GroupSpec("g1"), 100.0)
    run.history.arrive(GroupSpec("g10"), 101.0)
    fault = Fault("etcd kill -9", "killed", 102.0)
    run.history.begin(fault)
    run.history.end(fault, 103.0)
    problem = Problem("half gone", "g1", "one of two left")
    run.violations.append(Violation(104.0, problem, story_of(run.history, problem, 90.0)))
    report = report_of(run, "v1.37.0")
    text = text_of(report)
    assert "violation 1: half gone: one of two left" in text
    assert "arrives: single g1 (" in text
    assert "g10" not in text
    assert "| etcd kill -9 | 1 | 1 | - | - | - | - |" in text
    assert text.endswith("1 faults, 1 violations: 1 half gone")
