"""Explore a world: ``python -m tests.explorer [--mistake NAME] [SETTING=NUMBER ...]``."""

from __future__ import annotations

import argparse

from tests.explorer.breadth_first import explore
from tests.explorer.mistakes import MISTAKES
from tests.explorer.victim_world import Setting, VictimWorld


def main() -> None:
    """Print how many states there are, and the shortest way to what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("setting", nargs="*", help="as pods=3 plans=1 kills=0")
    parser.add_argument("--mistake", choices=[each.name for each in MISTAKES])
    given = parser.parse_args()
    if given.mistake:
        mistake = next(each for each in MISTAKES if each.name == given.mistake)
        with mistake.made():
            found = explore(VictimWorld(mistake.setting))
    else:
        numbers = dict(each.split("=") for each in given.setting)
        setting = Setting(**{name: int(number) for name, number in numbers.items()})  # type: ignore[arg-type]
        found = explore(VictimWorld(setting))
    print(
        f"{found.states:,} states, {found.at_rest:,} at rest, {found.seconds:.1f} s of CPU: "
        f"{found.wrong or 'all holds'}"
    )
    for number, told in enumerate(found.story, 1):
        print(f"  {number}. {told}")


main()
