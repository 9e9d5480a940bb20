"""``python -m tests.mutation``: change the code in small ways and see that a test fails.

By hand, as it takes from minutes to hours. A sample of all mutants of each room is tried, the
same one for the same seed. docs/mutation.md has the last results. Ends with 1 when one survived,
or when no test judged one.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from tests.fates import Fate
from tests.mutation.operators import Mutant, mutants
from tests.mutation.rooms import ROOMS, Room
from tests.mutation.running import outcomes, passes, prepare


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--room", action="append", help="only these; see --list")
    parser.add_argument("--module", action="append", help="only modules with these words")
    parser.add_argument("--sample", type=int, default=40, help="mutants a room; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--only", action="append", help="only mutants with these words")
    parser.add_argument("--tests", action="append", help="these files in place of a room's own")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    chosen = parser.parse_args()
    rooms = [room for room in ROOMS if not chosen.room or room.name in chosen.room]
    if chosen.tests:
        rooms = [replace(room, tests=tuple(chosen.tests)) for room in rooms]
    taken: list[tuple[Mutant, Room]] = []
    for room in rooms:
        every = [
            mutant
            for module in room.modules
            if not chosen.module or any(word in module for word in chosen.module)
            for mutant in mutants(module, _source(module))
            if not chosen.only or any(word in mutant.name for word in chosen.only)
        ]
        number = min(chosen.sample or len(every), len(every))
        sample = random.Random(chosen.seed).sample(every, number)
        taken += [(mutant, room) for mutant in sample]
        print(f"{room.name}: {number} of {len(every)} mutants", flush=True)
    if chosen.list:
        for mutant, _ in taken:
            print(mutant.name)
        return 0
    return _try(taken, rooms, chosen.jobs)


def _try(taken: list[tuple[Mutant, Room]], rooms: list[Room], jobs: int) -> int:
    prepare(rooms)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        limits: dict[str, float] = {}
        for room in rooms:
            seconds = passes(room, place / "clean.log")
            if seconds is None:
                print(f"{room.name}: a test fails with nothing changed")
                print((place / "clean.log").read_text()[-2000:])
                return 1
            print(f"{room.name}: its tests pass in {seconds:.0f} s", flush=True)
            limits[room.name] = 30 + 5 * seconds
        began, fates = monotonic(), Counter[Fate]()
        tried = ((mutant, room, limits[room.name]) for mutant, room in taken)
        for outcome in outcomes(tried, place, jobs):
            fates[outcome.fate] += 1
            print(f"{outcome.fate.value:8} {outcome.mutant.name}  [{outcome.said}]", flush=True)
        told = ", ".join(f"{number} {fate.value}" for fate, number in fates.items())
        print(f"\n{sum(fates.values())} mutants in {monotonic() - began:.0f} s: {told}")
    return int(fates[Fate.SURVIVED] + fates[Fate.BROKEN] > 0)


def _source(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text()


if __name__ == "__main__":
    sys.exit(main())
