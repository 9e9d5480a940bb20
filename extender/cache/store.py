"""Everything the cache knows, and immutable snapshots of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from extender.cache.feed import ChangeKind, Feed
from extender.cache.node_amounts import NodeAmounts
from extender.cache.pods import MemberKey, PodTable
from extender.cache.stats import CacheStats
from extender.cache.tables import NodeTable, ObjectTable
from extender.model.extended_resources import named_by
from extender.model.group_sources import CORE, SOURCES
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    Namespace,
    Node,
    PriorityClass,
)
from extender.model.owner_kinds import COMPOSITE, DEVICE_CLASS_SOURCE
from extender.model.snapshot import Snapshot

Part = TypeVar("Part")


class Store:
    """One table a kind. Fed by reflectors, read through ``snapshot``; one event loop only."""

    def __init__(self, member_key: MemberKey, wall: Callable[[], float], stats: CacheStats) -> None:
        self.stats = stats
        self.feed = Feed(stats)
        self.amounts = NodeAmounts()
        self.pods = PodTable(member_key, self.amounts, self.feed, stats)
        self.nodes = NodeTable(ChangeKind.NODE, _name, self.feed, stats, self._node_changed)
        self.namespaces: ObjectTable[str, Namespace] = ObjectTable(
            ChangeKind.NAMESPACE, _name, self.feed, stats
        )
        self.budgets: ObjectTable[tuple[str, str], DisruptionBudget] = ObjectTable(
            ChangeKind.BUDGET, _full_name, self.feed, stats
        )
        self.priority_classes: ObjectTable[str, PriorityClass] = ObjectTable(
            ChangeKind.PRIORITY_CLASS, _name, self.feed, stats
        )
        self.groups: dict[str, ObjectTable[tuple[str, str, str], GroupObject]] = {
            source: ObjectTable(
                ChangeKind.GROUP, _group_name, self.feed, stats, self._group_changed(source)
            )
            for source in SOURCES
        }
        self.group_sources: frozenset[str] = frozenset()
        """Sources that are followed and have been read once."""
        self.unreadable: Mapping[tuple[str, str, str], str] = {}
        """As in Snapshot. Never changed, only replaced."""
        self.server_version = ""
        """gitVersion of the API server, "" when it could not be read."""
        self._wall = wall
        self._last: Snapshot | None = None
        self._derived: dict[str, tuple[tuple[object, ...], Any]] = {}

    def snapshot(self) -> Snapshot:
        """Return the present state.

        The same object is given out again while neither anything changed nor the
        whole second did; otherwise only the parts that changed are copied.
        """
        last = self._last
        now = float(int(self._wall()))
        if last is not None and last.generation == self.feed.generation and last.now == now:
            return last
        self._last = Snapshot(
            generation=self.feed.generation,
            now=now,
            nodes=self.nodes.snapshot(),
            bound=self.pods.bound(),
            pending=self.pods.pending(),
            members=self.pods.members(),
            ended=self.pods.ended.view(),
            groups=self._all_groups(),
            group_sources=self.group_sources,
            unreadable=self.unreadable,
            priority_classes=self.priority_classes.snapshot(),
            budgets=self._sorted_budgets(),
            namespaces=self._namespace_labels(),
            ending=self._ending(),
            server_version=self.server_version,
        )
        return self._last

    def read_groups_of(self, sources: frozenset[str]) -> None:
        """Take which sources' PodGroups are read now: what of these is missing does not exist."""
        if sources != self.group_sources:
            self.group_sources = sources
            self.feed.emit(ChangeKind.GROUP_SOURCES, None, None)

    def leave_out(self, source: str, found: Mapping[tuple[str, str], str]) -> None:
        """Take which objects of a source could not be decoded: (namespace, name) -> why."""
        now = {key: why for key, why in self.unreadable.items() if key[0] != source}
        now |= {(source, *name): why for name, why in found.items()}
        if now != self.unreadable:
            self.unreadable = now
            self.feed.emit(ChangeKind.GROUP_SOURCES, None, None)

    def _all_groups(self) -> Mapping[tuple[str, str, str], GroupObject]:
        views = tuple(table.snapshot() for table in self.groups.values())
        # What is read decides what a missing object means, so another mapping tells of it too.
        return self._once(
            "groups",
            (*views, self.group_sources),
            lambda: {key: row for view in views for key, row in view.items()},
        )

    def _sorted_budgets(self) -> tuple[DisruptionBudget, ...]:
        view = self.budgets.snapshot()
        return self._once("budgets", (view,), lambda: tuple(sorted(view.values(), key=_full_name)))

    def _namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        view = self.namespaces.snapshot()
        return self._once(
            "namespaces", (view,), lambda: {name: row.labels for name, row in view.items()}
        )

    def _ending(self) -> frozenset[str]:
        view = self.namespaces.snapshot()
        return self._once(
            "ending", (view,), lambda: frozenset(name for name, row in view.items() if row.ending)
        )

    def _once(self, name: str, sources: tuple[object, ...], build: Callable[[], Part]) -> Part:
        """Return what ``build`` makes of ``sources``, made anew only when one was replaced."""
        known = self._derived.get(name)
        if known is None or not all(map(operator.is_, known[0], sources)):
            known = self._derived[name] = (sources, build())
        part: Part = known[1]
        return part

    def _group_changed(
        self, source: str
    ) -> Callable[[GroupObject | None, GroupObject | None], None]:
        below = self.pods.composites.changed if source in (CORE, COMPOSITE) else None

        def changed(old: GroupObject | None, new: GroupObject | None) -> None:
            if new is not None and _group_name(new) in self.unreadable:  # mended
                mended = _group_name(new)
                self.unreadable = {k: why for k, why in self.unreadable.items() if k != mended}
            if below is not None:
                below(old, new)
            if source == DEVICE_CLASS_SOURCE:
                self._device_class_changed(old, new)

        return changed

    def _device_class_changed(self, old: GroupObject | None, new: GroupObject | None) -> None:
        if (old.of if old is not None else "") != (new.of if new is not None else ""):
            names = named_by(self.groups[DEVICE_CLASS_SOURCE].rows.values())
            self.nodes.name_devices(names)
            self.pods.name_devices(names)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        name = new.name if new is not None else old.name if old is not None else ""
        self.amounts.set_node(
            name,
            old.allocatable if old is not None else None,
            new.allocatable if new is not None else None,
        )


def _name(record: Node | Namespace | PriorityClass) -> str:
    return record.name


def _full_name(record: DisruptionBudget) -> tuple[str, str]:
    return (record.namespace, record.name)


def _group_name(record: GroupObject) -> tuple[str, str, str]:
    return (record.source, record.namespace, record.name)
