"""A problem of the search, and what its indices stand for."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from extender.gang.incremental.victims import VictimUnit
from extender.model.objects import GangKey, Pod
from extender.search.problem import (
    Problem,
)

if TYPE_CHECKING:
    pass


class Built(Struct, frozen=True):
    """A problem and what its indices stand for."""

    problem: Problem
    classes: tuple[tuple[Pod, ...], ...]
    """Members of each class, by uid."""
    subjects: tuple[VictimUnit | Pod | GangKey, ...]
    """What each unit is: victims, a terminating pod, or a gang whose seats are taken over."""
    usable: int
    """Nodes that some member may use, room aside."""
    cut: int | None
    """Units above this priority were left out: they are not needed. None: none were."""
    stays: int
    """Pods on usable nodes that may not be evicted."""
    slow: tuple[Pod, ...] = ()
    """Pods that could make room, but not within the patience of the gang's owner."""
    counted: Mapping[int, tuple[tuple[int, int], ...]] = {}
    """Unit -> (spread rule, domain) of each of its pods, or seats, that the rule counts."""
    strangers: frozenset[str] = frozenset()
    """Uids of the pods that some spread rule counts and that are not of the gang."""
    blocked: Sequence[Mapping[str, tuple[str, ...]]] = ()
    """Of each class: node -> uids of the pods that must go first."""
    dear: bool = False
    """Some victims cost less than is asked for: what several parts of their gang may lose depends
    on each other (ElasticCandidate.at_best)."""


class ProblemNodes(Struct, frozen=True):
    """The nodes that a problem is about."""

    names: tuple[str, ...]
    masks: Sequence[bytes]
    """Of each class, by node: 1 where a member may sit, room aside."""
    room: tuple[array[int], ...]
    """Of each resource, by node."""
    blocked: Sequence[Mapping[str, tuple[str, ...]]] = ()
    """Of each class: node -> uids of the pods that must go first."""
    strict: bool = False
    """Spread rules hold whichever of the counted pods go."""
    relaxed: bool = False
    """It has every answer, at no more than it costs, and others: spread rules as far as they hold
    in whatever order members come (Spreading), and parts of gangs at their best (Built.dear)."""
