"""``plan --manifest``: what a gang that is not there yet would be, as the cluster would make it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extender.app.main import main
from tests.cli.test_plan import Obj, kubectl

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
