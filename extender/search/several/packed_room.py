"""A room that asks the compiled core whether several classes fit (core/packing.pyx)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.search.core.packing import Packing
from extender.search.problem import Problem
from extender.search.seating.patterns import Counts, Pattern, TooWide, Ways
from extender.search.seating.room import Room

YES, NO, UNKNOWN = 1, 0, -1


class PackedRoom(Room):
    """Room for several classes where no rule binds several nodes; else as Room."""

    def __init__(self, problem: Problem, region: Sequence[int], ways: Ways | None = None) -> None:
        self._packing: Packing | None = None
        self._numbers: dict[Pattern, int] = {}
        super().__init__(problem, region, ways)
        if not (self._simple or self._wide or problem.spreads):
            self._packing = Packing(self._counts, self._least, problem.need)

    @property
    def packs(self) -> bool:
        """Whether the core decides what fits, which is quick."""
        return self._packing is not None or self._simple

    def verdict(self) -> int:
        """YES, NO, or UNKNOWN: too many ways, or the search is over."""
        if self._packing is None:
            return YES if super().fits() else NO
        wanted = max(self.problem.need, sum(self._least))
        if self._seats < wanted:
            return NO
        deadline, cancel = (self.stop.deadline, self.stop.cancel) if self.stop else (0.0, None)
        return self._packing.fits(self._asked(self._packing), deadline, cancel)

    def fits(self) -> bool:
        """Whether need and every least are met for sure under the units chosen now."""
        return self.verdict() == YES

    def hopeless(self) -> bool:
        """Whether it is sure that the gang does not fit."""
        return self.verdict() == NO

    def _ordered(self) -> list[Pattern]:
        """The patterns there are, those that seat most first."""
        found = {pattern for _, pattern in self._groups}
        return sorted(found, key=lambda pattern: (-self.seats_of(pattern), pattern))

    def _asked(self, packing: Packing) -> list[tuple[int, int]]:
        """(pattern's number, nodes), those that seat most first."""
        nodes: dict[Pattern, int] = {}
        for (_, pattern), count in self._groups.items():
            nodes[pattern] = nodes.get(pattern, 0) + count
        asked = []
        for pattern in self._ordered():
            number = self._numbers.get(pattern)
            if number is None:
                number = self._numbers[pattern] = packing.add(pattern)
            asked.append((number, nodes[pattern]))
        return asked

    def place(self) -> tuple[tuple[int, int, int], ...]:
        """As Room.place. Raises TooWide where the core cannot tell who sits where."""
        if self._packing is None:
            return super().place()
        rows = self._packing.seat(self._asked(self._packing), self.problem.fill)
        if rows is None:
            raise TooWide
        nodes: dict[Pattern, list[int]] = {}
        for n in self._order():
            nodes.setdefault(self._now[n], []).append(n)
        every = [n for pattern in self._ordered() for n in nodes[pattern]]
        inside = {n: row for n, row in zip(every, rows, strict=True) if any(row)}
        return tuple(
            sorted(
                (cls, n, members)
                for n, vector in self._trim(inside, self._wanted(inside.values()), {}).items()
                for cls, members in enumerate(vector)
                if members
            )
        )

    def _wanted(self, rows: Iterable[Counts]) -> Counts:
        """(C,) members to seat of those that the rows hold."""
        have = [0] * len(self._counts)
        for row in rows:
            for c, members in enumerate(row):
                have[c] += members
        most = [min(a, b) for a, b in zip(have, self._counts, strict=True)]
        if self.problem.fill:
            return tuple(most)
        wanted = list(self._least)
        for c, members in enumerate(most):
            wanted[c] += max(0, min(members - wanted[c], self.problem.need - sum(wanted)))
        return tuple(wanted)
