"""``python -m tests.security``: take each rule out in turn and see that its test fails.

By hand, as it takes some minutes. Ends with 1 unless every mutant was killed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from tests.fates import Fate, MutantOutcome
from tests.security.mutant import Mutant
from tests.security.mutants import MUTANTS
from tests.security.running import Tree, outcomes, without_any

LINE = re.compile(r"\S+:\d+: |FAILED ")
"""What pytest's --tb=line says of a failure, and of a test."""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.security", description=__doc__)
    parser.add_argument("--row", type=int, action="append", help="only these rows")
    parser.add_argument("--rule", action="append", help="only rules with these words")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    chosen = parser.parse_args()
    mutants = [
        mutant
        for mutant in MUTANTS
        if (not chosen.row or mutant.row in chosen.row)
        and (not chosen.rule or any(words in mutant.rule for words in chosen.rule))
    ]
    if chosen.list:
        for mutant in mutants:
            print(f"{mutant.row:>2}  {mutant.rule}  ({mutant.test})")
        return 0
    with tempfile.TemporaryDirectory() as place:
        tree = Tree(Path(place))
        failed = without_any(tree, mutants)
        if failed:
            print(f"with nothing taken out a test fails:\n{failed}")
            return 1
        found = []
        print("| rule taken out | test | |\n|---|---|---|")
        for outcome in outcomes(tree, mutants):
            found.append(outcome)
            print(_line(outcome), flush=True)
            print(f"-- {outcome.mutant.rule}\n{_why(outcome)}", file=sys.stderr, flush=True)
    killed = sum(outcome.fate is Fate.KILLED for outcome in found)
    print(f"\n{killed} of {len(found)} killed, in {sum(one.seconds for one in found):.0f} s")
    return int(killed < len(found))


def _why(outcome: MutantOutcome[Mutant]) -> str:
    """Where and how the test failed, or all of what it said."""
    failed = [line for line in outcome.said.splitlines() if LINE.match(line)]
    return "\n".join(failed) if failed and outcome.fate is Fate.KILLED else outcome.said


def _line(outcome: MutantOutcome[Mutant]) -> str:
    mutant = outcome.mutant
    path, _, name = mutant.test.partition("::")
    return f"| {mutant.row}: {mutant.rule} | {path}: `{name}` | {outcome.fate.value} |"


if __name__ == "__main__":
    sys.exit(main())
