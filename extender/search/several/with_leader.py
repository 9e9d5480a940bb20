"""A leader and its workers: what the workers cost alone, and one seat more.

Workers ask for whole nodes, the leader for a part of one. Its seat is then one that a worker
could have, or one that units of its own node make room for. In the first case the same units
seat one more worker, so they cost no less than the cheapest seats for that many. In the second
the other units seat the workers, so all cost no less than the cheapest seats for the workers and
the cheapest room for the leader together. The least of the two is a lower bound, and mostly an
answer. Each is a question of one class, which the core answers.

It is for problems where no node has a third case, and gives None for all others.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import reduce
from itertools import chain, combinations

from msgspec import Struct
from msgspec.structs import replace

from extender.search.core.branch_and_bound import BranchAndBound
from extender.search.core.columns import Columns, Doubtful
from extender.search.problem import Limits, Problem, Solution, Vector
from extender.search.problem.cost import add, broken_budgets, cost_of
from extender.search.problem.stop import Flag, OutOfTime, Stop, part_of
from extender.search.problem.types import states_only
from extender.search.several.reductions import alone

SHARE = 0.5
"""Of the time that is left: where it answers it does so soon."""
MOST_NODES = 8
"""The leader's cheapest nodes that are looked at where workers want the same ones."""
MOST_SPANNING = 3
"""Units on a node that touch other nodes as well."""
KEPT = frozenset(("gangs", "budgets", "domain_required", "domain_level", "fill"))
"""The RULES that are looked at here, or say nothing without a domain."""


class _Answer(Struct, frozen=True):
    """Units, what they cost, and where the members sit: (class, node) -> members."""

    cost: Vector
    chosen: frozenset[int]
    seats: dict[tuple[int, int], int]


def takes(problem: Problem) -> bool:
    """Whether the problem has one leader, and workers all of whom are needed."""
    counts = sorted(cls.count for cls in problem.classes)
    return (
        len(counts) == 2
        and counts[0] == 1 < counts[1]
        and problem.need == sum(counts)
        and states_only(problem, KEPT)
        and all(any(unit.cost) for unit in problem.units)
    )


def solve(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | None:
    """Return the optimum of a problem that ``takes`` accepts; None: another way is needed."""
    stop = Stop(limits, part_of(deadline, SHARE), cancel)
    try:
        search = _Search(problem, stop)
        found = search.best() if search.two_cases() else None
    except (Doubtful, OutOfTime):
        return None
    if found is None:
        return None
    seats = tuple(sorted((cls, n, members) for (cls, n), members in found.seats.items()))
    return Solution(
        seats=seats,
        chosen=tuple(sorted(found.chosen)),
        cost=found.cost,
        bound=found.cost,
        optimal=True,
        branch_nodes=stop.used,
    )


class _Search:
    """The questions of one problem."""

    def __init__(self, problem: Problem, stop: Stop) -> None:
        self.problem, self.stop = problem, stop
        self.leader = next(c for c, cls in enumerate(problem.classes) if cls.count == 1)
        self.workers = 1 - self.leader
        self.count = problem.classes[self.workers].count
        self.spanning = frozenset(
            u for u, unit in enumerate(problem.units) if len(unit.releases) > 1
        )
        self.beside = [0] * len(problem.nodes)
        """(N,) workers that fit with nobody gone."""

    def two_cases(self) -> bool:
        """Whether wherever the leader sits one more worker fits in its place, or units of that
        node alone are gone for it; notes what fits ``beside``."""
        problem = self.problem
        leader, worker = (problem.classes[c] for c in (self.leader, self.workers))
        sums = [list(column) for column in problem.free]
        others: dict[int, list[Vector]] = {}
        for u, unit in enumerate(problem.units):
            for n, amounts in unit.releases:
                if u in self.spanning:
                    others.setdefault(n, []).append(amounts)
                else:
                    for column, amount in zip(sums, amounts, strict=True):
                        column[n] += amount
        known: dict[object, int] = {}
        rooms = zip(zip(*problem.free, strict=True), zip(*sums, strict=True), strict=True)
        for n, (free, whole) in enumerate(rooms):
            if not leader.allowed[n]:
                continue
            key = (free, whole, tuple(others.get(n, ())), worker.allowed[n])
            if key not in known:
                known[key] = self._beside(*key, leader.request, worker.request)
            if known[key] < 0:
                return False
            self.beside[n] = known[key]
        return True

    def _beside(
        self,
        free: Vector,
        whole: Vector,
        others: tuple[Vector, ...],
        allowed: int,
        leader: Vector,
        worker: Vector,
    ) -> int:
        """Workers on a node that fit beside the leader's room; -1 where there is a third case."""
        if len(others) > MOST_SPANNING:
            return -1
        found = 0
        for gone in chain.from_iterable(combinations(others, k) for k in range(len(others) + 1)):
            room, most = free, whole
            for amounts in gone:
                room, most = add(room, amounts), add(most, amounts)
            fit = self._fit(room, worker) if allowed else 0
            if not gone:
                found = fit
                # No further worker sits there because of what is gone for both.
                fit += 1
            if (gone or allowed) and self._holds(most, worker, fit, leader):
                return -1
        return found

    def _fit(self, room: Vector, request: Vector) -> int:
        fits = (max(0, have) // ask for have, ask in zip(room, request, strict=True) if ask > 0)
        return min(fits, default=self.count)

    @staticmethod
    def _holds(room: Vector, worker: Vector, workers: int, leader: Vector) -> bool:
        """Whether so many workers and the leader fit."""
        wanted = [workers * ask + more for ask, more in zip(worker, leader, strict=True)]
        return all(have >= ask for have, ask in zip(room, wanted, strict=True) if ask > 0)

    def best(self) -> _Answer | None:
        """The optimum; None where it is not known."""
        everywhere = bytes([1]) * len(self.problem.nodes)
        columns = Columns(alone(self.problem, self.workers, self.count + 1))
        base = self._workers(columns, self.count, everywhere)
        if base is None:
            return None
        more = self._workers(columns, self.count + 1, everywhere)
        best = self._with_a_workers_seat(more) if more is not None else None
        nodes, lone = bytearray(everywhere), self._lone()
        for _ in range(MOST_NODES):
            seat = self._core(lone, 1, bytes(nodes), self.spanning)
            if seat is None:
                break
            chosen, ((n, _),) = seat
            paid = self._sum(chosen)
            if best is not None and best.cost <= add(base.cost, paid):
                break
            free = base.seats.get((self.workers, n), 0) <= self.beside[n]
            if not free and self.beside[n]:
                return None
            nodes[n] = 0
            others = everywhere[:n] + b"\0" + everywhere[n + 1 :]
            rest = base if free else self._workers(columns, self.count, others)
            if rest is None:
                continue
            every = rest.chosen.union(chosen)
            answer = _Answer(
                cost_of(self.problem, every), every, {**rest.seats, (self.leader, n): 1}
            )
            if answer.cost != add(rest.cost, paid) or broken_budgets(self.problem, every):
                return None  # they share a gang or a budget
            best = answer if best is None or answer.cost < best.cost else best
            if free:
                break
        else:
            return None
        return None if best is None or (more is not None and more.cost < best.cost) else best

    def _sum(self, units: Iterable[int]) -> Vector:
        """What the units cost, gangs and budgets aside."""
        nothing = (0,) * len(self.problem.levels)
        return reduce(add, (self.problem.units[u].cost for u in units), nothing)

    def _lone(self) -> Columns:
        """The leader's problem beside the workers who sit for nothing; gangs and budgets aside."""
        one = alone(self.problem, self.leader, 1)
        request = self.problem.classes[self.workers].request
        return Columns(
            replace(
                one,
                free=tuple(
                    array(
                        "q", (have - ask * k for have, k in zip(column, self.beside, strict=True))
                    )
                    for column, ask in zip(one.free, request, strict=True)
                ),
                units=tuple(replace(unit, gang=-1, budgets=()) for unit in one.units),
                gangs=(),
                budgets=(),
            )
        )

    def _workers(self, columns: Columns, need: int, inside: bytes) -> _Answer | None:
        """Seats for so many workers on these nodes at least cost; None where there are none."""
        found = self._core(columns, need, inside)
        if found is None:
            return None
        chosen, seats = found
        return _Answer(
            cost_of(self.problem, chosen),
            frozenset(chosen),
            {(self.workers, n): members for n, members in seats},
        )

    def _with_a_workers_seat(self, more: _Answer) -> _Answer | None:
        """The answer in which the leader has the seat of a worker; None where it cannot."""
        leader, worker = (self.problem.classes[c] for c in (self.leader, self.workers))
        if any(a > b for a, b in zip(leader.request, worker.request, strict=True)):
            return None
        for (cls, n), members in more.seats.items():
            if leader.allowed[n]:
                seats = {**more.seats, (cls, n): members - 1, (self.leader, n): 1}
                return replace(more, seats={at: k for at, k in seats.items() if k})
        return None

    def _core(
        self, columns: Columns, need: int, inside: bytes, kept: Iterable[int] = ()
    ) -> tuple[list[int], list[tuple[int, int]]] | None:
        """The cheapest units and the seats that they make. Raises OutOfTime."""
        core = BranchAndBound(columns, inside, -1, (), kept, need)
        if not core.possible:
            return None
        chosen: list[int] | None
        if core.settled_free:
            chosen = core.free_answer()
        else:
            self.stop.check()
            chosen, _, closed, branches = core.search(
                None, self.stop.left, self.stop.deadline, self.stop.cancel
            )
            self.stop.used += branches
            if not closed:
                raise OutOfTime
        return None if chosen is None else (chosen, core.seats(chosen, fill=False))
