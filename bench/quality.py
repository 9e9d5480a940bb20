"""How good the answers are: against oracles, on the trace mix, and on hard families.

    python -m bench.quality                 # all parts, about five minutes
    python -m bench.quality --short         # a smoke test of every part
    python -m bench.quality --parts mix hard

Writes the sections "quality-..." of docs/benchmarks/search.md (not with --short).

- oracle: seeded random problems of tests/search/generate.py, by feature, against brute
  force; larger ones and trace-mix states of 50 to 200 nodes against HiGHS.
- mix: clusters of bench/mix.py (traces and assumptions are told there) at several fill
  levels, placements and gang sizes, planned through Planner.plan on snapshots that drift.
- hard: families of bench/hard.py at several sizes; HiGHS decides the smaller ones.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from bench.drift import drift
from bench.hard import FAMILIES
from bench.mix import URGENT, MixSettings, mix
from bench.report import log_plot, machine, memory, percentile, table, write_plot, write_section
from bench.state import State, gang_of
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.plan import Plan, Refusal
from extender.model.settings import Settings
from extender.search.problem import Infeasible, Limits, Problem
from extender.search.problem.verify import verify
from extender.search.solver import backend_for, solve
from tests.gang.everything import everything
from tests.search.generate import medium, medium_mixed, small, tied
from tests.search.oracle_brute import brute
from tests.search.oracle_milp import milp

PARTS = ("oracle", "mix", "hard")
CHANGES = 20
"""Nodes on which a pod changes between two snapshots."""


class Size(Struct, frozen=True):
    """How much to run."""

    small_cases: int
    medium_cases: int
    tied_cases: int
    mixed_cases: int
    mixes: tuple[tuple[int, int], ...]
    """(nodes, seeds) per fill, placement."""
    oracle_mixes: tuple[tuple[int, int], ...]
    """(nodes, states) that HiGHS has to decide."""
    rounds: int
    hard: tuple[int, ...]
    oracle_nodes: int
    """Hard problems up to this many nodes are given to HiGHS."""
    seconds: float
    """HiGHS: longest time for one level of one problem."""


FULL = Size(
    2000, 200, 200, 60, ((200, 4), (1000, 2), (5000, 1)), ((50, 200), (100, 200), (200, 120)), 3,
    (11, 40, 100, 400, 1600), 100, 5.0,
)  # fmt: skip
SHORT = Size(40, 4, 4, 2, ((40, 1),), ((20, 2),), 1, (11,), 11, 5.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description="Quality of the search's answers.")
    parser.add_argument("--short", action="store_true", help="a smoke test, writes nothing")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args(arguments)
    size = SHORT if options.short else FULL
    work = {"oracle": oracle_part, "mix": mix_part, "hard": hard_part}
    wrong = 0
    for part in options.parts:
        text, errors = work[part](size, plots=not options.short)
        wrong += errors
        print(text, flush=True)
        if not options.short:
            head = f"Machine: {machine()}. Command: `python -m bench.quality --parts {part}`."
            write_section(f"quality-{part}", f"{head}\n\n{text}")
    if wrong:
        print(f"error: {wrong} answers disagree with an oracle or break a rule", file=sys.stderr)
    return 1 if wrong else 0


# --- oracles ---------------------------------------------------------------------------


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


# --- the trace mix ---------------------------------------------------------------------


class Run(Struct, frozen=True):
    """One plan."""

    nodes: int
    fill: float
    gang: int
    seconds: float
    answer: Plan | Refusal


FILLS = (0.7, 0.85, 0.95, 1.0)
GANGS = (2, 8, 32, 128)


def mix_part(size: Size, *, plots: bool) -> tuple[str, int]:
    """Share proved, gaps, times and memory on drawn clusters."""
    runs: list[Run] = []
    rises: dict[int, float] = {}
    for nodes, seeds in size.mixes:
        for seed, fill, placement in product(range(seeds), FILLS, ("spread", "pack")):
            state = mix(MixSettings(nodes=nodes, fill=fill, placement=placement, seed=seed))  # type: ignore[arg-type]
            found, rise = _plan_all(state, fill, size.rounds)
            runs += found
            rises[nodes] = max(rises.get(nodes, 0.0), rise)
    rows = []
    for nodes, _ in size.mixes:
        rows += [
            _mix_row(
                f"{nodes}", f"{fill:g}", [r for r in runs if (r.nodes, r.fill) == (nodes, fill)]
            )
            for fill in FILLS
        ]
        rows.append(_mix_row(f"{nodes}", "all", [r for r in runs if r.nodes == nodes]))
    gangs = [_mix_row(f"{gang}", "all", [r for r in runs if r.gang == gang]) for gang in GANGS]
    text = (
        "### Trace mix\n\nClusters drawn by `bench/mix.py` (node shapes and background pods: "
        "openb-2023; running jobs: itp-2021), seeds 0 and up, placements `spread` and `pack`, "
        "priorities as told there; an urgent gang of 2, 8, 32 or 128 members of 8 GPUs; "
        f"{size.rounds} snapshots each, one second and {CHANGES} changed nodes apart. Time: "
        "`Planner.plan`, on a planner that saw the snapshot before.\n\n"
        f"{table(MIX_HEAD, rows)}\n\nBy gang size:\n\n"
        f"{table(('gang', *MIX_HEAD[1:]), gangs)}\n\n{_gap_text(runs)}\n\n"
        + "Memory that earlier draws gave back is reused, so this is a lower limit; the figures of "
        "`bench.speed` come from fresh processes.\n\n"
        + table(
            ("nodes", "peak memory above the snapshot, MiB"),
            ((f"{nodes}", rise) for nodes, rise in rises.items()),
        )
    )
    if plots:
        lines = {
            f"{nodes} nodes": [
                (
                    100 * share,
                    max(
                        0.01,
                        1000 * percentile([r.seconds for r in runs if r.nodes == nodes], share),
                    ),
                )
                for share in (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
            ]
            for nodes, _ in size.mixes
        }
        write_plot(
            "quality-mix-time", log_plot("Plan time on the trace mix", "percentile", "ms", lines)
        )
        text += "\n\n![plan time by percentile](quality-mix-time.svg)"
    return text, 0


MIX_HEAD = ("nodes", "fill", "plans", "no victim", "no", "proved", "share proved",
            "victims, median", "p50 ms", "p90 ms", "p99 ms")  # fmt: skip


def _plan_all(state: State, fill: float, rounds: int) -> tuple[list[Run], float]:
    """Every gang size on this cluster, through one planner each; the largest memory rise."""
    runs: list[Run] = []
    most = 0.0
    for gang in GANGS:
        group, members = gang_of("urgent", gang, state.members[0].wants, URGENT)
        wanted = replace(state, gang=group, members=members)
        resolver = Resolver(Settings().groups)
        snapshot = wanted.snapshot(resolver)
        rng = random.Random(f"{state.name} {gang}")
        planner = Planner(Settings(), resolver)
        waiting = resolver.resolve(state.key, snapshot)
        _, rise = memory(partial(planner.plan, GangQuestion(waiting, snapshot)))
        most = max(most, rise)
        # As serve does once the cluster is read.
        gc.collect()
        gc.freeze()
        for _ in range(rounds):
            snapshot = drift(snapshot, rng, CHANGES)
            began = time.perf_counter()
            answer = planner.plan(GangQuestion(waiting, snapshot))
            seconds = time.perf_counter() - began
            runs.append(Run(len(state.nodes), fill, gang, seconds, answer))
    return runs, most


def _mix_row(first: str, second: str, runs: Sequence[Run]) -> tuple[object, ...]:
    plans = [run.answer for run in runs if isinstance(run.answer, Plan)]
    refused = sum(1 for run in runs if _proved_no(run.answer))
    proved = sum(1 for plan in plans if plan.proof == "optimal") + refused
    victims = [len(plan.victims) for plan in plans if plan.victims]
    times = [1000 * run.seconds for run in runs]
    return (
        first,
        second,
        len(runs),
        sum(1 for plan in plans if not plan.victims),
        len(runs) - len(plans),
        proved,
        f"{100 * proved / len(runs):.1f} %",
        int(statistics.median(victims)) if victims else 0,
        *(percentile(times, share) for share in (0.5, 0.9, 0.99)),
    )


def _proved_no(answer: Plan | Refusal) -> bool:
    return isinstance(answer, Refusal) and answer.message.startswith(
        ("cannot fit even with", "no node accepts")
    )


def _gap_text(runs: Sequence[Run]) -> str:
    """Per cost level that is the first not proved: how many plans, and how far apart."""
    gaps: dict[str, list[float]] = {}
    for run in runs:
        if isinstance(run.answer, Plan) and run.answer.proof != "optimal":
            for cost in run.answer.costs:
                if cost.value != cost.bound:
                    gaps.setdefault(cost.level, []).append((cost.value - cost.bound) / cost.value)
                    break
    if not gaps:
        return "Gap: none, every plan was proved."
    rows = (
        (level, len(found), f"{100 * statistics.median(found):.1f} %", f"{100 * max(found):.1f} %")
        for level, found in sorted(gaps.items())
    )
    return (
        "Plans not proved, by the first cost level with a gap (value - bound) / value:\n\n"
        + table(("level", "plans", "median gap", "largest gap"), rows)
    )


# --- hard families ---------------------------------------------------------------------


def hard_part(size: Size, *, plots: bool) -> tuple[str, int]:
    """Each family at each size, with the default node limit."""
    rows, wrong = [], 0
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, family in FAMILIES.items():
        for nodes in size.hard:
            problem = family(nodes, 1)
            began = time.perf_counter()
            answer = solve(problem, deadline=time.monotonic() + 10)
            seconds = time.perf_counter() - began
            lines.setdefault(name, []).append((nodes, 1000 * seconds))
            oracle = "-"
            if nodes <= size.oracle_nodes:
                try:
                    truth = milp(problem, seconds=size.seconds)
                except TimeoutError:
                    oracle = "undecided"
                else:
                    cost = None if isinstance(answer, Infeasible) else answer.cost
                    oracle = "equal" if truth == cost else "lower"
                    sure = answer.proved if isinstance(answer, Infeasible) else answer.optimal
                    wrong += oracle != "equal" and sure
            if isinstance(answer, Infeasible):
                said, gap, branches = ("no, proved" if answer.proved else "no, not proved"), "", "-"
            else:
                wrong += bool(verify(problem, answer))
                said = "optimal" if answer.optimal else "bounded"
                gap = _first_gap(problem, answer.cost, answer.bound)
                branches = f"{answer.branch_nodes:,}"
            units = len(problem.units)
            rows.append(
                (
                    name,
                    nodes,
                    units,
                    backend_for(problem),
                    said,
                    gap,
                    branches,
                    1000 * seconds,
                    oracle,
                )
            )
    head = ("family", "nodes", "units", "solver", "answer", "first gap", "branches", "ms", "HiGHS")
    text = (
        "### Hard families\n\n`bench/hard.py`, seed 1; node limit 200,000 and 10 s a problem. "
        f"HiGHS gets problems of at most {size.oracle_nodes} nodes, {size.seconds:g} s a level; "
        '"lower": it found a cheaper answer.\n\n' + table(head, rows)
    )
    if plots:
        write_plot("quality-hard-time", log_plot("Hard families", "nodes", "ms", lines))
        text += "\n\n![search time of the hard families](quality-hard-time.svg)"
    return text, wrong


def _first_gap(problem: Problem, cost: Sequence[int], bound: Sequence[int]) -> str:
    for level, value, least in zip(problem.levels, cost, bound, strict=True):
        if value != least:
            return f"{level}: {value}, at least {least}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
