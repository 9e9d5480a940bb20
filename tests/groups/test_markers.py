"""Who may be a member is known by the keys told: none of a gang that waits goes without one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_pod
from extender.groups.custom import CustomDialect
from extender.groups.dialect import Dialect
from extender.groups.jobset import JobSetDialect
from extender.groups.markers import all_keys, gang_keys
from extender.groups.registry import DIALECTS
from extender.groups.resolver import Resolver
from extender.model.memory_limits import LARGE
from extender.model.objects import GangKey, Owner, Pod
from extender.settings.custom_groups import CustomGroup
from extender.settings.settings import GroupSettings
from tests.groups import recorded
from tests.groups.build import pod, snapshot


@pytest.mark.parametrize("system", recorded.EVERY)
def test_a_member_has_a_key_and_without_it_is_none(system: str) -> None:
    keys = set(gang_keys(GroupSettings()))
    resolver = Resolver(GroupSettings())
    meta = recorded.EVERY[system](1, 4, "g")
    marks: dict[str, dict[str, str]] = {
        name: meta.get(name) or {} for name in ("labels", "annotations")
    }
    member = resolver.member_key(_pod(marks))
    assert member is not None
    assert keys & {key for found in marks.values() for key in found}, member
    bare = {
        name: {key: value for key, value in found.items() if key not in keys}
        for name, found in marks.items()
    }
    assert resolver.member_key(_pod(bare)) is None


OTHERS: dict[str, recorded.Obj] = {
    "pod-group": {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
    "scheduling-plugins": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    "jobset": {"labels": {"jobset.sigs.k8s.io/jobset-name": "g"}},
    "indexed-job": {
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "g", "uid": "j", "controller": True}
        ],
    },
    "skypilot": {"labels": {"skypilot-cluster-name": "g"}},
}
"""Of dialects that recorded.py has no pod of: what such a pod has at least."""


@pytest.mark.parametrize("name", [dialect.name for dialect in DIALECTS])
def test_what_every_dialect_reads_of_a_pod_is_kept(name: str) -> None:
    """A new dialect comes with a pod; KEPT_ANNOTATIONS and READ_ANNOTATIONS of model.metadata let
    through what it reads, the second where others wrote many and long ones."""
    pods = [OTHERS[name]] if name in OTHERS else []
    pods += [each(0, 3, "g") for each in recorded.EVERY.values()]
    made = next((each for each in pods if _reads(name, each)), None)
    assert made is not None, (
        "no pod of it in recorded.py or OTHERS, or KEPT_ANNOTATIONS drop its key"
    )
    assert _reads(name, _beside_long_ones(made)), "READ_ANNOTATIONS drop its key"
    small, large = _decoded(made), _decoded(_beside_long_ones(made))
    assert large.annotations.keys() <= small.annotations.keys()
    resolver = Resolver(GroupSettings())
    gang, same = (resolver.resolve_all(snapshot([each]))[0] for each in (small, large))
    assert (gang.key.dialect, gang.key) == (name, same.key)
    assert (gang.min_count, gang.notes) == (same.min_count, same.notes)


def _reads(name: str, made: recorded.Obj) -> bool:
    key = Resolver(GroupSettings()).member_key(_decoded(made))
    return key is not None and key.dialect == name


def _beside_long_ones(made: recorded.Obj) -> recorded.Obj:
    return {**made, "annotations": {**made.get("annotations", {}), "x.example/y": "z" * LARGE}}


def _decoded(made: recorded.Obj) -> Pod:
    meta = {key: value for key, value in made.items() if key not in ("spec", "gates")}
    return decode_pod(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", **meta},
            "spec": made.get("spec", {}),
        }
    )


def _pod(marks: dict[str, dict[str, str]]) -> Pod:
    return pod("p", labels=marks["labels"], annotations=marks["annotations"])


def test_indexed_jobs_count_where_they_start_whole() -> None:
    index = "batch.kubernetes.io/job-completion-index"
    assert index not in gang_keys(GroupSettings())
    assert index in gang_keys(GroupSettings(starts_whole={"indexed-job": True}))


def test_custom_groups_and_only_enabled_dialects() -> None:
    custom = (
        CustomGroup(name="one", label="x.example/run", size=2),
        CustomGroup(name="two", annotation="x.example/id", size=2),
    )
    settings = GroupSettings(dialects=("jobset", "pod-group"), custom=custom)
    assert gang_keys(settings) == (
        "jobset.sigs.k8s.io/jobset-name",
        "x.example/id",
        "x.example/run",
    )


class AllBut(dict[str, str]):
    """Labels or annotations that have every key but some."""

    def __init__(self, missing: frozenset[str]) -> None:
        super().__init__()
        self.missing = missing

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return key not in self.missing

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        return default if key in self.missing else "x"


OWN = (CustomGroup(name="one", label="x.example/run"), CustomGroup(name="two", annotation="x.e/id"))


@pytest.mark.parametrize("dialect", [*DIALECTS, *map(CustomDialect, OWN)], ids=lambda d: d.name)
@pytest.mark.parametrize("owner", [None, "Job", "ReplicaSet", "Workload"])
def test_whatever_else_a_pod_has_it_is_no_member_without_a_key(
    dialect: Dialect, owner: str | None
) -> None:
    """What Resolver.member_key leaves out, it leaves out rightly."""
    everything = AllBut(all_keys([dialect]))
    owned = None if owner is None else Owner(owner, "o", "u")
    found = pod("p", labels=everything, annotations=everything, owner=owned)
    assert found.labels is everything
    assert dialect.key(found) is None


class Counting(JobSetDialect):
    """How often it was asked."""

    asked = 0

    def key(self, pod: Pod) -> GangKey | None:
        self.asked += 1
        return super().key(pod)


def test_only_of_pods_that_have_a_key_the_dialects_are_asked() -> None:
    """Every pod of a node that changed is asked for its gang, and most are of none."""
    dialect = Counting()
    resolver = Resolver(GroupSettings(dialects=("jobset",)), [dialect])
    assert resolver.member_key(pod("p", labels={"app": "web"}, annotations={"a": "b"})) is None
    assert dialect.asked == 0
    (mark,) = dialect.keys
    assert resolver.member_key(pod("p", labels={mark: "j"})) == GangKey("jobset", "ns", "j")
    assert dialect.asked == 1


def test_a_pod_of_a_composite_is_a_member_whatever_else_it_has() -> None:
    found = Resolver(GroupSettings()).member_key(replace(pod("p"), hierarchy=("c", "c")))
    assert found == GangKey("pod-group", "ns", "c")
