"""An object that exists and cannot be decoded is not told to be missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.cache import followed_resources
from extender.cache.reader import ResourceReader
from extender.cache.stats import MAX_UNDECODABLE, WatchStats
from extender.gang.incremental.gangs import Gangs
from extender.gang.plan.assemble import Dump, assemble, dump, restore
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.groups import owners, recorded
from tests.groups.build import pod
from tests.groups.owner_gangs import RESOLVER, made
from tests.groups.owners import jobset, jobset_pod, replicated

PLUGINS = {"scheduling.x-k8s.io/pod-group": "g-0"}


def left_out(source: str, *documents: dict[str, Any]) -> dict[tuple[str, str, str], str]:
    """What a reflector says of these objects; none of them can be decoded."""
    stats = WatchStats(source, "/x")
    page = {"metadata": {"resourceVersion": "1"}, "items": list(documents)}
    records: dict[str, Any] = {}
    ResourceReader(followed_resources.groups(source, "/x"), stats).page(
        msgspec.json.encode(page), records
    )
    assert not records
    return {(source, *name): why for name, why in stats.left_out_by_name().items()}


def state(pods: list[Pod], unreadable: dict[tuple[str, str, str], str], *read: str) -> Snapshot:
    return assemble(
        RESOLVER.member_key,
        nodes=(),
        pods=pods,
        group_sources=read,
        now=0.0,
        generation=1,
        unreadable=unreadable,
    )


def told(gang: Gang) -> str:
    (text,) = gang.problems or gang.notes
    return text


def group(least: Any, name: str = "g-0") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": "u"}, "spec": {"minMember": least}}


@pytest.mark.parametrize("source", [*recorded.OBJECTS, "scheduling-plugins"])
@pytest.mark.parametrize("least", ["4", 4.0, 1.5], ids=repr)
def test_a_pod_group_whose_quorum_is_no_whole_number(source: str, least: Any) -> None:
    pods = [pod("a", labels=PLUGINS)]
    if source != "scheduling-plugins":
        pods = [recorded.pod(source, 0, 4)]
    (gang,) = RESOLVER.resolve_all(state(pods, left_out(source, group(least)), source))
    assert "ns/g-0 (scheduling." in told(gang)
    assert "cannot be read: Expected `int | null`, got" in told(gang)
    assert "spec.minMember" in told(gang)
    assert "does not exist" not in told(gang)


OWNERS = [
    (
        "ray-cluster",
        {"workerGroupSpecs": [{"replicas": "3"}]},
        "RayCluster ns/g-0 cannot be read: Expected `int | null`, got `str` - at "
        "`$.spec.workerGroupSpecs[0].replicas`, and so states no size",
    ),
    (
        "pytorchjob",
        {"pytorchReplicaSpecs": {"Worker": {"replicas": "3"}}},
        "PyTorchJob ns/g-0 cannot be read: Expected `int | null`, got `str`",
    ),
]


@pytest.mark.parametrize(("source", "spec", "text"), OWNERS)
def test_an_owner_whose_replicas_are_text(source: str, spec: dict[str, Any], text: str) -> None:
    fixture = "training-operator" if source == "pytorchjob" else source
    document = owners.document(source, "g-0", spec)
    pods = [recorded.pod(fixture, i, 4) for i in range(3)]
    (gang,) = RESOLVER.resolve_all(state(pods, left_out(source, document), source))
    assert told(gang).startswith(text)


def test_a_job_set_of_more_parts_than_are_read() -> None:
    document = jobset(*[replicated(f"p{i}") for i in range(257)])
    pods = [made("a", jobset_pod(0, "p0"))]
    (gang,) = RESOLVER.resolve_all(state(pods, left_out("jobset", document), "jobset", "job"))
    assert told(gang).startswith(
        "JobSet ns/g cannot be read: spec.replicatedJobs: 257 entries, at most 256 are read, and so"
    )


def test_where_more_are_left_out_than_are_remembered_either_is_said() -> None:
    some = [group("4", f"other-{i}") for i in range(MAX_UNDECODABLE)]
    pods = [pod("a", labels=PLUGINS)]
    source = "scheduling-plugins"
    (gang,) = RESOLVER.resolve_all(state(pods, left_out(source, *some[1:]), source))
    assert told(gang).endswith("does not exist")
    (gang,) = RESOLVER.resolve_all(state(pods, left_out(source, *some), source))
    assert told(gang).endswith("does not exist, or cannot be read as many others of its kind")


def test_a_kept_gang_is_told_anew_once_its_object_cannot_be_read() -> None:
    gangs, key = Gangs(RESOLVER), GangKey("scheduling-plugins", "ns", "g-0")
    before = state([pod("a", labels=PLUGINS)], {})
    gangs.renew(before)
    assert told(gangs[key]).endswith("does not exist")
    fields = {name: getattr(before, name) for name in before.__struct_fields__}
    unreadable = left_out("scheduling-plugins", group("4"))
    gangs.renew(Snapshot(**{**fields, "generation": 2, "unreadable": unreadable}))
    assert "cannot be read" in told(gangs[key])


def test_a_dump_says_it_again() -> None:
    before = state([pod("a", labels=PLUGINS)], left_out("scheduling-plugins", group("4")))
    document = msgspec.json.encode(dump(before, (), Settings()))
    again = restore(msgspec.json.decode(document, type=Dump), RESOLVER.member_key)
    assert again.unreadable == before.unreadable
