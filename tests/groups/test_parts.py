"""Parts of a gang with minima of their own: Volcano's tasks and KAI's subgroups."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.decode.from_json import decode_group, decode_pod
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups import recorded
from tests.groups.build import snapshot

RESOLVER = Resolver(GroupSettings())


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
