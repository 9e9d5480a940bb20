"""A leader beside its workers."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from extender.search import solver
from extender.search.problem import (
    Blocker,
    Budget,
    ElasticGang,
    Limits,
    MemberClass,
    Problem,
    Solution,
    Unit,
)
from extender.search.problem.types import restated
from extender.search.problem.verify import verify
from extender.search.several.leading_class import JOINT, leads, single_problem
from extender.search.solver import solve_led
from tests.search.build import COMPILED
from tests.search.generate import small
from tests.search.oracle_brute import brute, minimal

if COMPILED:
    from extender.search.several import with_leader
needs_core = pytest.mark.skipif(not COMPILED, reason="the compiled core is not built")


def made(seed: int) -> Problem:
    """A few nodes of 8 GPUs, whole gangs of whole nodes and single pods; now and then something
    that is no case for this."""
    rng = random.Random(seed)
    nodes = rng.randrange(2, 6)
    free = [[0, rng.randrange(0, 40)] for _ in range(nodes)]
    units: list[Unit] = []
    levels = ("gangs", "work", "pods")
    left = list(range(nodes))
    rng.shuffle(left)
    while left:
        if rng.random() < 0.5:
            some = [left.pop() for _ in range(min(len(left), rng.choice((1, 2, 3))))]
            gpus = 8 if rng.random() < 0.8 else 6
            cost = (rng.choice((0, 1)), rng.randrange(1, 30) * len(some), len(some))
            units.append(
                Unit(
                    f"g{len(units)}", tuple((n, (gpus, 64)) for n in sorted(some)), cost, len(some)
                )
            )
            for n in some:
                free[n][0] += 8 - gpus if rng.random() < 0.5 else 0
        else:
            n, gpus = left.pop(), 8
            while gpus and len(units) < 12:
                more = min(gpus, rng.choice((1, 2, 4)))
                gpus -= more
                cost = (0, rng.randrange(1, 20), 1)
                gang = 0 if rng.random() < 0.1 else -1
                budgets = ((0, 1),) if rng.random() < 0.2 else ()
                units.append(
                    Unit(f"s{len(units)}", ((n, (more, 8 * more)),), cost, 1, gang, budgets)
                )
            free[n][0] += gpus if rng.random() < 0.1 else 0
    count = rng.randrange(2, 4)
    every = bytes([1]) * nodes
    leader = MemberClass("leader", (rng.choice((0, 1, 1, 2, 4)), rng.choice((8, 20, 70))), 1, every)
    worker = MemberClass("worker", (rng.choice((8, 8, 8, 4)), 64), count, every)
    classes = (leader, worker) if rng.random() < 0.5 else (worker, leader)
    return Problem(
        resources=("gpu", "cpu"),
        nodes=tuple(f"n{n}" for n in range(nodes)),
        free=tuple(array("q", column) for column in zip(*free, strict=True)),
        classes=classes,
        need=count + 1,
        units=tuple(units),
        levels=levels,
        gangs=(ElasticGang(rng.choice((0, 1)), (1, 0, 0)),),
        budgets=(Budget("b", rng.choice((0, 1, 2)), hard=rng.random() < 0.5, level=0),),
    )


@needs_core
def test_an_answer_is_the_optimum() -> None:
    answers = 0
    for seed in range(250):
        problem = made(seed)
        assert with_leader.takes(problem)
        answer = with_leader.solve(problem)
        if answer is not None:
            answers += 1
            assert verify(problem, answer) == (), seed
            assert answer.cost == brute(problem), seed
            assert minimal(problem, answer.chosen, answer.cost), seed
    assert answers > 25, answers


@needs_core
def test_an_answer_to_any_small_problem_is_the_optimum() -> None:
    answers = 0
    for seed in range(4000):
        problem = small(seed)
        classes = tuple(
            replace(cls, count=1 if c == 0 else max(2, cls.count), least=0)
            for c, cls in enumerate(problem.classes[:2])
        )
        problem = restated(
            problem,
            classes=classes,
            need=sum(cls.count for cls in classes),
            gangs=problem.gangs,
            budgets=problem.budgets,
        )
        if with_leader.takes(problem):
            answer = with_leader.solve(problem)
            if answer is not None:
                answers += 1
                assert verify(problem, answer) == (), seed
                assert answer.cost == brute(problem), seed
    assert answers > 20, answers


@needs_core
def test_a_leader_beside_a_hundred_workers_is_proved_with_a_few_branches() -> None:
    rng = random.Random(1)
    nodes, units = 400, list[Unit]()
    left = rng.sample(range(nodes), nodes)
    while left:
        if rng.random() < 0.5:
            size = min(len(left), rng.choice((2, 4, 8, 16)))
            some = sorted(left.pop() for _ in range(size))
            cost = (0, rng.randrange(600, 86_400) * 8 * size, size)
            units.append(Unit(f"g{len(units)}", tuple((n, (8, 64)) for n in some), cost, size))
        else:
            n = left.pop()
            units += [
                Unit(f"s{n}-{gpu}", ((n, (1, 8)),), (0, rng.randrange(600, 86_400), 1))
                for gpu in range(8)
            ]
    every = bytes([1]) * nodes
    problem = Problem(
        resources=("gpu", "cpu"),
        nodes=tuple(f"n{n:03}" for n in range(nodes)),
        free=(array("q", [0] * nodes), array("q", [32] * nodes)),
        classes=(
            MemberClass("leader", (1, 32), 1, every),
            MemberClass("worker", (8, 64), 97, every),
        ),
        need=98,
        units=tuple(units),
        levels=("gangs", "work", "pods"),
    )
    answer = solver.solve(problem, Limits(branch_nodes=100))
    assert isinstance(answer, Solution)
    assert answer.optimal
    assert verify(problem, answer) == ()


SEEDS = 2000


@dataclass
class Asked:
    """One question: a problem, and who leads."""

    seed: int
    problem: Problem
    lead: int


def questions() -> Iterator[Asked]:
    for seed in range(SEEDS):
        problem = replace(small(seed), spreads=(), domain=None, domain_required=True)
        problem = replace(problem, need=sum(cls.count for cls in problem.classes))
        if leads(problem):
            for lead in (JOINT, *range(len(problem.classes))):
                yield Asked(seed, problem, lead)


def thinned(problem: Problem, lead: int) -> Problem:
    """The problem without units that release nothing the leading class asks for."""
    cls = single_problem(problem, lead).classes[0]
    blocking = {u for b in problem.blockers for u in b.units}

    def useful(unit: Unit) -> bool:
        return any(
            cls.allowed[n] and any(a and ask for a, ask in zip(amounts, cls.request, strict=True))
            for n, amounts in unit.releases
        )

    kept = [u for u, unit in enumerate(problem.units) if u in blocking or useful(unit)]
    places = {u: at for at, u in enumerate(kept)}
    return replace(
        problem,
        units=tuple(problem.units[u] for u in kept),
        blockers=tuple(
            Blocker(b.cls, b.node, tuple(places[u] for u in b.units)) for b in problem.blockers
        ),
    )


def test_leading_an_answer_is_the_optimum() -> None:
    answers = {"joint": 0, "class": 0}
    for asked in questions():
        answer = solve_led(asked.problem, asked.lead)
        if answer is not None:
            answers["joint" if asked.lead == JOINT else "class"] += 1
            assert verify(asked.problem, answer) == (), asked
            assert answer.cost == brute(asked.problem), asked
            assert minimal(asked.problem, answer.chosen, answer.cost), asked
    assert min(answers.values()) > 50, answers


def test_units_that_only_others_could_use_may_be_missing() -> None:
    thinner = 0
    for asked in questions():
        less = thinned(asked.problem, asked.lead)
        if len(less.units) < len(asked.problem.units):
            answer = solve_led(less, asked.lead)
            if answer is not None:
                thinner += 1
                assert answer.cost == brute(asked.problem), asked
    assert thinner > 20, thinner
