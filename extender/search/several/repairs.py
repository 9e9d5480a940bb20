"""Changed problems whose answers may be answers of the true one, where its bound's are not.

Ask for a few seats more, let every member ask what the largest asks, close a domain that is
full. They prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from extender.search.problem import Cap, Problem
from extender.search.problem.stop import Stop
from extender.search.problem.types import restated
from extender.search.several.parts import OneClass, binds_several, shut
from extender.search.several.reductions import largest

REPAIRS = 16
"""Domains closed one after the other, and seats asked in addition, at most."""
LOOKS = 200
"""Branches of the core for the question which domain is full."""


class Repairs:
    """Changes to the problem of each class, in one region."""

    def __init__(
        self,
        problem: Problem,
        parts: Sequence[OneClass],
        nodes: Sequence[int],
        inside: bytes,
        extra: int,
    ) -> None:
        self.problem = problem
        self.parts = parts
        self.nodes = nodes
        self.inside, self.extra = inside, extra

    def changed(self, stop: Stop) -> Iterator[OneClass]:
        """The changed problems, one after the other."""
        return chain(self._roomier(), self._closed(stop))

    def _roomier(self) -> Iterator[OneClass]:
        """All members as one class that asks the most of each; then seats for the others
        asked for in each class."""
        problem = self.problem
        classes = problem.classes
        if len(classes) == 1:
            return
        one = largest(problem)
        total = one.count
        rest = {"gangs": problem.gangs, "budgets": problem.budgets}
        yield OneClass(restated(problem, classes=(one,), **rest), 0, total)
        for part in self.parts:
            others = total - part.problem.need
            for more in range(1, min(REPAIRS, others) + 1):
                yield OneClass(problem, part.cls, part.problem.need + more)

    def _closed(self, stop: Stop) -> Iterator[OneClass]:
        """The first class's problem with the full domains of its caps closed, step by step."""
        wide = [cap for cap in self.problem.caps if binds_several(cap, self.nodes)]
        for part in self.parts:
            for cap in wide:
                if part.cls in cap.classes:
                    yield from self._close(part, cap, stop)

    def _close(self, part: OneClass, cap: Cap, stop: Stop) -> Iterator[OneClass]:
        current = part
        done: set[int] = set()
        for _ in range(REPAIRS):
            core = current.core(self.inside, self.extra)
            if not core.possible:
                return
            chosen: list[int] | None
            if core.settled_free:
                chosen = core.free_answer()
            else:
                chosen, _, _, _ = core.search(None, LOOKS, stop.deadline, stop.cancel)
            if chosen is None:
                return
            loads: dict[int, list[tuple[int, int]]] = {}
            for n, members in core.seats(chosen, fill=False):
                loads.setdefault(cap.domain[n], []).append((n, members))
            full = [
                d
                for d, seats in loads.items()
                if d >= 0 and d not in done and sum(m for _, m in seats) > cap.limit
            ]
            if not full:
                return
            closed = current.problem
            for domain in full:
                done.add(domain)
                closed = shut(closed, cap, domain, loads[domain])
            current = OneClass(closed, 0, closed.need)
            yield current
