"""The cheap bounds hold: no answer costs less at any level, by brute force and by the search."""

from __future__ import annotations

import random
from array import array

import pytest
from msgspec.structs import replace

from extender.search import solver
from extender.search.floor import floor, joined
from extender.search.problem import Infeasible, Limits, MemberClass, Problem, Solution, Unit, Vector
from extender.search.problem.stop import Stop
from extender.search.problem.verify import verify
from tests.search.generate import kinds, medium, medium_mixed, small, tied
from tests.search.oracle_brute import brute
from tests.search.test_oracles import CASES

UNHURRIED = Stop()


def one_level(problem: Problem, level: int) -> Problem:
    """The problem with no cost but that of one level."""
    kept = [at for at, rule in enumerate(problem.budgets) if rule.hard or rule.level == level]
    wish = problem.domain is not None and not problem.domain_required
    counts = wish and problem.domain_level == level
    return replace(
        problem,
        levels=(problem.levels[level],),
        units=tuple(
            replace(
                unit,
                cost=(unit.cost[level],),
                budgets=tuple((kept.index(b), pods) for b, pods in unit.budgets if b in kept),
            )
            for unit in problem.units
        ),
        gangs=tuple(replace(g, break_cost=(g.break_cost[level],)) for g in problem.gangs),
        budgets=tuple(replace(problem.budgets[at], level=0) for at in kept),
        domain=None if wish and not counts else problem.domain,
        domain_level=0 if counts else -1,
    )


def shared(seed: int) -> Problem:
    """Few nodes, each full of units that are on others too: seats open together or not at all."""
    rng = random.Random(f"shared {seed}")
    nodes, units = rng.randint(3, 6), rng.randint(3, 8)
    sizes = rng.choice(((1,), (1, 2), (2, 3)))
    held: list[dict[int, int]] = [{} for _ in range(units)]
    for n in range(nodes):
        for unit in rng.sample(range(units), min(units, rng.randint(1, 4))):
            held[unit][n] = rng.choice(sizes)
    whole = [sum(at.get(n, 0) for at in held) for n in range(nodes)]
    request = rng.randint(1, 4)
    free = [rng.choice((-1, 0, 0, 0, 1)) for _ in range(nodes)]
    fitting = sum(max(0, have + gone) // request for have, gone in zip(free, whole, strict=True))
    need = rng.randint(1, max(1, fitting))
    costs: list[Vector] = [
        (rng.choice((0, 1, 1)), rng.randint(1, 3) * len(at), rng.randint(0, 9)) for at in held
    ]
    return Problem(
        resources=("cpu",),
        nodes=tuple(f"n{n}" for n in range(nodes)),
        free=(array("q", free),),
        classes=(MemberClass("member", (request,), need, b"\x01" * nodes),),
        need=need,
        units=tuple(
            Unit(f"u{at}", tuple((n, (x,)) for n, x in sorted(on.items())), cost, max(1, len(on)))
            for at, (on, cost) in enumerate(zip(held, costs, strict=True))
        ),
        levels=("gangs", "pods", "work"),
    )


@pytest.mark.parametrize("generate", [small, shared])
def test_no_answer_costs_less_at_any_level(generate: object) -> None:
    assert callable(generate)
    exact = above = 0
    for seed in range(max(100, CASES // 10)):
        problem = generate(seed)
        found = floor(problem, UNHURRIED)
        for level in range(len(problem.levels)):
            best = brute(one_level(problem, level))
            if best is None:
                break
            assert found[level] <= best[0], f"seed {seed}, level {level}"
            exact += found[level] == best[0] > 0
            above += best[0] > found[level]
    assert exact, "it says something"
    assert above


@pytest.mark.parametrize("generate", [medium, medium_mixed, kinds, tied])
def test_no_bound_lies_above_what_was_proved(generate: object) -> None:
    assert callable(generate)
    for seed in range(max(20, CASES // 60)):
        problem = generate(seed)
        answer = solver.solve(problem)
        if isinstance(answer, Solution) and answer.optimal:
            assert floor(problem, UNHURRIED) <= answer.cost, f"seed {seed}"


def test_the_higher_bound_of_each_level_counts() -> None:
    assert joined((3, 0, 0), (3, 5, 7)) == (3, 5, 7)
    assert joined((4, 0, 9), (3, 5, 7)) == (4, 5, 7)
    assert joined((2, 8, 8), (3, 0, 0)) == (3, 0, 0)
    assert joined((3, 6, 0), (3, 5, 7)) == (3, 6, 7)


def gangs_on(nodes: int, pods: int, size: int, need: int) -> Problem:
    """Each node has ``pods`` pods of gangs of ``size``, scattered; a member needs a whole node."""
    rng = random.Random(nodes)
    slots = [n for n in range(nodes) for _ in range(pods)]
    rng.shuffle(slots)
    units = []
    for at in range(len(slots) // size):
        on: dict[int, int] = {}
        for n in slots[at * size : (at + 1) * size]:
            on[n] = on.get(n, 0) + 1
        releases = tuple((n, (x,)) for n, x in sorted(on.items()))
        units.append(Unit(f"gang{at:04}", releases, (1, size), size))
    return Problem(
        resources=("cpu",),
        nodes=tuple(f"n{n:04}" for n in range(nodes)),
        free=(array("q", [0]) * nodes,),
        classes=(MemberClass("member", (pods,), need, b"\x01" * nodes),),
        need=need,
        units=tuple(units),
        levels=("gangs", "pods"),
    )


def test_a_search_that_is_cut_has_a_bound() -> None:
    """It said that at least 0 is certain where nothing is free."""
    problem = gangs_on(1600, 3, 20, 600)
    answer = solver.solve(problem, Limits(branch_nodes=0))
    assert not isinstance(answer, Infeasible)
    assert verify(problem, answer) == ()
    # Six hundred nodes, and twenty thirds of a node for a gang.
    assert answer.bound == (90, 1800)
    assert answer.bound < answer.cost


def test_units_that_open_seats_together_have_to_meet() -> None:
    """A third of a seat for each pod made 9 gangs of it: twenty pods, and sixty seats."""
    assert floor(gangs_on(800, 3, 20, 60), UNHURRIED) == (16, 320)
