"""Gangs whose leader contests the workers' nodes: ``python -m bench.search.leaders``.

The clusters of bench/search/plan_bench.py, 30 pods a node and no GPU free. Asked are a gang of
workers that take whole nodes, and the same gang where one member, the leader, asks for one GPU:
it finds no seat where the workers sit. One planner first takes the cluster in, as ``serve`` does
while nobody waits, and then plans again and again; between two plans 20 nodes change
(bench/inputs/drift.py). A plan has 3 s. CPU times of the thread.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Sequence

from msgspec.structs import replace

from bench.inputs.drift import drift
from bench.report import machine, percentile, table, write_section
from bench.search.plan_bench import cluster, requests
from extender.gang.plan import answers
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.model.objects import Pod
from extender.model.plan import Plan
from extender.model.snapshot import Snapshot
from extender.search import solver
from extender.search.problem import Problem
from extender.settings.settings import Settings

SECONDS, CHANGES = 3.0, 20
LEADER = requests(32_000, 1, 64)
HEAD = ("gang", "nodes", "taken in ms", "first plan ms", "p50 ms", "most ms", "units", "victims",
        "proved")  # fmt: skip


def led(state: Snapshot) -> Snapshot:
    """The same with the first member asking for what a leader does."""

    def changed(pod: Pod) -> Pod:
        return replace(pod, requests=LEADER) if pod.uid == "u-00000" else pod

    return replace(
        state,
        pending={key: changed(pod) for key, pod in state.pending.items()},
        members={key: tuple(map(changed, pods)) for key, pods in state.members.items()},
    )


def row(name: str, nodes: int, gang: int, rounds: int) -> tuple[object, ...]:
    """Take one cluster in and plan on it, a first time and ``rounds`` times more."""
    state, resolver = cluster(nodes, 30 * nodes, gang, 1)
    state = led(state) if name == "with a leader" else state
    key = next(key for key in state.members if key.name == "urgent")
    planner, rng, units = Planner(Settings(), resolver), random.Random(1), 0

    def solve(problem: Problem, *args: object, **options: object) -> object:
        nonlocal units
        units = len(problem.units)
        return solver.solve(problem, *args, **options)  # type: ignore[arg-type]

    vars(answers)["solve"] = solve
    spent, found = [], []
    try:
        began = time.thread_time()
        planner.see(state)
        seen = time.thread_time() - began
        gc.collect()
        gc.freeze()
        for _ in range(rounds + 1):
            gang_now = resolver.resolve(key, state)
            began, end = time.thread_time(), time.monotonic() + SECONDS
            found.append(planner.plan(GangQuestion(gang_now, state), deadline=end))
            spent.append(time.thread_time() - began)
            state = drift(state, rng, CHANGES)
    finally:
        vars(answers)["solve"] = solver.solve
        gc.unfreeze()
    plans = [answer for answer in found if isinstance(answer, Plan)]
    proved = sum(plan.proof == "optimal" for plan in plans)
    return (
        f"{gang}, {name}",
        nodes,
        1000 * seen,
        1000 * spent[0],
        1000 * percentile(spent[1:], 0.5),
        1000 * max(spent[1:]),
        units,
        len(plans[-1].victims) if plans else 0,
        f"{proved} of {len(found)}",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write it unless the run is a short one."""
    parser = argparse.ArgumentParser(description="Leaders that contest the workers' nodes.")
    parser.add_argument("--nodes", type=int, nargs="+", default=(5000, 20_000))
    parser.add_argument("--gangs", type=int, nargs="+", default=(512, 2048))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--print", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    rows = []
    for name in ("workers alone", "with a leader"):
        for nodes in options.nodes:
            for gang in options.gangs:
                rows.append(row(name, nodes, gang, options.rounds))
                print(*rows[-1], sep=" | ", flush=True)
    if not options.print:
        head = f"Machine: {machine()}. Command: `python -m bench.search.leaders`. Seed 1."
        told = f"{head} {options.rounds} plans a row after the first one; CPU times."
        write_section("leaders", f"## Leaders\n\n{told}\n\n{table(HEAD, rows)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
