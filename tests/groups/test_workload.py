"""Upstream's Workload of 1.35."""

from __future__ import annotations

import pytest

from extender.decode.from_json import decode_group, decode_pod
from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_SINGLE, Gang
from extender.model.objects import GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups.build import snapshot
from tests.groups.owners import document

RESOLVER = Resolver(GroupSettings())


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
