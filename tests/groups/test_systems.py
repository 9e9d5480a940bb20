"""Each system's pods, as its controllers make them and with their source, through to the gang."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from extender.decode.from_json import decode_pod
from extender.groups.resolver import Resolver
from extender.groups.yunikorn import TaskGroup
from extender.model.gang import UNIT_ALL, UNIT_SINGLE, Gang
from extender.model.objects import GangKey, GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded, recorded_launched
from tests.groups.build import snapshot
from tests.groups.owner_gangs import RESOLVER
from tests.groups.provenance import WAYS, made_by, provenance
from tests.groups.recorded import dialect_of


def only(pods: list[Pod], *groups: GroupObject, settings: GroupSettings | None = None) -> Gang:
    """Resolve pods that make exactly one gang."""
    settings = settings or GroupSettings()
    (gang,) = Resolver(settings).resolve_all(snapshot(pods, groups, settings=settings))
    assert len(gang.members) == len(pods)
    return gang


def four(fixture: str, size: int = 4, **more: Any) -> list[Pod]:
    return [recorded.pod(fixture, i, size, **more) for i in range(4)]


def made(**meta: Any) -> Pod:
    """One pod of this metadata, decoded."""
    return decode_pod(
        {"metadata": {"namespace": "ns", "name": "a", "uid": "a", **meta}, "spec": {}}
    )


@pytest.mark.parametrize("fixture", recorded.EVERY)
def test_the_pods_of_a_gang_are_one_gang_that_goes_and_starts_whole(fixture: str) -> None:
    groups = [recorded.group(fixture, 4)] if fixture in recorded.OBJECTS else []
    gang = only(four(fixture), *groups)
    assert gang.key == GangKey(dialect_of(fixture), "ns", "g-0")
    assert gang.min_count == 4
    assert gang.size_known is (fixture not in recorded_launched.LAUNCHED)
    expected = UNIT_SINGLE if fixture == "scheduling-plugins-label" else UNIT_ALL
    assert (gang.unit, gang.starts_whole) == (expected, True)
    assert not gang.problems


@pytest.mark.parametrize("fixture", [*recorded.STATED, *recorded.OBJECTS])
def test_a_stated_size_is_waited_for(fixture: str) -> None:
    groups = [recorded.group(fixture, 5)] if fixture in recorded.OBJECTS else []
    gang = only(four(fixture, 5), *groups)
    assert gang.min_count == 5
    assert not gang.complete
    assert not gang.problems


@pytest.mark.parametrize("fixture", recorded_launched.LAUNCHED)
def test_an_unknown_size_is_said_and_may_be_annotated(fixture: str) -> None:
    gang = only(four(fixture))
    assert len(gang.notes) == 1
    assert "states no size: all 4 pods that exist now count as the gang" in gang.notes[0]
    size = {"podgroup-extender.io/gang-size": "6"}
    gang = only(four(fixture, annotations=size))
    assert (gang.min_count, gang.size_known, gang.complete) == (6, True, False)


def test_two_gangs_of_one_system_are_two() -> None:
    for fixture in {**recorded.STATED, **recorded_launched.LAUNCHED}:
        pods = four(fixture) + four(fixture, gang="g-1")
        gangs = RESOLVER.resolve_all(snapshot(pods))
        assert [(gang.key.name, len(gang.members)) for gang in gangs] == [("g-0", 4), ("g-1", 4)]


class TestKueue:
    def test_gated_members_count_and_are_not_planned(self) -> None:
        pods = four("kueue")[:2]
        for i in (2, 3):
            gated = recorded.kueue(i, 4, "g-0")
            spec = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
            meta = {"namespace": "ns", "name": f"g-{i}", "uid": f"g{i}", **gated}
            pods.append(decode_pod({"metadata": meta, "spec": spec}))
        gang = only(pods)
        assert (gang.min_count, len(gang.pending), gang.complete) == (4, 2, False)

    def test_the_annotation_is_read_first(self) -> None:
        pod = recorded.kueue(0, 4, "old")
        pod["annotations"]["kueue.x-k8s.io/pod-group-name"] = "new"
        assert RESOLVER.member_key(made(**pod)) == GangKey("kueue", "ns", "new")

    def test_a_total_that_differs_or_lacks_is_a_problem(self) -> None:
        odd = [recorded.pod("kueue", 0, 4), recorded.pod("kueue", 1, 3)]
        (text,) = only(odd).problems
        assert "pod-group-total-count differs between pods: '3' on ns/g-0-1" in text
        (text,) = only([recorded.pod("kueue", 0, 0)]).problems
        assert "must be a whole number of at least 1" in text
        bare = made(labels={"kueue.x-k8s.io/pod-group-name": "g"})
        (text,) = only([bare]).problems
        assert "no pod has the annotation kueue.x-k8s.io/pod-group-total-count" in text

    def test_fast_admission_does_not_wait(self) -> None:
        pod = recorded.kueue(0, 4)
        pod["annotations"]["kueue.x-k8s.io/pod-group-fast-admission"] = "true"
        gang = only([made(**pod)])
        assert (gang.starts_whole, gang.unit, gang.min_count) == (False, UNIT_ALL, 4)

    def test_replicas_of_a_stateful_set_stay_single(self) -> None:
        """Kueue groups a StatefulSet's pods for their quota; they are made one by one."""
        pod = recorded.kueue(0, 3, "statefulset-web-1a2b3")
        pod["annotations"]["kueue.x-k8s.io/pod-group-serving"] = "true"
        assert RESOLVER.member_key(made(**pod)) is None

    def test_successors_with_another_total_count_while_the_old_ones_go(self) -> None:
        old = recorded.pod("kueue", 0, 4, deletionTimestamp="2026-01-01T00:00:00Z")
        new = recorded.pod("kueue", 1, 2)
        gang = only([old, new])
        assert (gang.min_count, gang.problems) == (2, ())


LISTED = '["ns/ps", "ns/worker"]'


def _told_missing(gang: Gang, name: str) -> bool:
    text = f"1 gang of the group has no pod that lists the group, first {name}: one of each"
    return any(note.startswith(text) for note in gang.notes)


class TestKoordinator:
    def gang(self, name: str, size: int, listed: str) -> list[Pod]:
        key = "gang.scheduling.koordinator.sh/"
        text = {f"{key}name": name, f"{key}min-available": str(size), f"{key}groups": listed}
        names = [f"{name}{i}" for i in range(size)]
        return [made(name=n, uid=n, annotations=text) for n in names]

    def test_a_gang_group_is_one_gang(self) -> None:
        gang = only(self.gang("worker", 3, LISTED) + self.gang("ps", 1, LISTED))
        assert gang.key == GangKey("koordinator", "ns", "ps")
        assert (gang.min_count, gang.complete, gang.problems) == (4, True, ())

    def test_a_gang_of_the_group_without_pods_is_missing(self) -> None:
        gang = only(self.gang("worker", 3, LISTED))
        assert (gang.min_count, gang.complete) == (4, False)
        assert _told_missing(gang, "ps")

    def test_a_gang_that_does_not_list_the_group_is_no_part_of_it(self) -> None:
        """It has a pod, so that it has none would be false."""
        alone = self.gang("worker", 1, "")
        gang, other = RESOLVER.resolve_all(snapshot([*self.gang("ps", 2, LISTED), *alone]))
        assert (gang.key.name, gang.min_count, gang.complete) == ("ps", 3, False)
        assert _told_missing(gang, "worker")
        assert (other.key.name, other.min_count, other.complete) == ("worker", 1, True)

    def test_a_list_that_every_pod_writes_in_its_own_way_is_not_followed(self) -> None:
        pods = [self.gang("ps", 1, LISTED + " " * i)[0] for i in range(200)]
        (text,) = only(pods).problems
        assert "groups is written in 200 ways on the pods of gang ps, at most 128" in text
        assert only(pods[:128]).problems == ()

    @pytest.mark.parametrize(
        "listed",
        ["", "x", "{}", "[1]", '["ns"]', '["ns/A B"]', '["ns/worker"]', '["ns/other"]', "[" * 500],
    )
    def test_another_list_changes_nothing(self, listed: str) -> None:
        gang = only(self.gang("worker", 2, listed))
        assert (gang.key.name, gang.min_count, gang.problems) == ("worker", 2, ())

    def test_gangs_of_other_namespaces_are_said_not_to_be_waited_for(self) -> None:
        gang = only(self.gang("worker", 2, '["other/ps", "ns/worker"]'))
        assert gang.min_count == 2
        assert gang.notes == ("gangs of other namespaces in the group are not waited for",)


class TestYuniKorn:
    GROUPS = "yunikorn.apache.org/task-groups"

    def test_an_application_without_task_groups_is_no_gang(self) -> None:
        assert RESOLVER.member_key(made(labels={"applicationId": "a"})) is None

    def test_placeholders_are_members(self) -> None:
        placeholder = made(name="tg-b", uid="tg", **recorded.yunikorn_placeholder(1, 4, "g-0"))
        gang = only([*four("yunikorn"), placeholder])
        assert (gang.min_count, len(gang.members)) == (4, 5)

    def test_task_groups_on_the_first_pod_only(self) -> None:
        pods = [recorded.yunikorn(i, 4, "g-0") for i in range(4)]
        for pod in pods[1:]:
            del pod["annotations"][self.GROUPS]
        gang = only([made(name=f"p{i}", uid=f"p{i}", **pod) for i, pod in enumerate(pods)])
        assert (gang.min_count, gang.size_known) == (4, True)

    def test_task_groups_that_every_pod_writes_in_its_own_way(self) -> None:
        pods = []
        for i in range(17):
            pod = recorded.yunikorn(i, 17, "g-0")
            pod["annotations"][self.GROUPS] += " " * i
            pods.append(made(name=f"p{i}", uid=f"p{i}", **pod))
        assert only(pods[:16]).min_count == 17
        (text,) = only(pods).problems
        assert "task-groups is written in 17 ways on the pods of YuniKorn application" in text

    @pytest.mark.parametrize(
        "text", ["x", "[]", "[{}]", '[{"name":"a","minMember":0}]', '[{"name":"a"}]', "[" * 9000]
    )
    def test_unreadable_task_groups(self, text: str) -> None:
        pod = recorded.yunikorn(0, 4, "g-0")
        pod["annotations"][self.GROUPS] = text
        (problem,) = only([made(**pod)]).problems
        assert "is no list of groups" in problem

    @pytest.mark.parametrize("inner", ["[" * 1500 + "]" * 1500, '{"a":' * 1200 + "1" + "}" * 1200])
    def test_depth_in_what_is_not_read(self, inner: str) -> None:
        """Fields of no meaning are skipped, and to skip them takes the interpreter's stack.

        How much of it there is differs: Python 3.14 passes over what 3.11 gives up.
        """
        pod = recorded.yunikorn(0, 4, "g-0")
        pod["annotations"][self.GROUPS] = text = f'[{{"name":"a","minMember":1,"x":{inner}}}]'
        gang = only([made(**pod)])
        try:
            msgspec.json.decode(text, type=list[TaskGroup])
        except RecursionError:
            (problem,) = gang.problems
            assert "is no list of groups" in problem
        else:
            assert (gang.problems, gang.min_count) == ((), 1)

    def test_a_spark_driver_starts_before_its_executors_exist(self) -> None:
        pod = recorded.yunikorn(0, 4, "g-0")
        pod["labels"] = recorded_launched.spark(0, 4, "g-0")["labels"]
        gang = only([made(**pod)])
        assert gang.key == GangKey("yunikorn", "ns", "g-0")
        assert (gang.min_count, gang.size_known, gang.complete) == (1, False, True)


class TestLeaderWorkerSet:
    def test_exclusive_topology_lets_the_leader_start_alone(self) -> None:
        pod = recorded.leader_worker_set(0, 4, "g-0")
        pod["annotations"]["leaderworkerset.sigs.k8s.io/exclusive-topology"] = "rack"
        gang = only([made(**pod)])
        assert (gang.min_count, gang.size_known) == (1, True)
        (note,) = gang.notes
        assert "3 workers come after their leader" in note
        worker = recorded.leader_worker_set(1, 4, "g-0")
        assert only([made(**pod), made(**{**worker, "uid": "b"})]).min_count == 4

    def test_a_worker_without_an_index_is_found_by_the_hash(self) -> None:
        pod = recorded.leader_worker_set(1, 4, "g-0")
        del pod["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
        key = RESOLVER.member_key(made(**pod))
        assert key is not None
        assert key.name == "ff2552bf4f4223f2f2e5fa9db5e23e0cead953c4"


@pytest.mark.parametrize("fixture", recorded.OBJECTS)
class TestObjects:
    def test_unread_objects_are_said_and_what_is_there_counts(self, fixture: str) -> None:
        gang = only(four(fixture))
        assert (gang.min_count, gang.size_known, gang.unit) == (4, False, UNIT_ALL)
        assert "is not served or must not be read, and so states no size" in gang.notes[0]

    def test_a_missing_object_is_a_problem_where_they_are_read(self, fixture: str) -> None:
        gang = only(four(fixture), recorded.group(fixture, 4, "another"))
        (text,) = gang.problems
        assert text.endswith("does not exist")

    @pytest.mark.parametrize("count", [0, 1, None])
    def test_a_quorum_of_one_is_no_gang(self, fixture: str, count: int | None) -> None:
        """Volcano and KAI make such groups for the pods of every Deployment."""
        gang = only(four(fixture), recorded.group(fixture, count))  # type: ignore[arg-type]
        assert (gang.unit, gang.starts_whole, gang.problems) == (UNIT_SINGLE, False, ())

    def test_a_negative_quorum(self, fixture: str) -> None:
        (text,) = only(four(fixture), recorded.group(fixture, -1)).problems
        assert "minMember is -1" in text

    def test_a_tenants_class_on_the_object_does_not_count(self, fixture: str) -> None:
        high = recorded.group(fixture, 4, priorityClassName="system-node-critical")
        gang = only(four(fixture), high)
        assert (gang.preemptor_priority, gang.victim_priority) == (0, 0)


class TestTwoDialects:
    def test_the_name_on_purpose_beats_the_launchers(self) -> None:
        pod = recorded_launched.mpi_job(1, 4, "g-0")
        pod["labels"]["scheduling.x-k8s.io/pod-group"] = "h"
        assert RESOLVER.member_key(made(**pod)) == GangKey("scheduling-plugins", "ns", "h")

    def test_kais_derived_name_gives_way_and_is_no_conflict(self) -> None:
        pod = recorded.kueue(0, 4, "g-0")
        pod["annotations"]["pod-group-name"] = "pg-g-0-1234"
        one = made(**pod)
        assert RESOLVER.member_key(one) == GangKey("kueue", "ns", "g-0")
        assert RESOLVER.conflict(one) is None

    def test_two_names_on_purpose_are_a_conflict(self) -> None:
        pod = recorded.kueue(0, 4, "g-0")
        pod["annotations"]["scheduling.k8s.io/group-name"] = "h"
        one = made(**pod)
        assert RESOLVER.member_key(one) == GangKey("volcano", "ns", "h")
        text = RESOLVER.conflict(one)
        assert text == "pod ns/a names different groups: volcano:ns/h, kueue:ns/g-0"
        assert RESOLVER.resolve(GangKey("volcano", "ns", "h"), snapshot([one])).problems == (text,)

    def test_one_name_in_two_dialects_is_none(self) -> None:
        pod = recorded.kueue(0, 1, "g-0")
        pod["annotations"] |= recorded.koordinator(0, 1, "g-0")["annotations"]
        gang = only([made(**pod)])
        assert (gang.key.dialect, gang.problems) == ("koordinator", ())


@pytest.mark.parametrize("uid", ["a", "rs"], ids=["of a bare pod", "of an owner"])
def test_a_pod_group_that_volcano_derived_names_no_gang(uid: str) -> None:
    """As its pg_controller makes them for whatever asks for its scheduler."""
    owner = [{"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}]
    key = {"scheduling.k8s.io/group-name": f"podgroup-{uid}"}
    assert RESOLVER.member_key(made(annotations=key, ownerReferences=owner)) is None
    labels = {"skypilot-cluster-name": "s"}
    one = made(annotations=key, ownerReferences=owner, labels=labels)
    assert RESOLVER.member_key(one) == GangKey("skypilot", "ns", "s")
    other = {"scheduling.k8s.io/group-name": "podgroup-of-mine"}
    named = RESOLVER.member_key(made(annotations=other, ownerReferences=owner))
    assert named == GangKey("volcano", "ns", "podgroup-of-mine")


@pytest.mark.parametrize("name", ["", "-", "a b", "a/b", "x" * 254, "é", "a\n"])
def test_a_name_that_nothing_can_have_names_no_gang(name: str) -> None:
    for key in (
        "kueue.x-k8s.io/pod-group-name",
        "gang.scheduling.koordinator.sh/name",
        "scheduling.k8s.io/group-name",
        "pod-group-name",
    ):
        assert RESOLVER.member_key(made(annotations={key: name})) is None


def test_long_annotations_beside_it_do_not_hide_a_gang() -> None:
    for fixture in recorded.EVERY:
        plain = recorded.pod(fixture, 0, 4)
        document = recorded.EVERY[fixture](0, 4, "g-0")
        document["annotations"] = {**document.get("annotations", {}), "note": "x" * 10_000}
        one = made(**document)
        assert RESOLVER.member_key(one) == RESOLVER.member_key(plain)
        if fixture in recorded.STATED:
            assert only([one]).min_count == 4


ROOT = Path(__file__).parents[2]
Fixture = Callable[..., Any]


def fixtures(module: ModuleType) -> dict[str, Fixture]:
    """The functions of a module that make the metadata of pod ``i`` of a gang."""
    return {
        name: each
        for name, each in inspect.getmembers(module, inspect.isfunction)
        if each.__module__ == module.__name__
        and {"i", "gang"} <= inspect.signature(each).parameters.keys()
        and "fixture" not in inspect.signature(each).parameters
    }


EVERY = {**fixtures(recorded), **fixtures(recorded_launched), **fixtures(owners)}


def faults(fixture: Fixture) -> list[str]:
    """What is wrong with what is said of it."""
    said = provenance(fixture)
    if said is None:
        return ["nothing is said of it"]
    found = [] if said.system else ["it names no system"]
    if not re.fullmatch(r"\d+\.\d+\.\d+", said.version):
        found.append(f"{said.version!r} is no release")
    way, _, where = said.how.partition(": ")
    if way not in WAYS or not where:
        found.append(f"{said.how!r} does not say how")
    if way == "recorded" and not (ROOT / where.split()[0]).is_file():
        found.append(f"there is no {where}")
    return found


def test_all_fixtures_are_found() -> None:
    listed = {**recorded.EVERY, **recorded.PARTS}.values()
    assert set(listed) <= set(EVERY.values())
    assert {"train_job", "skypilot", "jobset_pod"} <= EVERY.keys()


@pytest.mark.parametrize("name", EVERY)
def test_a_fixture_names_system_release_and_how_it_is_known(name: str) -> None:
    assert faults(EVERY[name]) == []


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (("", "1.0.0", "read: a.go"), "no system"),
        (("Kueue", "", "read: a.go"), "no release"),
        (("Kueue", "ff69552e", "read: a.go"), "no release"),
        (("Kueue", "0.19.2", ""), "does not say how"),
        (("Kueue", "0.19.2", "guessed: a.go"), "does not say how"),
        (("Kueue", "0.19.2", "recorded: tests/nowhere.py"), "there is no"),
    ],
)
def test_what_is_missing_is_told(said: tuple[str, str, str], fault: str) -> None:
    def fixture() -> None:
        """Nothing."""

    assert faults(fixture) == ["nothing is said of it"]
    assert any(fault in each for each in faults(made_by(*said)(fixture)))
