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
from math import prod
from typing import TypeAlias

from extender.search.problem.stop import Stop

Counts: TypeAlias = tuple[int, ...]
Pattern: TypeAlias = tuple[Counts, ...]

WIDEST = 20_000
"""More vectors than this in one sum are not kept: the packing is then inexact."""
MOST_STEPS = 5_000_000
"""Comparisons of one step that no deadline bounds; TooWide beyond."""


def maximal(
    vectors: Iterable[Counts], stop: Stop | None = None, ways: Ways | None = None
) -> Pattern:
    """The vectors that no other one of them dominates, in descending order.

    Raises OutOfTime, and TooWide where no deadline bounds the work, or ``ways`` are used up.
    """
    kept: list[Counts] = []
    steps = 0
    for at, vector in enumerate(sorted(set(vectors), reverse=True)):
        if stop is not None and at % 64 == 0:
            stop.check()
        steps += len(kept)
        if ways is not None and ways.all_work:
            ways.add(len(kept))
        if steps > MOST_STEPS and endless(stop):
            raise TooWide
        if not any(all(a >= b for a, b in zip(other, vector, strict=True)) for other in kept):
            kept.append(vector)
    return tuple(kept)


def endless(stop: Stop | None) -> bool:
    """Whether nothing but a person ends what this stop bounds."""
    return stop is None or not stop.hurried


class TooWide(Exception):  # noqa: N818 - a finding about the problem, not a fault
    """There are more ways to seat members on the nodes than are looked at one by one."""


class Ways:
    """How many vectors of members may still be looked at: a bound of work, not of time.

    ``total`` over all nodes, ``most`` on one of them, ``sums`` while nodes are added up;
    ``all_work``: comparisons and the sums of like nodes count as those do.
    """

    __slots__ = ("all_work", "left", "most", "sums")

    def __init__(
        self,
        total: int = 200_000,
        most: int = 3_000,
        sums: int = 300_000,
        *,
        all_work: bool = False,
    ) -> None:
        self.left = total
        self.most = most
        self.sums = sums
        self.all_work = all_work

    def add(self, sums: int) -> None:
        """Take so many sums. Raises TooWide when they are too many."""
        self.sums -= sums
        if self.sums < 0:
            raise TooWide


def node_pattern(
    room: Sequence[int],
    requests: Sequence[Sequence[int]],
    most: Sequence[int],
    limits: Sequence[tuple[frozenset[int], int]],
    ways: Ways | None = None,
) -> Pattern:
    """Maximal vectors of members on one node, in descending order.

    ``room`` (R,) amounts; ``requests`` (C, R); ``most`` (C,) members at most (0
    where the class may not use the node); ``limits`` pairs (classes, members of
    them at most). A resource that nobody seated asks for is not looked at, so a
    node short of it can still be used. Raises TooWide once ``ways`` are used up.

    What fits still fits with a member less. So a vector is maximal as soon as no class
    can have one member more: no vector needs to be compared with another.
    """
    found: list[Counts] = []
    looked, last = 0, len(most) - 1
    more = ways.most if ways is not None else 0

    def fitting(cls: int, left: Sequence[int], so_far: Sequence[int]) -> int:
        """Members of the class that fit on top of those so far, however many it has."""
        fits = most[cls]
        for have, ask in zip(left, requests[cls], strict=True):
            if ask > 0:
                fits = min(fits, max(0, have) // ask)
        for classes, limit in limits:
            if cls in classes:
                fits = min(fits, limit - sum(so_far[c] for c in classes if c < len(so_far)))
        return max(0, fits)

    def extend(cls: int, left: Sequence[int], so_far: Counts) -> None:
        nonlocal looked
        looked += 1
        if ways is not None and looked > more:
            raise TooWide
        fits = fitting(cls, left, so_far)
        for members in range(fits, -1 if cls < last else fits - 1, -1):
            rest = [have - ask * members for have, ask in zip(left, requests[cls], strict=True)]
            vector = (*so_far, members)
            if cls < last:
                extend(cls + 1, rest, vector)
            elif not any(vector[c] < most[c] and fitting(c, rest, vector) for c in range(last)):
                found.append(vector)

    if not most:
        return ((),)
    extend(0, room, ())
    if ways is not None:
        ways.left -= looked
        if ways.left < 0:
            raise TooWide
    return tuple(found)


class PatternSum:
    """A tree of patterns added up; remembers which parts made each vector.

    A leaf stands for one node. ``exact`` is False when vectors had to be
    dropped, so that "not among the vectors" no longer proves anything.
    """

    __slots__ = ("exact", "left", "parts", "right", "size", "vectors")

    def __init__(
        self,
        vectors: Pattern,
        parts: dict[Counts, tuple[Counts, Counts]] | None = None,
        left: PatternSum | None = None,
        right: PatternSum | None = None,
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


def join(
    left: PatternSum,
    right: PatternSum,
    counts: Counts,
    stop: Stop | None = None,
    ways: Ways | None = None,
) -> PatternSum:
    """Every sum of a left and a right vector, clipped at ``counts``, maximal only.

    Raises OutOfTime, and TooWide where no deadline bounds the work, or ``ways`` are used up.
    """
    parts: dict[Counts, tuple[Counts, Counts]] = {}
    if ways is not None and ways.all_work:
        ways.add(len(left.vectors) * len(right.vectors))
    if len(left.vectors) * len(right.vectors) > MOST_STEPS and endless(stop):
        raise TooWide
    for a in left.vectors:
        if stop is not None:
            stop.check()
        for b in right.vectors:
            total = tuple(min(x + y, c) for x, y, c in zip(a, b, counts, strict=True))
            parts.setdefault(total, (a, b))
    if len(parts) > 1:
        keep = maximal(parts, stop, ways)
        parts = {vector: parts[vector] for vector in keep}
    exact = left.exact and right.exact
    vectors = tuple(parts)
    if len(vectors) > WIDEST:
        vectors = tuple(sorted(vectors, key=lambda v: (-sum(v), v))[:WIDEST])
        exact = False
    return PatternSum(vectors, parts, left, right, exact=exact)


def times(
    pattern: Pattern,
    nodes: int,
    counts: Counts,
    stop: Stop | None = None,
    ways: Ways | None = None,
) -> PatternSum:
    """The same pattern on ``nodes`` (>= 1) nodes, by doubling. Raises as ``join``."""
    if nodes == 1:
        clipped = maximal((tuple(map(min, vector, counts)) for vector in pattern), stop, ways)
        return PatternSum(clipped)
    half = times(pattern, nodes // 2, counts, stop, ways)
    both = join(half, half, counts, stop, ways)
    if nodes % 2 == 0:
        return both
    return join(both, times(pattern, 1, counts, stop, ways), counts, stop, ways)


def below(
    vectors: Pattern,
    limits: Sequence[tuple[frozenset[int], int]],
    stop: Stop | None = None,
    ways: Ways | None = None,
) -> Pattern:
    """The maximal vectors under ``vectors`` that keep within every limit.

    Raises OutOfTime, and TooWide where they come to more than WIDEST, or ``ways`` are used up.
    """
    current = vectors
    for classes, limit in limits:
        lowered: set[Counts] = set()
        for vector in current:
            excess = sum(vector[c] for c in classes) - limit
            if excess <= 0:
                lowered.add(vector)
                continue
            for at, less in enumerate(ways_down(vector, sorted(classes), excess)):
                if stop is not None and at % 64 == 0:
                    stop.check()
                lowered.add(less)
                if len(lowered) > WIDEST:
                    raise TooWide
        current = maximal(lowered, stop, ways)
    return current


def ways_down(vector: Counts, classes: Sequence[int], excess: int) -> Iterator[Counts]:
    """What is left of a vector, for all ways to take ``excess`` members from these classes."""
    if not classes:
        if excess == 0:
            yield vector
        return
    cls, rest = classes[0], classes[1:]
    others = sum(vector[c] for c in rest)
    for less in range(min(excess, vector[cls]), max(0, excess - others) - 1, -1):
        lowered = (*vector[:cls], vector[cls] - less, *vector[cls + 1 :])
        yield from ways_down(lowered, rest, excess - less)


def all_below(vectors: Pattern, stop: Stop | None = None) -> tuple[Counts, ...]:
    """Every vector that some vector of the pattern dominates, once, descending.

    Raises OutOfTime, and TooWide where they come to more than WIDEST.
    """
    seen: set[Counts] = set()
    for vector in vectors:
        if prod(k + 1 for k in vector) > WIDEST:
            raise TooWide
        if stop is not None:
            stop.check()
        seen.update(product(*(range(k + 1) for k in vector)))
        if len(seen) > WIDEST:
            raise TooWide
    return tuple(sorted(seen, reverse=True))
