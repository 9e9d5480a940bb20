"""The search against brute force and HiGHS, by feature and size (bench.search.quality)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from bench.inputs.mix import MixSettings, mix
from bench.inputs.state import State
from bench.report import table
from bench.search.quality_sizes import Size
from extender.groups.resolver import Resolver
from extender.search.problem import Infeasible, Limits, Problem
from extender.search.problem.verify import verify
from extender.search.solver import solve
from extender.settings.settings import Settings
from tests.gang.everything import everything
from tests.search.generate import medium, medium_mixed, small, tied
from tests.search.oracle_brute import brute
from tests.search.oracle_milp import milp


def oracle_part(size: Size, *, plots: bool) -> tuple[str, int]:
    """Brute force by feature, then HiGHS by origin and size."""
    del plots
    seen: dict[str, Counter[str]] = {}
    for seed in range(size.small_cases):
        problem = small(seed)
        outcome = _judge(problem, brute(problem))
        for feature in _features(problem):
            seen.setdefault(feature, Counter()).update(outcome)
    by_feature = table(ORACLE_HEAD, (_oracle_row(name, seen[name]) for name in sorted(seen)))
    larger: dict[str, Counter[str]] = {}
    sources: list[tuple[str, Iterable[Problem]]] = [
        ("generated, 10 to 40 nodes", (medium(seed) for seed in range(size.medium_cases))),
        ("small budgets and surpluses, 4 to 24 nodes", map(tied, range(size.tied_cases))),
        (
            "leaders and workers, caps and spread over zones, 10 to 40 nodes",
            map(medium_mixed, range(size.mixed_cases)),
        ),
    ]
    sources += [
        (f"trace mix, {nodes} nodes", _mix_problems(nodes, states))
        for nodes, states in size.oracle_mixes
    ]
    for name, problems in sources:
        counts = larger.setdefault(name, Counter())
        for problem in problems:
            try:
                truth = milp(problem, seconds=size.seconds)
            except TimeoutError:
                counts.update(("cases", "undecided"))
                continue
            branches = 2000 if len(problem.classes) > 1 or problem.spreads else 20_000
            counts.update(_judge(problem, truth, branches))
    by_size = table(ORACLE_HEAD, (_oracle_row(name, counts) for name, counts in larger.items()))
    wrong = sum(c["wrong"] for c in (*seen.values(), *larger.values()))
    text = (
        "### Against oracles\n\nSmall problems (up to 5 nodes, 8 units; "
        f"`tests/search/generate.py`, seeds 0 to {size.small_cases - 1}), decided by brute force; "
        f"a problem counts once for every feature it has.\n\n{by_feature}\n\n"
        "Larger problems, decided by HiGHS level after level "
        f"(undecided: HiGHS needed more than {size.seconds:g} s for a level); at most 20,000 "
        f"branches, 2,000 with several classes or spread rules.\n\n{by_size}"
    )
    return text, wrong


ORACLE_HEAD = (
    "problems", "cases", "equal and proved", "equal, not proved", "above the least, and said so",
    "wrong", "undecided",
)  # fmt: skip


def _oracle_row(name: str, counts: Counter[str]) -> tuple[object, ...]:
    return (
        name,
        *(counts[k] for k in ("cases", "proved", "unproved", "missed", "wrong", "undecided")),
    )


def _judge(
    problem: Problem, truth: tuple[int, ...] | None, branches: int = 20_000
) -> tuple[str, ...]:
    """What one case counts as."""
    answer = solve(problem, Limits(branch_nodes=branches))
    if isinstance(answer, Infeasible):
        if truth is None:
            return ("cases", "proved" if answer.proved else "unproved")
        return ("cases", "wrong") if answer.proved else ("cases", "missed")
    if truth is None or verify(problem, answer) or not answer.bound <= truth <= answer.cost:
        return ("cases", "wrong")
    if answer.cost != truth:
        return ("cases", "missed")
    return ("cases", "proved" if answer.optimal else "unproved")


def _features(problem: Problem) -> Iterator[str]:
    yield "all"
    if len(problem.classes) > 1:
        yield "several classes"
    if any(cls.least for cls in problem.classes):
        yield "least per class"
    if len(problem.resources) > 1:
        yield "several resources"
    if any(len(unit.releases) > 1 for unit in problem.units):
        yield "units over several nodes"
    if problem.gangs:
        yield "surplus gangs"
    if problem.budgets:
        yield "budgets"
    if problem.blockers:
        yield "anti-affinity to victims"
    if problem.caps:
        yield "caps (anti-affinity)"
    if problem.spreads:
        yield "topology spread"
    if problem.domain is not None:
        yield "domain required" if problem.domain_required else "domain preferred"
    if any(not any(unit.cost) for unit in problem.units):
        yield "free units"


def _mix_problems(nodes: int, states: int) -> Iterator[Problem]:
    """Problems of drawn states; fills, placements and gang sizes in turn."""
    kinds = product((0.85, 0.95, 1.0), ("spread", "pack"), (2, 4, 8))
    for seed, (fill, placement, gang) in zip(range(states), _forever(kinds), strict=False):
        state = mix(
            MixSettings(nodes=nodes, fill=fill, placement=placement, gang=gang, seed=seed)  # type: ignore[arg-type]
        )
        yield problem_of(state)


def _forever(kinds: Iterable[tuple[float, str, int]]) -> Iterator[tuple[float, str, int]]:
    kept = list(kinds)
    while True:
        yield from kept


def problem_of(state: State) -> Problem:
    """The whole problem of the state's waiting gang, nothing left out."""
    resolver = Resolver(Settings().groups)
    snapshot = state.snapshot(resolver)
    return everything(resolver.resolve(state.key, snapshot), snapshot, resolver, Settings())
