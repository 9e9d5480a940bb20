"""How long a plan takes, and how that grows.

    python -m bench.search.speed                 # about five minutes; writes its section and plots
    python -m bench.search.speed --short         # a smoke test, writes nothing

Clusters are those of bench/search/plan_bench.py (synthetic, seeded: nodes of 96 CPU and 8 GPUs,
whole gangs and single GPU pods, filled up with small CPU pods; nothing is free). Every
plan is ``Planner.plan`` on a snapshot; between two plans 20 nodes change (bench/inputs/drift.py).
CPU time of the thread is told beside the wall clock, since other work may share the machine.

- nodes, victims, gang size, share of spanning gangs: one dimension varies at a time.
- "no": a gang one member too large for the cluster, everything else as before.
- compiled against reference: both solve the same problem in the same run.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from msgspec import Struct

from bench.inputs.drift import drift
from bench.inputs.hard import FAMILIES
from bench.report import (
    log_plot,
    machine,
    memory,
    percentile,
    slope,
    table,
    write_plot,
    write_section,
)
from bench.search.plan_bench import cluster
from extender.gang.plan import answers
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.model.plan import Plan, Refusal
from extender.search import reference, solver
from extender.search.problem import Limits, Problem
from extender.settings.settings import Settings

CHANGES = 20


WHY = {
    "speed-nodes": "The first plan reads every pod once. A next plan passes over all nodes to see "
    "which changed, then works on nodes and gangs up to the priority that must be reached; small "
    "clusters are dominated by the 20 changed nodes.",
    "speed-pods": "Small pods that cannot make a seat are dropped node by node and cost nothing "
    "later. With 90 pods a node CPU is overcommitted: small pods must go for a seat, and all of "
    "them enter the search.",
    "speed-gang": "A plan passes over every node once and checks every seat; 4,096 seats "
    "are had only with victims of more priorities, so that more units enter the search.",
    "speed-share": "A gang is one unit however many nodes it spans; fewer, larger units are as "
    "much work to build as many small ones.",
}
"""What the growth along each dimension comes from."""


class Size(Struct, frozen=True):
    """What to vary, and how many plans a point."""

    nodes: tuple[int, ...]
    victims: tuple[int, ...]
    gangs: tuple[int, ...]
    shares: tuple[float, ...]
    base_nodes: int
    base_gang: int
    per_node: int
    rounds: int
    compare: tuple[int, ...]


FULL = Size(
    (100, 400, 1500, 5000, 15_000), (15_000, 50_000, 150_000, 450_000), (1, 8, 64, 512, 4096),
    (0.1, 0.5, 0.9), 5000, 512, 30, 12, (40, 100, 400),
)  # fmt: skip
SHORT = Size((20, 60), (600, 1200), (1, 4), (0.5,), 40, 4, 10, 2, (11,))


class Times(Struct, frozen=True):
    """One point: seconds, of the first plan and of those on nearly equal snapshots."""

    first: float
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    search: tuple[float, ...]
    """Wall clock of the search alone, all its calls in a plan together."""
    mib: float
    units: int
    answer: Plan | Refusal


class Stopwatch:
    """Stands in for the planner's ``solve`` and keeps its time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.units = 0

    def __call__(self, problem: Problem, *args: object, **options: object) -> object:
        """Solve, and add to what the plan's searches took."""
        began = time.perf_counter()
        try:
            return solver.solve(problem, *args, **options)  # type: ignore[arg-type]
        finally:
            self.seconds += time.perf_counter() - began
            self.units = len(problem.units)


def measure(nodes: int, pods: int, gang: int, rounds: int, share: float = 0.5) -> Times:
    """``plan_often`` in a process of its own, so that no point reuses another's memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(plan_often, nodes, pods, gang, rounds, share).result()


def plan_often(nodes: int, pods: int, gang: int, rounds: int, share: float) -> Times:
    """Plan once from nothing, then ``rounds`` times on snapshots that drift."""
    state, resolver = cluster(nodes, pods, gang, 1, share)
    key = next(key for key in state.members if key.name == "urgent")
    planner = Planner(Settings(), resolver)
    rng = random.Random(1)
    watch = Stopwatch()
    vars(answers)["solve"] = watch
    try:
        waiting = resolver.resolve(key, state)
        began = time.perf_counter()
        answer, mib = memory(lambda: planner.plan(GangQuestion(waiting, state)))
        first = time.perf_counter() - began
        # As serve does once the cache is filled.
        gc.collect()
        gc.freeze()
        wall, cpu, search = [], [], []
        for _ in range(rounds):
            state = drift(state, rng, CHANGES)
            waiting = resolver.resolve(key, state)
            watch.seconds = 0.0
            began, spent = time.perf_counter(), time.thread_time()
            answer = planner.plan(GangQuestion(waiting, state))
            wall.append(time.perf_counter() - began)
            cpu.append(time.thread_time() - spent)
            search.append(watch.seconds)
    finally:
        vars(answers)["solve"] = solver.solve
        gc.unfreeze()
    return Times(first, tuple(wall), tuple(cpu), tuple(search), mib, watch.units, answer)


HEAD = ("", "first ms", "p50 ms", "p99 ms", "CPU p50 ms", "search p50 ms", "peak MiB", "units",
        "answer")  # fmt: skip


def _row(name: str, times: Times) -> tuple[object, ...]:
    answer = times.answer
    said = f"{len(answer.victims)} victims, {answer.proof}" if isinstance(answer, Plan) else "no"
    return (
        name,
        1000 * times.first,
        1000 * percentile(times.wall, 0.5),
        1000 * percentile(times.wall, 0.99),
        1000 * percentile(times.cpu, 0.5),
        1000 * percentile(times.search, 0.5),
        times.mib,
        times.units,
        said,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and print the section."""
    parser = argparse.ArgumentParser(description="Speed of planning.")
    parser.add_argument("--short", action="store_true", help="a smoke test, writes nothing")
    options = parser.parse_args(arguments)
    size = SHORT if options.short else FULL
    text, plots = _report(size)
    head = f"Machine: {machine()}. Command: `python -m bench.search.speed`. Seed 1."
    print(f"{head}\n\n{text}")
    if not options.short:
        write_section("speed", f"## Speed\n\n{head}\n\n{text}")
        for name, svg in plots.items():
            write_plot(name, svg)
    return 0


def _report(size: Size) -> tuple[str, dict[str, str]]:
    base, gang, rounds = size.base_nodes, size.base_gang, size.rounds
    parts: list[str] = []
    plots: dict[str, str] = {}

    def dimension(title: str, axis: str, points: dict[float, Times], name: str, why: str) -> None:
        rows = [_row(f"{x:,g}" if x < 1000 else f"{x:,.0f}", times) for x, times in points.items()]
        lines = {
            "first plan": [(x, 1000 * t.first) for x, t in points.items()],
            "next plans, CPU": [(x, 1000 * percentile(t.cpu, 0.5)) for x, t in points.items()],
            "search": [(x, 1000 * percentile(t.search, 0.5)) for x, t in points.items()],
        }
        head = (axis, *HEAD[1:])
        parts.append(f"### {title}\n\n{table(head, rows)}")
        if len(points) > 2:
            grows = ", ".join(f"{kind} {slope(line):.2f}" for kind, line in lines.items())
            parts.append(f"Growth (exponent of a power law fitted to the points): {grows}. {why}")
        parts.append(f"![{title}]({name}.svg)")
        plots[name] = log_plot(title, axis, "ms", lines)

    dimension(
        f"Nodes ({size.per_node} pods a node, gang of a tenth of the nodes)",
        "nodes",
        {n: measure(n, n * size.per_node, max(1, n // 10), rounds) for n in size.nodes},
        "speed-nodes",
        WHY["speed-nodes"],
    )
    dimension(
        f"Pods ({base:,} nodes, gang of {gang})",
        "pods",
        {pods: measure(base, pods, gang, rounds) for pods in size.victims},
        "speed-pods",
        WHY["speed-pods"],
    )
    dimension(
        f"Gang size ({base:,} nodes, {base * size.per_node:,} pods)",
        "members",
        {g: measure(base, base * size.per_node, g, rounds) for g in size.gangs},
        "speed-gang",
        WHY["speed-gang"],
    )
    dimension(
        f"Share of nodes held by spanning gangs ({base:,} nodes, gang of {gang})",
        "share",
        {s: measure(base, base * size.per_node, gang, rounds, s) for s in size.shares},
        "speed-share",
        WHY["speed-share"],
    )
    refused = measure(base, base * size.per_node, base + 1, rounds)
    parts.append(
        f"### No ({base:,} nodes, a gang of {base + 1:,})\n\n" + table(HEAD, [_row("no", refused)])
    )
    parts.append(_compare(size.compare))
    return "\n\n".join(parts), plots


def _compare(sizes: Sequence[int]) -> str:
    """The compiled search against the reference on the same problems, in one run."""
    rows = []
    for name in ("packed clique", "gangs in rows, two a node", "fragmentation"):
        for nodes in sizes:
            problem = FAMILIES[name](nodes, 1)
            began = time.perf_counter()
            fast = solver.solve(problem)
            middle = time.perf_counter()
            plain = reference.solve(problem, Limits(branch_nodes=2000))
            end = time.perf_counter()
            rows.append(
                (
                    f"{name}, {nodes} nodes",
                    1000 * (middle - began),
                    1000 * (end - middle),
                    (end - middle) / (middle - began),
                    "yes" if getattr(fast, "cost", None) == getattr(plain, "cost", None) else "no",
                    "yes" if getattr(plain, "optimal", True) else "no",
                )
            )
    head = ("problem", f"{solver.BACKEND} ms", "reference ms", "ratio", "same cost",
            "reference proved it")  # fmt: skip
    return (
        "### Compiled against reference (bench/inputs/hard.py, seed 1; "
        "reference: 2,000 branches)\n\n" + table(head, rows)
    )


if __name__ == "__main__":
    sys.exit(main())
