"""Vectors of members per class, and how sets of them add up over nodes.

A pattern is the set of Pareto-maximal vectors (k_0, ..., k_C-1) of members that
one node can seat at once. Whatever a vector allows, every smaller vector allows
too, so the maximal ones say all. Adding the patterns of many nodes and keeping
the maximal sums gives exactly the counts that can be seated on all of them;
sums are clipped at the classes' counts, which bounds their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TypeAlias

from extender.search.stop import Stop

Counts: TypeAlias = tuple[int, ...]
Pattern: TypeAlias = tuple[Counts, ...]

WIDEST = 20_000
"""More vectors than this in one sum are not kept: the packing is then inexact."""


def maximal(vectors: Iterable[Counts], stop: Stop | None = None) -> Pattern:
    """The vectors that no other one of them dominates, in descending order.

    Raises OutOfTime.
    """
    kept: list[Counts] = []
    for at, vector in enumerate(sorted(set(vectors), reverse=True)):
        if stop is not None and at % 64 == 0:
            stop.check()
        if not any(all(a >= b for a, b in zip(other, vector, strict=True)) for other in kept):
            kept.append(vector)
    return tuple(kept)


def node_pattern(
    room: Sequence[int],
    requests: Sequence[Sequence[int]],
    most: Sequence[int],
    limits: Sequence[tuple[frozenset[int], int]],
) -> Pattern:
    """Maximal vectors of members on one node.

    ``room`` (R,) amounts; ``requests`` (C, R); ``most`` (C,) members at most (0
    where the class may not use the node); ``limits`` pairs (classes, members of
    them at most). A resource that nobody seated asks for is not looked at, so a
    node short of it can still be used.
    """
    found: list[Counts] = []

    def extend(cls: int, left: Sequence[int], so_far: Counts) -> None:
        if cls == len(most):
            found.append(so_far)
            return
        fits = most[cls]
        for have, ask in zip(left, requests[cls], strict=True):
            if ask > 0:
                fits = min(fits, max(0, have) // ask)
        for classes, limit in limits:
            if cls in classes:
                fits = min(fits, limit - sum(so_far[c] for c in classes if c < cls))
        fits = max(0, fits)
        lowest = fits if cls == len(most) - 1 else 0
        for members in range(fits, lowest - 1, -1):
            rest = [have - ask * members for have, ask in zip(left, requests[cls], strict=True)]
            extend(cls + 1, rest, (*so_far, members))

    extend(0, room, ())
    return maximal(found)


class Sum:
    """A tree of patterns added up; remembers which parts made each vector.

    A leaf stands for one node. ``exact`` is False when vectors had to be
    dropped, so that "not among the vectors" no longer proves anything.
    """

    __slots__ = ("exact", "left", "parts", "right", "size", "vectors")

    def __init__(
        self,
        vectors: Pattern,
        parts: dict[Counts, tuple[Counts, Counts]] | None = None,
        left: Sum | None = None,
        right: Sum | None = None,
        *,
        exact: bool = True,
    ) -> None:
        self.vectors = vectors
        self.parts = parts
        self.left = left
        self.right = right
        self.exact = exact
        self.size: int = left.size + right.size if left and right else 1

    def leaves(self, vector: Counts) -> Iterator[Counts]:
        """The vector of each leaf, left to right, that together make ``vector``."""
        if self.parts is None or self.left is None or self.right is None:
            yield vector
            return
        left, right = self.parts[vector]
        yield from self.left.leaves(left)
        yield from self.right.leaves(right)


def join(left: Sum, right: Sum, counts: Counts, stop: Stop | None = None) -> Sum:
    """Every sum of a left and a right vector, clipped at ``counts``, maximal only.

    Raises OutOfTime.
    """
    parts: dict[Counts, tuple[Counts, Counts]] = {}
    for a in left.vectors:
        if stop is not None:
            stop.check()
        for b in right.vectors:
            total = tuple(min(x + y, c) for x, y, c in zip(a, b, counts, strict=True))
            parts.setdefault(total, (a, b))
    if len(parts) > 1:
        keep = maximal(parts, stop)
        parts = {vector: parts[vector] for vector in keep}
    exact = left.exact and right.exact
    vectors = tuple(parts)
    if len(vectors) > WIDEST:
        vectors = tuple(sorted(vectors, key=lambda v: (-sum(v), v))[:WIDEST])
        exact = False
    return Sum(vectors, parts, left, right, exact=exact)


def times(pattern: Pattern, nodes: int, counts: Counts, stop: Stop | None = None) -> Sum:
    """The same pattern on ``nodes`` (>= 1) nodes, by doubling. Raises OutOfTime."""
    if nodes == 1:
        clipped = maximal(tuple(map(min, vector, counts)) for vector in pattern)
        return Sum(clipped)
    half = times(pattern, nodes // 2, counts, stop)
    both = join(half, half, counts, stop)
    return join(both, times(pattern, 1, counts), counts, stop) if nodes % 2 else both


def below(vectors: Pattern, limits: Sequence[tuple[frozenset[int], int]]) -> Pattern:
    """The maximal vectors under ``vectors`` that keep within every limit."""
    current = vectors
    for classes, limit in limits:
        lowered: list[Counts] = []
        for vector in current:
            excess = sum(vector[c] for c in classes) - limit
            if excess <= 0:
                lowered.append(vector)
            else:
                lowered += _lowered(vector, sorted(classes), excess)
        current = maximal(lowered)
    return current


def _lowered(vector: Counts, classes: Sequence[int], excess: int) -> Iterator[Counts]:
    """All ways to take ``excess`` members away from these classes."""
    if not classes:
        if excess == 0:
            yield vector
        return
    cls, rest = classes[0], classes[1:]
    for less in range(min(excess, vector[cls]), -1, -1):
        lowered = (*vector[:cls], vector[cls] - less, *vector[cls + 1 :])
        yield from _lowered(lowered, rest, excess - less)


def all_below(vectors: Pattern) -> tuple[Counts, ...]:
    """Every vector that some vector of the pattern dominates, once, descending."""
    seen: set[Counts] = set()
    for vector in vectors:
        seen.update(product(*(range(k + 1) for k in vector)))
    return tuple(sorted(seen, reverse=True))
