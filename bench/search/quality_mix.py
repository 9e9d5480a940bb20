"""The trace mix: share proved, gaps, times and memory on drawn clusters (bench.search.quality)."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Sequence
from functools import partial
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from bench.inputs.drift import drift
from bench.inputs.mix import URGENT, MixSettings, mix
from bench.inputs.state import State, gang_of
from bench.report import log_plot, memory, percentile, table, write_plot
from bench.search.quality_sizes import Size
from extender.gang.plan.explain import CANNOT_FIT
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.plan import Plan, Refusal
from extender.settings.settings import Settings

CHANGES = 20
"""Nodes on which a pod changes between two snapshots."""


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
        "### Trace mix\n\nClusters drawn by `bench/inputs/mix.py` (node shapes and background "
        "pods: openb-2023; running jobs: itp-2021), seeds 0 and up, placements `spread` and "
        "`pack`, priorities as told there; an urgent gang of 2, 8, 32 or 128 members of 8 GPUs; "
        f"{size.rounds} snapshots each, one second and {CHANGES} changed nodes apart. Time: "
        "`Planner.plan`, on a planner that saw the snapshot before.\n\n"
        f"{table(MIX_HEAD, rows)}\n\nBy gang size:\n\n"
        f"{table(('gang', *MIX_HEAD[1:]), gangs)}\n\n{_gap_text(runs)}\n\n"
        + "Memory that earlier draws gave back is reused, so this is a lower limit; the figures of "
        "`bench.search.speed` come from fresh processes.\n\n"
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
        (CANNOT_FIT, "no node accepts")
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
