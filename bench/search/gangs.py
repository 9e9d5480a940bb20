"""How many gangs of several kinds are proved within a second, with HiGHS and without.

Inputs: ``leader_and_workers`` and ``three_kinds`` of tests/search/gangs.py, one for each seed.
Each is solved both ways, one after the other, against the same deadline. With ``--cpu`` every
clock in the process is the CPU time it used (cpu_clock.c, needs a C compiler), so that other
work on the machine does not count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from extender.search import highs, solver
from extender.search.problem import Infeasible, Problem, Solution
from extender.search.problem.verify import verify
from tests.search.gangs import leader_and_workers, three_kinds


def problem_of(kinds: int, seed: int, nodes: int) -> Problem:
    """One input; ``nodes``: 0 for 20 to 500."""
    return three_kinds(seed, nodes) if kinds == 3 else leader_and_workers(seed)


def on_cpu_time() -> None:
    """Start again with clocks that tell CPU time."""
    library = Path(tempfile.mkdtemp()) / "cpu_clock.so"
    source = Path(__file__).with_name("cpu_clock.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    arguments = [argument for argument in sys.argv[1:] if argument != "--cpu"]
    os.environ["LD_PRELOAD"] = str(library)
    os.execv(sys.executable, [sys.executable, "-m", "bench.search.gangs", *arguments])


def main() -> None:
    """Print a line a seed and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", type=int, choices=(2, 3), default=2)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 60), metavar=("FROM", "TO"))
    parser.add_argument("--nodes", type=int, default=0, help="of three kinds; 0: 20 to 500")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--cpu", action="store_true", help="count CPU time only")
    parser.add_argument("--highs-only", action="store_true", help="leave the own search alone out")
    chosen = parser.parse_args()
    if chosen.cpu:
        on_cpu_time()
    ways = [("with HiGHS", solver.solve), ("alone", solver.search)]
    if not highs.available():  # loads it, which is no search's time
        sys.exit("highspy is not installed: pip install 'podgroup-extender[highs]'")
    if chosen.highs_only:
        ways = ways[:1]
    proved = dict.fromkeys((name for name, _ in ways), 0)
    answered = dict(proved)
    worse = 0
    longest = dict.fromkeys(proved, 0.0)
    for seed in range(*chosen.seeds):
        problem = problem_of(chosen.kinds, seed, chosen.nodes)
        told, costs = [], []
        for name, solve in ways:
            started = monotonic()
            answer = solve(problem, deadline=started + chosen.seconds)
            took = monotonic() - started
            sure = answer.proved if isinstance(answer, Infeasible) else answer.optimal
            proved[name] += sure
            answered[name] += sure or isinstance(answer, Solution)
            longest[name] = max(longest[name], took)
            if isinstance(answer, Solution):
                assert verify(problem, answer) == (), seed
                costs.append(answer.cost)
            told.append(f"{took:.2f} {'proved' if sure else 'open'} {costs[-1:]}")
        worse += len(costs) == 2 and costs[0] > costs[1]
        size = f"{len(problem.nodes)} nodes, {len(problem.units)} units, {problem.need} members"
        print(f"{seed}: {size}; {'; '.join(told)}", flush=True)
    many = len(range(*chosen.seeds))
    for name in proved:
        print(
            f"{name}: {proved[name]} of {many} proved, {answered[name]} answered, "
            f"the longest {longest[name]:.2f} s"
        )
    print(f"dearer with HiGHS than alone: {worse}")


if __name__ == "__main__":
    main()
