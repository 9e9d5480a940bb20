"""Training jobs of different kinds may have one name in a namespace: two jobs, one label."""

from __future__ import annotations

from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups import recorded_launched
from tests.groups.owner_gangs import made, state
from tests.groups.owners import document, read, template

RESOLVER = Resolver(GroupSettings())


def pods(kind: str, count: int, *, on: int = 0) -> list[Pod]:
    """The pods of a job of this kind; the first ``on`` of them run."""
    found = []
    for i in range(count):
        meta = recorded_launched.pytorch_job(i, count)
        meta["labels"]["training.kubeflow.org/operator-name"] = f"{kind.lower()}-controller"
        meta["ownerReferences"] = [{**meta["ownerReferences"][0], "kind": kind, "uid": kind}]
        found.append(made(f"{kind}-{i}", meta, f"n-{kind}-{i}" if i < on else ""))
    return found


def job(kind: str, count: int) -> GroupObject:
    field = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs"}[kind]
    spec = {field: {"Worker": {"replicas": count, "template": template()}}}
    return read(kind.lower(), document(kind.lower(), "g", spec, uid=kind))


JOBS = [job("PyTorchJob", 3), job("TFJob", 2)]


def resolved(found: list[Pod], groups: list[GroupObject] = JOBS) -> Gang:
    (gang,) = RESOLVER.resolve_all(state(found, groups))
    assert not gang.problems
    return gang


def test_both_are_waited_for() -> None:
    gang = resolved([*pods("PyTorchJob", 3), *pods("TFJob", 1)])
    assert (gang.min_count, gang.missing, gang.complete) == (5, 5, False)
    gang = resolved([*pods("PyTorchJob", 3), *pods("TFJob", 2)])
    assert (gang.missing, gang.complete) == (5, True)
    assert any("PyTorchJob and TFJob" in note for note in gang.notes), gang.notes


def test_pods_of_the_one_that_runs_do_not_stand_for_the_other() -> None:
    gang = resolved([*pods("PyTorchJob", 3, on=3), *pods("TFJob", 2)])
    assert gang.missing == 2
    assert gang.goes_whole
    one_more = pods("PyTorchJob", 4, on=4)
    assert resolved([*one_more, *pods("TFJob", 2)]).missing == 2
    assert resolved([*one_more, *pods("TFJob", 1)]).complete is False


def test_without_the_right_to_read_them_those_that_exist_count() -> None:
    gang = resolved([*pods("PyTorchJob", 3, on=3), *pods("TFJob", 2)], [])
    assert (gang.missing, gang.complete, gang.size_known) == (2, True, False)


def test_one_of_them_alone_is_as_ever() -> None:
    gang = resolved(pods("PyTorchJob", 3, on=1))
    assert (gang.min_count, gang.parts, gang.missing) == (3, (), 2)
    assert resolved(pods("TFJob", 2)).min_count == 2


def test_one_that_is_suspended_keeps_the_other_from_nothing() -> None:
    workers = {"Worker": {"replicas": 2, "template": template()}}
    spec = {"tfReplicaSpecs": workers, "runPolicy": {"suspend": True}}
    groups = [JOBS[0], read("tfjob", document("tfjob", "g", spec, uid="TFJob"))]
    gang = resolved([*pods("PyTorchJob", 3), *pods("TFJob", 1)], groups)
    assert (gang.missing, gang.in_order, gang.complete) == (3, True, True)
