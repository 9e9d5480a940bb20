"""Rounds of a fuzzer against something that goes on running: seeded, bounded, shrunk when it fails.

Hypothesis draws what is tried and shrinks what fails; the seed of a round finds it again.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

MEMORY_BYTES = 96 * 1024 * 1024
"""Growth allowed after the first round."""
Part = tuple[st.SearchStrategy[Any], Callable[[Any], None], int]
"""What is tried, how, and how often in a round."""


class Target(Protocol):
    """What is attacked."""

    @property
    def statuses(self) -> Counter[Any]:
        """How often it answered what."""

    def parts(self, examples: int) -> Sequence[Part]:
        """Return what a round of so many examples is made of."""

    def check(self) -> None:
        """Raise AssertionError unless all is as it was before the round."""


class _OverError(BaseException):
    """Ends a round. Hypothesis takes an Exception for a failure, and lets this through."""


def resident_bytes() -> int:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def rounds(
    target: Target,
    first: int,
    examples: int,
    seconds: float,
    told: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Fuzz, round by round, each with a seed of its own; return how many examples were tried.

    The time ends the round that is being played: no further example is tried then.
    """
    tried = 0
    end = clock() + seconds
    number = first
    base = 0
    while clock() < end:
        tried += one_round(target, number, examples, lambda: clock() >= end)
        target.check()
        size = resident_bytes()
        base = base or size
        told(f"seed {number}: {tried} examples, {size >> 20} MiB, {dict(target.statuses)}")
        assert size - base < MEMORY_BYTES, f"memory grew from {base} to {size} bytes"
        number += 1
    return tried


def one_round(target: Target, number: int, examples: int, over: Callable[[], bool]) -> int:
    """Try what the target's round is made of; return how many examples were tried.

    When it is ``over`` the rest is skipped, unless a failure is being shrunk.
    """
    tried = 0
    failed = False

    def attempt(act: Callable[[Any], None], drawn: Any) -> None:
        nonlocal tried, failed
        if over() and not failed:
            raise _OverError
        tried += 1
        try:
            act(drawn)
        except BaseException:
            failed = True
            raise

    with contextlib.suppress(_OverError):
        for strategy, act, count in target.parts(examples):
            _drawn(strategy, partial(attempt, act), count, number)
    return tried


def _drawn(
    strategy: st.SearchStrategy[Any], act: Callable[[Any], None], count: int, number: int
) -> None:
    """Have Hypothesis try so many."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
    @given(strategy)
    def one(drawn: Any) -> None:
        act(drawn)

    one()


def main(
    arguments: list[str],
    doc: str | None,
    made: Callable[[], contextlib.AbstractContextManager[Target]],
    told: Callable[[Any], Sequence[str]] = lambda target: (),
    examples: int = 200,
) -> int:
    """Run from the command line; raises what did not hold. ``told``: what is printed at the end."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--examples", type=int, default=examples, help="a round")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with made() as target:
        tried = rounds(
            target,
            options.seed,
            options.examples,
            options.seconds,
            lambda line: print(line, flush=True),
        )
        lines = told(target)
    print(*lines, sep="\n")
    print(f"OK  {tried} examples in {time.monotonic() - began:.0f} s")
    return 0
