"""What the census is told of nodes and pods, and what it is asked."""

from __future__ import annotations

from typing import Any, NamedTuple

from extender.search.problem import Vector

FREE = -(1 << 40)
"""Below every priority: room that costs no eviction, of pods that terminate already."""
STAYS = 1 << 40
"""Above every priority: a pod that never goes."""
SHUT = 1 << 41
"""Above those: the priority at which a node opens that never does."""
MOST_STEPS = 64
"""Where more members than this could be gained on a node, or with several classes more ways to seat
them, no pod is left out."""
ENDLESS = 1 << 30
"""More members than any gang has."""
LARGEST = 1 << 52
"""The compiled census takes no amount beyond this, no more than 2^62 of anything from the pods of
one node, and no more than 2^60 held by the seats of others there: every sum is then an int64."""

LEAST = -(1 << 63)
"""A node that is short of more than this is said to be short of so much, and offers nothing."""

NumberedAmounts = tuple[tuple[int, int], ...]
"""(resource number, amount), each resource at most once, amounts not negative."""


class Holder(NamedTuple):
    """One pod on a node."""

    priority: int
    """At which it goes; FREE or STAYS."""
    gang: int
    """A number that the caller gave its gang, -1 for none."""
    whole: bool
    """It goes with its whole gang only. All of these share a priority."""
    covered: bool
    """A disruption budget may speak for it."""
    requests: NumberedAmounts
    subject: Any
    """What the caller wants handed back."""


class OffersQuestion(NamedTuple):
    """All of a preemptor that a node's offer depends on. R resources, C member classes."""

    resources: tuple[int, ...]
    """(R,) resource numbers."""
    requests: tuple[Vector, ...]
    """C times (R,)."""
    below: int
    """Pods of this priority and above stay."""
    own: int
    """Number of the preemptor's gang: its pods neither go nor stay in the way, but the room
    of those that terminate is waited for as anybody's. -1: none."""
    counts: tuple[int, ...] = ()
    """(C,) members of each class; (): that is not known."""


class Seatings(NamedTuple):
    """What other gangs' untaken seats take on one node."""

    held: Vector
    """(R,)"""
    spare: Vector
    """(R,) the part of it that the preemptor may take over."""


Releases = tuple[tuple[int, Vector], ...]


class Gathered(NamedTuple):
    """Pods worth looking at, with what their end releases: (node position, (R,)) pairs."""

    alone: list[tuple[Any, Releases]]
    """Subject, releases; in order of nodes, then as put."""
    leaving: list[tuple[Any, Releases]]
    """Pods at priority FREE."""
    whole: dict[int, Releases]
    """Gang number -> releases of all its pods."""
