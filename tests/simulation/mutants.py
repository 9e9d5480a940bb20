"""Mistakes put back on purpose, to see that the simulation finds them.

Each is a patch of the extender as it runs in the simulation. The number is the case of the
reliability table in docs/reliability.md that it brings back, 0 for one of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec import Struct

from extender.cache import backoff


class Mutant(Struct, frozen=True):
    """A mistake: ``patches`` are (object, attribute, what takes its place)."""

    name: str
    case: int
    rules: tuple[str, ...]
    """Which invariants may find it."""
    patches: Callable[[], list[tuple[Any, str, Any]]]
    seeds: int = 2000
    """It is found within so many."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Make the mistake for a while."""
        patched = [patch.object(*each) for each in self.patches()]
        for each in patched:
            each.start()
        try:
            yield
        finally:
            for each in reversed(patched):
                each.stop()


def _backoff_without_reset() -> list[tuple[Any, str, Any]]:
    """A watch's pause grows with every cut, however long it was open in between."""

    def delay(self: Any) -> float:
        base: float = getattr(self, "_mutant_next", backoff.FIRST)
        self._mutant_next = min(backoff.LONGEST, base * backoff.FACTOR)
        return base * (1.0 + backoff.JITTER * self._random())

    return [(backoff.Backoff, "delay", delay)]


MUTANTS = (Mutant("backoff-without-reset", 11, ("stale",), _backoff_without_reset),)


def named(name: str) -> Mutant:
    """Return a mutant by its name."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)
