"""An owner that was deleted and made again under its name, before its old pods have gone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded_launched
from tests.groups.owner_gangs import made, state
from tests.groups.owners import jobset, read, replicated

RESOLVER = Resolver(GroupSettings())
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


def resolved(found: list[Pod], *groups: GroupObject) -> Gang:
    (gang,) = RESOLVER.resolve_all(state(found, groups))
    assert not gang.problems
    return gang


@pytest.mark.parametrize("dialect", PODS)
def test_pods_of_the_one_before_are_no_part_of_its_quorum(dialect: str) -> None:
    before = pods(dialect, "old", on=True, created=100.0)
    gang = resolved(before)
    assert (gang.missing, gang.goes_whole) == (0, True)
    after = pods(dialect, "new", on=False, created=1000.0)
    gang = resolved([*before, *after])
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
    gang = resolved([*before, *after], *groups)
    assert gang.missing == (4 if groups else 2)
    assert gang.complete == (not groups)


def test_old_ones_that_still_wait_want_no_seat() -> None:
    before = pods("jobset", "old", on=False, created=100.0)
    after = pods("jobset", "new", on=False, created=1000.0)
    gang = resolved([*before, *after])
    assert {pod.uid for pod in gang.pending} == {pod.uid for pod in after}


def test_within_one_second_the_owner_tells_which_is_the_old_one() -> None:
    group = read("jobset", jobset(replicated("node", each=4)))
    group = replace(group, uid="new")
    both = [
        *pods("jobset", "old", on=True, created=100.0),
        *pods("jobset", "new", on=False, created=100.0),
    ]
    assert resolved(both, group).missing == 4
    assert resolved(both, replace(group, uid="old")).missing == 0


def test_the_new_one_is_seated_whole_and_then_lacks_nobody() -> None:
    before = pods("jobset", "old", on=True, created=100.0)
    after = pods("jobset", "new", on=True, created=1000.0)
    gang = resolved([*before, *after])
    assert (gang.missing, len(gang.bound)) == (0, 8)


def test_a_pod_of_another_maker_counts_as_before() -> None:
    """An MPIJob's launcher is made by a Job of its own."""
    found = [
        made(f"p-{i}", recorded_launched.mpi_job(i, 3), f"n{i}" if i else "") for i in range(3)
    ]
    gang = resolved([replace(pod, created=100.0 + i) for i, pod in enumerate(found)])
    assert (gang.missing, len(gang.members)) == (1, 3)
