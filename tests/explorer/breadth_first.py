"""Breadth first over the states of a small world: the first state that is wrong, and the way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, Protocol, Self, TypeVar


class World(Protocol):
    """One state of a small world."""

    def key(self) -> Hashable:
        """Return what tells states apart."""

    def moves(self) -> Iterable[tuple[str, Self, bool]]:
        """Return (what happens, the world after it, whether it happens sooner or later)."""

    def wrong(self, *, at_rest: bool) -> str:
        """Return what is wrong, "" when nothing is. ``at_rest``: nothing has to happen any more."""


W = TypeVar("W", bound=World)


class Explored(NamedTuple, Generic[W]):
    """What was found."""

    states: int
    at_rest: int
    seconds: float
    """Of CPU."""
    wrong: str
    story: list[str]
    """The shortest way to what is wrong, one thing a line."""


def explore(first: W, most: int = 2_000_000) -> Explored[W]:
    """Visit every state that can be reached; stop at the first that is wrong."""
    began = time.process_time()
    key = first.key()
    back: dict[Hashable, tuple[Hashable, str]] = {key: (None, "")}
    todo: deque[tuple[Hashable, W]] = deque([(key, first)])
    at_rest = 0
    while todo:
        key, world = todo.popleft()
        found = list(world.moves())
        rests = not any(needed for _, _, needed in found)
        at_rest += rests
        why = world.wrong(at_rest=rests)
        if not why and len(back) > most:
            why = "too many states"
        if why:
            return Explored(len(back), at_rest, time.process_time() - began, why, _way(back, key))
        for told, after, _ in found:
            after_key = after.key()
            if after_key not in back:
                back[after_key] = (key, told)
                todo.append((after_key, after))
    return Explored(len(back), at_rest, time.process_time() - began, "", [])


def _way(back: dict[Hashable, tuple[Hashable, str]], key: Hashable) -> list[str]:
    story = []
    while (before := back[key])[0] is not None:
        story.append(before[1])
        key = before[0]
    return story[::-1]
