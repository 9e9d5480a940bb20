"""The command line: seeds are played on several processes, what fails is counted and shrunk."""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from multiprocessing import get_context

from tests.simulation.mutants import Mutant, named
from tests.simulation.script import write
from tests.simulation.shrink import shrink
from tests.simulation.simulation import Outcome, Simulation

CHUNK = 50


def play(seed: int) -> Outcome:
    """Play one seed."""
    return Simulation(write(seed)).run()


def _chunk(seeds: range) -> list[Outcome]:
    gc.disable()
    found = [play(seed) for seed in seeds]
    gc.collect()
    return found


def _tell(seed: int, *, story: bool, smaller: bool) -> int:
    script = write(seed)
    if smaller:
        script, _ = shrink(script)
    simulation = Simulation(script)
    outcome = simulation.run()
    if story:
        print("\n".join(simulation.story.lines()))
    print(f"seed {seed}: {outcome.problem or 'fine'}; {outcome.digest}")
    return 1 if outcome.problem else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--story", action="store_true", help="tell all that happens in --seed")
    parser.add_argument("--shrink", action="store_true", help="leave out what does not matter")
    parser.add_argument("--each", action="store_true", help="one line for each seed that fails")
    parser.add_argument("--digests", action="store_true", help="only a hash of each story")
    parser.add_argument("--backwards", action="store_true", help="the last seed first")
    parser.add_argument("--mutant", default="", help="make this mistake (see mutants.py)")
    parser.add_argument(
        "--worth",
        choices=("named", "search"),
        help="which seeds fail with --mutant and not without: its own, or all of --seeds",
    )
    parser.add_argument("--until", default="", help="stop when one of these rules is broken")
    args = parser.parse_args()
    if args.seed is not None:
        return _tell(args.seed, story=args.story, smaller=args.shrink)
    if args.worth:
        chosen = named(args.mutant)
        seeds = (
            chosen.seeds if args.worth == "named" else range(args.first, args.first + args.seeds)
        )
        found = worth(chosen, seeds)
        print(f"{chosen.name}: found by {len(found)} of {len(seeds)} seeds")
        return 0 if found and (args.worth == "search" or len(found) == len(seeds)) else 1
    if args.digests:
        seeds = range(args.first, args.first + args.seeds)
        for seed in reversed(seeds) if args.backwards else seeds:
            print(seed, play(seed).digest)
        return 0
    mutant = named(args.mutant).applied() if args.mutant else nullcontext()
    with mutant:
        return _many(args)


def worth(mutant: Mutant, seeds: Sequence[int]) -> list[int]:
    """Return the seeds that find a mistake, and fail with it alone."""
    found = []
    for seed in seeds:
        with mutant.applied():
            with_it = play(seed)
        if with_it.rule in mutant.rules and not play(seed).problem:
            print(f"{seed}: {with_it.problem}", flush=True)
            found.append(seed)
    return found


def _many(args: argparse.Namespace) -> int:
    """Play many seeds and count what fails; ``until``: only these rules count, once is enough."""
    began = time.perf_counter()
    until = set(args.until.split(",")) if args.until else set()
    ends = range(args.first, args.first + args.seeds)
    chunks = [ends[i : i + CHUNK] for i in range(0, len(ends), CHUNK)]
    outcomes: list[Outcome] = []
    with get_context("fork").Pool(args.jobs) as pool:
        for found in pool.imap(_chunk, chunks):
            outcomes += found
            for outcome in found if args.each else ():
                if outcome.problem and (not until or outcome.rule in until):
                    print(f"{outcome.seed}: {outcome.problem}", flush=True)
            if any(outcome.rule in until for outcome in found):
                break
    took = time.perf_counter() - began
    failed = [o for o in outcomes if o.problem and (not until or o.rule in until)]
    rules = Counter(outcome.rule for outcome in failed)
    for rule, count in rules.most_common():
        some = [outcome.seed for outcome in failed if outcome.rule == rule][:8]
        print(f"{rule:12} {count:6}  seeds {', '.join(map(str, some))}")
    played = len(outcomes)
    print(
        f"{played} seeds, {len(failed)} fail, {sum(o.evictions > 0 for o in outcomes)} evict; "
        f"{took:.1f} s; a seed: {sum(o.cpu for o in outcomes) / played * 1000:.1f} ms of CPU, "
        f"{sum(o.seconds for o in outcomes) / played:.0f} simulated s, "
        f"{sum(o.steps for o in outcomes) / played:.0f} steps"
    )
    return 1 if failed else 0
