"""Print what is there and what is missing; see the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator

from tools.doctor.checks import Finding, findings
from tools.doctor.machine import look


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; exit status 1 when something that is needed is missing."""
    parser = argparse.ArgumentParser(
        prog="./run doctor",
        description="Say what is missing on this machine to run, test and change the program.",
        epilog="Exit status: 0 nothing that is needed is missing, 1 something is, 2 bad usage.",
    )
    parser.add_argument(
        "--ci", action="store_true", help="what only .ci/run needs counts as needed, too"
    )
    options = parser.parse_args(arguments)
    found = list(findings(look()))
    print("\n".join(lines(found)))
    return status(found, ci=options.ci)


def lines(found: Iterable[Finding]) -> Iterator[str]:
    """Return the report: a line for what is there, three for what is missing, and a summary."""
    needed = wanted = 0
    for each in found:
        if each.fine:
            yield f"ok       {each.thing}"
            continue
        needed += each.needed
        wanted += not each.needed
        yield f"missing  {each.thing}"
        yield f"         without it: {each.lost}"
        yield f"         repair: {each.repair}"
    if needed:
        yield f"{needed} missing that ./run sandbox and ./run test need"
    if wanted:
        yield f"{wanted} missing that only some commands, and .ci/run, need"
    if not needed and not wanted:
        yield "nothing is missing"


def status(found: Iterable[Finding], *, ci: bool) -> int:
    """Return the exit status; ``ci``: everything that .ci/run needs is needed."""
    return int(any(not each.fine and (each.needed or ci) for each in found))


if __name__ == "__main__":
    sys.exit(main())
