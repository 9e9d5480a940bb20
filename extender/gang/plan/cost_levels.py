"""The cost vector of one problem: an order of levels, spelled out for its victims.

"by-priority" becomes two levels for each priority among the candidates, gangs broken before pods
evicted, from the highest down. "work-by-priority" becomes three: the work lost comes before both.
For a gang whose owner gives up after a while, pods that end too late come before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extender.gang.incremental.victim_costs import VictimSums
from extender.gang.incremental.victims import ONE, ElasticCandidate, VictimUnit
from extender.model.snapshot import Snapshot
from extender.search.problem import Vector
from extender.settings.cost_order import CostLevel


class CostLevels:
    """Names of the levels and the vectors of units."""

    def __init__(
        self,
        order: tuple[CostLevel, ...],
        priorities: Iterable[int],
        snapshot: Snapshot,
        slow: Mapping[str, int],
        restart_seconds: float,
        *,
        impatient: bool,
    ) -> None:
        """``slow``: candidate's uid -> pods of it that take longer to end than is waited for.

        ``restart_seconds``: what the start of a pod takes, and once more that of a gang; so much
        work is lost in addition, that a gang of one minute is not free. ``impatient``: the owner
        of the preemptor gives up after a while.
        """
        names: list[str] = []
        self._work_at: dict[int, int] = {}
        """Priority -> index of the work lost there."""
        self._slow_at: dict[int, int] = {}
        """Priority -> index of the pods that end too late for an owner who gives up."""
        self._at_priority: dict[int, int] = {}
        """Priority -> index of its gangs; its pods come next."""
        for level in order:
            if level in (CostLevel.BY_PRIORITY, CostLevel.WORK_BY_PRIORITY):
                for priority in sorted(set(priorities), reverse=True):
                    if level is CostLevel.WORK_BY_PRIORITY:
                        if impatient and slow:
                            self._slow_at[priority] = len(names)
                            names.append(f"grace@{priority}")
                        self._work_at[priority] = len(names)
                        names.append(f"work@{priority}")
                    self._at_priority[priority] = len(names)
                    names += [f"gangs@{priority}", f"pods@{priority}"]
            else:
                names.append(str(level))
        self.names = tuple(names)
        self._index = {name: at for at, name in enumerate(names)}
        self._pods, self._grace, self._work, self._age = map(
            self._index.get,
            (CostLevel.PODS, CostLevel.GRACE, CostLevel.WORK, CostLevel.AGE),
        )
        self._restart = restart_seconds
        self._slow = slow
        self._counts: dict[tuple[int, int, bool], list[int]] = {}
        self._snapshot = snapshot

    @property
    def budget_level(self) -> int:
        """Where pods beyond a budget count; the first level where the order has none."""
        return self._index.get(CostLevel.PDB_VIOLATIONS, 0)

    def level(self, name: CostLevel) -> int:
        """Return where a level stands; KeyError where the order has none of that name."""
        return self._index[name]

    def one(self, level: CostLevel) -> Vector:
        """Return the vector that counts 1 at a level."""
        vector = self._nothing()
        if level in self._index:
            vector[self._index[level]] = 1
        return tuple(vector)

    def candidates(self, units: Sequence[VictimUnit], sums: Sequence[VictimSums]) -> list[Vector]:
        """Return the cost of evicting each unit."""
        grace, age, works = self._grace, self._age, self._work is not None or self._work_at
        nodes, now = self._snapshot.nodes, self._snapshot.now
        found = []
        for unit, summed in zip(units, sums, strict=True):
            vector = self._counted(unit.priority, len(unit.pods), breaks=unit.breaks_gang).copy()
            if grace is not None:
                vector[grace] = self._slow.get(unit.uid, 0)
            if self._slow_at:
                vector[self._slow_at[unit.priority]] = self._slow.get(unit.uid, 0)
            if works:
                restart = self._restart * (1 + unit.breaks_gang)
                self._lose(vector, unit.priority, summed.work(unit.pods, nodes, now, restart))
            if age is not None:
                vector[age] = summed.age(unit, now)
            found.append(tuple(vector))
        return found

    def _counted(self, priority: int, pods: int, *, breaks: bool) -> list[int]:
        """What so many pods of a priority cost, whoever they are; not to be changed."""
        kind = (priority, pods, breaks)
        vector = self._counts.get(kind)
        if vector is None:
            vector = self._counts[kind] = self._nothing()
            at = self._at_priority.get(priority)
            if at is not None:
                vector[at + 1] = pods
            if breaks:
                self._break(vector, priority)
            if self._pods is not None:
                vector[self._pods] = pods
        return vector

    def breaking(self, gang: ElasticCandidate, summed: VictimSums) -> Vector:
        """Return what is paid once when more than a gang's surplus goes."""
        vector = self._nothing()
        self._break(vector, gang.priority)
        self._lose(vector, gang.priority, -(-int(self._restart * summed.held) // ONE))
        return tuple(vector)

    def _lose(self, vector: list[int], priority: int, work: int) -> None:
        """Count work that is lost."""
        for at in (self._work_at.get(priority), self._work):
            if at is not None:
                vector[at] = work

    def _break(self, vector: list[int], priority: int) -> None:
        """Count one gang broken."""
        for at in (self._at_priority.get(priority), self._index.get(CostLevel.GANGS)):
            if at is not None:
                vector[at] = 1

    def _nothing(self) -> list[int]:
        return [0] * len(self.names)
