"""Kueue's WorkloadPriorityClass as a gang's priority, and the word about it where it is none."""

from __future__ import annotations

from typing import Any

import pytest

from extender.decode.from_json import decode_group, decode_pod
from extender.gang.incremental.gangs import Gangs
from extender.gang.plan.assemble import assemble
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings
from tests.groups import recorded
from tests.groups.owners import jobset_pod

ON = GroupSettings(workload_priority=True)
LABEL = "kueue.x-k8s.io/priority-class"


def kueue(*classes: str) -> list[Pod]:
    """Pods of one group, each with this class by label."""
    made = []
    for i, name in enumerate(classes):
        meta = recorded.kueue(i, len(classes), "g")
        if name:
            meta["labels"][LABEL] = name
        document = {"metadata": {"namespace": "ns", "name": f"p{i}", "uid": f"p{i}", **meta}}
        made.append(decode_pod({**document, "spec": {"priority": 5}}))
    return made


def cls(name: str = "high", value: int = 1000) -> GroupObject:
    document = {"metadata": {"name": name, "uid": f"c-{name}"}, "value": value}
    return decode_group("workload-priority-class", document)


def workload(name: str = "g", owner: str = "", **spec: Any) -> GroupObject:
    owners = [
        {"apiVersion": "x/v1", "kind": owner, "name": "g", "uid": "o", "controller": True},
    ]
    meta = {"name": name, "namespace": "ns", "uid": name}
    if owner:
        meta["ownerReferences"] = owners  # type: ignore[assignment]
    return decode_group("workload", {"metadata": meta, "spec": spec})


def state(pods: list[Pod], *groups: GroupObject) -> Snapshot:
    member_key = Resolver(ON).member_key
    return assemble(member_key, nodes=(), pods=pods, groups=groups, now=0.0)


def only(pods: list[Pod], *groups: GroupObject, settings: GroupSettings = ON) -> Gang:
    (gang,) = Resolver(settings).resolve_all(state(pods, *groups))
    return gang


REF = {"kind": "WorkloadPriorityClass", "group": "kueue.x-k8s.io", "name": "high"}
OLD = {
    "priorityClassName": "high",
    "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
}


def test_the_class_by_label_is_the_gangs_priority() -> None:
    gang = only(kueue("high", "high"), cls())
    assert (gang.preemptor_priority, gang.victim_priority) == (1000, 1000)


@pytest.mark.parametrize("spec", [{"priorityClassRef": REF}, OLD])
def test_the_workloads_class_goes_before_the_label(spec: dict[str, Any]) -> None:
    gang = only(kueue("low", "low"), cls(), cls("low", 1), workload(**spec))
    assert gang.preemptor_priority == 1000


def test_the_workload_of_another_kind_of_job_is_found_by_its_owner() -> None:
    meta = jobset_pod(0, "w")
    pod = decode_pod({"metadata": {"namespace": "ns", "name": "a", "uid": "a", **meta}, "spec": {}})
    found = workload("jobset-g-1a2b3", "JobSet", priorityClassRef=REF)
    assert only([pod], cls(), found).preemptor_priority == 1000
    other = workload("jobset-g-1a2b3", "PyTorchJob", priorityClassRef=REF)
    assert only([pod], cls(), other).preemptor_priority == 0


def test_a_number_or_a_pods_class_in_a_workload_is_not_taken() -> None:
    pod_class = {"kind": "PriorityClass", "name": "high"}
    gang = only(kueue("", ""), cls(), workload(priority=2**30, priorityClassRef=pod_class))
    assert gang.preemptor_priority == 5


def test_no_class_reaches_those_of_the_system() -> None:
    gang = only(kueue("top", "top"), cls("top", 2**31 - 1))
    assert gang.preemptor_priority == 1_000_000_000


def test_off_it_is_named_and_does_not_count() -> None:
    gang = only(kueue("high", "high"), cls(), settings=GroupSettings())
    assert gang.preemptor_priority == 5
    (note,) = gang.notes
    assert note == (
        "Kueue's WorkloadPriorityClass 'high' does not count: groups.workloadPriority is off"
    )
    assert not only(kueue("", ""), settings=GroupSettings()).notes


def test_what_cannot_be_read_does_not_exist_or_differs_is_said() -> None:
    gang = only(kueue("high", "high"))
    assert "is not served or must not be read" in gang.notes[0]
    gang = only(kueue("high", "high"), cls("other"))
    assert "'high' does not exist" in gang.notes[0]
    gang = only(kueue("high", ""), cls())
    assert "differs between pods" in gang.notes[0]
    assert gang.preemptor_priority == 5


def test_a_kept_gang_is_forgotten_when_its_class_changes() -> None:
    gangs = Gangs(Resolver(ON))
    key = GangKey("kueue", "ns", "g")
    pods = kueue("high", "high")
    before = state(pods, cls())
    gangs.renew(before)
    assert gangs[key].preemptor_priority == 1000
    after = state(pods, cls(value=7))
    fields = {name: getattr(after, name) for name in after.__struct_fields__}
    gangs.renew(Snapshot(**{**fields, "members": before.members}))
    assert gangs[key].preemptor_priority == 7
