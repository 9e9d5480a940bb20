"""Members by part, where parts of a gang need a number of members of their own.

A class of the search may have a least number of seats, a sum over classes may not. So classes are
split where they hold members of several parts, and a part whose members are of one kind is a class
with its least. Of a part of unequal members the sum is not asked for at first. An answer that keeps
it all the same is an answer; else the sum is shared out among the kinds, and the question is asked
anew. What was found then is not called optimal, nor what was not found impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from extender.gang.incremental.classes import class_name
from extender.gang.incremental.planning_cache import PodClasses
from extender.model.gang import Gang
from extender.model.names import quoted
from extender.model.objects import Pod
from extender.search.problem import MemberClass, Solution, Vector

MOST_SHARES = 8
"""Ways to share the number of a part out among its kinds that are tried."""


class PartMinimum(Struct, frozen=True):
    """A part of unequal members: at least ``lacks`` seats for these classes together."""

    classes: tuple[int, ...]
    lacks: int


class PartClasses(Struct, frozen=True):
    """Classes of a gang, none of which holds members of two parts that lack seats."""

    classes: PodClasses
    least: tuple[int, ...] = ()
    """Of each class, in every plan."""
    sums: tuple[PartMinimum, ...] = ()
    """What more a plan has to keep."""
    names: tuple[str, ...] = ()
    """Of each class: the part that it is of, in quotes; "" for none."""

    def of_search(
        self, requests: Sequence[Vector], allowed: Iterable[bytearray], least: Sequence[int]
    ) -> tuple[MemberClass, ...]:
        """Return them for the search; ``allowed``: where each may sit, ``least``: () for none."""
        none = (0,) * len(self.classes)
        names = self.names or ("",) * len(self.classes)
        return tuple(
            MemberClass(class_name(group, part), request, len(group), bytes(mask), few)
            for group, part, request, mask, few in zip(
                self.classes, names, requests, allowed, least or none, strict=True
            )
        )

    def kept_by(self, solution: Solution) -> bool:
        """Whether the solution seats enough members of every part."""
        seated = self._seated(solution)
        return all(sum(seated[c] for c in each.classes) >= each.lacks for each in self.sums)

    def shares(self, solution: Solution) -> Iterable[tuple[int, ...]]:
        """Yield leasts that keep the sums: near to this solution, then less so."""
        seated = self._seated(solution)
        kinds = max((len(each.classes) for each in self.sums), default=0)
        tried: set[tuple[int, ...]] = set()
        for at in range(min(kinds, MOST_SHARES)):
            least = self._shared(seated, at)
            if least not in tried:
                tried.add(least)
                yield least
        least = self._shared([0] * len(self.classes), 0)
        if least not in tried:
            yield least

    def _shared(self, seated: Sequence[int], turn: int) -> tuple[int, ...]:
        """Begin with what is seated; top up beginning with kind number ``turn``, smallest first."""
        least = list(self.least)
        for each in self.sums:
            for c in each.classes:
                least[c] = max(least[c], seated[c])
            order = each.classes[::-1]  # the largest requests are the first classes
            start = turn % len(order)
            for c in (*order[start:], *order[:start]):
                more = each.lacks - sum(least[c] for c in each.classes)
                least[c] += max(0, min(more, len(self.classes[c]) - least[c]))
        return tuple(least)

    def _seated(self, solution: Solution) -> list[int]:
        seated = [0] * len(self.classes)
        for cls, _, members in solution.seats:
            seated[cls] += members
        return seated


def by_part(classes: PodClasses, gang: Gang, need: int) -> PartClasses:
    """Split the classes of the gang's waiting members by those of its parts that lack seats.

    ``need``: seats that the gang lacks. Where everybody is needed parts ask for nothing more.
    """
    if need >= sum(map(len, classes)) or not any(gang.lacks):
        return PartClasses(classes)
    lacks = {at: lack for at, lack in enumerate(gang.lacks) if lack}
    part_of = {uid: at for at in lacks for uid in gang.parts[at].uids}
    split: list[tuple[Pod, ...]] = []
    parts: list[int] = []
    for group in classes:
        within: dict[int, list[Pod]] = {}
        for pod in group:
            within.setdefault(part_of.get(pod.uid, -1), []).append(pod)
        for at, pods in sorted(within.items()):
            split.append(tuple(pods))
            parts.append(at)
    least = [0] * len(split)
    sums: list[PartMinimum] = []
    for at, lack in lacks.items():
        own = tuple(c for c, part in enumerate(parts) if part == at)
        there = sum(len(split[c]) for c in own)
        for c in own:  # as many as the others of the part cannot make up for
            least[c] = max(0, lack - (there - len(split[c])))
        if sum(least[c] for c in own) < lack:
            sums.append(PartMinimum(own, lack))
    names = tuple("" if at < 0 else quoted(gang.parts[at].name) for at in parts)
    return PartClasses(tuple(split), tuple(least), tuple(sums), names)
