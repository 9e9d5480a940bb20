"""The faults: which is drawn when, in three lanes beside each other.

Each lane has a seeded choice of its own and one fault at a time: ``processes`` (killed, stopped,
restarted), ``requests`` (the extender's way to the API server) and ``cluster`` (nodes and pods
that go away). What each fault does, for how long, and how it is undone, is in a file a kind.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable

from tests.chaos.bed import Bed
from tests.chaos.budget_faults import BudgetFaults
from tests.chaos.history import History
from tests.chaos.injecting import Act, Injection, Kinds
from tests.chaos.node_faults import NodeFaults
from tests.chaos.pod_faults import PodFaults
from tests.chaos.process_faults import ProcessFaults
from tests.chaos.request_faults import RequestFaults
from tests.chaos.squatters import Squatters

PROCESSES = "processes"
REQUESTS = "requests"
CLUSTER = "cluster"
LANES = (PROCESSES, REQUESTS, CLUSTER)

PAUSES = {PROCESSES: (1.0, 6.0), REQUESTS: (0.5, 4.0), CLUSTER: (0.5, 4.0)}
"""Seconds between two faults of a lane."""


class Faults:
    """Injects faults until told to stop; then undoes what must not last."""

    def __init__(
        self,
        bed: Bed,
        history: History,
        seed: str,
        nodes: dict[str, int],
        cancel: Callable[[str, str], None],
    ) -> None:
        """Prepare; ``cancel(group, why)`` takes a group away as its user would."""
        self._rngs = {lane: random.Random(f"{seed}:{lane}") for lane in LANES}
        self._injection = injection = Injection(bed, history)
        self._pods = PodFaults(injection)
        self._budgets = BudgetFaults(injection)
        self._nodes = NodeFaults(injection, self._pods, nodes)
        self.restore_nodes = self._nodes.restore
        self.restore_budgets = self._budgets.restore
        self.kinds: dict[str, Kinds] = {
            PROCESSES: ProcessFaults(injection, self._pods, self._nodes).kinds(),
            REQUESTS: RequestFaults(injection, self._pods, cancel).kinds(),
            CLUSTER: self._cluster_faults(Squatters(injection, self._pods)),
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Run all lanes until told to stop and until the last fault is over."""
        self._injection.stop = stop
        await asyncio.gather(*(self._lane(lane) for lane in LANES))
        await self._injection.rest()

    def close(self) -> None:
        """Give the thread back."""
        self._injection.close()

    async def _lane(self, lane: str) -> None:
        rng, kinds = self._rngs[lane], self.kinds[lane]
        names = list(kinds)
        weights = [weight for weight, _ in kinds.values()]
        while True:
            await self._injection.pause(rng.uniform(*PAUSES[lane]))
            if self._injection.stop.is_set():
                return
            (name,) = rng.choices(names, weights)
            # A generator of its own: how one fault goes does not change which come after it.
            await kinds[name][1](random.Random(rng.random()))

    def _cluster_faults(self, squatters: Squatters) -> Kinds:
        nodes, pods = self._nodes, self._pods

        def amid(fault: Act) -> Act:
            return functools.partial(self._amid_a_plan, fault=fault)

        return {
            "node cordoned": (2, nodes.cordon),
            "node cordoned amid a plan": (4, amid(nodes.cordon)),
            "node not ready": (1, nodes.not_ready),
            "node not ready amid a plan": (2, amid(nodes.not_ready)),
            "node deleted": (1, nodes.delete_node),
            "node deleted amid a plan": (2, amid(nodes.delete_node)),
            "node added": (1, nodes.add_node),
            "waiting member deleted amid a plan": (4, amid(pods.delete_waiting)),
            "running member deleted": (2, pods.delete_running),
            "victim deleted": (3, pods.delete_victim),
            "squatter amid a plan": (4, amid(squatters.squat)),
            "budget changed amid a plan": (4, amid(self._budgets.change)),
        }

    async def _amid_a_plan(self, rng: random.Random, *, fault: Act) -> None:
        """Begin a fault when a plan has come to a certain point."""
        kind, count = self._injection.moment(rng)
        if await self._injection.at(kind, count, lambda: None):
            await self._injection.pause(rng.choice((0.0, 0.2, 1.0)))
            await fault(rng)
