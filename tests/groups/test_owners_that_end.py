"""An owner that is deleted, made again under its name, or changed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_group
from extender.gang.incremental.gangs import Gangs
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Owner, Pod
from extender.model.owner_kinds import JOB, OTHER_KINDS
from extender.model.snapshot import Snapshot
from tests.groups import owners, recorded, recorded_launched
from tests.groups.build import pod, snapshot
from tests.groups.owner_gangs import RESOLVER, made, members, state
from tests.groups.owners import document, job, jobset, read, replicated

DELETED = "2026-11-28T09:00:00Z"
CORE = {"schedulingPolicy": {"gang": {"minCount": 2}}}
LEAST = {"minMember": 2}
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "g"}
LWS = {"leaderworkerset.sigs.k8s.io/name": "g", "leaderworkerset.sigs.k8s.io/group-index": "0"}
RAY = {"ray.io/cluster": "g", "ray.io/node-type": "worker", "ray.io/group": "w"}
TORCH = {
    "training.kubeflow.org/job-name": "g",
    "training.kubeflow.org/operator-name": "pytorchjob-controller",
}


def group(spec: dict[str, Any], source: str = "core", **meta: Any) -> GroupObject:
    meta = {"name": "g", "namespace": "ns", "uid": "u", **meta}
    return decode_group(source, {"metadata": meta, "spec": spec})


def owned(kind: str, name: str = "g", uid: str = "") -> Owner:
    source = next(source for source, row in OTHER_KINDS.items() if row.kind == kind)
    return Owner(kind, name, uid or f"o-{source}-{name}")


def labelled(key: str) -> dict[str, Any]:
    return {"labels": {key: "g"}}


WORKLOAD = {"podGroups": [{"name": "w", "policy": {"gang": {"minCount": 2}}}]}
RAY_SPEC = {"workerGroupSpecs": [{"groupName": "w", "replicas": 2}]}
TORCH_SPEC = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}
LWS_SPEC = {"leaderWorkerTemplate": {"size": 2}}
CASES: dict[str, tuple[GroupObject | None, str, dict[str, Any], dict[str, Any]]] = {
    "PodGroup (scheduling.k8s.io)": (None, "core", CORE, {"group": "g"}),
    "PodGroup (scheduling.x-k8s.io)": (
        None,
        "scheduling-plugins",
        LEAST,
        labelled("scheduling.x-k8s.io/pod-group"),
    ),
    "PodGroup (scheduling.volcano.sh)": (
        None,
        "volcano",
        LEAST,
        {"annotations": {"scheduling.k8s.io/group-name": "g"}},
    ),
    "JobSet": (None, "jobset", jobset(replicated("w", each=2))["spec"], {"labels": JOBSET}),
    "RayCluster": (None, "ray-cluster", RAY_SPEC, {"labels": RAY}),
    "PyTorchJob": (None, "pytorchjob", TORCH_SPEC, {"labels": TORCH}),
    "LeaderWorkerSet": (
        None,
        "leader-worker-set",
        LWS_SPEC,
        {"labels": LWS, "annotations": {"leaderworkerset.sigs.k8s.io/size": "2"}},
    ),
    "Workload": (None, "core-workload", WORKLOAD, {"group": "g..w..0"}),
    "JobSet of a PodGroup": (
        group(CORE),
        "jobset",
        jobset(replicated("w", each=2))["spec"],
        {"group": "g", "labels": JOBSET},
    ),
    "Job of a PodGroup": (
        group(CORE),
        JOB,
        job("g", 2)["spec"],
        {"group": "g", "owner": owned("Job")},
    ),
    "RayCluster of a PodGroup": (
        group(CORE),
        "ray-cluster",
        RAY_SPEC,
        {"group": "g", "owner": owned("RayCluster")},
    ),
    "LeaderWorkerSet of a PodGroup": (
        group(CORE),
        "leader-worker-set",
        LWS_SPEC,
        {"group": "g", "labels": LWS},
    ),
}


def resolved(members: list[Pod], *groups: GroupObject | None) -> Gang:
    (one,) = RESOLVER.resolve_all(snapshot(members, [each for each in groups if each]))
    return one


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("finalizer", ["foregroundDeletion", "orphan", "example.com/mine"])
def test_its_gang_is_not_planned_for(case: str, finalizer: str) -> None:
    """With "orphan" its pods stay: in a moment they are what they say themselves."""
    beside, source, spec, of = CASES[case]
    members = [pod(f"p{i}", **of) for i in range(2)]
    stays = decode_group(source, _document(source, spec))
    assert resolved(members, beside, stays).in_order
    meta = {"deletionTimestamp": DELETED, "finalizers": [finalizer]}
    goes = decode_group(source, _document(source, spec, **meta))
    gang = resolved(members, beside, goes)
    assert not gang.problems
    kind = case.removesuffix(" of a PodGroup").partition(" ")[0]
    assert any(f"{kind} ns/g" in why and "being deleted" in why for why in gang.unplanned), gang


def _document(source: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    if source in OTHER_KINDS:
        made = document(source, "g", spec, **meta)
        if source == JOB:
            made["metadata"]["labels"] = JOBSET
        return made
    return {"metadata": {"name": "g", "namespace": "ns", "uid": "u", **meta}, "spec": spec}


def test_a_composite_above_a_pod_group() -> None:
    part = replace(group(CORE), of="top")
    top = GroupObject(source="core-composite", uid="t", namespace="ns", name="top", min_count=1)
    members = [pod(f"p{i}", group="g") for i in range(2)]
    assert resolved(members, part, top).in_order
    (why,) = resolved(members, part, replace(top, ending=True)).unplanned
    assert why == "CompositePodGroup ns/top is being deleted"
    (why,) = resolved(members, replace(part, ending=True), top).unplanned
    assert why == "PodGroup ns/g is being deleted"


def test_an_owner_of_the_same_name_that_another_made_says_nothing() -> None:
    goes = decode_group(JOB, _document(JOB, job("g", 2)["spec"], deletionTimestamp=DELETED))
    members = [pod(f"p{i}", group="g", owner=owned("Job", uid="another")) for i in range(2)]
    assert resolved(members, group(CORE), goes).in_order


def test_as_a_victim_it_is_what_it_was() -> None:
    members = [replace(pod(f"p{i}", group="g"), node=f"n{i}") for i in range(2)]
    stays = group({**CORE, "disruptionMode": {"all": {}}})
    for each in (stays, replace(stays, ending=True)):
        assert resolved(members, each).goes_whole


@pytest.mark.parametrize("gone", [False, True])
def test_a_kept_gang_is_another_one_when_its_owner_ends(gone: bool) -> None:  # noqa: FBT001
    """Its deletion begins, or it is gone."""
    gangs = Gangs(RESOLVER)
    stays = decode_group("ray-cluster", document("ray-cluster", "r", RAY_SPEC))
    members = [pod(f"p{i}", group="g", owner=owned("RayCluster", "r")) for i in range(2)]
    before = snapshot(members, [group(CORE), stays])
    (key,) = before.members
    gangs.renew(before)
    assert gangs[key].in_order
    ends = [] if gone else [replace(stays, ending=True)]
    after = replace(
        snapshot(members, [group(CORE), *ends]),
        members=before.members,
        nodes=before.nodes,
        group_sources=before.group_sources,
    )
    gangs.renew(after)
    assert not gangs[key].in_order


def test_pods_whose_controller_is_gone_start_no_gang() -> None:
    """It was deleted in the background: the garbage collector deletes its pods in a moment. With
    "orphan" it has taken their owner references away before."""
    other = decode_group("ray-cluster", document("ray-cluster", "other", RAY_SPEC))
    members = [pod(f"p{i}", group="g", owner=owned("RayCluster", "r")) for i in range(2)]
    (why,) = resolved(members, group(CORE), other).unplanned
    assert why == "RayCluster ns/r, which made its pods, is gone"
    again = decode_group("ray-cluster", document("ray-cluster", "r", RAY_SPEC, uid="another"))
    (why,) = resolved(members, group(CORE), again).unplanned
    assert "is gone" in why
    orphans = [pod(f"p{i}", group="g") for i in range(2)]
    assert resolved(orphans, group(CORE), other).in_order
    unread = snapshot(members, [group(CORE)])
    (gang,) = RESOLVER.resolve_all(replace(unread, group_sources=frozenset({"core"})))
    assert gang.in_order


def test_a_member_that_terminates_with_its_job_keeps_no_others() -> None:
    """Its node is dead, so it stays for a while; the members of another Job are a gang."""
    old = decode_group(JOB, document(JOB, "old", {}, deletionTimestamp=DELETED))
    gone = replace(
        pod("old", group="g", owner=owned("Job", "old")), node="dead", deleting=1_800_000_000.0
    )
    members = [pod(f"p{i}", group="g", owner=owned("Job", "new")) for i in range(2)]
    assert resolved([gone, *members], group(CORE), old).in_order


def of_jobs(*jobs: str, **more: Any) -> list[Pod]:
    """A member of each Job, in a group of its own quorum."""
    return [pod(f"{name}-0", group="g", owner=owned("Job", name), **more) for name in jobs]


def ended(*jobs: str) -> list[GroupObject]:
    return [decode_group(JOB, document(JOB, name, {}, deletionTimestamp=DELETED)) for name in jobs]


def test_the_others_are_a_gang_without_the_members_of_a_job_that_is_being_deleted() -> None:
    gang = resolved(of_jobs("a", "b", "c"), group(CORE), *ended("b"))
    assert gang.in_order
    assert [member.name for member in gang.pending] == ["a-0", "c-0"]
    assert "Job ns/b is being deleted" in gang.notes
    few = resolved(of_jobs("a", "b", "c"), group(CORE), *ended("b", "c"))
    assert few.unplanned == ("Job ns/c is being deleted",)
    assert len(few.pending) == 3


def test_the_others_are_a_gang_without_the_members_whose_controller_is_gone() -> None:
    there = decode_group("ray-cluster", document("ray-cluster", "there", RAY_SPEC))
    members = [
        pod(f"p{i}", group="g", owner=owned("RayCluster", name))
        for i, name in enumerate(("there", "gone", "there"))
    ]
    gang = resolved(members, group(CORE), there)
    assert gang.in_order
    assert [member.name for member in gang.pending] == ["p0", "p2"]


def test_where_the_size_is_stated_nowhere_no_member_is_left_out() -> None:
    members = [pod(f"p{i}", labels=JOBSET, owner=owned("Job", f"j{i}")) for i in range(3)]
    gang = resolved(members, *ended("j1"))
    assert not gang.size_known
    assert gang.unplanned == ("Job ns/j1 is being deleted",)


def test_a_place_that_is_free_in_a_moment_is_waited_for() -> None:
    """The member that goes has a node: nothing is evicted in the place of it."""
    seated = [replace(each, node="n0") for each in of_jobs("old")]
    stays = group({**CORE, "disruptionMode": {"all": {}}})
    gang = resolved([*seated, *of_jobs("a", "b")], stays, *ended("old"))
    assert gang.in_order
    assert gang.missing == 2
    assert gang.awaits == ("Job ns/old is being deleted",)
    both = [replace(each, node="n0") for each in of_jobs("old", "a", "b")]
    assert resolved(both, stays, *ended("old")).goes_whole


UID = "jobset.sigs.k8s.io/jobset-uid"


def indexed_job(i: int, size: int) -> dict[str, Any]:
    index = "batch.kubernetes.io/job-completion-index"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "g", "controller": True}
    return {"labels": {index: str(i)}, "annotations": {index: str(i)}, "ownerReferences": [owner]}


PODS = {
    "jobset": owners.train_job,
    "indexed-job": indexed_job,
    "ray-cluster": recorded_launched.ray_cluster,
    "training-operator": recorded_launched.pytorch_job,
}


def pods(dialect: str, life: str, *, on: bool, created: float, count: int = 4) -> list[Pod]:
    """The pods of one life of the owner; its uid is ``life``."""
    found = []
    for i in range(count):
        meta: dict[str, Any] = PODS[dialect](i, count)
        meta["ownerReferences"] = [{**meta["ownerReferences"][0], "uid": life}]
        if UID in meta["labels"]:
            meta["labels"][UID] = life
        pod = made(f"{life}-{i}", meta, f"n{i}" if on else "")
        found.append(replace(pod, created=created, started=created if on else 0.0))
    return found


def again_resolved(found: list[Pod], *groups: GroupObject) -> Gang:
    (gang,) = RESOLVER.resolve_all(state(found, groups))
    assert not gang.problems
    return gang


@pytest.mark.parametrize("dialect", PODS)
def test_pods_of_the_one_before_are_no_part_of_its_quorum(dialect: str) -> None:
    before = pods(dialect, "old", on=True, created=100.0)
    gang = again_resolved(before)
    assert (gang.missing, gang.goes_whole) == (0, True)
    after = pods(dialect, "new", on=False, created=1000.0)
    gang = again_resolved([*before, *after])
    assert (gang.min_count, gang.missing, gang.complete) == (4, 4, True)
    assert {pod.uid for pod in gang.pending} == {pod.uid for pod in after}
    assert gang.goes_whole, "who is left of it still goes whole or not at all"
    assert any("4 pods" in note and "created again" in note for note in gang.notes), gang.notes


@pytest.mark.parametrize("dialect", PODS)
def test_of_the_new_one_all_are_waited_for(dialect: str) -> None:
    """Two of the old ones have gone by now, and two of the new ones exist."""
    before = pods(dialect, "old", on=True, created=100.0)[:2]
    after = pods(dialect, "new", on=False, created=1000.0)[:2]
    groups = [read("jobset", jobset(replicated("node", each=4)))] if dialect == "jobset" else []
    gang = again_resolved([*before, *after], *groups)
    assert gang.missing == (4 if groups else 2)
    assert gang.complete == (not groups)


def test_old_ones_that_still_wait_want_no_seat() -> None:
    before = pods("jobset", "old", on=False, created=100.0)
    after = pods("jobset", "new", on=False, created=1000.0)
    gang = again_resolved([*before, *after])
    assert {pod.uid for pod in gang.pending} == {pod.uid for pod in after}


def test_within_one_second_the_owner_tells_which_is_the_old_one() -> None:
    group = read("jobset", jobset(replicated("node", each=4)))
    group = replace(group, uid="new")
    both = [
        *pods("jobset", "old", on=True, created=100.0),
        *pods("jobset", "new", on=False, created=100.0),
    ]
    assert again_resolved(both, group).missing == 4
    assert again_resolved(both, replace(group, uid="old")).missing == 0


def test_the_new_one_is_seated_whole_and_then_lacks_nobody() -> None:
    before = pods("jobset", "old", on=True, created=100.0)
    after = pods("jobset", "new", on=True, created=1000.0)
    gang = again_resolved([*before, *after])
    assert (gang.missing, len(gang.bound)) == (0, 8)


def test_a_pod_of_another_maker_counts_as_before() -> None:
    """An MPIJob's launcher is made by a Job of its own."""
    found = [
        made(f"p-{i}", recorded_launched.mpi_job(i, 3), f"n{i}" if i else "") for i in range(3)
    ]
    gang = again_resolved([replace(pod, created=100.0 + i) for i, pod in enumerate(found)])
    assert (gang.missing, len(gang.members)) == (1, 3)


def test_a_kept_gang_is_forgotten_when_its_owner_changes() -> None:
    gangs = Gangs(RESOLVER)
    key = GangKey("jobset", "ns", "g")
    pods = members(3)
    set_ = read("jobset", jobset(replicated("w", each=4)))
    before = state(pods, [set_, read("job", job("g-w-0", 4))])
    gangs.renew(before)
    assert gangs[key].min_count == 4
    after = state(pods, [set_, read("job", job("g-w-0", 4, succeeded=1))], generation=2)
    after = Snapshot(**{**_fields(after), "members": before.members})
    gangs.renew(after)
    assert gangs[key].min_count == 3


def test_the_gangs_of_a_leader_worker_set_are_forgotten_when_it_changes() -> None:
    gangs = Gangs(RESOLVER)
    key = GangKey("leader-worker-set", "ns", "g-0")
    spec = {"leaderWorkerTemplate": {"size": 4, "workerTemplate": owners.template()}}
    source = "leader-worker-set"
    pods = [recorded.pod(source, 0, 4)]
    before = state(pods, [read(source, owners.document(source, "g", spec))])
    gangs.renew(before)
    assert gangs[key].min_count == 4
    later = {**spec, "startupPolicy": "LeaderReady"}
    after = state(pods, [read(source, owners.document(source, "g", later))])
    gangs.renew(Snapshot(**{**_fields(after), "members": before.members}))
    assert gangs[key].min_count == 1


def _fields(snapshot: Snapshot) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
