"""CompositePodGroups: what starts together, what goes together, and trees that are none."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from extender.groups.composite import unit_key
from extender.model.gang import UNIT_ALL, UNIT_SINGLE, Gang
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.snapshot import Snapshot
from tests.groups.build import pod, snapshot
from tests.groups.composites import composite, pod_group
from tests.groups.owner_gangs import RESOLVER

ROOT = "root..CompositePodGroup"


def pods(*groups: str, bound: int = 0) -> list[Pod]:
    """Two pods a group; the first ``bound`` of all have a node."""
    made = [pod(f"{group}-{i}", group=group) for group in groups for i in range(2)]
    return [replace(each, node="n") if at < bound else each for at, each in enumerate(made)]


def starts(state: Snapshot, name: str) -> GangKey:
    key = RESOLVER.member_key(found(state, name))
    assert key is not None
    return key


def goes(state: Snapshot, name: str) -> GangKey:
    each = found(state, name)
    key = unit_key(RESOLVER.member_key(each), each)
    assert key is not None
    return key


def found(state: Snapshot, name: str) -> Pod:
    every = [*state.pending.values(), *(pod for there in state.bound.values() for pod in there)]
    return next(each for each in every if each.name == name)


def gang(state: Snapshot, key: GangKey) -> Gang:
    return RESOLVER.resolve(key, state)


def test_a_gang_of_groups_starts_and_goes_whole() -> None:
    root = composite("root", least=2, whole=True, priority=7)
    state = snapshot(pods("a", "b"), [root, pod_group("a", "root"), pod_group("b", "root")])
    key = starts(state, "a-0")
    assert key == GangKey("pod-group", "ns", ROOT) == starts(state, "b-1") == goes(state, "b-0")
    (whole,) = RESOLVER.resolve_all(state)
    assert (whole.key, len(whole.members), whole.min_count) == (key, 4, 4)
    assert (whole.unit, whole.starts_whole, whole.complete) == (UNIT_ALL, True, True)
    assert (whole.preemptor_priority, whole.victim_priority) == (7, 7)
    assert not whole.problems
    assert not whole.unplanned


@pytest.mark.parametrize(
    ("root", "middle", "leaf", "unit"),
    [
        (True, True, True, ROOT),
        (True, False, False, ROOT),
        (False, True, False, "middle..CompositePodGroup"),
        (False, False, True, "a"),
        (True, False, True, ROOT),
        (False, True, True, "middle..CompositePodGroup"),
    ],
)
def test_the_highest_that_says_all_is_the_unit(
    *, root: bool, middle: bool, leaf: bool, unit: str
) -> None:
    state = snapshot(
        pods("a", "b", "c", bound=6),
        [
            composite("root", whole=root),
            composite("middle", "root", whole=middle),
            pod_group("a", "middle", whole=leaf),
            pod_group("b", "middle", whole=leaf),
            pod_group("c", "root", whole=leaf),
        ],
    )
    key = goes(state, "a-0")
    assert key.name == unit
    together = gang(state, key)
    assert together.goes_whole
    expected = {ROOT: 6, "middle..CompositePodGroup": 4, "a": 2}[unit]
    assert len(together.bound) == expected
    assert starts(state, "a-0").name == "a", "basic composites start nothing together"


def test_where_nobody_says_all_pods_are_single() -> None:
    groups = [composite("root", least=1), pod_group("a", "root")]
    state = snapshot(pods("a", bound=2), groups)
    assert goes(state, "a-0") == starts(state, "a-0")
    assert gang(state, goes(state, "a-0")).unit == UNIT_SINGLE


def test_a_group_that_goes_alone_starts_with_the_others() -> None:
    groups = [composite("root", least=2), *(pod_group(n, "root", whole=True) for n in "ab")]
    state = snapshot(pods("a", "b", bound=4), groups)
    whole, part = gang(state, starts(state, "a-0")), gang(state, goes(state, "a-0"))
    assert (whole.key.name, whole.min_count, whole.goes_whole) == (ROOT, 4, False)
    assert (part.key.name, len(part.members), part.goes_whole) == ("a", 2, True)
    assert not part.starts_whole


def test_groups_of_a_basic_one_start_by_themselves_and_go_with_it() -> None:
    groups = [composite("root", whole=True), *(pod_group(n, "root") for n in "ab")]
    state = snapshot(pods("a", "b"), groups)
    alone = gang(state, starts(state, "a-0"))
    assert (alone.key.name, alone.min_count, alone.starts_whole) == ("a", 2, True)
    assert alone.notes == ("it is evicted with all of CompositePodGroup ns/'root'",)
    assert goes(state, "a-0").name == ROOT


def test_the_highest_gang_starts_whole_also_with_a_basic_one_between() -> None:
    groups = [
        composite("root", least=1),
        composite("middle", "root"),
        pod_group("a", "middle"),
        pod_group("b", "root"),
    ]
    assert starts(snapshot(pods("a", "b"), groups), "a-0").name == ROOT
    groups[:2] = [composite("root"), composite("middle", "root", least=1)]
    state = snapshot(pods("a", "b"), groups)
    assert starts(state, "a-0").name == "middle..CompositePodGroup"
    assert starts(state, "b-0").name == "b"


def test_the_priority_on_top_is_everybodys() -> None:
    groups = [
        composite("root", priority=5, preemptionPolicy="Never"),
        pod_group("a", "root", priority=900),
    ]
    alone = gang(state := snapshot(pods("a"), groups), starts(state, "a-0"))
    assert (alone.preemptor_priority, alone.victim_priority, alone.preempts) == (5, 5, False)


def test_all_that_are_there_are_waited_for_until_the_least_runs() -> None:
    groups = [composite("root", least=1), pod_group("a", "root"), pod_group("b", "root")]
    one = gang(state := snapshot(pods("a", "b"), groups), starts(state, "a-0"))
    assert (one.min_count, one.missing, one.whole_from) == (4, 4, 2)
    assert "all 4 pods are waited for" in one.notes[-1]
    one = gang(state := snapshot(pods("a", "b", bound=2), groups), starts(state, "a-0"))
    assert (one.min_count, one.missing) == (2, 0), "group a runs: the rest is beyond the quorum"


def test_pods_of_one_group_do_not_stand_in_for_those_of_another() -> None:
    groups = [composite("root", least=2), pod_group("a", "root"), pod_group("b", "root", least=3)]
    members = [*pods("a", "b"), pod("a-2", group="a")]
    one = gang(state := snapshot(members, groups), starts(state, "a-0"))
    assert (one.min_count, one.complete) == (6, False), "b lacks one, a's third is none of its"


def test_a_group_without_pods_is_waited_for() -> None:
    groups = [composite("root", least=2), pod_group("a", "root"), pod_group("b", "root")]
    one = gang(state := snapshot(pods("a"), groups), starts(state, "a-0"))
    assert (one.min_count, one.complete) == (3, False)


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        (
            [pod_group("a", "gone"), composite("other")],
            "CompositePodGroup ns/'gone' does not exist",
        ),
        ([pod_group("a", "c1"), composite("c1", "c1", 1)], "ns/'c1' is above itself"),
        (
            [pod_group("a", "c1"), composite("c1", "c2"), composite("c2", "c1", 1, whole=True)],
            "ns/'c1' is above itself",
        ),
        (
            [
                pod_group("a", "c1"),
                *(composite(f"c{i}", f"c{i + 1}") for i in range(1, 4)),
                composite("c4"),
            ],
            "more than 4 groups",
        ),
        ([pod_group("a", "c1"), composite("c1", least=0)], "gang.minGroupCount is 0"),
        ([pod_group("a", "c1"), composite("c1", least=-3)], "gang.minGroupCount is -3"),
        ([pod_group("a", "c1", least=0), composite("c1")], "gang.minCount is 0"),
        ([pod_group("a", "c" * 250), composite("c" * 250)], "its name is too long"),
    ],
)
def test_what_is_no_tree_is_a_problem_and_nothing_more(groups: list[GroupObject], why: str) -> None:
    (alone,) = RESOLVER.resolve_all(snapshot(pods("a"), groups))
    (problem,) = alone.problems
    assert why in problem
    assert (alone.key.name, alone.goes_whole) == ("a", False)


def test_four_levels_are_read() -> None:
    groups = [
        pod_group("a", "c1"),
        composite("c1", "c2"),
        composite("c2", "root"),
        composite("root", least=1, whole=True),
    ]
    (whole,) = RESOLVER.resolve_all(snapshot(pods("a"), groups))
    assert (whole.key.name, whole.min_count, whole.problems) == (ROOT, 2, ())


def test_a_composite_that_is_not_read_is_not_planned_for() -> None:
    (alone,) = RESOLVER.resolve_all(snapshot(pods("a"), [pod_group("a", "root", whole=True)]))
    (why,) = alone.unplanned
    assert "CompositePodGroup ns/'root' is not served or must not be read" in why
    assert not alone.problems
    assert (alone.unit, alone.starts_whole) == (UNIT_ALL, True)
    (basic,) = RESOLVER.resolve_all(snapshot(pods("a"), [pod_group("a", "root", least=None)]))
    assert (basic.starts_whole, len(basic.unplanned)) == (True, 1)


def test_topology_rules_of_several_levels_are_not_planned_for() -> None:
    rack = [composite("root", least=1, topology="rack", whole=True), pod_group("a", "root")]
    (one,) = RESOLVER.resolve_all(snapshot(pods("a"), rack))
    assert (one.topology_key, one.unplanned) == ("rack", ())
    rack[1] = pod_group("a", "root", topology="host")
    (one,) = RESOLVER.resolve_all(snapshot(pods("a", bound=2), rack))
    assert "PodGroup ns/'a' has a topology constraint" in one.unplanned[0]
    assert one.goes_whole, "as a victim it is what it says"
    rack = [composite("root", topology="rack"), pod_group("a", "root")]
    (one,) = RESOLVER.resolve_all(snapshot(pods("a"), rack))
    assert "CompositePodGroup ns/'root' has a topology constraint" in one.unplanned[0]


def test_a_composite_and_a_pod_group_of_one_name_are_two_gangs() -> None:
    groups = [composite("a", least=1), pod_group("a"), pod_group("b", "a")]
    state = snapshot(pods("a", "b"), groups)
    assert starts(state, "a-0").name == "a"
    assert starts(state, "b-0").name == "a..CompositePodGroup"


def test_any_groups_give_an_answer() -> None:
    """Whatever a tenant writes, each pod has one gang, and everybody of it is of that gang."""
    for seed in range(300):
        chance = random.Random(seed)
        names = [f"c{i}" for i in range(chance.randint(1, 6))]
        groups = [
            composite(
                name,
                chance.choice(["", *names, "gone"]),
                chance.choice([None, None, 1, 2, 9, 0]),
                whole=chance.random() < 0.4,
                topology=chance.choice(["", "", "", "rack"]),
            )
            for name in names
        ]
        leaves = [f"g{i}" for i in range(3)]
        groups += [
            pod_group(
                name,
                chance.choice(["", *names, "gone"]),
                chance.choice([None, 1, 2, 3]),
                whole=chance.random() < 0.4,
            )
            for name in leaves
        ]
        state = snapshot(pods(*leaves, bound=chance.randint(0, 6)), groups)
        for each in (f"{name}-{i}" for name in leaves for i in range(2)):
            one, unit = gang(state, starts(state, each)), gang(state, goes(state, each))
            assert found(state, each) in one.members
            assert found(state, each) in unit.members
            assert one.min_count >= 1
            if one.starts_whole and not one.problems and one.missing == 0:
                assert one.whole_from is None or one.whole_from <= len(one.bound)
            if not one.problems:
                assert one.preemptor_priority == unit.victim_priority
            assert unit.unit == UNIT_ALL or unit.key == one.key
