"""Parts of a gang with minima of their own, also beside a PodGroup of one number."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.app.main import main
from extender.decode.from_json import decode_group, decode_pod
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded
from tests.groups.build import core, pod, snapshot
from tests.groups.owner_gangs import RESOLVER


def volcano_pod(
    name: str,
    task: str = "",
    *,
    node: str = "",
    place: str = "both",
    label: str = "",
    **more: Any,
) -> Pod:
    """A pod of a vcjob: its controller writes the task as label and as annotation.

    ``label``: another one there.
    """
    meta = recorded.volcano(0, 4, "g")
    for where in ("annotations", "labels"):
        del meta[where]["volcano.sh/task-spec"]
    if task and place in ("both", "annotation"):
        meta["annotations"]["volcano.sh/task-spec"] = task
    if task and place in ("both", "label"):
        meta["labels"]["volcano.sh/task-spec"] = label or task
    return made(name, meta, node, **more)


def kai_pod(name: str, subgroup: str = "", *, node: str = "", **more: Any) -> Pod:
    meta = recorded.kai(0, 4, "g")
    if subgroup:
        meta["labels"]["kai.scheduler/subgroup-name"] = subgroup
    return made(name, meta, node, **more)


def made(name: str, meta: dict[str, Any], node: str, **more: Any) -> Pod:
    spec = {"nodeName": node} if node else {}
    meta = {"namespace": "ns", "name": name, "uid": f"uid-{name}", **meta, **more}
    return decode_pod({"metadata": meta, "spec": spec})


def volcano(least: int | None, **tasks: int) -> GroupObject:
    """A PodGroup as Volcano's job controller makes it."""
    spec: dict[str, Any] = {"queue": "default", "minTaskMember": tasks}
    if least is not None:
        spec["minMember"] = least
    return group("volcano", spec)


def group(source: str, spec: dict[str, Any]) -> GroupObject:
    meta = {"name": "g", "namespace": "ns", "uid": "g"}
    document = {"apiVersion": recorded.VERSIONS[source], "kind": "PodGroup", "metadata": meta}
    return decode_group(source, {**document, "spec": spec})


def kai(*subgroups: dict[str, Any], **spec: Any) -> GroupObject:
    return group("kai", {"queue": "team-a", "subGroups": list(subgroups), **spec})


def leaf(name: str, least: int | None, parent: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    if least is not None:
        found["minMember"] = least
    if parent is not None:
        found["parent"] = parent
    return found


def only(pods: list[Pod], said: GroupObject) -> Gang:
    (gang,) = RESOLVER.resolve_all(snapshot(pods, [said]))
    return gang


def parts(gang: Gang) -> dict[str, tuple[int, int]]:
    """Name -> (members, least)."""
    return {part.name: (len(part.uids), part.least) for part in gang.parts}


def test_a_group_of_volcanos_has_no_subgroups() -> None:
    """Field names of another scheduler say nothing; without minMember one pod will do."""
    said = group("volcano", {"subGroups": [leaf("a", 2)]})
    assert (said.min_count, said.parts) == (1, ())


def test_a_kai_group_has_no_tasks() -> None:
    said = group("kai", {"minMember": 3, "minTaskMember": {"a": 2}})
    assert (said.min_count, said.parts) == (3, ())


class TestVolcano:
    @pytest.mark.parametrize("place", ["both", "annotation", "label"])
    def test_tasks_are_parts(self, place: str) -> None:
        pods = [volcano_pod("ps", "ps", place=place)]
        pods += [volcano_pod(f"w{i}", "worker", place=place) for i in range(3)]
        gang = only(pods, volcano(3, ps=1, worker=2))
        assert (gang.min_count, gang.unit, gang.problems) == (3, UNIT_ALL, ())
        assert parts(gang) == {"ps": (1, 1), "worker": (3, 2)}
        assert gang.complete
        assert gang.missing == 3

    def test_the_annotation_is_read_before_the_label(self) -> None:
        pod = volcano_pod("a", "worker", label="ps")
        gang = only([pod, volcano_pod("b", "ps")], volcano(2, ps=1, worker=1))
        assert parts(gang) == {"ps": (1, 1), "worker": (1, 1)}

    def test_a_gang_with_too_few_of_a_task_is_incomplete(self) -> None:
        gang = only([volcano_pod(f"w{i}", "worker") for i in range(4)], volcano(4, ps=1, worker=3))
        assert not gang.complete
        ((short, there),) = gang.short_parts
        assert (short.name, there) == ("ps", 0)

    def test_a_gang_with_too_few_in_all_is_incomplete(self) -> None:
        pods = [volcano_pod("ps", "ps"), volcano_pod("w", "worker")]
        gang = only(pods, volcano(3, ps=1, worker=1))
        assert not gang.complete
        assert not gang.short_parts

    def test_what_is_missing_is_what_each_task_lacks(self) -> None:
        pods = [volcano_pod(f"w{i}", "worker", node="n") for i in range(4)]
        gang = only([*pods, volcano_pod("ps", "ps")], volcano(4, ps=1, worker=3))
        assert (gang.missing, gang.lacks) == (1, (1, 0))
        assert not gang.runs_with({pod.uid for pod in pods})

    def test_task_minima_above_the_quorum_do_not_count_as_in_volcano(self) -> None:
        """Its controller writes the replicas of a task without a minimum: an elastic job."""
        gang = only([volcano_pod(f"w{i}", "worker") for i in range(4)], volcano(2, ps=1, worker=4))
        assert (gang.min_count, gang.parts, gang.complete) == (2, (), True)

    def test_a_task_that_needs_none_is_no_part(self) -> None:
        pods = [volcano_pod(f"w{i}", "worker") for i in range(2)]
        assert parts(only(pods, volcano(2, ps=0, worker=2))) == {"worker": (2, 2)}

    def test_pods_of_no_task_count_in_all(self) -> None:
        pods = [volcano_pod("a"), volcano_pod("b"), volcano_pod("w", "worker")]
        gang = only(pods, volcano(3, worker=1))
        assert (parts(gang), gang.complete) == ({"worker": (1, 1)}, True)

    def test_one_task_of_one_is_a_pod_that_needs_no_other(self) -> None:
        gang = only([volcano_pod("w", "worker")], volcano(1, worker=1))
        assert (gang.starts_whole, gang.parts) == (False, ())

    def test_a_quorum_of_one_task_is_waited_for_by_the_others(self) -> None:
        gang = only([volcano_pod("w", "worker"), volcano_pod("ps", "ps")], volcano(1, ps=1))
        assert (gang.starts_whole, parts(gang)) == (True, {"ps": (1, 1)})

    def test_the_others_of_a_quorum_of_one_wait_for_a_task_without_pods(self) -> None:
        gang = only([volcano_pod("w", "worker")], volcano(1, ps=1))
        assert (gang.starts_whole, gang.complete) == (True, False)

    @pytest.mark.parametrize(
        ("tasks", "says"),
        [
            ({"ps": -1}, r"spec.minTaskMember\['ps'\]: must not be negative"),
            ({f"t{i}": 1 for i in range(257)}, "257 entries, at most 256 are read"),
            ({"ps": "1"}, "int"),
            ({"ps": 1.5}, "int"),
            ([1], "object"),
        ],
    )
    def test_malformed_minima_are_named(self, tasks: Any, says: str) -> None:
        with pytest.raises(InvalidInput, match=says):
            group("volcano", {"minMember": 3, "minTaskMember": tasks})

    def test_other_sources_have_no_tasks(self) -> None:
        said = group("koordinator-pod-group", {"minMember": 2, "minTaskMember": {"a": 1}})
        assert said.parts == ()


class TestKai:
    def test_subgroups_are_parts_and_their_minima_the_quorum(self) -> None:
        """As setSubGroups of KAI: minMember beside subGroups is not read."""
        pods = [kai_pod("m", "master"), *(kai_pod(f"w{i}", "worker") for i in range(4))]
        gang = only(pods, kai(leaf("master", 1), leaf("worker", 3), minMember=9))
        assert (gang.min_count, gang.complete, gang.problems) == (4, True, ())
        assert parts(gang) == {"master": (1, 1), "worker": (4, 3)}

    def test_a_gang_without_subgroups_is_as_ever(self) -> None:
        gang = only([kai_pod(f"w{i}") for i in range(3)], kai(minMember=3))
        assert (gang.min_count, gang.parts) == (3, ())

    def test_pods_belong_to_leaves(self) -> None:
        groups = [leaf("decode", None), leaf("dw", 2, "decode"), leaf("dl", 1, "decode")]
        pods = [kai_pod("a", "dw"), kai_pod("b", "dw"), kai_pod("c", "dl"), kai_pod("d", "decode")]
        gang = only(pods, kai(*groups, leaf("p", 1)))
        assert gang.min_count == 4
        assert parts(gang) == {"dw": (2, 2), "dl": (1, 1), "p": (0, 1)}
        assert not gang.complete, "d is of no leaf, and p has no pod"

    def test_a_leaf_may_need_nobody(self) -> None:
        pods = [kai_pod("a", "master"), kai_pod("b", "worker")]
        gang = only(pods, kai(leaf("master", 1), leaf("worker", 1), leaf("spare", 0)))
        assert (gang.min_count, gang.complete, gang.problems) == (2, True, ())
        assert parts(gang) == {"master": (1, 1), "worker": (1, 1)}

    def test_pods_without_a_label_are_of_the_subgroup_default(self) -> None:
        gang = only([kai_pod("a"), kai_pod("b")], kai(leaf("default", 2)))
        assert parts(gang) == {"default": (2, 2)}

    def test_where_some_subgroups_suffice_all_are_waited_for(self) -> None:
        replicas = [leaf(f"r{i}", 3) for i in range(3)]
        pods = [kai_pod(f"p{i}", f"r{i // 3}", node="n") for i in range(6)]
        gang = only(pods, kai(*replicas, minSubGroup=2))
        assert (gang.min_count, len(gang.parts), gang.complete) == (9, 3, False)
        (note,) = gang.notes
        assert "minSubGroup lets some of its subGroups suffice" in note
        assert gang.goes_whole, "two replicas of three run"
        assert not only(pods[:5], kai(*replicas, minSubGroup=2)).goes_whole
        every = only(pods, kai(*replicas, minSubGroup=3))
        assert (every.min_count, every.notes, every.goes_whole) == (9, (), False)

    def test_minima_over_subgroups_below(self) -> None:
        inner = {**leaf("in", None), "minSubGroup": 1}
        said = kai(inner, leaf("a", 4, "in"), leaf("b", 2, "in"), leaf("c", 3))
        assert (said.min_count, said.whole_from) == (9, 5)
        none = kai(leaf("a", 4), leaf("b", 2), minSubGroup=0)
        assert (none.min_count, none.whole_from) == (6, 1)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(("name", "minMember", "minSubGroup", "parent", "a")), inner
                )
            ),
            max_leaves=30,
        )
    )
    def test_whatever_is_written_is_read_or_named(self, anything: Any) -> None:
        for source in ("volcano", "kai"):
            spec = {"minMember": 3, "minTaskMember": anything, "subGroups": anything}
            with contextlib.suppress(InvalidInput):
                said = group(source, spec)
                assert (said.min_count or 0) >= sum(part.each for part in said.parts)

    @pytest.mark.parametrize(
        ("subgroups", "more", "says"),
        [
            ([leaf("a", 1), leaf("a", 1)], {}, "two are called 'a'"),
            ([leaf("", 1)], {}, "one has no name"),
            ([leaf("a", 1, "b")], {}, r"\['a'\].parent: is not among them"),
            ([leaf("a", 1, "b"), leaf("b", 1, "a")], {}, "parents in a circle"),
            ([leaf("c", 1), leaf("a", 1, "a")], {}, "parents in a circle"),
            ([leaf("a", None)], {}, r"\['a'\].minMember: a number"),
            ([leaf("a", -1)], {}, r"\['a'\].minMember: a number"),
            ([leaf(f"a{i}", 1) for i in range(257)], {}, "257 entries, at most 256 are read"),
            ([leaf("a", 1)], {"minSubGroup": 2}, "spec.minSubGroup: 2 of 1 subgroups"),
            ([leaf("a", 1)], {"minSubGroup": -1}, "spec.minSubGroup: -1 of 1 subgroups"),
            ([{"minMember": 1}], {}, "name"),
        ],
    )
    def test_malformed_subgroups_are_named(
        self, subgroups: list[Any], more: dict[str, Any], says: str
    ) -> None:
        with pytest.raises(InvalidInput, match=says):
            kai(*subgroups, **more)

    def test_a_chain_of_256_is_walked(self) -> None:
        chain = [leaf("s0", None), *(leaf(f"s{i}", 2, f"s{i - 1}") for i in range(1, 256))]
        assert [(part.name, part.each) for part in kai(*chain).parts] == [("s255", 2)]


class TestAsVictims:
    def test_below_the_minimum_of_a_part_it_has_not_come_together(self) -> None:
        said = volcano(3, ps=1, worker=2)
        workers = [volcano_pod(f"w{i}", "worker", node="n") for i in range(3)]
        assert not only(workers, said).goes_whole
        assert only([*workers, volcano_pod("ps", "ps", node="n")], said).goes_whole

    def test_one_that_is_on_its_way_out_does_not_count(self) -> None:
        said = volcano(3, ps=1, worker=2)
        workers = [volcano_pod(f"w{i}", "worker", node="n") for i in range(3)]
        leaving = volcano_pod("ps", "ps", node="n", deletionTimestamp="2026-01-01T00:00:00Z")
        assert not only([*workers, leaving], said).goes_whole


DUMPS = Path(__file__).parents[1] / "cli" / "dumps"
RAY, PYTORCH = "ray-head-fits-nowhere", "pytorch-elastic"
Obj = dict[str, Any]
WAYS: dict[str, tuple[str, Obj]] = {
    "volcano": ("scheduling.volcano.sh/v1beta1", {"minMember": 2}),
    "scheduling-plugins": ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2}),
    "pod-group": (
        "scheduling.k8s.io/v1beta1",
        {"priority": 100, "schedulingPolicy": {"gang": {"minCount": 2}}},
    ),
    "kai": ("scheduling.run.ai/v2alpha2", {"minMember": 2}),
}
"""Dialect -> version and spec of a PodGroup of two."""


def named(dialect: str, each: Obj, name: str = "g") -> None:
    """Let the pod name the PodGroup as the dialect does."""
    meta = each["metadata"]
    if dialect == "pod-group":
        each["spec"]["schedulingGroup"] = {"podGroupName": name}
    elif dialect == "scheduling-plugins":
        meta["labels"]["scheduling.x-k8s.io/pod-group"] = name
    else:
        key = "scheduling.k8s.io/group-name" if dialect == "volcano" else "pod-group-name"
        meta["annotations"][key] = name


def answer(dump: Obj, gang: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    main(["plan", str(path), "--gang", gang, "-o", "json"])
    return json.loads(capsys.readouterr().out)


def waiting(dump: Obj) -> list[Obj]:
    return [
        each
        for each in dump["items"]
        if each["kind"] == "Pod"
        and not each["spec"].get("nodeName")
        and each["metadata"]["name"] != "clock"
    ]


def grouped(dump: Obj, dialect: str, spec: Obj) -> None:
    """Put every pod that waits into one PodGroup."""
    for each in waiting(dump):
        named(dialect, each)
    meta = {"name": "g", "namespace": "team", "uid": "pg"}
    made = {"apiVersion": WAYS[dialect][0], "kind": "PodGroup", "metadata": meta, "spec": spec}
    dump["items"].append(made)


@pytest.mark.parametrize("dialect", WAYS)
@pytest.mark.parametrize("what", [RAY, PYTORCH])
def test_no_pod_is_evicted_for_workers_whose_head_fits_nowhere(
    what: str, dialect: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dump = json.loads((DUMPS / f"parts-{what}.json").read_text())
    grouped(dump, dialect, WAYS[dialect][1])
    found = answer(dump, f"{dialect}:team/g", capsys, tmp_path)
    assert found["refusal"]["code"] == "infeasible"
    assert "1 short" in found["refusal"]["message"]


@pytest.mark.parametrize("dialect", ["volcano", "scheduling-plugins"])
def test_a_worker_is_no_ray_cluster_where_no_worker_group_has_a_minimum(
    dialect: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With minReplicas 0 KubeRay writes minMember 1: that one is the head."""
    dump = json.loads((DUMPS / f"parts-{RAY}.json").read_text())
    for each in dump["items"]:
        if each["kind"] == "RayCluster":
            each["spec"]["workerGroupSpecs"][0]["minReplicas"] = 0
    grouped(dump, dialect, {"minMember": 1})
    found = answer(dump, f"{dialect}:team/g", capsys, tmp_path)
    assert found["refusal"]["code"] == "infeasible"


# -- what the gang is ---------------------------------------------------------------------


def ray(*, autoscaled: bool = False, **group: Any) -> GroupObject:
    """A RayCluster of one worker group."""
    spec: Obj = {"workerGroupSpecs": [{"groupName": "small-group", **group}]}
    if autoscaled:
        spec["enableInTreeAutoscaling"] = True
    made = owners.document("ray-cluster", "g-0", spec, uid="g-0")
    return owners.read("ray-cluster", made)


def of_ray(count: int, *, head: bool = True, group: str = "pg", bound: int = 0) -> list[Pod]:
    """Pods of a RayCluster and the PodGroup that they name."""
    pods = [recorded.pod("ray-cluster", i, count) for i in range(0 if head else 1, count)]
    pods = [replace(each, labels=each.labels | labelled(group)) for each in pods]
    return [
        replace(each, node=f"n{i}", started=1000.0) if i < bound else each
        for i, each in enumerate(pods)
    ]


def labelled(group: str) -> dict[str, str]:
    return {"scheduling.x-k8s.io/pod-group": group}


def group_of(least: int, name: str = "pg") -> GroupObject:
    return core(name, min_count=least, source="scheduling-plugins")


def beside_only(pods: list[Pod], *rows: GroupObject) -> Gang:
    (one,) = Resolver(GroupSettings()).resolve_all(snapshot(pods, rows))
    return one


@pytest.mark.parametrize(
    ("least", "group", "wanted"),
    [
        (4, {"replicas": 3, "minReplicas": 1}, {"head": 1, "small-group": 3}),
        # As made before the RayCluster was given more workers: KubeRay does not write it again.
        (2, {"replicas": 3, "minReplicas": 1}, {"head": 1, "small-group": 1}),
        (2, {"replicas": 3}, {"head": 1}),
        (2, {"replicas": 3, "minReplicas": 1, "autoscaled": True}, {"head": 1, "small-group": 1}),
        # A number without numOfHosts.
        (2, {"replicas": 1, "minReplicas": 1, "numOfHosts": 3}, {"head": 1, "small-group": 3}),
    ],
)
def test_the_minima_of_a_ray_cluster_hold_whatever_the_group_says(
    least: int, group: Obj, wanted: dict[str, int]
) -> None:
    one = beside_only(of_ray(4), group_of(least), ray(**group))
    assert {name: count for name, (_, count) in parts(one).items()} == wanted
    assert (one.min_count, one.complete, one.problems) == (least, True, ())
    assert one.missing == max(least, sum(wanted.values()))


@pytest.mark.parametrize("least", [2, 3])
def test_a_group_of_the_workers_alone_waits_for_no_head(least: int) -> None:
    """Its user made it: the head is in no group, or in another one."""
    row = ray(replicas=3, minReplicas=1, autoscaled=True)
    head, *workers = of_ray(4)
    alone = replace(head, labels={k: v for k, v in head.labels.items() if k not in labelled("")})
    pods = [alone, *workers]
    both = Resolver(GroupSettings()).resolve_all(snapshot(pods, [group_of(least), row]))
    (one,) = [each for each in both if each.key.name == "pg"]
    assert (one.complete, one.min_count, one.missing) == (True, least, least)
    other = replace(head, labels=head.labels | labelled("head"))
    rows = [group_of(least), group_of(1, "head"), ray(replicas=3, minReplicas=1)]
    both = Resolver(GroupSettings()).resolve_all(snapshot([other, *workers], rows))
    assert [each.complete for each in both] == [True, True]


def test_a_group_of_all_waits_for_a_head_that_is_not_made_yet() -> None:
    row = ray(replicas=3, minReplicas=1, autoscaled=True)
    one = beside_only(of_ray(4, head=False), group_of(2), row)
    assert (one.complete, parts(one)["head"]) == (False, (0, 1))


def test_another_pod_of_the_group_takes_no_minimum_away() -> None:
    """A RayJob's submitter is in the group, and of no RayCluster."""
    submitter = replace(pod("submit", labels=labelled("pg")), created=9e9)
    one = beside_only([*of_ray(4), submitter], group_of(2), ray(replicas=3, minReplicas=1))
    assert parts(one) == {"head": (1, 1), "small-group": (3, 1)}


@pytest.mark.parametrize(("minimum", "wanted"), [(None, {}), (2, {})])
def test_a_smaller_number_for_a_training_job_is_its_users_own(
    minimum: int | None, wanted: dict[str, tuple[int, int]]
) -> None:
    """training-operator writes minAvailable, or all replicas."""
    pods = [recorded.pod("training-operator", i, 4) for i in range(4)]
    pods = [replace(each, labels=each.labels | labelled("pg")) for each in pods]
    spec: Obj = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    if minimum is not None:
        spec["runPolicy"] = {"schedulingPolicy": {"minAvailable": minimum}}
    job = owners.read("pytorchjob", owners.document("pytorchjob", "g-0", spec))
    assert parts(beside_only(pods, group_of(2), job)) == wanted
    if minimum is None:
        assert parts(beside_only(pods, group_of(4), job)) == {"master": (1, 1), "worker": (3, 3)}


def test_a_master_that_is_done_is_not_waited_for_where_its_job_does_not_say_so_yet() -> None:
    pods = [recorded.pod("training-operator", i, 4) for i in range(4)]
    pods = [replace(each, labels=each.labels | labelled("pg")) for each in pods]
    pods[0] = replace(pods[0], node="n0", phase="Succeeded", started=1000.0)
    spec: Obj = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    spec["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    job = owners.read("pytorchjob", owners.document("pytorchjob", "g-0", spec))
    one = beside_only(pods, group_of(2), job)
    assert (one.complete, parts(one).get("master")) == (True, None)


def test_a_basic_group_gets_no_quorum() -> None:
    pods = [replace(each, pod_group="pg", labels=each.labels) for each in of_ray(4)]
    pods = [
        replace(each, labels={k: v for k, v in each.labels.items() if k not in labelled("")})
        for each in pods
    ]
    one = beside_only(pods, core("pg", min_count=None), ray(replicas=3, minReplicas=3))
    assert (one.starts_whole, one.parts) == (False, ())


def test_a_suspended_worker_group_needs_no_pods() -> None:
    assert parts(beside_only(of_ray(4), group_of(4), ray(replicas=3, suspend=True))) == {
        "head": (1, 1)
    }


@pytest.mark.parametrize(("bound", "whole"), [(4, True), (3, False)])
def test_as_a_victim_it_goes_whole_once_each_part_has_run(bound: int, *, whole: bool) -> None:
    pods = of_ray(4, bound=4)
    if bound == 3:
        pods = [replace(pods[0], node="", started=0.0), *pods[1:]]
    one = beside_only(pods, group_of(2), ray(replicas=3, minReplicas=1))
    assert one.unit == UNIT_ALL
    assert one.goes_whole == whole


def test_tasks_that_the_group_states_go_before() -> None:
    row = decode_group(
        "volcano",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "pg", "namespace": "ns", "uid": "pg"},
            "spec": {"minMember": 2, "minTaskMember": {"head": 2}},
        },
    )
    pods = [
        replace(
            each,
            labels={k: v for k, v in each.labels.items() if k not in labelled("")},
            annotations=each.annotations
            | {"scheduling.k8s.io/group-name": "pg", "volcano.sh/task-spec": "head"},
        )
        for each in of_ray(4)
    ]
    assert parts(beside_only(pods, row, ray(replicas=3, minReplicas=1))) == {"head": (4, 2)}


@pytest.mark.parametrize(
    "listed", ['["team/ps","team/wk"]', '["team/wk"]', '["team/ps"]', "ps,wk", None]
)
def test_a_koordinator_podgroup_in_a_gang_group_is_not_planned(
    listed: str | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The gangs of the list start together or not at all, and that is kept of annotations alone."""
    dump = json.loads((DUMPS / "parts-koordinator-gang-group.json").read_text())
    key = "gang.scheduling.koordinator.sh/"
    for each in waiting(dump):
        gang = each["metadata"]["annotations"].pop(f"{key}name")
        each["metadata"]["annotations"] = {}
        each["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] = gang
    for name, least in (("ps", 1), ("wk", 2)):
        meta: Obj = {"name": name, "namespace": "team", "uid": f"pg-{name}"}
        if listed is not None:
            meta["annotations"] = {f"{key}groups": listed}
        one = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
        dump["items"].append({**one, "metadata": meta, "spec": {"minMember": least}})
    found = answer(dump, "koordinator-pod-group:team/wk", capsys, tmp_path)
    if listed is None or "ps" not in listed or "wk" not in listed or "[" not in listed:
        assert found["plan"]["victims"]
    else:
        assert found["refusal"]["code"] == "conflict"
        assert "groups" in found["refusal"]["message"]
