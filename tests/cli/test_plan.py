"""``plan``: the offline answer from kubectl's JSON, from a downloaded snapshot, with a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.app.main import main
from extender.cli.output import encoded
from extender.gang.plan.assemble import dump, restore
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import gang_key, group, node, pod, snapshot

Obj = dict[str, Any]


def kubectl(*, high: bool = True) -> Obj:
    """What kubectl prints for four full nodes, a low gang of four and a waiting high one."""
    items: list[Obj] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}", "uid": f"n{i}"},
            "status": {"allocatable": {"cpu": "4", "pods": "110"}},
        }
        for i in range(4)
    ]
    items.append(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high", "uid": "c"},
            "value": 100000,
        }
    )
    for name, priority in (("low", 1), ("high", 100000)):
        if name == "high" and not high:
            continue
        items.append(
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "team", "uid": f"g-{name}"},
                "spec": {
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "disruptionMode": {"all": {}},
                    "priority": priority,
                },
            }
        )
        for i in range(4):
            spec: Obj = {
                "priority": priority,
                "schedulingGroup": {"podGroupName": name},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}],
            }
            if name == "low":
                spec["nodeName"] = f"n{i}"
            items.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{name}-{i}",
                        "namespace": "team",
                        "uid": f"p-{name}-{i}",
                        "creationTimestamp": "2026-11-01T00:00:00Z",
                    },
                    "spec": spec,
                    "status": {"phase": "Running" if name == "low" else "Pending"},
                }
            )
    return {"apiVersion": "v1", "kind": "List", "items": items}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(kubectl()))
    return path


def test_text_names_victims_reasons_seats_and_proof(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(cluster), "--gang", "high"]) == 0
    text = capsys.readouterr().out
    assert "plan for pod-group:team/high, priority 100000: optimal" in text
    for i in range(4):
        assert f"team/low-{i} on n{i} (priority 1, pod-group:team/low)" in text
    assert text.count(" -> n") == 4
    assert "gangs@1: 1, 1" in text
    assert "pods@1: 4, 4" in text


def test_json_has_the_whole_plan(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(cluster), "--gang", "team/high", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert {victim["name"] for victim in plan["victims"]} == {f"low-{i}" for i in range(4)}
    assert plan["proof"] == "optimal"


@pytest.mark.parametrize(
    ("named", "settings", "told"),
    [
        ("volcano", "", True),
        ("volcano", "schedulerNames: [volcano]", False),
        ("", "", False),
        ("default-scheduler", "", False),
    ],
)
def test_who_has_to_ask_is_told_where_members_name_another_scheduler(
    named: str,
    settings: str,
    told: bool,  # noqa: FBT001
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = kubectl()
    for item in state["items"]:
        if item["metadata"]["name"].startswith("high-") and named:
            item["spec"]["schedulerName"] = named
    (tmp_path / "dump.json").write_text(json.dumps(state))
    (tmp_path / "config.yaml").write_text(settings or "{}")
    words = ["plan", str(tmp_path / "dump.json"), "--gang", "high"]
    assert main([*words, "--config", str(tmp_path / "config.yaml")]) == 0
    said = "members of pod-group:team/high name 'volcano' as their scheduler: planned as if"
    assert (said in capsys.readouterr().err) is told


def test_refusal_exits_with_one_and_says_why(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(cluster), "--gang", "low"]) == 1
    assert "all 4 members of the quorum have a node" in capsys.readouterr().out


def test_a_manifest_adds_a_gang_that_is_not_there_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(kubectl(high=False)))
    manifest = tmp_path / "gang.yaml"
    manifest.write_text(
        """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: new, namespace: team}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  priorityClassName: high
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team}
spec:
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      priorityClassName: high
      schedulingGroup: {podGroupName: new}
      containers: [{name: c, resources: {requests: {cpu: "3"}}}]
"""
    )
    assert main(["plan", str(path), "--gang", "new", "--manifest", str(manifest)]) == 0
    text = capsys.readouterr().out
    assert "priority 100000" in text
    assert "team/train-0 -> " in text
    assert "team/low-3" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--gang", "nobody"], "there are: pod-group:team/high, pod-group:team/low"),
        (["--gang", "high", "--config", "missing.yaml"], "missing.yaml"),
        (["--gang", "high", "--manifest", "missing.yaml"], "missing.yaml"),
    ],
)
def test_bad_input_exits_with_two_and_names_it(
    cluster: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(cluster), *arguments]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '"text"',
        '{"kind": "PodgroupExtenderSnapshot", "format": 1}',
        '{"kind":"List","items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":3}}]}',
        json.dumps(
            {
                "kind": "Node",
                "apiVersion": "v1",
                "metadata": {"name": "n", "uid": "u"},
                "status": {"allocatable": {"cpu": "four"}},
            }
        ),
    ],
)
def test_malformed_dumps_name_the_file(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    assert main(["plan", str(path), "--gang", "x"]) == 2
    assert "broken.json" in capsys.readouterr().err


def test_a_downloaded_snapshot_replays_to_the_same_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(plan=PlanSettings(pdb_policy="prefer"))
    state = snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            *(pod(f"low-{i}", priority=1, group="low", on=f"n{i}") for i in range(4)),
            *(pod(f"high-{i}", priority=9, group="high") for i in range(3)),
        ],
        [group("low"), group("high", 3)],
        generation=77,
    )
    resolver = Resolver(settings.groups)
    live = Planner(settings, resolver).plan(
        GangQuestion(resolver.resolve(gang_key("high"), state), state)
    )
    document = dump(state, (), settings)
    assert restore(document, resolver.member_key) == state
    path = tmp_path / "snapshot.json"
    path.write_bytes(msgspec.json.encode(document))
    assert main(["plan", str(path), "--gang", "high", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)["plan"]
    assert replayed == json.loads(encoded(live, "json"))
