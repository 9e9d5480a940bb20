"""What must not change, or not get worse, when a problem is altered in a known way."""

from __future__ import annotations

import random
from array import array

from msgspec.structs import replace

from extender.search import solver
from extender.search.problem import Cap, Infeasible, Problem, Solution, Vector
from tests.search.build import COMPILED, WORK
from tests.search.generate import medium, small

SEEDS = range(300)


def cost(problem: Problem) -> Vector | None:
    answer = solver.solve(problem)
    return None if isinstance(answer, Infeasible) else answer.cost


def not_above(now: Vector | None, before: Vector | None) -> bool:
    return before is None or (now is not None and now <= before)


def with_free_node(problem: Problem) -> Problem:
    """One more node, roomy, allowed for all, outside every cap, in the first domain."""
    domain = problem.domain
    return replace(
        problem,
        nodes=(*problem.nodes, "new"),
        free=tuple(array("q", [*column, 1 << 40]) for column in problem.free),
        classes=tuple(replace(c, allowed=c.allowed + b"\1") for c in problem.classes),
        caps=tuple(Cap(c.classes, array("i", [*c.domain, -1]), c.limit) for c in problem.caps),
        spreads=tuple(replace(s, domain=array("i", [*s.domain, -1])) for s in problem.spreads),
        domain=None if domain is None else array("i", [*domain, 0]),
    )


def test_a_free_node_never_raises_the_cost() -> None:
    for seed in SEEDS:
        problem = small(seed)
        assert not_above(cost(with_free_node(problem)), cost(problem)), f"seed {seed}"


def test_a_free_node_never_raises_the_cost_of_medium_cases() -> None:
    """Proved or not: the bound with the node lies below every answer without it."""
    for seed in range(40 if COMPILED else 10):
        problem = medium(seed)
        before = solver.solve(problem, WORK)
        after = solver.solve(with_free_node(problem), WORK)
        if isinstance(before, Solution):
            assert isinstance(after, Solution), f"seed {seed}"
            assert after.bound <= before.cost, f"seed {seed}"
            assert after.cost <= before.cost or not after.optimal, f"seed {seed}"


def test_one_seat_less_never_raises_the_cost() -> None:
    for seed in SEEDS:
        problem = small(seed)
        if problem.need:
            fewer = replace(problem, need=problem.need - 1)
            assert not_above(cost(fewer), cost(problem)), f"seed {seed}"


def test_renaming_changes_nothing() -> None:
    for seed in SEEDS:
        problem = small(seed)
        renamed = replace(problem, nodes=tuple(f"other-{n}" for n in problem.nodes))
        before, after = solver.solve(problem), solver.solve(renamed)
        if isinstance(before, Solution):
            assert after == before, f"seed {seed}"


def test_the_order_of_nodes_and_units_does_not_change_the_cost() -> None:
    for seed in SEEDS:
        problem = small(seed)
        assert cost(shuffled(problem, seed)) == cost(problem), f"seed {seed}"


def shuffled(problem: Problem, seed: int) -> Problem:
    rng = random.Random(seed)
    order = list(range(len(problem.nodes)))
    rng.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    units = list(range(len(problem.units)))
    rng.shuffle(units)
    moved = {old: new for new, old in enumerate(units)}
    return replace(
        problem,
        nodes=tuple(problem.nodes[n] for n in order),
        free=tuple(array("q", [column[n] for n in order]) for column in problem.free),
        classes=tuple(
            replace(c, allowed=bytes(c.allowed[n] for n in order)) for c in problem.classes
        ),
        units=tuple(
            replace(
                problem.units[u],
                releases=tuple((place[n], a) for n, a in problem.units[u].releases),
            )
            for u in units
        ),
        blockers=tuple(
            replace(b, node=place[b.node], units=tuple(moved[u] for u in b.units))
            for b in problem.blockers
        ),
        caps=tuple(
            replace(c, domain=array("i", [c.domain[n] for n in order])) for c in problem.caps
        ),
        spreads=tuple(
            replace(s, domain=array("i", [s.domain[n] for n in order])) for s in problem.spreads
        ),
        domain=None if problem.domain is None else array("i", [problem.domain[n] for n in order]),
    )


def test_a_dearer_victim_is_not_chosen_more_often() -> None:
    """A kept unit stays kept when only its own price rises."""
    for seed in SEEDS:
        problem = small(seed)
        answer = solver.solve(problem)
        if isinstance(answer, Infeasible):
            continue
        for index in range(len(problem.units)):
            if index not in answer.chosen:
                units = list(problem.units)
                price = (units[index].cost[0] + 1, *units[index].cost[1:])
                units[index] = replace(units[index], cost=price)
                dearer = solver.solve(replace(problem, units=tuple(units)))
                assert isinstance(dearer, Solution)
                assert dearer.cost == answer.cost, f"seed {seed}, unit {index}"
                assert index not in dearer.chosen, f"seed {seed}, unit {index}"


def test_removing_an_unused_unit_does_not_change_the_cost() -> None:
    for seed in SEEDS:
        problem = small(seed)
        answer = solver.solve(problem)
        if isinstance(answer, Infeasible) or problem.blockers:
            continue
        unused = [u for u in range(len(problem.units)) if u not in answer.chosen]
        if unused:
            kept = tuple(unit for u, unit in enumerate(problem.units) if u != unused[0])
            assert cost(replace(problem, units=kept)) == answer.cost, f"seed {seed}"


def test_equal_problems_get_equal_answers() -> None:
    for seed in range(60 if COMPILED else 10):
        first, second = (solver.solve(medium(seed), WORK) for _ in range(2))
        assert first == second, f"seed {seed}"


def test_more_members_are_seated_only_where_no_victim_pays() -> None:
    for seed in SEEDS:
        problem = small(seed)
        answer = solver.solve(problem)
        filled = solver.solve(replace(problem, fill=True))
        if isinstance(answer, Solution):
            assert isinstance(filled, Solution)
            assert filled.cost == answer.cost, f"seed {seed}"
            seats = sum(members for _, _, members in answer.seats)
            assert sum(members for _, _, members in filled.seats) >= seats, f"seed {seed}"
