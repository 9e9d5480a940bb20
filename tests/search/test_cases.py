"""Cases with a known answer: those kube-scheduler and its rivals got wrong, and edges."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from extender.search import reference, solver
from extender.search.problem import (
    Blocker,
    Cap,
    Infeasible,
    Limits,
    MemberClass,
    Problem,
    Solution,
    Unit,
)
from extender.search.problem.verify import verify
from tests.search.build import COMPILED, WORK, cluster, gang, single
from tests.search.generate import medium

Solve = Callable[[Problem], Solution | Infeasible]
both = pytest.mark.parametrize("solve", [reference.solve, solver.solve])


def names(problem: Problem, answer: Solution | Infeasible) -> set[str]:
    assert isinstance(answer, Solution)
    assert verify(problem, answer) == ()
    assert answer.optimal
    return {problem.units[u].uid for u in answer.chosen}


@both
def test_two_free_nodes_are_used_before_anyone_goes(solve: Solve) -> None:
    """8 nodes, 6 hold one pod, 2 are free, gang of 3: one pod (workload-aware preemption: 3)."""
    problem = cluster([0] * 6 + [4] * 2, [single(f"p{n}", n, 4) for n in range(6)], need=3, cpu=3)
    assert len(names(problem, solve(problem))) == 1


@both
def test_two_singles_rather_than_a_gang_of_four(solve: Solve) -> None:
    units = [gang("low-gang", range(4), 3), *(single(f"p{n}", n, 3) for n in range(4, 8))]
    problem = cluster([1] * 8, units, need=2, cpu=3)
    assert len(names(problem, solve(problem)) & {"p4", "p5", "p6", "p7"}) == 2


@both
def test_priority_one_goes_before_priority_five(solve: Solve) -> None:
    units = [single(f"p{n}", n, 3, 5 if n < 4 else 1) for n in range(8)]
    problem = cluster([1] * 8, units, need=4, cpu=3)
    assert names(problem, solve(problem)) == {"p4", "p5", "p6", "p7"}


@both
def test_two_pods_where_ten_were_evicted(solve: Solve) -> None:
    problem = cluster(
        [0] * 32 + [4] * 8, [single(f"p{n}", n, 4) for n in range(32)], need=10, cpu=3
    )
    assert len(names(problem, solve(problem))) == 2


@both
def test_one_gang_where_eight_were_evicted(solve: Solve) -> None:
    """40 nodes, 8 gangs of 4 over 32 of them, 8 free, gang of 12: one gang goes."""
    units = [gang(f"g{i}", range(i, 32, 8), 4) for i in range(8)]
    problem = cluster([0] * 32 + [4] * 8, units, need=12, cpu=3)
    answer = solve(problem)
    assert len(names(problem, answer)) == 1
    assert isinstance(answer, Solution)
    assert answer.cost == (0, 0, 0, 1, 4)


@both
def test_the_second_gang_goes_when_it_suffices(solve: Solve) -> None:
    units = [gang("four", range(4), 3), gang("two", (4, 5), 3)]
    problem = cluster([1] * 6, units, need=2, cpu=3)
    assert names(problem, solve(problem)) == {"two"}


@both
def test_a_broken_gang_frees_all_its_nodes(solve: Solve) -> None:
    """Breaking one gang of three serves three members; singles would break nothing but cost 3."""
    units = [gang("g", range(3), 3), *(single(f"p{n}", n, 3, 5) for n in range(3, 6))]
    problem = cluster([1] * 6, units, need=3, cpu=3)
    assert names(problem, solve(problem)) == {"g"}


@both
def test_fragments_free_one_whole_node_or_nothing(solve: Solve) -> None:
    units = [single(f"p{n}-{k}", n, 1) for n in range(4) for k in range(8)]
    problem = cluster([0] * 4, units, need=1, cpu=8)
    answer = solve(problem)
    chosen = names(problem, answer)
    assert len(chosen) == 8
    assert len({uid.split("-")[0] for uid in chosen}) == 1
    too_big = cluster([0] * 4, units, need=1, cpu=9)
    assert isinstance(solve(too_big), Infeasible)


@both
@pytest.mark.parametrize("size", [11, 40])
def test_packed_clique_and_its_one_node_short_twin(solve: Solve, size: int) -> None:
    units = [single(f"p{n}-{k}", n, 1) for n in range(size) for k in range(4)]
    problem = cluster([0] * size, units, need=size, cpu=4)
    assert len(names(problem, solve(problem))) == 4 * size
    short = replace(problem, need=size + 1, classes=(replace(problem.classes[0], count=size + 1),))
    answer = solve(short)
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert answer.short == ((0, 1),)
    assert any("cpu" in reason for reason in answer.reasons), answer.reasons


@both
def test_terminating_pods_are_waited_for_rather_than_others_evicted(solve: Solve) -> None:
    leaving = Unit("leaving", ((0, (3,)),), (0,) * 5)
    problem = cluster([1, 1], [leaving, single("p", 1, 3)], need=1, cpu=3)
    assert names(problem, solve(problem)) == {"leaving"}
    free = cluster([1, 3], [leaving], need=1, cpu=3)
    assert names(free, solve(free)) == set()


@both
def test_leader_and_workers(solve: Solve) -> None:
    """The leader must be seated, and shares nodes with the workers."""
    classes = (
        MemberClass("leader", (2,), 1, b"\1\1\1", least=1),
        MemberClass("worker", (3,), 3, b"\1\1\1"),
    )
    base = cluster([5, 1, 1], [single("a", 1, 3), single("b", 2, 2)], need=3, cpu=3)
    problem = replace(base, classes=classes, need=3)
    assert names(problem, solve(problem)) in ({"a"}, {"b"})


@both
def test_spread_caps_bind_over_zones(solve: Solve) -> None:
    """Two zones, at most two members in each: the third zone's pod must go."""
    problem = replace(
        cluster([9, 9, 0], [single("far", 2, 3)], need=5, cpu=3, count=5),
        caps=(Cap((0,), array("i", [0, 1, 2]), 2),),
    )
    answer = solve(problem)
    assert names(problem, answer) == {"far"}


@both
def test_a_blocked_node_opens_when_its_blockers_go(solve: Solve) -> None:
    problem = replace(
        cluster([9, 0], [single("foe", 0, 1), single("p", 1, 3, 5)], need=1, cpu=3),
        blockers=(Blocker(0, 0, (0,)),),
    )
    assert names(problem, solve(problem)) == {"foe"}


@both
def test_debt_on_a_node_is_paid_before_seats_are_found_there(solve: Solve) -> None:
    problem = cluster([-4], [single("a", 0, 5), single("b", 0, 3)], need=1, cpu=3)
    assert names(problem, solve(problem)) == {"a", "b"}


@both
def test_a_required_domain_holds_every_seat(solve: Solve) -> None:
    base = cluster([3, 3, 0], [single("p", 2, 3)], need=2, cpu=3)
    problem = replace(base, domain=array("i", [0, 1, 1]))
    assert names(problem, solve(problem)) == {"p"}
    preferred = replace(problem, domain_required=False, domain_level=4)
    answer = solve(preferred)
    assert isinstance(answer, Solution)
    assert answer.cost == (0, 0, 0, 0, 1)
    nowhere = replace(base, domain=array("i", [-1, -1, -1]))
    refusal = solve(nowhere)
    assert isinstance(refusal, Infeasible)
    assert "topology domain" in refusal.reasons[0]


@both
def test_the_least_of_a_role_is_named_when_it_is_short(solve: Solve) -> None:
    classes = (
        MemberClass("leader", (8,), 1, b"\1\1", least=1),
        MemberClass("worker", (3,), 3, b"\1\1"),
    )
    problem = replace(cluster([6, 6], [], need=2, cpu=3), classes=classes)
    answer = solve(problem)
    assert isinstance(answer, Infeasible)
    assert answer.short == ((0, 1),)
    assert any(reason.startswith("leader") for reason in answer.reasons)


def test_a_spent_budget_still_answers_with_a_valid_bound() -> None:
    seen_open = 0
    for seed in range(150 if COMPILED else 20):
        problem = medium(seed)
        full = solver.solve(problem, WORK)
        short = solver.solve(problem, Limits(branch_nodes=2))
        if isinstance(full, Solution) and isinstance(short, Solution):
            assert verify(problem, short) == ()
            assert short.bound <= full.cost <= short.cost
            seen_open += not short.optimal
    assert seen_open


def test_the_plain_search_bounds_what_it_leaves_open() -> None:
    seen_open = 0
    for seed in range(10):
        problem = medium(seed)
        full = solver.solve(problem, WORK)
        short = reference.solve(problem, Limits(branch_nodes=20))
        if isinstance(full, Solution) and isinstance(short, Solution):
            assert verify(problem, short) == ()
            assert short.bound <= full.cost <= short.cost
            seen_open += not short.optimal
    assert seen_open


@pytest.mark.parametrize("solve", [reference.solve, solver.solve])
def test_the_cancel_flag_ends_the_search(solve: Callable[..., Solution | Infeasible]) -> None:
    nodes = solver.FEW_NODES + 1  # fewer are answered before a flag counts
    problem = cluster([0] * nodes, [single(f"p{n}", n, 3) for n in range(nodes)], need=2, cpu=3)
    answer = solve(problem, Limits(), cancel=array("b", [1]))
    assert isinstance(answer, Solution)
    assert verify(problem, answer) == ()
    assert answer.branch_nodes == 0


SOLVERS = [reference.solve, *([solver.solve] if COMPILED else [])]


@pytest.mark.parametrize("solve", SOLVERS)
def test_a_past_deadline_ends_the_search(solve: Callable[..., Solution | Infeasible]) -> None:
    """With time these branch and are proved; without, nobody looks further."""
    for seed in (1, 10, 12):
        problem = medium(seed)
        full = solve(problem, WORK)
        assert isinstance(full, Solution)
        assert full.optimal
        assert full.branch_nodes > 1
        answer = solve(problem, WORK, deadline=time.monotonic() - 1)
        assert isinstance(answer, Solution)
        assert verify(problem, answer) == ()
        assert not answer.optimal
        assert answer.branch_nodes == 0
