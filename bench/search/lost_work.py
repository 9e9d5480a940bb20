"""How much work each cost order loses, on clusters drawn from public traces.

    python -m bench.search.lost_work --nodes 40 200 1000 --seeds 2

Each state is planned for once by each order: nothing is carried out. Work is counted as the default
order counts it, without the charge for restarts: GPUs times seconds since the start.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from bench.inputs.mix import URGENT, MixSettings, mix
from bench.inputs.state import Amounts, State, gang_of
from bench.report import percentile, table
from extender.gang.incremental.victims import lost_work
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.plan import Plan
from extender.settings.cost_order import ORDERS
from extender.settings.settings import PlanSettings, Settings

LEVELS = (1, 4)
"""Priority levels of the victims."""
FILLS = (0.85, 1.0)
GANGS = (2, 8, 32)
PARTS = (1, 4)
"""Members ask for a node of 8 GPUs, or for a part of it."""
TENFOLD = 10


class Lost(Struct, frozen=True):
    """What one plan loses."""

    pods: int
    gangs: int
    gpu_hours: float
    proved: bool
    seconds: float


def states(nodes: int, seeds: int) -> Iterator[State]:
    """Yield each cluster with each urgent gang."""
    for seed, levels, fill, placement in product(range(seeds), LEVELS, FILLS, ("spread", "pack")):
        drawn = mix(
            MixSettings(nodes=nodes, fill=fill, placement=placement, seed=seed, levels=levels)  # type: ignore[arg-type]
        )
        for size, part in product(GANGS, PARTS):
            whole = drawn.members[0].wants
            wants = Amounts(whole.cpu // part, whole.memory // part, whole.gpu // part)
            group, members = gang_of("urgent", size, wants, URGENT)
            yield replace(drawn, gang=group, members=members)


def lost(state: State, order: str) -> Lost | None:
    """Return what the plan for the gang loses, None without a plan."""
    settings = Settings(plan=PlanSettings(cost_order=order))
    resolver = Resolver(settings.groups)
    snapshot = state.snapshot(resolver)
    planner = Planner(settings, resolver)
    question = GangQuestion(resolver.resolve(state.key, snapshot), snapshot)
    began = time.perf_counter()
    plan = planner.plan(question)
    seconds = time.perf_counter() - began
    if not isinstance(plan, Plan):
        return None
    bound = {pod.uid: pod for pods in snapshot.bound.values() for pod in pods}
    gone = [bound[victim.uid] for victim in plan.victims]
    work = sum(lost_work(pod, snapshot.nodes.get(pod.node), snapshot.now) for pod in gone)
    gangs = len({victim.gang for victim in plan.victims if victim.gang})
    return Lost(len(gone), gangs, work / 1000 / 3600, plan.proof == "optimal", seconds)


def compared(found: Sequence[dict[str, Lost]]) -> str:
    """Return the table of states in which some order evicts."""
    rows = []
    for order in ORDERS:
        mine = [each[order] for each in found]
        tenfold = sum(
            each[order].gpu_hours > TENFOLD * max(1.0, each["default"].gpu_hours) for each in found
        )
        times = [1000 * each.seconds for each in mine]
        rows.append(
            (
                f"`{order}`",
                f"{sum(each.gpu_hours for each in mine):,.0f}",
                tenfold,
                sum(each.pods for each in mine),
                sum(each.gangs for each in mine),
                f"{sum(each.proved for each in mine)} of {len(mine)}",
                *(f"{percentile(times, share):.1f}" for share in (0.5, 0.9, 1.0)),
            )
        )
    head = ("order", "GPU-hours lost", "more than ten times the default's", "pods", "gangs",
            "proved", "p50 ms", "p90 ms", "most ms")  # fmt: skip
    return table(head, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each number of nodes, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[40, 200, 1000])
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args(arguments)
    every: list[dict[str, Lost]] = []
    for nodes in asked.nodes:
        found = []
        for state in states(nodes, asked.seeds):
            plans = {order: lost(state, order) for order in ORDERS}
            made = {order: plan for order, plan in plans.items() if plan is not None}
            if len(made) == len(ORDERS) and any(plan.pods for plan in made.values()):
                found.append(made)
        every += found
        print(f"{nodes} nodes, {len(found)} states with victims\n\n{compared(found)}\n")
    print(f"all, {len(every)} states\n\n{compared(every)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
