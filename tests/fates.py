"""What becomes of a mutant, by how the tests that should mind it ended."""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

import pytest
from msgspec import Struct

M = TypeVar("M")


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    """A test ran and failed, as it should."""
    SURVIVED = "survived"
    """All tests passed: none of them tests what was changed."""
    HUNG = "hung"
    """The tests had to be stopped: somebody would notice, without being told what is wrong."""
    BROKEN = "broken"
    """No test has judged it: nothing was collected, pytest itself failed or the process died."""
    INVALID = "invalid"
    """The change does not compile, or what it changes is not where it was looked for."""


class MutantOutcome(Struct, Generic[M], frozen=True):
    """Of one mutant; ``said`` is the end of what pytest wrote."""

    mutant: M
    fate: Fate
    seconds: float
    said: str


def fate_of(status: int | None) -> Fate:
    """Read pytest's exit status; None: it was stopped.

    Only status 1 says that a test ran and failed. A mutant that breaks the collection ends with 2,
    as an interruption does; 3 is a fault of pytest, 4 a wrong call, and 5 that there was no test.
    """
    match status:
        case None:
            return Fate.HUNG
        case pytest.ExitCode.OK:
            return Fate.SURVIVED
        case pytest.ExitCode.TESTS_FAILED:
            return Fate.KILLED
        case _:
            return Fate.BROKEN
