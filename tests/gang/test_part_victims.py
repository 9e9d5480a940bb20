"""Gangs of parts as victims: what has not begun goes one by one, the surplus of a part first."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.incremental.victims import elastic_of
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Part, Pod
from extender.model.plan import Plan, Proof
from extender.settings.settings import GroupSettings, Settings
from tests.gang.world import NOW, evicted, gang_key, group, node, pod, snapshot
from tests.groups import owners, recorded
from tests.groups.build import snapshot as loose
from tests.groups.owners import job, jobset, jobset_pod, read, replicated

SINGLE = Settings(groups=GroupSettings(unit={"volcano": "single"}))


def ray(head: dict[str, Any] | None, **worker: Any) -> Gang:
    """A RayCluster of one head and three workers, which run; no head where that is None."""
    spec = {"workerGroupSpecs": [{"groupName": "small-group", "replicas": 3, "minReplicas": 3}]}
    row = read("ray-cluster", owners.document("ray-cluster", "g-0", spec))
    pods = [
        replace(recorded.pod("ray-cluster", i, 4), node=f"n{i}", started=1000.0, **worker)
        for i in (1, 2, 3)
    ]
    if head is not None:
        pods.append(replace(recorded.pod("ray-cluster", 0, 4), **head))
    (one,) = Resolver(GroupSettings()).resolve_all(loose(pods, [row]))
    return one


def test_workers_without_a_head_have_lost_nothing_together() -> None:
    assert not ray(None).goes_whole
    assert not ray({"created": 900.0}).goes_whole


def test_with_their_head_they_go_whole_and_where_it_waits_anew() -> None:
    assert ray({"node": "n0", "started": 1000.0}).goes_whole
    assert ray({"created": 5000.0}).goes_whole


def test_a_part_that_is_done_has_run() -> None:
    """A JobSet's driver has succeeded, and its Job does not say so yet."""
    row = read("jobset", jobset(replicated("driver"), replicated("w", each=2)))
    rows = [row, read("job", job("g-driver-0", 1)), read("job", job("g-w-0", 2))]
    runs = [_of("w", i, node=f"n{i}", phase="Running") for i in (0, 1)]
    over = _of("driver", 0, node="n9", phase="Succeeded")
    for pods, whole in (([*runs, over], True), (runs, False)):
        (one,) = Resolver(GroupSettings()).resolve_all(loose(pods, rows))
        assert one.goes_whole == whole


def _of(part: str, i: int, **more: Any) -> Pod:
    meta = jobset_pod(i, part, index=i)
    made = pod(f"{part}-{i}", labels=meta["labels"], annotations=meta["annotations"])
    return replace(made, namespace="ns", **more)


# -- one pod after the other ------------------------------------------------------------


def volcano(least: int = 4, **parts: int) -> GroupObject:
    """minMember and minTaskMember; by configuration such gangs go pod by pod."""
    listed = tuple(Part(name, each=count) for name, count in sorted(parts.items()))
    return GroupObject("volcano", "uid-g", "default", "g", least, parts=listed)


def task(name: str, of: str, on: str, priority: int = 0) -> Pod:
    notes = {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": of}
    return pod(name, on=on, annotations=notes, priority=priority)


def head_and_workers(row: GroupObject, workers: int, priority: int = 0) -> Gang:
    """A gang that goes pod by pod."""
    pods = [task("head", "head", "n0", priority)]
    pods += [task(f"w{i}", "worker", f"n{i + 1}", priority) for i in range(workers)]
    state = snapshot([], pods, [row], settings=SINGLE)
    state = replace(state, group_sources=frozenset({"volcano"}))
    (gang,) = Resolver(SINGLE.groups).resolve_all(state)
    return gang


def plan_of(row: GroupObject, others: int = 0, wanted: int = 2) -> Plan:
    """Room of a head and five workers of three, beside pods of higher priority."""
    pods = [task("head", "head", "n0"), *(task(f"w{i}", "worker", f"n{i + 1}") for i in range(5))]
    pods += [pod(f"o{i}", on=f"n{i + 6}", priority=1) for i in range(others)]
    pods += [pod(f"high-{i}", group="high", priority=9) for i in range(wanted)]
    nodes = [node(f"n{i}") for i in range(6 + others)]
    state = snapshot(nodes, pods, [row, group("high", wanted, priority=9)], settings=SINGLE)
    state = replace(state, group_sources=frozenset({"volcano"}))
    resolver = Resolver(SINGLE.groups)
    gang = resolver.resolve(gang_key("high"), state)
    found = Planner(SINGLE, resolver).plan(GangQuestion(gang, state))
    assert isinstance(found, Plan), found
    return found


def broken(plan: Plan) -> int:
    return sum(cost.value for cost in plan.costs if cost.level.startswith("gangs@"))


def test_the_surplus_of_a_part_goes_first() -> None:
    found = plan_of(volcano(head=1, worker=3))
    assert evicted(found) < {f"w{i}" for i in range(5)}
    assert broken(found) == 0


def test_beyond_the_surplus_the_gang_is_broken() -> None:
    assert broken(plan_of(volcano(head=1, worker=3), wanted=3)) == 1
    assert "head" not in evicted(plan_of(volcano(head=1, worker=3), wanted=5))


@pytest.mark.parametrize(("least", "surplus"), [(4, [0, 2]), (5, [0, 1]), (6, [0])])
def test_a_quorum_beyond_the_sum_of_the_parts_spares_what_no_part_needs(
    least: int, surplus: list[int]
) -> None:
    """Of head and five workers, of which three are needed: the head is none too many."""
    gang = head_and_workers(volcano(least, head=1, worker=3), 5)
    assert [each.surplus for each in elastic_of(gang)] == surplus
    assert [each.at_best for each in elastic_of(gang)] == surplus


def test_a_worker_beyond_every_minimum_goes_for_nothing() -> None:
    """Four of head and five workers are needed, of workers two: any worker is one too many."""
    found = plan_of(volcano(least=5, head=1, worker=2), others=1, wanted=1)
    assert evicted(found) < {f"w{i}" for i in range(5)}
    assert broken(found) == 0
    assert found.proof is Proof.OPTIMAL
    assert broken(plan_of(volcano(least=5, head=1, worker=2), wanted=2)) == 1


@pytest.mark.parametrize(("long", "proof"), [("b", Proof.OPTIMAL), ("a", Proof.BOUNDED)])
def test_what_parts_lose_at_each_others_expense_is_not_called_proved(
    long: str, proof: Proof
) -> None:
    """One of two and two of three may be too many, two in all: the search is told one of each.
    Where those of part a have run for long, two of part b would cost less."""
    row = volcano(least=3, a=1, b=1)
    names = ["a0", "a1", "b0", "b1", "b2"]
    pods = [
        replace(task(name, name[0], f"n{at}"), started=NOW - (9000 if name[0] == long else 60))
        for at, name in enumerate(names)
    ]
    high = [pod(f"high-{i}", group="high", priority=9) for i in range(2)]
    groups = [row, group("high", 2, priority=9)]
    nodes = [node(f"n{at}") for at in range(len(names))]
    state = snapshot(nodes, [*pods, *high], groups, settings=SINGLE)
    state = replace(state, group_sources=frozenset({"volcano"}))
    resolver = Resolver(SINGLE.groups)
    held = resolver.resolve(GangKey("volcano", "default", "g"), state)
    assert [(each.surplus, each.at_best) for each in elastic_of(held)] == [(1, 1), (1, 2)]
    gang = resolver.resolve(gang_key("high"), state)
    found = Planner(SINGLE, resolver).plan(GangQuestion(gang, state))
    assert isinstance(found, Plan)
    assert found.proof is proof


@pytest.mark.parametrize(("least", "parts"), [(4, {}), (4, {"head": 1, "worker": 3})])
@pytest.mark.parametrize("workers", [3, 2, 1])
def test_a_gang_that_lacks_a_member_has_nothing_left_to_lose(
    least: int, parts: dict[str, int], workers: int
) -> None:
    """Of head and three workers: at its quorum it is broken with the next pod, and below it no
    pod breaks it."""
    gang = head_and_workers(volcano(least, **parts), workers)
    surplus = [each.surplus for each in elastic_of(gang)]
    assert surplus == [0] * max(1, len(parts)) * (workers == 3)


@pytest.mark.parametrize(
    ("least", "parts", "found"),
    [
        (4, {"head": 1, "worker": 3}, [(["head"], True), (["w0", "w1", "w2", "w3"], True)]),
        (5, {"head": 1, "worker": 3}, [(["head", "w0", "w1", "w2", "w3"], False)]),
        (5, {}, [(["head", "w0", "w1", "w2", "w3"], False)]),
    ],
)
def test_what_loses_pods_one_by_one_has_its_own_pods_and_the_priority_of_its_gang(
    least: int, parts: dict[str, int], found: list[tuple[list[str], bool]]
) -> None:
    gang = head_and_workers(volcano(least, **parts), 4, priority=7)
    several = elastic_of(gang)
    assert [sorted(each.name for each in one.pods) for one in several] == [n for n, _ in found]
    assert [one.uids == frozenset(each.uid for each in one.pods) for one in several] == [
        p for _, p in found
    ]
    assert {one.priority for one in several} == {7}
