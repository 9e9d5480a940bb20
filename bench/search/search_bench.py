"""The search on known, large and hard inputs: proof, victims, branches, milliseconds.

    python -m bench.search.search_bench [--short] [--branches 20000]

One run gives compiled and plain figures side by side; read the ratio, not the
absolute times. Inputs and their provenance: bench/inputs/search_inputs.py.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial

from bench.inputs.search_inputs import clique, five_cases, mix, overlaps, ties
from extender.search import reference, solver
from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.problem.verify import verify

Make = Callable[[], Problem]
HEAD = (
    f"{'case':34} {'nodes':>6} {'units':>7} {'need':>5} {'answer':>10} {'pods':>6} "
    f"{'branches':>8} {'ms':>9} {'plain ms':>9} {'ratio':>6}"
)


def cases(*, short: bool) -> Iterator[tuple[str, Make, bool]]:
    """(name, how to make it, whether the plain search is asked as well)."""
    for name, found, theirs in five_cases():
        yield f"{name} (1.37.0: {theirs} pods)", partial(_same, found), True
    yield "clique 11 of 11", partial(clique, 11, 11), True
    yield "clique 12 of 11", partial(clique, 11, 12), True
    yield "ties 200", partial(ties, 200, 100), True
    yield "mix 50, seed 1", partial(mix, 50, 8, seed=1), True
    yield "mix 200, seed 1", partial(mix, 200, 16, seed=1), True
    yield "mix 200, one GPU each", partial(mix, 200, 64, seed=2, gpus=1), True
    yield "overlaps 20 nodes, 12 gangs", partial(overlaps, 20, 12, 5, 6, seed=1), True
    if short:
        return
    yield "clique 1,000 of 1,000", partial(clique, 1000, 1000), False
    yield "clique 1,001 of 1,000", partial(clique, 1000, 1001), False
    yield "ties 5,000", partial(ties, 5000, 2000), False
    for seed in (1, 2, 3):
        yield f"mix 1,000, seed {seed}", partial(mix, 1000, 64, seed=seed), False
    yield "mix 1,000, 20 PDBs", partial(mix, 1000, 64, seed=4, budgets=20), False
    yield "mix 1,000, 50 priorities", partial(mix, 1000, 64, seed=5, priorities=50), False
    yield "mix 1,000, 150 nodes free", partial(mix, 1000, 200, seed=6, fill=0.85), False
    yield "mix 1,000, half a node each", partial(mix, 1000, 128, seed=7, gpus=4), False
    yield "mix 5,000", partial(mix, 5000, 512, seed=1), False
    yield "mix 5,000, one GPU each", partial(mix, 5000, 512, seed=2, gpus=1), False
    yield "mix 5,000, 512 are there", partial(mix, 5000, 512, seed=3, fill=0.85), False
    yield "mix 5,000, none without more", partial(mix, 5000, 4999, seed=1, gpus=9), False
    yield "overlaps 40 nodes, 30 gangs", partial(overlaps, 40, 30, 6, 10, seed=1), False
    yield "overlaps 100 nodes, 60 gangs", partial(overlaps, 100, 60, 6, 20, seed=1), False
    yield "overlaps 200 nodes, 150 gangs", partial(overlaps, 200, 150, 8, 40, seed=1), False


def _same(problem: Problem) -> Problem:
    return problem


def timed(
    solve: Callable[[Problem, Limits], Solution | Infeasible], problem: Problem, limits: Limits
) -> tuple[float, Solution | Infeasible]:
    """Milliseconds of one call, and its answer."""
    start = time.perf_counter()
    answer = solve(problem, limits)
    return (time.perf_counter() - start) * 1000, answer


def row(name: str, problem: Problem, limits: Limits, *, plain: bool) -> str:
    """One line of the table; raises when an answer does not hold."""
    ms, answer = min((timed(solver.solve, problem, limits) for _ in range(3)), key=lambda t: t[0])
    pods, branches = "", ""
    if isinstance(answer, Solution):
        wrong = verify(problem, answer)
        if wrong:
            raise AssertionError(f"{name}: {wrong}")
        word = "optimal" if answer.optimal else "bounded"
        pods = str(sum(problem.units[u].pods for u in answer.chosen))
        branches = str(answer.branch_nodes)
    else:
        word = "no, proved" if answer.proved else "none found"
    text = (
        f"{name:34} {len(problem.nodes):6} {len(problem.units):7} {problem.need:5} {word:>10} "
        f"{pods:>6} {branches:>8} {ms:9.2f}"
    )
    if plain:
        slow, same = timed(reference.solve, problem, limits)
        text += f" {slow:9.1f} {slow / ms:6.0f}"
        if isinstance(answer, Solution) != isinstance(same, Solution):
            raise AssertionError(f"{name}: the two searches disagree")
    if isinstance(answer, Solution) and not answer.optimal:
        text += "\n" + gap(problem, answer)
    return text


def gap(problem: Problem, answer: Solution) -> str:
    """Where cost and bound part."""
    parts = [
        f"{level} {cost} >= {bound}"
        for level, cost, bound in zip(problem.levels, answer.cost, answer.bound, strict=True)
        if cost != bound
    ]
    return "    gap: " + ", ".join(parts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a smoke test of some seconds")
    parser.add_argument("--branches", type=int, default=20_000)
    options = parser.parse_args()
    print(f"backend {solver.BACKEND}, at most {options.branches} branches, best of 3 calls")
    print(HEAD)
    for name, make, plain in cases(short=options.short):
        limits = Limits(branch_nodes=options.branches)
        print(row(name, make(), limits, plain=plain), flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
