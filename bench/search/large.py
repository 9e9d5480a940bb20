"""Plan time where it matters most: a large cluster, many pods, a large gang.

    python -m bench.search.large                 # about ten minutes; writes its section
    python -m bench.search.large --short         # a smoke test, writes nothing

Clusters are those of bench/inputs/mix.py (node shapes and background pods: openb-2023; running
jobs: itp-2021), filled up with small CPU pods (agents, sidecars; synthetic) to about 30
pods a node. One planner lives through all plans on a cluster, as in ``serve``; between two
plans 20 nodes change and a second passes (bench/inputs/drift.py). Asked are

- again: the same gang,
- another kind: a gang of another request each time, so that nothing found for the one
  before can be used,
- no: a gang with more members than the cluster has nodes.

Two times are told: building the problem and the search, and the whole of ``Planner.plan``,
which also brings its sums up to the snapshot (20 nodes with all their pods; ``serve`` does
that once a second, whether a gang waits or not), tries every seat on a picture of the
cluster without the victims, and explains itself.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bench.inputs.drift import drift
from bench.inputs.mix import URGENT, MixSettings, mix
from bench.inputs.state import Amounts, State, gang_of
from bench.report import machine, memory, percentile, table, write_section
from extender.gang.plan import planner as planner_module
from extender.gang.plan.build import Build
from extender.gang.plan.built import Built
from extender.gang.plan.explain import CANNOT_FIT
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search import solver
from extender.search.problem import Infeasible, Problem, Solution
from extender.settings.settings import Settings

CHANGES = 20
FILLS = (0.7, 0.85, 0.95, 1.0)
HEAD = ("question", "fill", "plans", "problem and search: CPU p50 ms", "CPU p99 ms",
        "whole plan: CPU p50 ms", "CPU p99 ms", "p50 ms", "p99 ms", "first ms", "victims",
        "proved")  # fmt: skip


class Timed(Build):
    """A Build that adds up the CPU time it takes, its own and that of the search."""

    spent = 0.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        began = time.thread_time()
        super().__init__(*arguments, **options)
        Timed.spent += time.thread_time() - began

    def emptied(self, **options: bool) -> Built:
        """As Build's."""
        began = time.thread_time()
        built = super().emptied(**options)
        Timed.spent += time.thread_time() - began
        return built

    def full(self, **options: bool) -> Built:
        """As Build's."""
        began = time.thread_time()
        built = super().full(**options)
        Timed.spent += time.thread_time() - began
        return built


def timed_solve(problem: Problem, *arguments: Any, **options: Any) -> Solution | Infeasible:
    """The search, its time added to Timed."""
    began = time.thread_time()
    answer = solver.solve(problem, *arguments, **options)
    Timed.spent += time.thread_time() - began
    return answer


class Asked(Struct):
    """One kind of question on one cluster; seconds."""

    name: str
    fill: float
    first: float
    wall: list[float]
    cpu: list[float]
    core: list[float]
    """CPU seconds of building the problem and the search."""
    answers: list[Plan | Refusal]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and print the section."""
    parser = argparse.ArgumentParser(description="Plan time on large clusters.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--fillers", type=int, default=26, help="small pods a node")
    parser.add_argument("--gang", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--short", action="store_true", help="a smoke test, writes nothing")
    options = parser.parse_args(arguments)
    if options.short:
        options.nodes, options.fillers, options.gang, options.rounds = 60, 3, 6, 3
    vars(planner_module).update(Build=Timed, solve=timed_solve)
    try:
        return _report(options)
    finally:
        vars(planner_module).update(Build=Build, solve=solver.solve)


def _report(options: argparse.Namespace) -> int:
    runs: list[Asked] = []
    pods: list[int] = []
    rises: list[float] = []
    for fill in FILLS:
        settings = MixSettings(
            nodes=options.nodes, fill=fill, gang=options.gang, fillers=options.fillers, seed=0
        )
        state = mix(settings)
        pods.append(len(state.pods))
        found, rise = _cluster(state, fill, options.rounds)
        runs += found
        rises.append(rise)
    head = (
        f"Machine: {machine()}. Command: `python -m bench.search.large`. "
        f"Seed 0, {options.nodes:,} nodes, "
        f"{min(pods):,} to {max(pods):,} pods, a gang of {options.gang} members of 8 GPUs; "
        f"{options.rounds} plans a row. First: the first plan of a planner that has seen nothing, "
        "or of that kind."
    )
    rows = [_row(run) for run in runs]
    for name in dict.fromkeys(run.name for run in runs):
        same = [run for run in runs if run.name == name]
        wall = [seconds for run in same for seconds in run.wall]
        cpu = [seconds for run in same for seconds in run.cpu]
        core = [seconds for run in same for seconds in run.core]
        answers = [answer for run in same for answer in run.answers]
        everything = Asked(name, 0, max(run.first for run in same), wall, cpu, core, answers)
        rows.append((*_row(everything)[:1], "all", *_row(everything)[2:]))
    text = (
        f"{head}\n\n{table(HEAD, rows)}\n\nPeak memory of the first plan above the snapshot: "
        + (f"{max(rises):.0f} MiB.")
    )
    print(text)
    if not options.short:
        write_section("large", f"## Large clusters\n\n{text}")
    return 0


def _cluster(state: State, fill: float, rounds: int) -> tuple[list[Asked], float]:
    """All questions on one cluster."""
    resolver = Resolver(Settings().groups)
    planner = Planner(Settings(), resolver)
    rng = random.Random(f"{state.name} {fill}")
    snapshot = state.snapshot(resolver)
    key = state.key
    wants = state.members[0].wants

    def ask(state: State) -> Callable[[Snapshot], Plan | Refusal]:
        # The gang alone: its members are all that is read of this state.
        alone = replace(state, nodes=(), pods=(), groups=()).snapshot(resolver)
        waiting = resolver.resolve(key, alone)
        return lambda now: planner.plan(GangQuestion(waiting, now))

    again = ask(state)
    began = time.perf_counter()
    _, rise = memory(lambda: again(snapshot))
    found = [Asked("again", fill, time.perf_counter() - began, [], [], [], [])]
    gc.collect()
    gc.freeze()  # as serve does once the cluster is read
    snapshot = _rounds(found[0], (again for _ in range(rounds)), snapshot, rng)
    others = [ask(_gang(state, len(state.members), less)) for less in _shapes(wants, rounds + 1)]
    found.append(Asked("another kind", fill, 0.0, [], [], [], []))
    snapshot = _rounds(found[1], iter(others), snapshot, rng)
    too_many = ask(_gang(state, len(state.nodes) + 1, wants))
    found.append(Asked("no", fill, 0.0, [], [], [], []))
    _rounds(found[2], (too_many for _ in range(rounds + 1)), snapshot, rng)
    gc.unfreeze()
    for asked in found[1:]:
        asked.first = asked.wall.pop(0)
        asked.cpu.pop(0)
        asked.core.pop(0)
        asked.answers.pop(0)
    return found, rise


def _rounds(
    asked: Asked,
    questions: Iterator[Callable[[Snapshot], Plan | Refusal]],
    snapshot: Snapshot,
    rng: random.Random,
) -> Snapshot:
    """Ask each on the next snapshot; return the last one."""
    for question in questions:
        snapshot = drift(snapshot, rng, CHANGES)
        Timed.spent = 0.0
        began, spent = time.perf_counter(), time.thread_time()
        answer = question(snapshot)
        asked.cpu.append(time.thread_time() - spent)
        asked.wall.append(time.perf_counter() - began)
        asked.core.append(Timed.spent)
        asked.answers.append(answer)
    return snapshot


def _shapes(wants: Amounts, count: int) -> Iterator[Amounts]:
    """Requests that differ a little in CPU."""
    for i in range(count):
        yield replace(wants, cpu=max(1, wants.cpu - 100 * (i + 1)))


def _gang(state: State, members: int, wants: Amounts) -> State:
    group, pods = gang_of("urgent", members, wants, URGENT)
    return replace(state, gang=group, members=pods)


def _row(run: Asked) -> tuple[object, ...]:
    plans = [answer for answer in run.answers if isinstance(answer, Plan)]
    refused = [answer for answer in run.answers if isinstance(answer, Refusal)]
    proved = sum(plan.proof == "optimal" for plan in plans)
    proved += sum(answer.message.startswith(CANNOT_FIT) for answer in refused)
    victims = [len(plan.victims) for plan in plans]
    return (
        run.name,
        f"{run.fill:g}",
        len(run.answers),
        1000 * percentile(run.core, 0.5),
        1000 * percentile(run.core, 0.99),
        1000 * percentile(run.cpu, 0.5),
        1000 * percentile(run.cpu, 0.99),
        1000 * percentile(run.wall, 0.5),
        1000 * percentile(run.wall, 0.99),
        1000 * run.first,
        f"{min(victims):,} to {max(victims):,}" if victims else "no",
        f"{proved} of {len(run.answers)}",
    )


if __name__ == "__main__":
    sys.exit(main())
