"""``plan``: the offline answer from a dump in any form, from a snapshot, with a manifest."""

from __future__ import annotations

import io
import json
import sys
import time
from array import array
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from extender.app.main import main
from extender.check.documents import Document
from extender.check.network_rules import budget_findings
from extender.check.workloads import selects
from extender.cli.cluster_question import ClusterQuestion, answer
from extender.cli.output import encoded
from extender.fit.selectors import matches
from extender.gang.plan.assemble import dump, restore
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import LabelSelector, Requirement
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search.problem.stop import Countdown
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


Capture = pytest.CaptureFixture[str]


def dumps_answer(capsys: Capture, *arguments: str) -> tuple[int, Obj, str]:
    """Status, the JSON answer and what else was said."""
    status = main(["plan", *arguments, "--gang", "high", "-o", "json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else {}, err


@pytest.fixture
def plan(tmp_path: Path, capsys: Capture) -> Obj:
    """The answer to the whole dump as one JSON file."""
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(kubectl()))
    return dumps_answer(capsys, str(path))[1]


def test_yaml_is_read_as_json_is(tmp_path: Path, capsys: Capture, plan: Obj) -> None:
    path = tmp_path / "dump"
    path.write_text(yaml.safe_dump(kubectl()))
    assert dumps_answer(capsys, str(path))[:2] == (0, plan)
    # Unquoted times, as people write them, and several documents.
    text = yaml.safe_dump_all(kubectl()["items"]).replace(
        "'2026-11-01T00:00:00Z'", "2026-11-01T00:00:00Z"
    )
    path.write_text(text)
    assert "creationTimestamp: 2026" in text
    assert dumps_answer(capsys, str(path))[:2] == (0, plan)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_the_files_of_powershell_are_read(
    encoding: str, tmp_path: Path, capsys: Capture, plan: Obj
) -> None:
    """Its ``>`` writes a byte order mark, and with version 5.1 UTF-16."""
    path = tmp_path / "dump.json"
    for text in (json.dumps(kubectl()), yaml.safe_dump(kubectl())):
        path.write_text(text, encoding=encoding, newline="\r\n")
        assert dumps_answer(capsys, str(path))[:2] == (0, plan)
        path = tmp_path / "dump.yaml"
    path.write_bytes(b"\xff\xfea")
    assert main(["plan", str(path), "--gang", "x"]) == 2
    assert f"error: {path}: not UTF-16 at byte 2" in capsys.readouterr().err


def test_a_variable_that_is_not_set_is_no_directory(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "", "--gang", "x"])
    assert ended.value.code == 2
    assert "DUMP: is empty" in capsys.readouterr().err


def test_a_directory_is_read_with_all_below_it(tmp_path: Path, capsys: Capture, plan: Obj) -> None:
    below = tmp_path / "dump" / "team"
    below.mkdir(parents=True)
    for kind in {item["kind"] for item in kubectl()["items"]}:
        items = [item for item in kubectl()["items"] if item["kind"] == kind]
        (below / f"{kind}.json").write_text(json.dumps({"kind": "List", "items": items}))
    (below / ".hidden.json").write_text("{")
    (below / "notes.txt").write_text("{")
    assert dumps_answer(capsys, str(tmp_path / "dump"))[:2] == (0, plan)
    # The same pods twice are the same pods.
    (tmp_path / "dump" / "again.yaml").write_text(yaml.safe_dump(kubectl()))
    assert dumps_answer(capsys, str(tmp_path / "dump"))[:2] == (0, plan)


def test_the_newer_of_two_copies_counts(tmp_path: Path, capsys: Capture) -> None:
    for name, version, cpu in (("a", 7, "4"), ("b", 5, "1")):
        dump = kubectl()
        for item in dump["items"]:
            item["metadata"]["resourceVersion"] = str(version)
            if item["kind"] == "Node":
                item["status"]["allocatable"]["cpu"] = cpu
        (tmp_path / f"{name}.json").write_text(json.dumps(dump))
    assert dumps_answer(capsys, str(tmp_path))[0] == 0


def test_standard_input_is_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, plan: Obj
) -> None:
    for text in (json.dumps(kubectl()), yaml.safe_dump(kubectl())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert dumps_answer(capsys, "-")[:2] == (0, plan)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    status, _, err = dumps_answer(capsys, "-")
    assert status == 2
    assert "standard input: is empty" in err


def test_the_answer_as_yaml(tmp_path: Path, capsys: Capture, plan: Obj) -> None:
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(kubectl()))
    assert main(["plan", str(path), "--gang", "high", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == plan


def without(*kinds: str) -> Obj:
    return {**kubectl(), "items": [i for i in kubectl()["items"] if i["kind"] not in kinds]}


@pytest.mark.parametrize(
    ("dump", "told"),
    [
        (without("PriorityClass"), "no PriorityClasses"),
        (without("PodGroup"), "8 pods of PodGroups that are not there (team/high, team/low)"),
        (kubectl(), "no PodDisruptionBudgets"),
        (kubectl(), "objects of one namespace only (team): if kubectl was asked without -A"),
        (
            {"items": kubectl()["items"][1:], "kind": "List"},
            "1 pod on nodes that are not there (n0)",
        ),
    ],
)
def test_what_a_dump_lacks_is_told(tmp_path: Path, capsys: Capture, dump: Obj, told: str) -> None:
    path = tmp_path / "part.json"
    path.write_text(json.dumps(dump))
    _, _, err = dumps_answer(capsys, str(path))
    assert f"note: the dump has {told}" in err


def test_a_gang_whose_group_is_missing_is_a_victim_as_the_note_says(
    tmp_path: Path, capsys: Capture
) -> None:
    """The note said that it is not evicted, above a plan that evicted it."""
    state = kubectl()
    state["items"] = [
        item
        for item in state["items"]
        if (item["kind"], item["metadata"]["name"]) != ("PodGroup", "low")
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(state))
    status, found, said = dumps_answer(capsys, str(path))
    assert status == 0
    victims = found["plan"]["victims"]
    assert {victim["name"] for victim in victims} == {f"low-{i}" for i in range(4)}
    assert {victim["unit"] for victim in victims} == {None}, "single ones"
    assert "(team/low): no pod is evicted for such a gang, and as victims its pods are" in said


def test_a_dump_without_nodes_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "part.json"
    path.write_text(json.dumps(without("Node")))
    status, found, err = dumps_answer(capsys, str(path))
    assert (status, found) == (2, {})
    assert "the dump has no nodes" in err
    assert "kubectl get nodes," in err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a: [", "not valid YAML"),
        ("- 1", "a list is no object"),
        ("\n", "is empty"),
        ("kind: PodgroupExtenderSnapshot\nformat: 1", "not readable"),
        ("\x80", "not UTF-8"),
    ],
)
def test_malformed_yaml_names_the_file(
    tmp_path: Path, capsys: Capture, content: str, told: str
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content.encode("latin-1"))
    status, _, err = dumps_answer(capsys, str(path))
    assert status == 2
    assert "broken.yaml" in err
    assert told in err


def test_an_empty_directory_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    status, _, err = dumps_answer(capsys, str(tmp_path))
    assert status == 2
    assert "no file that ends in .json, .yaml, .yml" in err


GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: new, namespace: team}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  priorityClassName: high
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: new-%d, namespace: team}
spec:
  priorityClassName: high
  schedulingGroup: {podGroupName: new}
  containers: [{name: c, resources: {requests: {cpu: "3"}}}]
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team}
spec:
  parallelism: 4
  %s
  template:
    spec:
      priorityClassName: high
      containers: [{name: c, resources: {requests: {cpu: "3"}}}]
"""
INDEXED = "completionMode: Indexed"


class Asked:
    """Runs ``plan`` on a dump and manifest documents."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def __call__(
        self, *documents: str, gang: str = "new", dump: Obj | None = None
    ) -> tuple[int, str, str]:
        """Return status, output and error output."""
        path, manifest = self._folder / "cluster.json", self._folder / "gang.yaml"
        path.write_text(json.dumps(dump or kubectl(high=False)))
        manifest.write_text("\n---\n".join(documents))
        command = ["plan", str(path), "--gang", gang, "--manifest", str(manifest)]
        status = main(command)
        out, err = self._capsys.readouterr()
        return status, out, err


@pytest.fixture
def asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(tmp_path, capsys)


def with_class(**fields: Any) -> Obj:
    """The cluster with one more priority class."""
    dump = kubectl(high=False)
    dump["items"].append(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "other", "uid": "o"},
            "value": 500,
            **fields,
        }
    )
    return dump


def test_a_document_of_an_unread_kind_leaves_the_one_before_it_alone(asked: Asked) -> None:
    deployment = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: team}
spec: {priorityClassName: other}
"""
    status, out, _ = asked(
        GROUP, POD % 0, POD % 1, deployment, dump=with_class(preemptionPolicy="Never")
    )
    assert status == 0
    assert "priority 100000" in out


def test_a_list_of_pods_is_prioritised_pod_by_pod(asked: Asked) -> None:
    listed = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: new-0, namespace: team}
  spec: {priorityClassName: high, schedulingGroup: {podGroupName: new},
    containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: new-1, namespace: team}
  spec: {priorityClassName: high, schedulingGroup: {podGroupName: new},
    containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
"""
    status, out, _ = asked(GROUP, listed)
    assert status == 0
    assert "priority 100000" in out
    assert out.count("team/new-") == 2


def test_a_priority_class_may_stand_after_its_pods(asked: Asked) -> None:
    named = (POD % 0).replace("high", "later"), (POD % 1).replace("high", "later")
    later = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: later}
value: 77
"""
    status, out, _ = asked(GROUP.replace("high", "later"), *named, later)
    assert status == 0
    assert "priority 77" in out


@pytest.mark.parametrize(
    ("fields", "pods"),
    [
        ("completions: 2\n  completionMode: Indexed", 2),
        ("completions: 9\n  completionMode: Indexed", 4),
        ("completions: null\n  completionMode: Indexed", 4),
        ("suspend: true\n  completions: 3\n  completionMode: Indexed", 3),
    ],
)
def test_a_job_has_no_more_pods_than_completions(asked: Asked, fields: str, pods: int) -> None:
    status, out, _ = asked(JOB % fields, gang="train")
    assert status == 0
    assert out.count(" -> n") == pods


def test_a_job_that_is_not_indexed_is_no_gang(asked: Asked) -> None:
    status, _, err = asked(JOB % "completions: 4", gang="train")
    assert status == 2
    assert "Job team/train is NonIndexed" in err
    assert "completionMode: Indexed" in err


def test_pods_of_a_job_that_is_not_indexed_are_members_where_they_say_so(asked: Asked) -> None:
    grouped = (JOB % "completions: 4").replace(
        "priorityClassName", "schedulingGroup: {podGroupName: new}\n      priorityClassName"
    )
    status, out, _ = asked(GROUP, grouped)
    assert status == 0
    assert "wants 2 seats: 4 x train" in out


def test_the_global_default_class_counts_where_no_class_is_named(asked: Asked) -> None:
    line = "  priorityClassName: high\n"
    bare = [GROUP.replace(line, ""), *((POD % i).replace(line, "") for i in range(2))]
    status, out, _ = asked(*bare, dump=with_class(globalDefault=True))
    assert status == 0
    assert "priority 500" in out
    # Of several the API server takes the lowest (getDefaultPriorityClass of the admission plugin).
    dump = with_class(globalDefault=True)
    dump["items"].append(
        {**dump["items"][-1], "value": 40, "metadata": {"name": "low", "uid": "l"}}
    )
    assert "priority 40" in asked(*bare, dump=dump)[1]


@pytest.mark.parametrize("on", ["pod", "default", "group"])
def test_a_class_that_never_preempts_makes_no_victims(asked: Asked, on: str) -> None:
    default = on == "default"
    dump = with_class(preemptionPolicy="Never", globalDefault=default)
    line = "" if default else "  priorityClassName: other\n"
    pods = [(POD % i).replace("  priorityClassName: high\n", line) for i in range(2)]
    grouped = GROUP
    if on == "group":
        grouped, pods = GROUP.replace("high", "other"), [POD % i for i in range(2)]
    status, out, _ = asked(grouped, *pods, dump=dump)
    assert status == 1
    assert "preemptionPolicy is Never" in out


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        (["metadata: {name: x}\nkind: Pod\napiVersion: v1\nspec: 3"], "Pod default/x: spec"),
        ([POD.replace("high", "[high]") % 0], "Pod team/new-0: spec.priorityClassName"),
        ([POD.replace("high", "unheard") % 0], "PriorityClass 'unheard' is not in the cluster"),
        ([POD.replace("namespace: team", "namespace: 3") % 0], "metadata.namespace"),
        ([POD.replace("namespace: team", "labels: [a]") % 0], "metadata.labels"),
        ([(POD % 0).replace("name: new-0", "name: 7")], "metadata.name"),
        ([(POD % 0).replace("name: new-0, ", "")], "metadata.name"),
        ([POD.replace("spec:", "spec:\n  priority: 3") % 0], "spec.priority"),
        ([POD.replace("spec:", "spec:\n  preemptionPolicy: Never") % 0], "preemptionPolicy"),
        ([JOB % "completions: many"], "Job team/train: spec.completions"),
        ([(JOB % INDEXED).replace("parallelism: 4", "parallelism: true")], "spec.parallelism"),
        ([(JOB % INDEXED).replace("parallelism: 4", "parallelism: -1")], "spec.parallelism"),
        ([JOB % "completionMode: Sometimes"], "spec.completionMode"),
        ([(JOB % INDEXED).replace("template:", "template: [") + "]"], "not valid YAML"),
        (
            ["apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: [1]}"],
            "Job default/j: spec.template",
        ),
        (
            [
                "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: "
                "{metadata: {labels: 3}, spec: {}}}"
            ],
            "spec.template.metadata.labels",
        ),
        (["apiVersion: batch/v1\nkind: Job\nmetadata: [j]"], "metadata"),
        (["apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, labels: 4}\nspec: 1"], "spec"),
        ([GROUP.replace("high", "3")], "priorityClassName"),
        ([GROUP + "  priority: 3\n"], "PodGroup team/new: spec.priority"),
        (["- 1"], "is not an object"),
    ],
)
def test_what_is_wrong_is_named_and_exits_with_two(
    asked: Asked, documents: list[str], told: str
) -> None:
    status, out, err = asked(*documents)
    assert (status, out) == (2, "")
    assert told in err
    assert "gang.yaml" in err


JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: two, namespace: team}
spec:
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        template:
          spec:
            priorityClassName: high
            containers: [{name: c, resources: {requests: {cpu: "3"}}}]
"""


def test_a_jobset_becomes_the_pods_of_its_jobs(asked: Asked) -> None:
    status, out, _ = asked(JOBSET, gang="jobset:team/two")
    assert status == 0
    assert {f"team/two-workers-{job}-{pod} -> n" in out for job in (0, 1) for pod in (0, 1)} == {
        True
    }
    status, _, err = asked(JOBSET.replace("replicas: 2", "replicas: x"), gang="two")
    assert status == 2
    assert "JobSet team/two: spec.replicatedJobs[0].replicas must be a whole number" in err


def test_what_the_manifest_has_again_takes_the_place_of_what_waits(asked: Asked) -> None:
    again = GROUP.replace("name: new", "name: high").replace("minCount: 2", "minCount: 4")
    pods = [(POD % i).replace("new", "high").replace('"3"', '"2"') for i in range(4)]
    status, out, _ = asked(again, *pods, gang="high", dump=kubectl())
    assert status == 0
    assert "wants 4 seats: 4 x" in out
    running = (POD % 0).replace("new", "low")
    status, _, err = asked(GROUP, running)
    assert status == 2
    assert "Pod team/low-0 of the manifest is there already and has a node, n0" in err


def test_the_only_gang_of_a_manifest_need_not_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, manifest = tmp_path / "cluster.json", tmp_path / "gang.yaml"
    path.write_text(json.dumps(kubectl(high=False)))
    manifest.write_text(
        "\n---\n".join((GROUP, POD % 0, POD % 1, "kind: Service\nmetadata: {name: s}"))
    )
    assert main(["plan", str(path), "-f", str(manifest)]) == 0
    out, err = capsys.readouterr()
    assert "plan for pod-group:team/new" in out
    assert "Service default/s is not read" in err
    manifest.write_text(JOB % "")
    assert main(["plan", str(path), "-f", str(manifest)]) == 2
    assert "NonIndexed" in capsys.readouterr().err
    assert main(["plan", str(path)]) == 2
    assert "--gang" in capsys.readouterr().err


def test_pods_without_uid_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = kubectl()
    del dump["items"][-1]["metadata"]["uid"]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(dump))
    assert main(["plan", str(path), "--gang", "high"]) == 2
    err = capsys.readouterr().err
    assert "Pod team/high-3: metadata.uid" in err
    assert "cluster.json" in err


@pytest.mark.parametrize("uid", ['""', "null"])
def test_pods_of_a_manifest_need_no_uid(asked: Asked, uid: str) -> None:
    pods = [(POD % i).replace("namespace: team", f"namespace: team, uid: {uid}") for i in range(2)]
    status, out, _ = asked(GROUP, *pods)
    assert status == 0
    assert out.count(" -> n") == 2


def test_a_gang_whose_members_have_all_finished_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = kubectl()
    for item in dump["items"]:
        if item["kind"] == "Pod" and item["metadata"]["name"].startswith("high"):
            item["status"]["phase"] = "Succeeded"
    dump["items"][-1]["status"]["phase"] = "Failed"
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(dump))
    assert main(["plan", str(path), "--gang", "high"]) == 1
    assert "all 4 members have finished (1 Failed, 3 Succeeded)" in capsys.readouterr().out


def test_a_group_without_pods_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = kubectl()
    dump["items"] = [
        item for item in dump["items"] if not item["metadata"]["name"].startswith("high-")
    ]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(dump))
    assert main(["plan", str(path), "--gang", "team/high"]) == 1
    assert "waits for members: 0 of 4 exist" in capsys.readouterr().out


HIGH = 100


def contested(gangs: int = 4) -> Snapshot:
    """Two low gangs of three on every node, one in a row and one spread out, and a high gang
    that wants every other node."""
    nodes = 3 * gangs
    where = {
        **{f"row-{g}": [3 * g, 3 * g + 1, 3 * g + 2] for g in range(gangs)},
        **{f"far-{g}": [g, g + gangs, g + 2 * gangs] for g in range(gangs)},
    }
    low = [
        pod(f"{name}-{n}", on=f"n{n}", cpu=2, group=name) for name, on in where.items() for n in on
    ]
    high = [pod(f"high-{i}", priority=HIGH, group="high", cpu=3) for i in range(nodes // 2)]
    groups = [group(name, 3) for name in where]
    return snapshot(
        [node(f"n{i}") for i in range(nodes)],
        [*low, *high],
        [*groups, group("high", len(high))],
    )


@pytest.mark.parametrize(
    ("asked", "limit"), [(None, 7.0), (2.5, 2.5), (0.0, None)], ids=["settings", "given", "none"]
)
def test_the_search_has_the_deadline_and_the_flag_of_the_command(
    monkeypatch: pytest.MonkeyPatch, asked: float | None, limit: float | None
) -> None:
    seen: list[tuple[float | None, Any]] = []

    def plan(
        self: Planner, question: GangQuestion, *, deadline: float | None, cancel: Any
    ) -> Refusal:
        seen.append((deadline, cancel))
        return Refusal(gang=gang_key("high"), code=Code.INFEASIBLE, message="")

    monkeypatch.setattr(Planner, "plan", plan)
    settings = Settings(plan=PlanSettings(seconds=7.0))
    before = time.monotonic()
    answer(ClusterQuestion(contested(), settings), gang_key("high"), asked)
    (deadline, cancel), after = seen[0], time.monotonic()
    if limit is None:
        assert deadline is None
    else:
        assert deadline is not None
        assert before + limit <= deadline <= after + limit
    assert isinstance(cancel, array)
    assert list(cancel) == [0]


def proofs(asks: Sequence[int]) -> list[Plan]:
    """The plans of searches that end at their N-th question of whether to go on."""
    state, settings = contested(), Settings()
    resolver = Resolver(settings.groups)
    found = []
    for many in asks:
        gang = resolver.resolve(gang_key("high"), state)
        plan = Planner(settings, resolver).plan(GangQuestion(gang, state), cancel=Countdown(many))
        assert isinstance(plan, Plan), plan
        found.append(plan)
    return found


def test_a_cut_plan_says_so_with_its_bound_and_more_time_makes_it_no_worse() -> None:
    cut, proved = proofs([0, 1 << 40])
    assert "the search was cut: it was cancelled" in cut.explanation[-1]
    assert "is certain" in " ".join(cut.explanation), cut.explanation
    assert not any("the search was cut" in line for line in proved.explanation)
    assert [level.value for level in proved.costs] <= [level.value for level in cut.costs]


LABELS: tuple[dict[str, str], ...] = ({}, {"app": "web"}, {"app": "db"}, {"team": "a"})


def expression(operator: str, values: list[str] | None) -> dict[str, Any]:
    term: dict[str, Any] = {"key": "app", "operator": operator}
    if values is not None:
        term["values"] = values
    return {"matchExpressions": [term]}


@pytest.mark.parametrize(
    ("operator", "values", "picked"),
    [
        ("In", ["web", "api"], [False, True, False, False]),
        ("NotIn", ["web", "api"], [True, False, True, True]),
        ("Exists", None, [False, True, True, False]),
        ("DoesNotExist", None, [True, False, False, True]),
        # The API server refuses these (ValidateLabelSelector): no such object selects anything.
        ("In", [], [False] * 4),
        ("In", None, [False] * 4),
        ("NotIn", [], [False] * 4),
        ("NotIn", None, [False] * 4),
        ("Exists", ["web"], [False] * 4),
        ("DoesNotExist", ["web"], [False] * 4),
        ("Gt", ["1"], [False] * 4),
        ("in", ["web"], [False] * 4),
    ],
)
def test_an_operator(operator: str, values: list[str] | None, picked: list[bool]) -> None:
    found = [selects(expression(operator, values), labels) for labels in LABELS]
    assert found == picked


def test_it_is_what_the_rules_of_kube_scheduler_say() -> None:
    choices = [("In", ("web",)), ("NotIn", ("web",)), ("Exists", ()), ("DoesNotExist", ())]
    for (operator, values), labels in product(choices, LABELS):
        known = LabelSelector((Requirement("app", operator, values),))
        assert selects(expression(operator, list(values)), labels) == matches(known, labels)


def test_labels_and_expressions_are_both_asked() -> None:
    both = {"matchLabels": {"team": "a"}, **expression("Exists", None)}
    assert selects(both, {"team": "a", "app": "web"})
    assert not selects(both, {"app": "web"})
    assert not selects(both, {"team": "a"})


def test_the_empty_one_selects_all_and_none_nothing() -> None:
    assert selects({}, {})
    assert selects({}, {"app": "web"})
    assert not selects(None, {"app": "web"})


def test_labels_that_are_no_text_are_no_labels_of_a_pod() -> None:
    assert not selects({"matchLabels": {"version": "1"}}, {"version": 1})
    assert not selects({"matchLabels": {"version": 1}}, {"version": "1"})


@pytest.mark.parametrize(("selector", "rules"), [({}, []), (None, ["no-budget"])])
def test_a_budget_without_a_selector_is_nobodys(
    selector: dict[str, Any] | None, rules: list[str]
) -> None:
    """policy/v1: "A null selector will match no pods, while an empty ({}) selector will select
    all pods within the namespace."."""
    container = {"name": "extender", "image": "podgroup-extender"}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "ours"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
    }
    spec: dict[str, Any] = {"maxUnavailable": 1}
    if selector is not None:
        spec["selector"] = selector
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    documents = [Document("a.yaml", deployment), Document("a.yaml", budget)]
    assert [each.rule for each in budget_findings(documents)] == rules
