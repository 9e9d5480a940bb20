"""Pods that may be on their way to a node that they were offered, summed up node by node.

kube-scheduler assumes a pod on its node long before the binding shows in our cache; two pods
offered one gap in turn would both take it, at a seat's expense. A node is asked about for every pod
that is scheduled, and may have been offered to thousands: only their sums are looked at there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Protocol

from msgspec import Struct

from extender.model.objects import Pod, Requests

ALLOWANCE_SECONDS = 5.0
"""How long a node that was offered to a pod counts as possibly taken by it."""


class Pods(Protocol):
    """What is needed of the cache here."""

    @property
    def generation(self) -> int:
        """A number that grows whenever a pod changes."""

    def pod(self, uid: str) -> Pod | None:
        """Return a non-finished pod by uid."""


class _Allowance(Struct, gc=False):
    requests: Requests
    until: float


class _OfferedNode(Struct):
    """Those offered one node, by uid, whose time is over first coming first; and their sums."""

    offered: OrderedDict[str, _Allowance]
    sums: dict[str, int]
    ends: float
    """Nobody's time is over before."""


class _OfferedPod(Struct):
    """Where one pod may be on its way to, and until when."""

    nodes: set[str]
    until: float


class Allowances:
    """By node. ``monotonic`` gives seconds, and never less than before."""

    def __init__(self, pods: Pods, monotonic: Callable[[], float]) -> None:
        self._cluster = pods
        self._now = monotonic
        self._nodes: dict[str, _OfferedNode] = {}
        self._pods: OrderedDict[str, _OfferedPod] = OrderedDict()
        """By uid, whose time is over first coming first."""
        self._ends = inf
        """Nobody's time is over before."""
        self._generation = -1
        """Of the cluster when they were looked for in it."""

    def __len__(self) -> int:
        """How many offers count, those included whose end nobody has asked about."""
        return sum(len(pod.nodes) for pod in self._pods.values())

    def add(self, pod: Pod, node: str) -> None:
        """Note that the pod may be assumed on the node from now on."""
        uid, until = pod.uid, self._now() + ALLOWANCE_SECONDS
        known = self._pods.get(uid)
        if known is None:
            if self._settled(uid):
                return
            known = self._pods[uid] = _OfferedPod(set(), until)
            self._ends = min(self._ends, until)
        else:
            self._pods.move_to_end(uid)
            known.until = until
        there = self._nodes.get(node)
        if there is None:
            there = self._nodes[node] = _OfferedNode(OrderedDict(), {}, until)
        before = there.offered.get(uid)
        if before is not None and before.requests == pod.requests:
            there.offered.move_to_end(uid)
            before.until = until
            return
        if before is not None:
            _subtract(there.sums, there.offered.pop(uid).requests)
        known.nodes.add(node)
        there.offered[uid] = _Allowance(pod.requests, until)
        sums = there.sums
        for name, amount in pod.requests:
            sums[name] = sums.get(name, 0) + amount

    def count(self, wants: dict[str, int], node: str, but: str) -> None:
        """Add what they ask for of what is in ``wants``; the pod ``but`` is in nobody's way."""
        now, generation = self._now(), self._cluster.generation
        if generation != self._generation or self._ends < now:
            self._generation = generation
            self._forget(now)
        there = self._nodes.get(node)
        if there is None:
            return
        if there.ends < now:
            self._forget_there(node, there, now)
        own = there.offered.get(but)
        if own is not None and len(there.offered) == 1:
            return
        sums = there.sums
        for name in wants:
            wants[name] += sums.get(name, 0)
        for name, amount in own.requests if own is not None else ():
            if name in wants:
                wants[name] -= amount

    def _settled(self, uid: str) -> bool:
        """Whether the cluster shows where the pod went. One it does not know yet is underway."""
        pod = self._cluster.pod(uid)
        return pod is not None and bool(pod.node)

    def _forget(self, now: float) -> None:
        """Drop whose time is over, and who has settled."""
        while self._pods and (first := next(iter(self._pods.items())))[1].until < now:
            self._drop(first[0])
        for uid in [uid for uid in self._pods if self._settled(uid)]:
            self._drop(uid)
        self._ends = next(iter(self._pods.values())).until if self._pods else inf

    def _forget_there(self, node: str, there: _OfferedNode, now: float) -> None:
        """Drop whose time is over on one node, and is not on others."""
        while there.offered and (first := next(iter(there.offered.items())))[1].until < now:
            self._pods[first[0]].nodes.discard(node)
            self._leave(first[0], node)
        there.ends = next(iter(there.offered.values())).until if there.offered else inf

    def _drop(self, uid: str) -> None:
        for node in self._pods.pop(uid).nodes:
            self._leave(uid, node)

    def _leave(self, uid: str, node: str) -> None:
        """Take a pod out of what is summed up of a node."""
        there = self._nodes[node]
        _subtract(there.sums, there.offered.pop(uid).requests)
        if not there.offered:
            del self._nodes[node]


def _subtract(sums: dict[str, int], requests: Requests) -> None:
    for name, amount in requests:
        left = sums.get(name, 0) - amount
        if left:
            sums[name] = left
        else:
            sums.pop(name, None)  # names are a tenant's to make up
