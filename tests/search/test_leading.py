"""One class leads: where that gives an answer it is the optimum of the whole problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from extender.search.problem import Blocker, Problem, Unit
from extender.search.problem.verify import verify
from extender.search.several.leading_class import JOINT, leads, single_problem
from extender.search.solver import solve_led
from tests.search.generate import small
from tests.search.oracle_brute import brute, minimal

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


def test_an_answer_is_the_optimum() -> None:
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
