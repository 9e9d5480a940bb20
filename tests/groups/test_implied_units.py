"""A PodGroup that says nothing of disruption leaves it to what made the pods.

An MPIJob goes whole; with a PodGroup of scheduler-plugins beside it, as its operator makes one with
gang scheduling on, it is no less one job: losing a worker costs all of it.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import Owner, Pod
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded
from tests.groups.build import core, pod, snapshot

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
