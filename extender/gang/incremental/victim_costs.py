"""What the end of a victim unit costs, as sums that hold from one moment to the next.

Age and lost work grow with the clock: a unit's age is n * now - (sum of the starts),
its lost work (sum of what its pods hold) * now - (sum of that * start). The sums are kept while
the unit and the nodes stay the same, so that a gang of hundreds is added up once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import ref

from msgspec import Struct

from extender.gang.incremental.victims import (
    ONE,
    ElasticCandidate,
    VictimUnit,
    held,
    lost_work,
    working_since,
)
from extender.model.objects import Node, Pod


class VictimSums(Struct, frozen=True, gc=False):
    """Sums over a unit's pods."""

    started: int
    """Pods whose start is known."""
    starts: int
    """Sum of their starts, in seconds."""
    held: int
    """Sum of the GPUs that they hold, in millionths (extender.gang.incremental.victims.held)."""
    held_starts: int
    """Sum of that times start or last checkpoint."""
    steady_from: float
    """The sums hold from here on; infinite where some moment is no whole second."""
    grace: int
    """The longest grace period among them, in seconds."""

    def age(self, unit: VictimUnit, now: float) -> int:
        """Seconds that the pods have run, all together."""
        if now < self.steady_from:
            return sum(max(0, int(now - pod.started)) for pod in unit.pods if pod.started)
        return self.started * int(now) - self.starts

    def work(
        self, pods: Iterable[Pod], nodes: Mapping[str, Node], now: float, restart: float
    ) -> int:
        """Return the GPU-seconds that are lost with the pods, and ``restart`` seconds of what they
        hold."""
        if now < self.steady_from:
            lost = sum(lost_work(pod, nodes.get(pod.node), now) for pod in pods)
        else:
            lost = self.held * int(now) - self.held_starts
        return -(-(lost + int(restart * self.held)) // ONE)


Costly = VictimUnit | ElasticCandidate
"""What has pods whose end costs something."""


class VictimCosts:
    """Sums by unit, kept while the unit is there and the nodes are the same objects."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, Node] = {}
        self._kept: dict[int, tuple[ref[Costly], VictimSums]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def renew(self, nodes: Mapping[str, Node]) -> None:
        """Take the nodes as they are now; shares depend on what they can allocate."""
        if nodes is not self._nodes:
            self._nodes = nodes
            self._kept.clear()

    def of(self, units: Iterable[Costly]) -> list[VictimSums]:
        """Return the sums of units, in their order; ``renew`` must have been called."""
        # Units live in the census as long as their node or gang stays the same. They are told by
        # identity, and let go of with the census: nodes stay the same for longer than their pods.
        kept = self._kept
        found = []
        for unit in units:
            known = kept.get(id(unit))
            if known is None or known[0]() is not unit:
                known = self._keep(unit)
            found.append(known[1])
        return found

    def _keep(self, unit: Costly) -> tuple[ref[Costly], VictimSums]:
        kept, number = self._kept, id(unit)
        gone = ref(unit, lambda _: kept.pop(number, None))
        known = kept[number] = (gone, self._sum(unit.pods))
        return known

    def _sum(self, pods: tuple[Pod, ...]) -> VictimSums:
        started = starts = holds = held_starts = grace = 0
        steady_from = 0.0
        for pod in pods:
            grace = max(grace, pod.grace)
            amount = held(pod, self._nodes.get(pod.node))
            holds += amount
            since = working_since(pod)
            if not since and amount:
                # Nothing is lost with it: it counts as started now, whenever that is.
                steady_from = float("inf")
            if not pod.started:
                continue
            steady_from = max(steady_from, since, pod.started)
            if since % 1 or pod.started % 1:
                steady_from = float("inf")
            started += 1
            starts += int(pod.started)
            held_starts += amount * int(since)
        return VictimSums(started, starts, holds, held_starts, steady_from, grace)
