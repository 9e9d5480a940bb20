"""The whole of what pages are made from, of one moment. Made on the console's thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from extender.console.capture import Capture
from extender.console.gang_rows import GangReader, GangRow
from extender.console.node_uses import NodeReader, NodeUse, groupings_of, resources_of
from extender.groups.resolver import Resolver
from extender.model.plan import Victim


class SeatOn(Struct, frozen=True, gc=False):
    """A held seat."""

    uid: str
    name: str
    gang: str


class Picture(Struct, frozen=True, kw_only=True):
    """One moment, resolved, summed up and sorted."""

    version: int
    capture: Capture
    rows: tuple[GangRow, ...]
    keys: frozenset[str]
    """Of gangs that have a page: those that are there, and those that were decided about."""
    states: Mapping[str, int]
    """State -> gangs in it."""
    nodes: tuple[NodeUse, ...]
    resources: tuple[str, ...]
    groupings: tuple[str, ...]
    seats: Mapping[str, tuple[SeatOn, ...]]
    """Node -> seats held there."""
    leaving: Mapping[str, tuple[tuple[Victim, str], ...]]
    """Node -> pods that a plan waits to see gone, with the gang it is for."""


class PictureMaker:
    """Makes pictures, one after the other, and keeps what did not change. One thread only."""

    def __init__(self, resolver: Resolver) -> None:
        self.gangs = GangReader(resolver)
        self._nodes = NodeReader()
        self._version = 0
        self._fixed: tuple[object, tuple[str, ...], tuple[str, ...]] | None = None

    def read(self, capture: Capture) -> Picture:
        """Return the picture of a capture."""
        self._version += 1
        rows = self.gangs.read(capture)
        nodes = self._nodes.read(capture.snapshot)
        if self._fixed is None or self._fixed[0] is not capture.snapshot.nodes:
            self._fixed = (capture.snapshot.nodes, resources_of(nodes), groupings_of(nodes))
        seats: dict[str, list[SeatOn]] = {}
        leaving: dict[str, list[tuple[Victim, str]]] = {}
        for preemption in capture.preemptions:
            gang = str(preemption.plan.gang)
            for uid, node in preemption.seats.items():
                seats.setdefault(node, []).append(SeatOn(uid, preemption.members[uid].name, gang))
            for victim in (*preemption.victims, *preemption.waits):
                leaving.setdefault(victim.node, []).append((victim, gang))
        return Picture(
            version=self._version,
            capture=capture,
            rows=rows,
            keys=frozenset([row.key for row in rows] + [one.gang for one in capture.decisions]),
            states=Counter(row.status.state for row in rows),
            nodes=nodes,
            resources=self._fixed[1],
            groupings=self._fixed[2],
            seats={
                node: tuple(sorted(held, key=lambda seat: (seat.gang, seat.name)))
                for node, held in seats.items()
            },
            leaving={
                node: tuple(sorted(held, key=lambda entry: (entry[1], entry[0].name)))
                for node, held in leaving.items()
            },
        )
