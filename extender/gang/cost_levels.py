"""The cost vector of one problem: an order of levels, spelled out for its victims.

"by-priority" becomes two levels for each priority among the candidates, gangs
broken before pods evicted, from the highest down.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.gang.victims import Candidate, ElasticCandidate, disrupted_work
from extender.model.objects import Pod
from extender.model.snapshot import Snapshot
from extender.search.problem import Vector


class CostLevels:
    """Names of the levels and the vectors of units."""

    def __init__(
        self, order: tuple[str, ...], priorities: Iterable[int], snapshot: Snapshot
    ) -> None:
        names: list[str] = []
        for level in order:
            if level == "by-priority":
                for priority in sorted(set(priorities), reverse=True):
                    names += [f"gangs@{priority}", f"pods@{priority}"]
            else:
                names.append(level)
        self.names = tuple(names)
        self._index = {name: at for at, name in enumerate(names)}
        self._snapshot = snapshot
        self._runs = "work" in self._index
        self._gpus = "gpus" in self._index

    @property
    def budget_level(self) -> int:
        """Where pods beyond a budget count; the first level where the order has none."""
        return self._index.get("pdb-violations", 0)

    def level(self, name: str) -> int:
        """Return where a level stands; KeyError where the order has none of that name."""
        return self._index[name]

    def one(self, level: str) -> Vector:
        """Return the vector that counts 1 at a level."""
        return self._vector({level: 1})

    def candidate(self, unit: Candidate) -> Vector:
        """Return the cost of evicting a unit."""
        counts = self._broken(unit.priority) if unit.breaks_gang else {}
        pods = len(unit.pods)
        counts |= {f"pods@{unit.priority}": pods, "pods": pods, "age": 0}
        now = self._snapshot.now
        for pod in unit.pods:
            counts["age"] += max(0, int(now - pod.started)) if pod.started else 0
            if self._runs:
                node = self._snapshot.nodes.get(pod.node)
                counts["work"] = counts.get("work", 0) + disrupted_work(pod, node, now)
            if self._gpus:
                counts["gpus"] = counts.get("gpus", 0) + extended(pod)
        return self._vector(counts)

    def breaking(self, gang: ElasticCandidate) -> Vector:
        """Return what is paid once when more than a gang's surplus goes."""
        return self._vector(self._broken(gang.priority))

    def _broken(self, priority: int) -> dict[str, int]:
        return {f"gangs@{priority}": 1, "gangs": 1}

    def _vector(self, counts: dict[str, int]) -> Vector:
        vector = [0] * len(self.names)
        for level, value in counts.items():
            at = self._index.get(level)
            if at is not None:
                vector[at] = value
        return tuple(vector)


def extended(pod: Pod) -> int:
    """Return how many extended resources the pod asks for, all kinds together."""
    return sum(
        amount
        for name, amount in pod.requests
        if "/" in name and not name.startswith("kubernetes.io/")
    )
