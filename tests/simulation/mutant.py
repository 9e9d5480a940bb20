"""A mistake put back on purpose, for as long as a seed is played."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec import Struct

from tests.simulation.size import MIXED


@contextmanager
def made(patches: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace attributes, (object, attribute, what takes its place), for a while."""
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(patch.object(*each))
        yield


class Mutant(Struct, frozen=True):
    """A mistake: ``patches`` are (object, attribute, what takes its place)."""

    name: str
    case: int
    rules: tuple[str, ...]
    """Which invariants may find it."""
    patches: Callable[[], list[tuple[Any, str, Any]]]
    seeds: tuple[int, ...] = ()
    """Seeds that found it, and in which all is well without it. One has to: what a change of
    the extender does to the order of things may take a seed's worth away."""
    size: str = MIXED
    """Of the worlds in which it is looked for."""
    more: tuple[str, ...] = ()
    """What else has to happen in them (more.py)."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Make the mistake for a while."""
        with made(self.patches()):
            yield
