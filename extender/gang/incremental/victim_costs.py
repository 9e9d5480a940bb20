"""What the end of a victim unit costs, as sums that hold from one moment to the next.

Age and lost work grow with the clock: a unit's age is n * now - (sum of the starts),
its lost work (sum of the shares) * now - (sum of share * start). The sums are kept while
the unit and the nodes stay the same, so that a gang of hundreds is added up once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import ref

from msgspec import Struct

from extender.gang.incremental.victims import VictimUnit, disrupted_work, work_terms
from extender.model.objects import Node, Pod


class VictimSums(Struct, frozen=True, gc=False):
    """Sums over a unit's pods."""

    started: int
    """Pods whose start is known."""
    starts: int
    """Sum of their starts, in seconds."""
    shares: int
    """Sum of their shares of a node, in thousandths."""
    share_starts: int
    """Sum of share times start or last checkpoint."""
    steady_from: float
    """The sums hold from here on; infinite where some moment is no whole second."""
    gpus: int
    grace: int
    """The longest grace period among them, in seconds."""

    def age(self, unit: VictimUnit, now: float) -> int:
        """Seconds that the pods have run, all together."""
        if now < self.steady_from:
            return sum(max(0, int(now - pod.started)) for pod in unit.pods if pod.started)
        return self.started * int(now) - self.starts

    def work(self, unit: VictimUnit, nodes: Mapping[str, Node], now: float) -> int:
        """disrupted_work of all pods together."""
        if now < self.steady_from:
            return sum(disrupted_work(pod, nodes.get(pod.node), now) for pod in unit.pods)
        return self.shares * int(now) - self.share_starts


class VictimCosts:
    """Sums by unit, kept while the unit is there and the nodes are the same objects."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, Node] = {}
        self._kept: dict[int, tuple[ref[VictimUnit], VictimSums]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def renew(self, nodes: Mapping[str, Node]) -> None:
        """Take the nodes as they are now; shares depend on what they can allocate."""
        if nodes is not self._nodes:
            self._nodes = nodes
            self._kept.clear()

    def of(self, units: Iterable[VictimUnit]) -> list[VictimSums]:
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

    def _keep(self, unit: VictimUnit) -> tuple[ref[VictimUnit], VictimSums]:
        kept, number = self._kept, id(unit)
        gone = ref(unit, lambda _: kept.pop(number, None))
        known = kept[number] = (gone, self._sum(unit.pods))
        return known

    def _sum(self, pods: tuple[Pod, ...]) -> VictimSums:
        started = starts = shares = share_starts = gpus = grace = 0
        steady_from = 0.0
        for pod in pods:
            gpus += extended(pod, self._nodes.get(pod.node))
            grace = max(grace, pod.grace)
            if not pod.started:
                continue
            share, since = work_terms(pod, self._nodes.get(pod.node))
            steady_from = max(steady_from, since, pod.started)
            if since % 1 or pod.started % 1:
                steady_from = float("inf")
            started += 1
            starts += int(pod.started)
            shares += share
            share_starts += share * int(since)
        return VictimSums(started, starts, shares, share_starts, steady_from, gpus, grace)


def extended(pod: Pod, node: Node | None) -> int:
    """Return how many extended resources the pod holds, all kinds together.

    At most what its node has: kubelet lets a pod run whatever it asks for of a resource that the
    node does not list.
    """
    asked = [
        (name, amount)
        for name, amount in pod.requests
        if "/" in name and not name.startswith("kubernetes.io/")
    ]
    if not asked or node is None:
        return 0
    whole = dict(node.allocatable)
    return sum(min(amount, whole.get(name, 0)) for name, amount in asked)
