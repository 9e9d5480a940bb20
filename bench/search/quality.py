"""How good the answers are: against oracles, on the trace mix, and on hard families.

    python -m bench.search.quality                 # all parts, about five minutes
    python -m bench.search.quality --short         # a smoke test of every part
    python -m bench.search.quality --parts mix hard

Writes the sections "quality-..." of docs/benchmarks/search.md (not with --short).

- oracle: seeded random problems of tests/search/generate.py, by feature, against brute
  force; larger ones and trace-mix states of 50 to 200 nodes against HiGHS.
- mix: clusters of bench/inputs/mix.py (traces and assumptions are told there) at several fill
  levels, placements and gang sizes, planned through Planner.plan on snapshots that drift.
- hard: families of bench/inputs/hard.py at several sizes; HiGHS decides the smaller ones.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from bench.inputs.hard import FAMILIES
from bench.report import log_plot, machine, table, write_plot, write_section
from bench.search.quality_mix import mix_part
from bench.search.quality_oracles import oracle_part
from bench.search.quality_sizes import FULL, SHORT, Size
from extender.search.problem import Infeasible, Problem
from extender.search.problem.verify import verify
from extender.search.solver import backend_for, solve
from tests.search.oracle_milp import milp

PARTS = ("oracle", "mix", "hard")


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
            head = (
                f"Machine: {machine()}. Command: `python -m bench.search.quality --parts {part}`."
            )
            write_section(f"quality-{part}", f"{head}\n\n{text}")
    if wrong:
        print(f"error: {wrong} answers disagree with an oracle or break a rule", file=sys.stderr)
    return 1 if wrong else 0


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
        "### Hard families\n\n`bench/inputs/hard.py`, seed 1; node limit 200,000 and 10 s "
        f"a problem. HiGHS gets problems of at most {size.oracle_nodes} nodes, "
        f"{size.seconds:g} s a level; "
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
