"""Which pods are part of which CompositePodGroups, kept up to date as groups come and go."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from extender.groups.composite import MOST_LEVELS, Hierarchy, hierarchy_at
from extender.model.group_sources import CORE
from extender.model.objects import GroupObject, Pod
from extender.model.owner_kinds import COMPOSITE

Name = tuple[str, str]
"""Namespace and name."""


class Composites:
    """Pod.hierarchy of every pod that names a PodGroup.

    ``moved(uid, hierarchy)`` is called for each pod that is here and has another one now. An event
    costs as much as there are groups and pods below the group that changed.
    """

    def __init__(self, moved: Callable[[str, Hierarchy], None]) -> None:
        self._moved = moved
        self._groups: dict[tuple[str, str, str], GroupObject] = {}
        """PodGroups and CompositePodGroups by (source, namespace, name)."""
        self._below: dict[Name, set[tuple[str, str, str]]] = {}
        """CompositePodGroup, there or not, -> the groups that name it as the one above."""
        self._hierarchies: dict[Name, tuple[str, str]] = {}
        """Of PodGroups that are part of one and have pods: of the others nobody asks."""
        self._pods: dict[Name, dict[str, None]] = {}
        """PodGroup, there or not, -> uids of its pods."""

    def placed(self, pod: Pod) -> Pod:
        """Return the pod with the hierarchy that its PodGroup has now."""
        if not pod.pod_group:
            return pod
        name = (pod.namespace, pod.pod_group)
        known = name in self._pods
        hierarchy = self._hierarchies.get(name) if known else hierarchy_at(name, self._groups)
        return pod if pod.hierarchy == hierarchy else replace(pod, hierarchy=hierarchy)

    def joined(self, pod: Pod) -> None:
        """Take a pod that names a PodGroup."""
        name = (pod.namespace, pod.pod_group)
        pods = self._pods.setdefault(name, {})
        if not pods and pod.hierarchy is not None:
            self._hierarchies[name] = pod.hierarchy
        pods[pod.uid] = None

    def left(self, pod: Pod) -> None:
        """Take its end."""
        name = (pod.namespace, pod.pod_group)
        pods = self._pods[name]
        del pods[pod.uid]
        if not pods:
            del self._pods[name]
            self._hierarchies.pop(name, None)

    def changed(self, old: GroupObject | None, new: GroupObject | None) -> None:
        """Take a PodGroup or a CompositePodGroup that came, went or changed."""
        row = new if new is not None else old
        if row is None:
            return
        key = (row.source, row.namespace, row.name)
        if old is not None:
            self._groups.pop(key, None)
            self._unlink(old, key)
        if new is not None:
            self._groups[key] = new
            if new.of:
                self._below.setdefault((new.namespace, new.of), set()).add(key)
        for name in self._leaves(key):
            self._look(name)

    def _unlink(self, row: GroupObject, key: tuple[str, str, str]) -> None:
        above = (row.namespace, row.of)
        below = self._below.get(above)
        if below is not None:
            below.discard(key)
            if not below:
                del self._below[above]

    def _leaves(self, key: tuple[str, str, str]) -> list[Name]:
        """Return the PodGroups with pods at and below a group, in a fixed order."""
        level, found = {key}, set()
        for _ in range(MOST_LEVELS):
            found |= {key[1:] for key in level if key[0] == CORE and key[1:] in self._pods}
            composites = [one for one in level if one[0] == COMPOSITE]
            level = {below for one in composites for below in self._below.get(one[1:], ())}
        return sorted(found)

    def _look(self, name: Name) -> None:
        hierarchy = hierarchy_at(name, self._groups)
        if hierarchy == self._hierarchies.get(name):
            return
        if hierarchy is None:
            del self._hierarchies[name]
        else:
            self._hierarchies[name] = hierarchy
        for uid in list(self._pods.get(name, ())):
            self._moved(uid, hierarchy)
