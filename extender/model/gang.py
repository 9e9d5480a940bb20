"""A gang as the resolver found it: who belongs to it and how it may be disrupted."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final

from msgspec import Struct

from extender.model.objects import GangKey, Pod
from extender.model.owner_budget import OwnerBudget

UNIT_ALL: Final = "all"
UNIT_SINGLE: Final = "single"


class GangPart(Struct, frozen=True):
    """Members of which the gang needs a number of their own: a Volcano task, a KAI subgroup."""

    name: str
    uids: frozenset[str]
    """Of the members that belong to it, those that are done included. No member belongs to two
    parts."""
    least: int
    """At least 1."""

    def lacks(self, uids: AbstractSet[str]) -> int:
        """How many of it are missing among these members."""
        return max(0, self.least - len(self.uids & uids))


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
    before: frozenset[str] = frozenset()
    """Uids of members that are no part of the quorum and want no seat: what made them was deleted
    before an owner of the same name was made, or it is being deleted."""
    lost: frozenset[str] = frozenset()
    """Uids of members bound to a node that is not known: no part of the quorum, and no seat can be
    found for them. As a victim the gang is what it was with them."""
    parts: tuple[GangPart, ...] = ()
    """Parts that need a number of members of their own, within the quorum or beside it."""
    budget: OwnerBudget | None = None
    """How many of its pods its owner can do without, where that counts (model.policy)."""
    size_known: bool = True
    unit: str = UNIT_SINGLE
    """UNIT_ALL: evicted whole or not at all. UNIT_SINGLE: surplus first."""
    starts_whole: bool = True
    """False: members are scheduled one by one; the gang matters only as a victim."""
    preemptor_priority: int = 0
    """Used when the gang wants room: the lowest of those that do not leave, where members differ.
    None of these is evicted for a gang that it may evict, so the two do not take turns."""
    victim_priority: int = 0
    """The least at which a member may be evicted, and what the end of the gang counts as: what
    the group states, else the lowest of its members. A member of a higher one goes at that."""
    preempts: bool = True
    topology_key: str = ""
    """All members inside one value of this node label ("" = no such rule)."""
    preferred_topology_key: str = ""
    """The same as a wish: never a reason to refuse. Beside topology_key: inside one domain
    of that."""
    followers: tuple[Pod, ...] = ()
    """Pods that are made once members run, foreseen from their owner's template: the quorum does
    not wait for them, and no pod is evicted unless there can be room for them too."""
    whole_from: int | None = None
    """As a victim it goes whole when so many are bound; None: min_count. Less where some of the
    size may have finished, which an owner tells late or not at all."""
    asked: GangKey | None = None
    """The gang that its members would be by their owner, where that was asked for more of it."""
    owners: tuple[str, ...] = ()
    """Names of objects of its namespace that were asked: what made its members, and whether those
    are being deleted; which Jobs tell how many members are done."""
    ended: int = 0
    """How many members that have succeeded stand in for others, in min_count or a part."""
    patience: float | None = None
    """Seconds that its owner waits for members to get a node, None when that is not known."""
    problems: tuple[str, ...] = ()
    unplanned: tuple[str, ...] = ()
    """Why it is not planned for although nothing is wrong with it: what it asks for cannot be
    kept. As a victim it is what it says."""
    awaits: tuple[str, ...] = ()
    """Why pods of it on nodes are about to go, where it can do without them: no plan is begun
    before they terminate, and one in progress goes on."""
    notes: tuple[str, ...] = ()
    """Assumptions worth telling (unknown size, differing priorities)."""

    @cached_property
    def bound(self) -> tuple[Pod, ...]:
        """Members on a node that are not on their way out."""
        return tuple(p for p in self.members if p.node and not p.deleting)

    @cached_property
    def present(self) -> tuple[Pod, ...]:
        """Members of the present owner: what the gang waits for and since when is theirs alone."""
        if not self.before:
            return self.members
        return tuple(p for p in self.members if p.uid not in self.before)

    @cached_property
    def placed(self) -> tuple[Pod, ...]:
        """Those of them that are on a node and not on their way out."""
        return tuple(p for p in self.bound if p.uid not in self.before)

    @cached_property
    def seated(self) -> tuple[Pod, ...]:
        """Those of them that count for its quorum."""
        return tuple(p for p in self.placed if p.uid not in self.lost)

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """Members that still want a seat."""
        return tuple(
            p
            for p in self.members
            if not p.node and not p.deleting and not p.gated and p.uid not in self.before
        )

    @cached_property
    def gated(self) -> tuple[Pod, ...]:
        """Members that nobody may schedule yet: they want no seat and count for no quorum."""
        return tuple(p for p in self.present if p.gated and not p.node and not p.deleting)

    @property
    def settles(self) -> bool:
        """Whether it is not known how many members are still to come: no size is stated, or some
        are done and its controller makes the others one after the other."""
        return not self.size_known or self.ended > 0

    @property
    def in_order(self) -> bool:
        """Whether its definition is no reason to refuse it."""
        return not (self.problems or self.unplanned)

    @cached_property
    def lacks(self) -> tuple[int, ...]:
        """How many seats each of its parts still lacks, as in ``parts``."""
        bound = {pod.uid for pod in self.seated} if self.parts else set()
        return tuple(part.lacks(bound) for part in self.parts)

    @property
    def missing(self) -> int:
        """How many seats the quorum still lacks, that of each part included."""
        return max(0, self.min_count - len(self.seated), sum(self.lacks))

    @property
    def surplus(self) -> int:
        """How many members, whichever they are, its quorum can lose as a victim; below 0: what it
        lacks."""
        bound = {pod.uid for pod in self.placed}
        parts = (len(part.uids & bound) - part.least for part in self.parts)
        return min((len(bound) - self.min_count, *parts))

    @property
    def complete(self) -> bool:
        """Whether enough ungated members exist to reach the quorum, that of each part included, and
        none of those that it needs may or may not be lost."""
        enough = len(self.seated) + len(self.pending) >= self.min_count
        return enough and not self.short_parts and not (self.lost and self.missing)

    @cached_property
    def short_parts(self) -> tuple[tuple[GangPart, int], ...]:
        """Parts of which too few ungated members exist, and how many of each do."""
        there = {p.uid for p in (*self.seated, *self.pending)} if self.parts else set()
        return tuple((p, len(p.uids & there)) for p in self.parts if p.lacks(there))

    def runs_with(self, uids: AbstractSet[str]) -> bool:
        """Whether these members would be its quorum, that of each part included."""
        return len(uids) >= self.min_count and not any(part.lacks(uids) for part in self.parts)

    @cached_property
    def kept(self) -> frozenset[str]:
        """Uids of bound members that its owner's budget keeps: all but as many as may go.

        All of a gang that goes whole, unless all may. Else the same ones stay while others go:
        the more urgent, then the younger.
        """
        if self.budget is None or self.problems:
            return frozenset()
        allowed = self.budget.allowed(len(self.members), len(self.bound))
        if self.goes_whole:
            allowed = 0 if allowed < len(self.bound) else allowed
        order = sorted(self.bound, key=lambda pod: (pod.priority, pod.created, pod.uid))
        return frozenset(pod.uid for pod in order[allowed:])

    @property
    def goes_whole(self) -> bool:
        """Whether it is evicted whole or not at all: a unit, and one that has come together.

        Members of a gang below its quorum lose nothing together, nor do those of one of whose
        parts too few run. One whose members do not wait for each other has no quorum: whoever of
        it runs does its work. What a gang with problems would be is not known.
        """
        needed = self.min_count if self.whole_from is None else self.whole_from
        together = max(1, needed) if self.starts_whole else 1
        if self.problems or self.unit != UNIT_ALL or len(self.bound) < together:
            return False
        if not self.starts_whole or self.whole_from is not None:
            return True
        bound = {pod.uid for pod in self.bound} if self.parts else set()
        return not any(part.lacks(bound) for part in self.parts)
