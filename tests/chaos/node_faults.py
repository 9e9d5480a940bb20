"""Nodes that close, go and come; some stay so until the run comes to rest."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress

from tests.chaos.injecting import Injection
from tests.chaos.pod_faults import PodFaults
from tests.controlplane.client import ApiError
from tests.controlplane.objects import make_node

SPARE_NODE = "spare"
NOT_READY = "node.kubernetes.io/not-ready"
LEFT_AS_IT_IS = 0.5
"""Share of node faults that are not undone before the run comes to rest."""


class NodeFaults:
    """``nodes``: name -> milli-CPU of each as it was at first."""

    def __init__(self, injection: Injection, pods: PodFaults, nodes: dict[str, int]) -> None:
        self._injection = injection
        self._pods = pods
        self._nodes = nodes

    async def _node_fault(
        self,
        rng: random.Random,
        kind: str,
        node: str,
        do: Callable[[], object],
        undo: Callable[[], object],
    ) -> None:
        seconds, lasts = rng.uniform(2.0, 10.0), rng.random() < LEFT_AS_IT_IS
        async with self._injection.fault(kind, f"{node} for {seconds:.1f} s"):
            self._injection.history.disturb(time.time(), f"{kind}: {node}")
            await self._injection.blocking(do)
            await self._injection.pause(seconds)
            if lasts and self._injection.stop.is_set():
                return
            self._injection.history.disturb(time.time(), f"no longer {kind}: {node}")
            await self._injection.blocking(undo)

    def _node(self, rng: random.Random) -> str:
        """A node, most likely one on which a plan has a seat."""
        seats = {life.seen.nominated for life in self._pods.planned()} & self._nodes.keys()
        return rng.choice(sorted(seats or self._nodes))

    async def cordon(self, rng: random.Random) -> None:
        """A node takes no pods any more."""
        node, client = self._node(rng), self._injection.bed.client
        await self._node_fault(
            rng,
            "node cordoned",
            node,
            lambda: client.patch("Node", node, {"spec": {"unschedulable": True}}),
            lambda: client.patch("Node", node, {"spec": {"unschedulable": None}}),
        )

    async def not_ready(self, rng: random.Random) -> None:
        """Taint a node as the node lifecycle controller taints one that is not ready."""
        node, client = self._node(rng), self._injection.bed.client
        taint = {"key": NOT_READY, "effect": "NoSchedule"}
        await self._node_fault(
            rng,
            "node not ready",
            node,
            lambda: client.patch("Node", node, {"spec": {"taints": [taint]}}),
            lambda: client.patch("Node", node, {"spec": {"taints": None}}),
        )

    async def delete_node(self, rng: random.Random) -> None:
        """A node goes, with its pods."""
        node = self._node(rng)
        await self._node_fault(
            rng,
            "node deleted",
            node,
            lambda: self._take_node(node),
            lambda: self._injection.bed.client.create(make_node(node, self._cores(node))),
        )

    async def add_node(self, rng: random.Random) -> None:
        """A node comes that was not there."""
        await self._node_fault(
            rng,
            "node added",
            SPARE_NODE,
            lambda: self._injection.bed.client.create(
                make_node(SPARE_NODE, self._cores(SPARE_NODE))
            ),
            lambda: self._take_node(SPARE_NODE),
        )

    def _cores(self, node: str) -> str:
        return f"{self._nodes.get(node, next(iter(self._nodes.values())))}m"

    def _take_node(self, node: str) -> None:
        """Delete a node, and its pods as the pod garbage collector does."""
        client = self._injection.bed.client
        client.delete("Node", node, missing_ok=True)
        for pod in client.list("Pod", fieldSelector=f"spec.nodeName={node}"):
            name = pod["metadata"]["name"]
            with suppress(ApiError):
                client.patch("Pod", name, {"status": {"phase": "Failed"}}, subresource="status")
            client.delete("Pod", name, grace=0, missing_ok=True)

    def restore(self) -> None:
        """Bring every node back as it was at first."""
        client = self._injection.bed.client
        for node in self._nodes:
            if client.get_or_none("Node", node) is None:
                client.create(make_node(node, self._cores(node)))
            client.patch("Node", node, {"spec": {"unschedulable": None, "taints": None}})
        if client.get_or_none("Node", SPARE_NODE) is not None:
            self._take_node(SPARE_NODE)
