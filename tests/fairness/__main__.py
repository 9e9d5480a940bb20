"""``python -m tests.fairness --streams 1000``: how long the big gang waits, and what idles."""

from __future__ import annotations

import argparse
import asyncio
import sys
from statistics import mean

import structlog

from tests.fairness.streams import LONGEST, PATIENCE, SLACK, Stream


def main() -> int:
    """Play the streams and print what they came to; 1 if a promise was broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--without", action="store_true", help="without booked starts")
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    seeds = range(args.first, args.first + args.streams)
    found = [asyncio.run(Stream(seed, booking=not args.without).play()) for seed in seeds]
    waits = [each.waited for each in found if each.waited is not None]
    booked = [each for each in found if each.total]
    late = [each.seed for each in found if each.late]
    wrong = [(each.seed, each.wrong[0]) for each in found if each.wrong]
    print(f"{len(found)} streams, {len(booked)} big gangs booked, {len(waits)} started")
    if waits:
        print(f"waited {mean(waits):.0f} s on average, {max(waits)} s at most", end="")
        print(f" (patience {PATIENCE} s, then {LONGEST} + {SLACK} s for each turn)")
        first = [each.waited for each in found if each.waited is not None and not each.older]
        print(f"{len(first)} were the first in line: {max(first, default=0)} s at most")
    if booked:
        shares = [each.kept / each.total for each in booked]
        print(f"idle while booked: {mean(shares):.0%} of the GPUs on average", end="")
        print(f", {max(shares):.0%} at most; {max(each.peak for each in booked):.0%} at a moment")
        print(f"{sum(each.passed for each in booked)} pods started meanwhile")
    print(f"later than the bound: {len(late)} {late[:10]}; over-committed or in part: {wrong[:5]}")
    return 1 if wrong or (late and not args.without) else 0


if __name__ == "__main__":
    sys.exit(main())
