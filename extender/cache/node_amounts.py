"""Allocatable and used amounts, node by node, kept up to date per event.

Of each node only what somebody asks for or has there. Names of resources are for whoever creates a
pod to make up, 128 a pod: with a column of all nodes for each name, fifty small pods took half a
gigabyte of 5,000 nodes, for good.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from extender.model.objects import Requests

NONE: dict[str, int] = {}


class _Amounts(Struct):
    allocatable: dict[str, int]
    used: dict[str, int]
    """Without zeros."""
    holders: int = 0
    """Pods counted there, plus one for the node itself."""


class NodeAmounts:
    """Sums by node name: there while a node or a pod of that name exists. They are exact."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Amounts] = {}

    def set_node(self, name: str, old: Requests | None, new: Requests | None) -> None:
        """Note a node's allocatable amounts; None is for no node."""
        here = self._at(name)
        here.allocatable = NONE if new is None else dict(new)
        self._hold(name, here, (new is not None) - (old is not None))

    def add(self, name: str, requests: Requests, sign: int) -> None:
        """Count a pod's requests on a node in (sign 1) or out (sign -1)."""
        here = self._nodes.get(name)
        if here is None:
            here = self._at(name)
        used = here.used
        for resource, amount in requests:
            left = used.get(resource, 0) + sign * amount
            if left:
                used[resource] = left
            else:
                used.pop(resource, None)
        self._hold(name, here, sign)

    def free(self, name: str) -> dict[str, int] | None:
        """Return allocatable minus used of one node (may be negative), None when unknown."""
        here = self._nodes.get(name)
        if here is None:
            return None
        found = {resource: amount for resource, amount in here.allocatable.items() if amount}
        for resource, amount in here.used.items():
            found[resource] = found.get(resource, 0) - amount
        return found

    def short(self, name: str, wants: Iterable[tuple[str, int]]) -> str | None:
        """Return the first resource of which the node has less free than wanted, or None.

        Raises KeyError for an unknown node.
        """
        here = self._nodes[name]
        allocatable, used = here.allocatable, here.used
        for resource, amount in wants:
            if amount > allocatable.get(resource, 0) - used.get(resource, 0):
                return resource
        return None

    def _at(self, name: str) -> _Amounts:
        here = self._nodes.get(name)
        if here is None:
            here = self._nodes[name] = _Amounts(NONE, {})
        return here

    def _hold(self, name: str, here: _Amounts, change: int) -> None:
        here.holders += change
        if not here.holders:
            del self._nodes[name]
