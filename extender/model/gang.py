"""A gang as the resolver found it: who belongs to it and how it may be disrupted."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from msgspec import Struct

from extender.model.objects import GangKey, Pod

UNIT_ALL: Final = "all"
UNIT_SINGLE: Final = "single"


class Gang(Struct, frozen=True, dict=True):
    """A group of pods that starts whole, and may have to be evicted whole.

    ``problems`` is what a person must repair (conflicting dialects, missing
    object, minCount out of range); a gang with problems is not planned for, and as
    victims its pods are single ones, each at its own priority: no tenant is spared for a
    mistake.
    """

    key: GangKey
    members: tuple[Pod, ...]
    """Non-finished pods, by (created, uid). Terminating ones included."""
    min_count: int
    """Quorum; with size_known False the number of non-finished members."""
    size_known: bool = True
    unit: str = UNIT_SINGLE
    """UNIT_ALL: evicted whole or not at all. UNIT_SINGLE: surplus first."""
    starts_whole: bool = True
    """False: members are scheduled one by one; the gang matters only as a victim."""
    preemptor_priority: int = 0
    """Used when the gang wants room: the lowest where members differ."""
    victim_priority: int = 0
    """The least at which a member may be evicted, and what the end of the gang counts as: what
    the group states, else the lowest of its members. A member of a higher one goes at that."""
    preempts: bool = True
    topology_key: str = ""
    """All members inside one value of this node label ("" = no such rule)."""
    preferred_topology_key: str = ""
    """The same as a wish: never a reason to refuse. Only without topology_key."""
    followers: tuple[Pod, ...] = ()
    """Pods that are made once members run, foreseen from their owner's template: the quorum does
    not wait for them, and nobody is evicted unless there can be room for them too."""
    whole_from: int | None = None
    """As a victim it goes whole when so many are bound; None: min_count. Less where some of the
    size may have finished, which an owner tells late or not at all."""
    patience: float | None = None
    """Seconds that its owner waits for members to get a node, None when that is not known."""
    problems: tuple[str, ...] = ()
    unplanned: tuple[str, ...] = ()
    """Why it is not planned for although nothing is wrong with it: what it asks for cannot be
    kept. As a victim it is what it says."""
    notes: tuple[str, ...] = ()
    """Assumptions worth telling (unknown size, differing priorities)."""

    @cached_property
    def bound(self) -> tuple[Pod, ...]:
        """Members on a node that are not on their way out."""
        return tuple(p for p in self.members if p.node and not p.deleting)

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """Members that still want a seat."""
        return tuple(p for p in self.members if not p.node and not p.deleting and not p.gated)

    @property
    def in_order(self) -> bool:
        """Whether its definition is no reason to refuse it."""
        return not (self.problems or self.unplanned)

    @property
    def missing(self) -> int:
        """How many seats the quorum still lacks."""
        return max(0, self.min_count - len(self.bound))

    @property
    def complete(self) -> bool:
        """Whether enough ungated members exist to reach the quorum."""
        return len(self.bound) + len(self.pending) >= self.min_count

    @property
    def goes_whole(self) -> bool:
        """Whether it is evicted whole or not at all: a unit, and one that has come together.

        Members of a gang below its quorum lose nothing together. One whose members do not wait
        for each other has no quorum: whoever of it runs does its work. What a gang with problems
        would be is not known.
        """
        needed = self.min_count if self.whole_from is None else self.whole_from
        together = max(1, needed) if self.starts_whole else 1
        return not self.problems and self.unit == UNIT_ALL and len(self.bound) >= together
