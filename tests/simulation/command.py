"""The command line: seeds are played on several processes, what fails is counted and shrunk."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context

from tests.simulation.more import MORE, with_more
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import named
from tests.simulation.script import write
from tests.simulation.shrink import shrink
from tests.simulation.simulation import Simulation, SimulationOutcome
from tests.simulation.size import MIXED, SIZES

CHUNK = 50

ELSEWHERE = 4000
"""How many seeds are played when a mutant's own find nothing: a change of the flow moves what a
seed meets, and a mistake must be found all the same, by one in so many."""


def play(seed: int, more: tuple[str, ...] = (), size: str = MIXED) -> SimulationOutcome:
    """Play one seed, with ``more`` in it than its script has (more.py), in a world of a size."""
    return Simulation(with_more(write(seed, size), more)).run()


def _chunk(seeds: range, more: tuple[str, ...] = (), size: str = MIXED) -> list[SimulationOutcome]:
    gc.disable()
    found = [play(seed, more, size) for seed in seeds]
    gc.collect()
    return found


def _tell(
    seed: int, more: tuple[str, ...], size: str = MIXED, *, story: bool, smaller: bool
) -> int:
    script = with_more(write(seed, size), more)
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
    parser.add_argument("--minutes", type=float, default=0.0, help="play no longer than this")
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
        help="which seeds fail with --mutant alone: the first one found, its own tried first, "
        "or all of --seeds",
    )
    parser.add_argument("--enough", type=int, default=0, help="seeds that --worth search looks for")
    parser.add_argument("--until", default="", help="stop when one of these rules is broken")
    parser.add_argument(
        "--more", default="", help=f"what else happens in every seed: {','.join(MORE)}"
    )
    parser.add_argument(
        "--size", choices=SIZES, default=MIXED, help="of every seed's world (see size.py)"
    )
    args = parser.parse_args()
    args.more = tuple(args.more.split(",")) if args.more else ()
    if args.seed is not None:
        return _tell(args.seed, args.more, args.size, story=args.story, smaller=args.shrink)
    if args.worth:
        chosen = named(args.mutant)
        searched = range(args.first, args.first + args.seeds)
        seeds = [*chosen.seeds, *range(1, ELSEWHERE + 1)] if args.worth == "named" else searched
        enough = 1 if args.worth == "named" else args.enough or len(seeds)
        size = chosen.size if args.worth == "named" else args.size
        found = worth(chosen, seeds, enough, size)
        print(f"{chosen.name}: found by {len(found)} of {len(seeds)} seeds at most")
        return 0 if found else 1
    if args.digests:
        seeds = range(args.first, args.first + args.seeds)
        for seed in reversed(seeds) if args.backwards else seeds:
            print(seed, play(seed, args.more, args.size).digest)
        return 0
    mutant = named(args.mutant).applied() if args.mutant else nullcontext()
    with mutant:
        return _many(args)


def worth(mutant: Mutant, seeds: Sequence[int], enough: int, size: str = MIXED) -> list[int]:
    """Return seeds that find a mistake, and fail with it alone; ``enough`` of them will do."""
    found = []
    for seed in seeds:
        with mutant.applied():
            with_it = play(seed, mutant.more, size)
        if with_it.rule in mutant.rules and not play(seed, mutant.more, size).problem:
            print(f"{seed}: {with_it.problem}", flush=True)
            found.append(seed)
            if len(found) >= enough:
                break
    return found


class Tally:
    """What became of many seeds."""

    def __init__(self, until: set[str]) -> None:
        self.played = 0
        self.evict = 0
        self.cpu = self.seconds = 0.0
        self.steps = 0
        self.failed: dict[str, list[int]] = {}
        """Rule -> the seeds that break it."""
        self._until = until

    def add(self, outcome: SimulationOutcome) -> bool:
        """Count one seed; return whether it fails by a rule that counts."""
        self.played += 1
        self.evict += outcome.evictions > 0
        self.cpu += outcome.cpu
        self.seconds += outcome.seconds
        self.steps += outcome.steps
        counts = bool(outcome.problem) and (not self._until or outcome.rule in self._until)
        if counts:
            self.failed.setdefault(outcome.rule, []).append(outcome.seed)
        return counts

    def tell(self, took: float) -> None:
        """Print it; ``took``: seconds on the wall."""
        for rule, seeds in sorted(self.failed.items(), key=lambda item: -len(item[1])):
            print(f"{rule:12} {len(seeds):6}  seeds {', '.join(map(str, seeds[:8]))}")
        played, failed = self.played, sum(map(len, self.failed.values()))
        print(
            f"{played} seeds, {failed} fail, {self.evict} evict; {took:.1f} s; "
            f"a seed: {self.cpu / played * 1000:.1f} ms of CPU, "
            f"{self.seconds / played:.0f} simulated s, {self.steps / played:.0f} steps"
        )


def _many(args: argparse.Namespace) -> int:
    """Play many seeds and count what fails; ``until``: only these rules count, once is enough."""
    began = time.perf_counter()
    until = set(args.until.split(",")) if args.until else set()
    ends = range(args.first, args.first + args.seeds)
    chunks = [ends[i : i + CHUNK] for i in range(0, len(ends), CHUNK)]
    tally = Tally(until)
    gc.freeze()  # the modules are no part of what a chunk leaves behind
    with get_context("fork").Pool(args.jobs) as pool:
        for found in pool.imap(partial(_chunk, more=args.more, size=args.size), chunks):
            for outcome in found:
                if tally.add(outcome) and args.each:
                    print(f"{outcome.seed}: {outcome.problem}", flush=True)
            if until and tally.failed:
                break
            if args.minutes and time.perf_counter() - began > args.minutes * 60:
                break
    tally.tell(time.perf_counter() - began)
    if tally.failed and not until:
        _tell(min(map(min, tally.failed.values())), args.more, args.size, story=True, smaller=True)
    return 1 if tally.failed else 0
