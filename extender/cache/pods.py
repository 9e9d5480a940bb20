"""The pods, by uid and by name, per node, pending and per gang."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import structs

from extender.cache.composites import Composites
from extender.cache.ended_pods import EndedMembers
from extender.cache.feed import ChangeKind, Feed
from extender.cache.node_amounts import NodeAmounts
from extender.cache.stats import CacheStats
from extender.groups.composite import Hierarchy, unit_key
from extender.model.extended_resources import NONE, of_pod
from extender.model.objects import GangKey, Pod

MemberKey = Callable[[Pod], GangKey | None]
"""Depends on nothing of the pod but its identity, labels, annotations, owner, pod_group and
hierarchy."""

Group = TypeVar("Group", str, GangKey)
_by_uid = attrgetter("uid")
_by_age = attrgetter("created", "uid")


class PodTable:
    """Non-finished pods and every index over them.

    Indexes hold mutable dictionaries; tuples for readers are made only for what
    changed since the last snapshot, so an event costs the same whatever the size
    of its node or gang. A dictionary is put in order only after somebody joined it:
    exchanging and removing entries keeps the order.
    """

    def __init__(
        self, member_key: MemberKey, amounts: NodeAmounts, feed: Feed, stats: CacheStats
    ) -> None:
        self.by_uid: dict[str, Pod] = {}
        self._by_name: dict[str, dict[str, Pod]] = {}
        self._on_node: dict[str, dict[str, Pod]] = {}
        self._pending: dict[str, Pod] = {}
        self._members: dict[GangKey, dict[str, Pod]] = {}
        self._gang: dict[str, GangKey] = {}
        self._unit: dict[str, GangKey] = {}
        """What a pod goes with, where that is not the gang that it starts with."""
        self.composites = Composites(self._moved)
        self.ended = EndedMembers(member_key, feed)
        self._member_key = member_key
        self._amounts = amounts
        self._feed = feed
        self._stats = stats
        self._bound_view: dict[str, tuple[Pod, ...]] = {}
        self._bound_dirty: dict[str, bool] = {}
        """Node whose tuple is out of date -> whether its order is too."""
        self._member_view: dict[GangKey, tuple[Pod, ...]] = {}
        self._member_dirty: dict[GangKey, bool] = {}
        self._pending_view: dict[str, Pod] | None = None
        self._devices: frozenset[str] = NONE
        """Extended resources that DeviceClasses name."""

    def held(self) -> Iterable[Pod]:
        """Return every pod, those that are done included as far as they are kept."""
        return chain(self.by_uid.values(), self.ended.held())

    def named(self, namespace: str, name: str) -> Pod | None:
        """Return the pod that has this name now."""
        names = self._by_name.get(namespace)
        return None if names is None else names.get(name)

    def put(self, record: Pod, *, force: bool = False) -> None:
        """Take an added or changed pod; one that has finished is as good as gone.

        But for its gang: see EndedMembers.
        """
        record = of_pod(self.composites.placed(record), self._devices)
        old = self.by_uid.get(record.uid)
        if old is None:
            if record.finished:
                self.ended.put(record, force=force)
                return
            if not self.ended.came(record, force=force):
                self._stats.outdated_events += 1
                return
            other = self.named(record.namespace, record.name)
            if other is not None:
                if record.version < other.version and not force:
                    self._stats.outdated_events += 1
                    return
                self._drop(other)
            self._add(record)
            self._feed.emit(ChangeKind.POD, None, record)
            return
        if record.version < old.version and not force:
            self._stats.outdated_events += 1
            return
        if record.finished:
            self._drop(old)
            self.ended.put(record, force=force)
            return
        self._update(old, record)

    def remove(self, record: Pod) -> None:
        """Take a pod's end; a pod with the same name and another uid is left alone."""
        old = self.by_uid.get(record.uid)
        if old is not None:
            self._drop(old)
        else:
            self.ended.remove(record.uid)

    def name_devices(self, names: frozenset[str]) -> None:
        """Take which extended resources DeviceClasses name now."""
        self._devices = names
        for pod in list(self._pending.values()):
            self._update(pod, of_pod(pod, names))

    def _moved(self, uid: str, hierarchy: Hierarchy) -> None:
        """Take that another gang is the pod's: a group of its hierarchy came, went or changed."""
        pod = self.by_uid[uid]
        self._update(pod, structs.replace(pod, hierarchy=hierarchy))

    # -- views ----------------------------------------------------------------------------

    def bound(self) -> dict[str, tuple[Pod, ...]]:
        """Return node name -> its pods by uid, as a copy that stays as it is."""
        if self._bound_dirty:
            self._bound_view = _renewed(self._bound_view, self._on_node, self._bound_dirty, _by_uid)
            self._bound_dirty.clear()
        return self._bound_view

    def pending(self) -> dict[str, Pod]:
        """Return uid -> pod without a node, as a copy that stays as it is."""
        if self._pending_view is None:
            self._pending_view = dict(self._pending)
        return self._pending_view

    def members(self) -> dict[GangKey, tuple[Pod, ...]]:
        """Return gang key -> its pods by (created, uid), as a copy that stays as it is."""
        if self._member_dirty:
            self._member_view = _renewed(
                self._member_view, self._members, self._member_dirty, _by_age
            )
            self._member_dirty.clear()
        return self._member_view

    # -- indexes --------------------------------------------------------------------------

    def _update(self, old: Pod, new: Pod) -> None:
        uid, node = new.uid, new.node
        same = structs.replace(old, version=new.version) == new
        if not same and (
            node != old.node
            or new.requests != old.requests
            or new.labels != old.labels
            or new.annotations != old.annotations
            or new.pod_group != old.pod_group
            or new.hierarchy != old.hierarchy
            or new.owner != old.owner
            or new.created != old.created
        ):
            self._take_out(old)
            self._add(new)
            self._feed.emit(ChangeKind.POD, old, new)
            return
        # Every index keeps its keys: only the record itself is exchanged.
        self.by_uid[uid] = new
        self._by_name[new.namespace][new.name] = new
        if node:
            self._on_node[node][uid] = new
        else:
            self._pending[uid] = new
        keys = [key for known in (self._gang, self._unit) if (key := known.get(uid)) is not None]
        for key in keys:
            self._members[key][uid] = new
        if same:
            # Taken for its version alone: views keep the equal older record.
            return
        if node:
            self._bound_dirty.setdefault(node, False)
        else:
            self._pending_view = None
        for key in keys:
            self._member_dirty.setdefault(key, False)
        self._feed.emit(ChangeKind.POD, old, new)

    def _drop(self, old: Pod) -> None:
        self._take_out(old)
        self._feed.emit(ChangeKind.POD, old, None)

    def _add(self, pod: Pod) -> None:
        uid = pod.uid
        self.by_uid[uid] = pod
        names = self._by_name.get(pod.namespace)
        if names is None:
            names = self._by_name[pod.namespace] = {}
        names[pod.name] = pod
        node = pod.node
        if node:
            pods = self._on_node.get(node)
            if pods is None:
                pods = self._on_node[node] = {}
            pods[uid] = pod
            self._bound_dirty[node] = True
            self._amounts.add(node, pod.requests, 1)
        else:
            self._pending[uid] = pod
            self._pending_view = None
        if pod.pod_group:
            self.composites.joined(pod)
        key = self._member_key(pod)
        if key is None:
            return
        self._gang[uid] = key
        self._join(key, pod)
        unit = unit_key(key, pod)
        if unit is not None and unit != key:
            self._unit[uid] = unit
            self._join(unit, pod)

    def _join(self, key: GangKey, pod: Pod) -> None:
        members = self._members.get(key)
        if members is None:
            members = self._members[key] = {}
        members[pod.uid] = pod
        self._member_dirty[key] = True

    def _take_out(self, pod: Pod) -> None:
        uid = pod.uid
        del self.by_uid[uid]
        names = self._by_name[pod.namespace]
        del names[pod.name]
        if not names:
            del self._by_name[pod.namespace]
        node = pod.node
        if node:
            pods = self._on_node[node]
            del pods[uid]
            if not pods:
                del self._on_node[node]
            self._bound_dirty.setdefault(node, False)
            self._amounts.add(node, pod.requests, -1)
        else:
            del self._pending[uid]
            self._pending_view = None
        if pod.pod_group:
            self.composites.left(pod)
        for known in (self._gang, self._unit):
            key = known.pop(uid, None)
            if key is None:
                continue
            members = self._members[key]
            del members[uid]
            if not members:
                del self._members[key]
            self._member_dirty.setdefault(key, False)


def _renewed(
    view: dict[Group, tuple[Pod, ...]],
    groups: dict[Group, dict[str, Pod]],
    dirty: dict[Group, bool],
    order: Callable[[Pod], Any],
) -> dict[Group, tuple[Pod, ...]]:
    """Return a copy of ``view`` in which every dirty group's tuple is made anew."""
    view = dict(view)
    for key, joined in dirty.items():
        pods = groups.get(key)
        if pods is None:
            view.pop(key, None)
            continue
        if joined:
            pods = groups[key] = {pod.uid: pod for pod in sorted(pods.values(), key=order)}
        view[key] = tuple(pods.values())
    return view
