"""PodGroups and Workloads as the API server sends them, through decoding to the gang."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_group, decode_pod
from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_ALL, UNIT_SINGLE, Gang
from extender.model.objects import GangKey, GroupObject, Owner, Pod
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded
from tests.groups.build import core, pod, snapshot
from tests.groups.owner_gangs import RESOLVER
from tests.groups.owners import document

GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}


def resolved(spec: dict[str, Any], version: str = "v1beta1", pods: int = 3) -> Gang:
    group = decode_group(
        "core",
        json.dumps(
            {
                "apiVersion": f"scheduling.k8s.io/{version}",
                "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "ns", "uid": "u"},
                "spec": spec,
            }
        ).encode(),
    )
    members = [
        decode_pod(
            {
                "metadata": {"name": f"p{i}", "namespace": "ns", "uid": f"u{i}"},
                "spec": {"schedulingGroup": {"podGroupName": "g"}, "priority": 5},
            }
        )
        for i in range(pods)
    ]
    state = snapshot(members, [group])
    return Resolver(GroupSettings()).resolve(GangKey("pod-group", "ns", "g"), state)


@pytest.mark.parametrize(
    ("version", "mode", "unit"),
    [
        ("v1alpha2", "PodGroup", UNIT_ALL),
        ("v1alpha2", "Pod", UNIT_SINGLE),
        ("v1alpha2", None, UNIT_SINGLE),
        ("v1alpha3", {"all": {}}, UNIT_ALL),
        ("v1alpha3", {"single": {}}, UNIT_SINGLE),
        ("v1beta1", {"all": {}}, UNIT_ALL),
        ("v1beta1", {"single": {}}, UNIT_SINGLE),
        ("v1beta1", None, UNIT_SINGLE),
    ],
)
@pytest.mark.parametrize("policy", [GANG, BASIC], ids=["gang", "basic"])
def test_disruption_mode_in_every_spelling(
    policy: dict[str, Any], version: str, mode: Any, unit: str
) -> None:
    gang = resolved(policy | {"disruptionMode": mode}, version)
    assert gang.unit == unit
    assert not gang.problems
    assert gang.starts_whole is (policy is GANG)
    assert gang.min_count == (3 if policy is GANG else 1)


def test_priority_and_policy_of_the_group() -> None:
    gang = resolved(GANG | {"priority": 90, "preemptionPolicy": "Never"})
    assert (gang.preemptor_priority, gang.victim_priority, gang.preempts) == (90, 90, False)


def test_completion_index_survives_decoding() -> None:
    pod = decode_pod(
        {
            "metadata": {
                "name": "train-0-x",
                "namespace": "ns",
                "uid": "u",
                "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
                "ownerReferences": [
                    {"kind": "Job", "name": "train", "uid": "j", "controller": True}
                ],
            },
            "spec": {},
        }
    )
    key = Resolver(GroupSettings()).member_key(pod)
    assert key == GangKey("indexed-job", "ns", "train")


def test_crd_group_by_label() -> None:
    group = decode_group(
        "scheduling-plugins",
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "ns", "uid": "u"},
            "spec": {"minMember": 2, "scheduleTimeoutSeconds": 10},
        },
    )
    pod = decode_pod(
        {
            "metadata": {
                "name": "a",
                "namespace": "ns",
                "uid": "u",
                "labels": {"scheduling.x-k8s.io/pod-group": "g"},
            },
            "spec": {},
        }
    )
    (gang,) = Resolver(GroupSettings()).resolve_all(snapshot([pod], [group]))
    assert (gang.min_count, gang.complete, gang.problems) == (2, False, ())


def made(name: str, group: str = "workers", key: str = "") -> Pod:
    ref = {"name": "train", "podGroup": group}
    if key:
        ref["podGroupReplicaKey"] = key
    meta = {"namespace": "ns", "name": name, "uid": name}
    return decode_pod({"metadata": meta, "spec": {"workloadRef": ref}})


def workload(least: int = 3) -> GroupObject:
    groups = [
        {"name": "workers", "policy": {"gang": {"minCount": least}}},
        {"name": "driver", "policy": {"basic": {}}},
    ]
    return decode_group("core-workload", document("core-workload", "train", {"podGroups": groups}))


def gangs(pods: list[Pod], *groups: GroupObject) -> list[Gang]:
    return RESOLVER.resolve_all(snapshot(pods, groups))


def test_a_pod_group_of_a_workload_is_a_gang() -> None:
    (gang,) = gangs([made("a"), made("b")], workload())
    assert str(gang.key) == "pod-group:ns/train..workers"
    assert (gang.min_count, gang.complete, gang.starts_whole) == (3, False, True)
    assert gang.unit == UNIT_SINGLE
    assert not gang.problems


def test_each_replica_key_is_a_gang_of_its_own() -> None:
    pods = [made("a", key="0"), made("b", key="0"), made("c", key="1")]
    found = gangs(pods, workload())
    assert [(gang.key.name, len(gang.members)) for gang in found] == [
        ("train..workers..0", 2),
        ("train..workers..1", 1),
    ]
    assert {gang.min_count for gang in found} == {3}


def test_a_basic_one_starts_one_by_one() -> None:
    (gang,) = gangs([made("a", "driver")], workload())
    assert (gang.min_count, gang.starts_whole, gang.problems) == (1, False, ())


@pytest.mark.parametrize(
    ("group", "objects", "why"),
    [
        ("workers", (), "is not served or must not be read"),
        ("others", (workload(),), "has no pod group 'others'"),
        ("workers", (workload(-2),), "gang.minCount is -2"),
    ],
)
def test_what_is_missing_is_a_problem(
    group: str, objects: tuple[GroupObject, ...], why: str
) -> None:
    (gang,) = gangs([made("a", group)], *objects)
    (problem,) = gang.problems
    assert problem.startswith("Workload ns/train (scheduling.k8s.io/v1alpha1)")
    assert why in problem


COSCHEDULING = {"scheduling.x-k8s.io/pod-group": "g-0"}
PAIR = {
    "pod-group.scheduling.sigs.k8s.io/name": "g-0",
    "pod-group.scheduling.sigs.k8s.io/min-available": "4",
}
MADE = ["training-operator", "training-operator-mpi", "ray-cluster", "spark", "kai"]


def gang(pods: list[Pod], settings: GroupSettings) -> Gang:
    """The one gang of these pods, with a PodGroup of scheduler-plugins for four."""
    groups = [core("g-0", min_count=4, source="scheduling-plugins")]
    (one,) = Resolver(settings).resolve_all(snapshot(pods, groups, settings=settings))
    return one


def made_by(system: str, labels: dict[str, str]) -> list[Pod]:
    """Four that run."""
    found = [recorded.pod(system, i, 4) for i in range(4)]
    return [replace(each, labels=each.labels | labels, node=f"n-{each.uid}") for each in found]


@pytest.mark.parametrize("labels", [COSCHEDULING, PAIR])
@pytest.mark.parametrize("system", MADE)
def test_a_job_goes_whole_also_under_a_pod_group(system: str, labels: dict[str, str]) -> None:
    one = gang(made_by(system, labels), GroupSettings())
    assert one.key.dialect in ("scheduling-plugins", "scheduling-plugins-label")
    assert (one.unit, one.goes_whole) == ("all", True)


def test_a_train_job_of_kubeflow_trainer_goes_whole() -> None:
    """Its runtime's coscheduling puts the label on a JobSet's pods."""
    metas = [owners.train_job(i, 4, "g-0") for i in range(4)]
    pods = [
        replace(pod(f"t-{i}", labels=meta["labels"] | COSCHEDULING), node=f"n{i}")
        for i, meta in enumerate(metas)
    ]
    assert gang(pods, GroupSettings()).goes_whole


def test_configuration_has_the_last_word() -> None:
    pods = made_by("training-operator", COSCHEDULING)
    assert not gang(pods, GroupSettings(unit={"scheduling-plugins": "single"})).goes_whole
    assert not gang(pods, GroupSettings(unit={"training-operator": "single"})).goes_whole


def test_pods_that_belong_together_by_the_pod_group_alone_are_single_victims() -> None:
    replicas = Owner("ReplicaSet", "r", "uid-r")
    pods = [
        replace(pod(f"p-{i}", labels=COSCHEDULING, owner=replicas), node=f"n{i}") for i in range(4)
    ]
    assert not gang(pods, GroupSettings()).goes_whole
    mixed = [*made_by("training-operator", COSCHEDULING)[:3], pods[3]]
    assert not gang(mixed, GroupSettings()).goes_whole


@pytest.mark.parametrize("system", ["volcano", "koordinator-pod-group"])
def test_a_leader_and_its_workers_go_together_under_a_quorum_of_one(system: str) -> None:
    """LeaderWorkerSet's gang provider for Volcano asks for one with startupPolicy LeaderReady."""
    meta = recorded.OBJECTS[system](0, 4, "lws-0")
    named = meta.get("annotations", {}) | meta.get("labels", {})
    found = [recorded.pod("leader-worker-set", i, 4, "lws-0") for i in range(4)]
    pods = [
        replace(
            each,
            annotations=each.annotations | named,
            labels=each.labels | named,
            node=f"n-{each.uid}",
        )
        for each in found
    ]
    group = recorded.group(system, 1, "lws-0")
    (one,) = Resolver(GroupSettings()).resolve_all(snapshot(pods, [group]))
    assert one.key.dialect == system
    assert (one.unit, one.goes_whole, one.starts_whole) == ("all", True, False)
    alone = [replace(each, labels=named) for each in pods]
    (one,) = Resolver(GroupSettings()).resolve_all(snapshot(alone, [group]))
    assert not one.goes_whole
