"""The tenant fuzzer: python -m tests.fuzz.tenants --seconds 120 --seed 1

Batches of Hypothesis examples, each with a seed of its own, until the time is up. What fails is
shrunk, printed with its batch's seed, and ends the run with status 1. Ctrl-C ends it any time.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
import tracemalloc
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.hostile import attacks
from tests.fuzz.world import Broken, World

HUNG_SECONDS = 300
"""An example that takes longer than this has hung: every thread's place is printed, and the
run ends."""
MEMORY_TIMES = 6
"""Times what a tenant has written: four for the objects, and what is planned with them."""
MEMORY_BESIDES = 24 * 2**20
"""Bytes of a world and its planner, whoever is in it."""
WEIGHED_STEPS = 5
"""Attacks of so many steps are played with their memory weighed, which takes four times as long."""
Attack = tuple[bool, list[dict[str, Any]]]


def play(attack: Attack, *, weighed: bool = False) -> World:
    """Play one attack against a world of its own; raises Broken."""
    may_opt_out, steps = attack
    if weighed:
        tracemalloc.start()
    try:
        world = World(may_opt_out=may_opt_out)
        for step in steps:
            world.take(step)
            world.check()
        if weighed:
            held = tracemalloc.get_traced_memory()[0]
            if held > MEMORY_BESIDES + MEMORY_TIMES * world.sent:
                raise Broken(f"{held} bytes are held for {world.sent} written")
    finally:
        if weighed:
            tracemalloc.stop()
    return world


class Totals:
    """What a run has seen."""

    def __init__(self) -> None:
        self.examples = self.plans = self.refusals = self.victims = 0
        self.slowest = 0.0

    def add(self, world: World) -> None:
        """Count an example."""
        self.examples += 1
        self.plans += world.seen["plans"]
        self.refusals += world.seen["refusals"]
        self.victims += world.seen["victims"]
        self.slowest = max(self.slowest, world.slowest)

    def __str__(self) -> str:
        return (
            f"{self.examples} attacks: {self.plans} plans with {self.victims} victims, "
            f"{self.refusals} refusals, slowest answer {self.slowest:.2f} s of CPU"
        )


def batch(number: int, examples: int, until: float, totals: Totals) -> None:
    """Play ``examples`` attacks of one seed, fewer when the time is up. Raises Broken."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(attacks)
    def run(attack: Attack) -> None:
        if time.monotonic() > until:
            return
        faulthandler.dump_traceback_later(
            HUNG_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr
        )
        try:
            totals.add(play(attack, weighed=len(attack[1]) == WEIGHED_STEPS))
        finally:
            faulthandler.cancel_dump_traceback_later()

    run()


def main(arguments: list[str] | None = None) -> int:
    """Run until the time is up; return 1 when an invariant was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.tenants", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long (120)")
    parser.add_argument("--seed", type=int, default=1, help="of the first batch (1)")
    parser.add_argument("--batch", type=int, default=100, help="attacks a batch (100)")
    options = parser.parse_args(arguments)
    until = time.monotonic() + options.seconds
    totals, number = Totals(), options.seed
    while time.monotonic() < until:
        try:
            batch(number, options.batch, until, totals)
        except BaseException as error:
            print(f"batch of seed {number}: {error}", file=sys.stderr)
            if isinstance(error, KeyboardInterrupt):
                print(totals)
                return 130
            raise
        number += 1
    print(f"{totals}; seeds {options.seed} to {number - 1}, nothing broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
