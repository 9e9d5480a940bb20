"""Allocatable and used amounts per node as int64 columns, kept up to date per event."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from extender.model.objects import Requests
from extender.model.quantity import INT64_MAX


class ColumnStore:
    """One slot a node name; R columns of both amounts.

    A name has a slot while a node or a pod of that name exists. Sums are exact as
    long as they fit into int64; beyond that they are held at its maximum, which
    can only make a node look fuller than it is.
    """

    def __init__(self) -> None:
        self._resources: dict[str, int] = {}
        self._allocatable: list[array[int]] = []
        self._used: list[array[int]] = []
        self._slots: dict[str, int] = {}
        self._holders: dict[str, int] = {}
        """Node name -> pods counted there, plus one for the node itself."""
        self._unused: list[int] = []
        self._size = 0
        self._huge: dict[tuple[int, int], int] = {}
        """(resource, slot) -> the exact sum where it does not fit."""

    def set_node(self, name: str, old: Requests | None, new: Requests | None) -> None:
        """Note a node's allocatable amounts; None is for no node."""
        slot = self._slot(name)
        for resource, _ in old or ():
            self._allocatable[self._resources[resource]][slot] = 0
        for resource, amount in new or ():
            self._allocatable[self._column(resource)][slot] = amount
        self._hold(name, (new is not None) - (old is not None))

    def add(self, name: str, requests: Requests, sign: int) -> None:
        """Count a pod's requests on a node in (sign 1) or out (sign -1)."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slot(name)
        for resource, amount in requests:
            index = self._resources.get(resource)
            if index is None:
                index = self._column(resource)
            try:
                if self._huge:
                    raise OverflowError
                self._used[index][slot] += sign * amount
            except OverflowError:
                self._add_huge(index, slot, sign * amount)
        self._hold(name, sign)

    def free(self, name: str) -> dict[str, int] | None:
        """Return allocatable minus used of one node (may be negative), None when unknown."""
        slot = self._slots.get(name)
        if slot is None:
            return None
        return {
            resource: self._allocatable[index][slot] - self._used[index][slot]
            for resource, index in self._resources.items()
            if self._allocatable[index][slot] or self._used[index][slot]
        }

    def short(self, name: str, wants: Iterable[tuple[str, int]]) -> str | None:
        """Return the first resource of which the node has less free than wanted, or None.

        Raises KeyError for an unknown node.
        """
        slot = self._slots[name]
        resources = self._resources
        for resource, amount in wants:
            index = resources.get(resource)
            free = 0 if index is None else self._allocatable[index][slot] - self._used[index][slot]
            if amount > free:
                return resource
        return None

    def _add_huge(self, index: int, slot: int, amount: int) -> None:
        exact = self._huge.pop((index, slot), self._used[index][slot]) + amount
        self._used[index][slot] = max(-INT64_MAX, min(INT64_MAX, exact))
        if abs(exact) > INT64_MAX:
            self._huge[index, slot] = exact

    def _column(self, resource: str) -> int:
        index = self._resources.get(resource)
        if index is None:
            index = self._resources[resource] = len(self._resources)
            self._allocatable.append(array("q", bytes(8 * self._size)))
            self._used.append(array("q", bytes(8 * self._size)))
        return index

    def _slot(self, name: str) -> int:
        slot = self._slots.get(name)
        if slot is None:
            if self._unused:
                slot = self._unused.pop()
            else:
                slot = self._size
                self._size += 1
                for column in self._columns():
                    column.append(0)
            self._slots[name] = slot
            self._holders[name] = 0
        return slot

    def _hold(self, name: str, change: int) -> None:
        holders = self._holders[name] + change
        if holders:
            self._holders[name] = holders
            return
        # Nobody left: every amount is back to zero, so the slot is clean for the next.
        del self._holders[name]
        self._unused.append(self._slots.pop(name))

    def _columns(self) -> Iterable[array[int]]:
        yield from self._allocatable
        yield from self._used
