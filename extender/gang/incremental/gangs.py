"""Resolved gangs that survive from one snapshot to the next.

What a gang is depends on its members, on the group and priority class objects,
and on groups of the same name in another dialect. Snapshots share these while
they do not change, so identity tells which gangs must be resolved again.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.groups.composite import CORE, POD_GROUP
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.owner_kinds import COMPOSITE
from extender.model.snapshot import Snapshot, differing


class Gangs:
    """Gangs by key, each resolved when first asked for and kept while it stays the same."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._snapshot = Snapshot(generation=-1)
        self._members: Mapping[GangKey, tuple[Pod, ...]] = {}
        self._kept: dict[GangKey, Gang] = {}

    def renew(self, snapshot: Snapshot) -> None:
        """Forget every gang that may be another one in this snapshot."""
        old, members = self._members, snapshot.members
        before = self._snapshot
        if (
            snapshot.group_sources != before.group_sources
            or snapshot.priority_classes is not before.priority_classes
        ):
            self._kept = {}
        elif members is not old or snapshot.groups is not before.groups:
            changed = {key[1:] for key, pods in members.items() if old.get(key) is not pods}
            changed |= {key[1:] for key in old if key not in members}
            told_of = _told_of(before.groups, snapshot.groups)
            changed |= told_of
            above = _composite_in(before.groups, snapshot.groups)
            if above:
                self._kept = {
                    key: gang
                    for key, gang in self._kept.items()
                    if key.dialect != POD_GROUP or key.namespace not in above
                }
            if any(not namespace for namespace, _ in told_of):
                self._kept = {}  # what has no namespace concerns them all
            elif changed:
                self._kept = {
                    key: gang
                    for key, gang in self._kept.items()
                    if key[1:] not in changed and _set_of(key) not in changed
                }
        self._members = members
        self._snapshot = snapshot

    def __getitem__(self, key: GangKey) -> Gang:
        """Return the gang as it is in the snapshot of the last ``renew``."""
        found = self._kept.get(key)
        if found is None:
            found = self._resolver.resolve(key, self._snapshot)
            if key in self._members:  # else nothing would ever tell that it can be forgotten
                self._kept[key] = found
        return found


def _told_of(
    before: Mapping[tuple[str, str, str], GroupObject],
    after: Mapping[tuple[str, str, str], GroupObject],
) -> set[tuple[str, str]]:
    """Return (namespace, name) of what the objects that differ tell of."""
    found: set[tuple[str, str]] = set()
    for key in differing(before, after):
        found.add(key[1:])
        found.update((key[1], row.of) for at in (before, after) if (row := at.get(key)) and row.of)
    return found


def _composite_in(
    before: Mapping[tuple[str, str, str], GroupObject],
    after: Mapping[tuple[str, str, str], GroupObject],
) -> set[str]:
    """Return the namespaces where a group of a hierarchy differs: whatever is below rests on it."""
    return {
        key[1]
        for key in differing(before, after)
        for row in (before.get(key), after.get(key))
        if row is not None and (key[0] == COMPOSITE or (key[0] == CORE and row.of))
    }


def _set_of(key: GangKey) -> tuple[str, str]:
    """Return the LeaderWorkerSet that a gang would be a group of, by its name."""
    return (key.namespace, key.name.rpartition("-")[0])
