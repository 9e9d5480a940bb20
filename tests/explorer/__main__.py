"""Explore: ``python -m tests.explorer [--preemption] [--mistake NAME] [SETTING=NUMBER ...]``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from tests.explorer import preemption_world, victim_world
from tests.explorer.breadth_first import explore
from tests.explorer.mistakes import MISTAKES
from tests.explorer.plan_mistakes import PLAN_MISTAKES


def main() -> None:
    """Print how many states there are, and the shortest way to what is wrong."""
    mistakes = {each.name: each for each in (*MISTAKES, *PLAN_MISTAKES)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("setting", nargs="*", help="as pods=3 plans=1 kills=0")
    parser.add_argument(
        "--preemption", action="store_true", help="a whole preemption, not victim groups alone"
    )
    parser.add_argument("--mistake", choices=list(mistakes), help="made in a world of its own")
    given = parser.parse_args()
    mistake = mistakes.get(given.mistake)
    of = preemption_world if given.preemption else victim_world
    numbers = {name: int(number) for name, number in (each.split("=") for each in given.setting)}
    setting = of.Setting(**numbers) if mistake is None else mistake.setting
    with nullcontext() if mistake is None else mistake.made():
        found = explore(setting.world())
    print(
        f"{found.states:,} states, {found.at_rest:,} at rest, {found.seconds:.1f} s of CPU: "
        f"{found.wrong or 'all holds'}"
    )
    for number, told in enumerate(found.story, 1):
        print(f"  {number}. {told}")


main()
