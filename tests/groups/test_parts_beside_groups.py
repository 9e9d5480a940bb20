"""A PodGroup beside an owner of parts: its number does not replace what each part needs.

KubeRay and training-operator make one PodGroup for all pods of a job, with one number: KubeRay's
volcano_scheduler.go and scheduler_plugins.go, training-operator's podgroup controls.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.app.main import main
from extender.decode.from_json import decode_group
from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded
from tests.groups.build import core, pod, snapshot

DUMPS = Path(__file__).parents[1] / "cli" / "dumps"
RAY, PYTORCH = "ray-head-fits-nowhere", "pytorch-elastic"
Obj = dict[str, Any]

WAYS: dict[str, tuple[str, Obj]] = {
    "volcano": ("scheduling.volcano.sh/v1beta1", {"minMember": 2}),
    "scheduling-plugins": ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2}),
    "pod-group": (
        "scheduling.k8s.io/v1beta1",
        {"priority": 100, "schedulingPolicy": {"gang": {"minCount": 2}}},
    ),
    "kai": ("scheduling.run.ai/v2alpha2", {"minMember": 2}),
}
"""Dialect -> version and spec of a PodGroup of two."""


def named(dialect: str, each: Obj, name: str = "g") -> None:
    """Let the pod name the PodGroup as the dialect does."""
    meta = each["metadata"]
    if dialect == "pod-group":
        each["spec"]["schedulingGroup"] = {"podGroupName": name}
    elif dialect == "scheduling-plugins":
        meta["labels"]["scheduling.x-k8s.io/pod-group"] = name
    else:
        key = "scheduling.k8s.io/group-name" if dialect == "volcano" else "pod-group-name"
        meta["annotations"][key] = name


def answer(dump: Obj, gang: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    main(["plan", str(path), "--gang", gang, "-o", "json"])
    return json.loads(capsys.readouterr().out)


def waiting(dump: Obj) -> list[Obj]:
    return [
        each
        for each in dump["items"]
        if each["kind"] == "Pod"
        and not each["spec"].get("nodeName")
        and each["metadata"]["name"] != "clock"
    ]


def grouped(dump: Obj, dialect: str, spec: Obj) -> None:
    """Put every pod that waits into one PodGroup."""
    for each in waiting(dump):
        named(dialect, each)
    meta = {"name": "g", "namespace": "team", "uid": "pg"}
    made = {"apiVersion": WAYS[dialect][0], "kind": "PodGroup", "metadata": meta, "spec": spec}
    dump["items"].append(made)


@pytest.mark.parametrize("dialect", WAYS)
@pytest.mark.parametrize("what", [RAY, PYTORCH])
def test_no_pod_is_evicted_for_workers_whose_head_fits_nowhere(
    what: str, dialect: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dump = json.loads((DUMPS / f"parts-{what}.json").read_text())
    grouped(dump, dialect, WAYS[dialect][1])
    found = answer(dump, f"{dialect}:team/g", capsys, tmp_path)
    assert found["refusal"]["code"] == "infeasible"
    assert "1 short" in found["refusal"]["message"]


@pytest.mark.parametrize("dialect", ["volcano", "scheduling-plugins"])
def test_a_worker_is_no_ray_cluster_where_no_worker_group_has_a_minimum(
    dialect: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With minReplicas 0 KubeRay writes minMember 1: that one is the head."""
    dump = json.loads((DUMPS / f"parts-{RAY}.json").read_text())
    for each in dump["items"]:
        if each["kind"] == "RayCluster":
            each["spec"]["workerGroupSpecs"][0]["minReplicas"] = 0
    grouped(dump, dialect, {"minMember": 1})
    found = answer(dump, f"{dialect}:team/g", capsys, tmp_path)
    assert found["refusal"]["code"] == "infeasible"


# -- what the gang is ---------------------------------------------------------------------


def ray(*, autoscaled: bool = False, **group: Any) -> GroupObject:
    """A RayCluster of one worker group."""
    spec: Obj = {"workerGroupSpecs": [{"groupName": "small-group", **group}]}
    if autoscaled:
        spec["enableInTreeAutoscaling"] = True
    made = owners.document("ray-cluster", "g-0", spec, uid="g-0")
    return owners.read("ray-cluster", made)


def of_ray(count: int, *, head: bool = True, group: str = "pg", bound: int = 0) -> list[Pod]:
    """Pods of a RayCluster and the PodGroup that they name."""
    pods = [recorded.pod("ray-cluster", i, count) for i in range(0 if head else 1, count)]
    pods = [replace(each, labels=each.labels | labelled(group)) for each in pods]
    return [
        replace(each, node=f"n{i}", started=1000.0) if i < bound else each
        for i, each in enumerate(pods)
    ]


def labelled(group: str) -> dict[str, str]:
    return {"scheduling.x-k8s.io/pod-group": group}


def group_of(least: int, name: str = "pg") -> GroupObject:
    return core(name, min_count=least, source="scheduling-plugins")


def only(pods: list[Pod], *rows: GroupObject) -> Gang:
    (one,) = Resolver(GroupSettings()).resolve_all(snapshot(pods, rows))
    return one


def parts(gang: Gang) -> dict[str, tuple[int, int]]:
    """Name -> (members, least)."""
    return {part.name: (len(part.uids), part.least) for part in gang.parts}


@pytest.mark.parametrize(
    ("least", "group", "wanted"),
    [
        (4, {"replicas": 3, "minReplicas": 1}, {"head": 1, "small-group": 3}),
        # As made before the RayCluster was given more workers: KubeRay does not write it again.
        (2, {"replicas": 3, "minReplicas": 1}, {"head": 1, "small-group": 1}),
        (2, {"replicas": 3}, {"head": 1}),
        (2, {"replicas": 3, "minReplicas": 1, "autoscaled": True}, {"head": 1, "small-group": 1}),
        # A number without numOfHosts.
        (2, {"replicas": 1, "minReplicas": 1, "numOfHosts": 3}, {"head": 1, "small-group": 3}),
    ],
)
def test_the_minima_of_a_ray_cluster_hold_whatever_the_group_says(
    least: int, group: Obj, wanted: dict[str, int]
) -> None:
    one = only(of_ray(4), group_of(least), ray(**group))
    assert {name: count for name, (_, count) in parts(one).items()} == wanted
    assert (one.min_count, one.complete, one.problems) == (least, True, ())
    assert one.missing == max(least, sum(wanted.values()))


@pytest.mark.parametrize("least", [2, 3])
def test_a_group_of_the_workers_alone_waits_for_no_head(least: int) -> None:
    """Its user made it: the head is in no group, or in another one."""
    row = ray(replicas=3, minReplicas=1, autoscaled=True)
    head, *workers = of_ray(4)
    alone = replace(head, labels={k: v for k, v in head.labels.items() if k not in labelled("")})
    pods = [alone, *workers]
    both = Resolver(GroupSettings()).resolve_all(snapshot(pods, [group_of(least), row]))
    (one,) = [each for each in both if each.key.name == "pg"]
    assert (one.complete, one.min_count, one.missing) == (True, least, least)
    other = replace(head, labels=head.labels | labelled("head"))
    rows = [group_of(least), group_of(1, "head"), ray(replicas=3, minReplicas=1)]
    both = Resolver(GroupSettings()).resolve_all(snapshot([other, *workers], rows))
    assert [each.complete for each in both] == [True, True]


def test_a_group_of_all_waits_for_a_head_that_is_not_made_yet() -> None:
    row = ray(replicas=3, minReplicas=1, autoscaled=True)
    one = only(of_ray(4, head=False), group_of(2), row)
    assert (one.complete, parts(one)["head"]) == (False, (0, 1))


def test_another_pod_of_the_group_takes_no_minimum_away() -> None:
    """A RayJob's submitter is in the group, and of no RayCluster."""
    submitter = replace(pod("submit", labels=labelled("pg")), created=9e9)
    one = only([*of_ray(4), submitter], group_of(2), ray(replicas=3, minReplicas=1))
    assert parts(one) == {"head": (1, 1), "small-group": (3, 1)}


@pytest.mark.parametrize(("minimum", "wanted"), [(None, {}), (2, {})])
def test_a_smaller_number_for_a_training_job_is_its_users_own(
    minimum: int | None, wanted: dict[str, tuple[int, int]]
) -> None:
    """training-operator writes minAvailable, or all replicas."""
    pods = [recorded.pod("training-operator", i, 4) for i in range(4)]
    pods = [replace(each, labels=each.labels | labelled("pg")) for each in pods]
    spec: Obj = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    if minimum is not None:
        spec["runPolicy"] = {"schedulingPolicy": {"minAvailable": minimum}}
    job = owners.read("pytorchjob", owners.document("pytorchjob", "g-0", spec))
    assert parts(only(pods, group_of(2), job)) == wanted
    if minimum is None:
        assert parts(only(pods, group_of(4), job)) == {"master": (1, 1), "worker": (3, 3)}


def test_a_master_that_is_done_is_not_waited_for_where_its_job_does_not_say_so_yet() -> None:
    pods = [recorded.pod("training-operator", i, 4) for i in range(4)]
    pods = [replace(each, labels=each.labels | labelled("pg")) for each in pods]
    pods[0] = replace(pods[0], node="n0", phase="Succeeded", started=1000.0)
    spec: Obj = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    spec["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    job = owners.read("pytorchjob", owners.document("pytorchjob", "g-0", spec))
    one = only(pods, group_of(2), job)
    assert (one.complete, parts(one).get("master")) == (True, None)


def test_a_basic_group_gets_no_quorum() -> None:
    pods = [replace(each, pod_group="pg", labels=each.labels) for each in of_ray(4)]
    pods = [
        replace(each, labels={k: v for k, v in each.labels.items() if k not in labelled("")})
        for each in pods
    ]
    one = only(pods, core("pg", min_count=None), ray(replicas=3, minReplicas=3))
    assert (one.starts_whole, one.parts) == (False, ())


def test_a_suspended_worker_group_needs_no_pods() -> None:
    assert parts(only(of_ray(4), group_of(4), ray(replicas=3, suspend=True))) == {"head": (1, 1)}


@pytest.mark.parametrize(("bound", "whole"), [(4, True), (3, False)])
def test_as_a_victim_it_goes_whole_once_each_part_has_run(bound: int, *, whole: bool) -> None:
    pods = of_ray(4, bound=4)
    if bound == 3:
        pods = [replace(pods[0], node="", started=0.0), *pods[1:]]
    one = only(pods, group_of(2), ray(replicas=3, minReplicas=1))
    assert one.unit == UNIT_ALL
    assert one.goes_whole == whole


def test_tasks_that_the_group_states_go_before() -> None:
    row = decode_group(
        "volcano",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "pg", "namespace": "ns", "uid": "pg"},
            "spec": {"minMember": 2, "minTaskMember": {"head": 2}},
        },
    )
    pods = [
        replace(
            each,
            labels={k: v for k, v in each.labels.items() if k not in labelled("")},
            annotations=each.annotations
            | {"scheduling.k8s.io/group-name": "pg", "volcano.sh/task-spec": "head"},
        )
        for each in of_ray(4)
    ]
    assert parts(only(pods, row, ray(replicas=3, minReplicas=1))) == {"head": (4, 2)}
