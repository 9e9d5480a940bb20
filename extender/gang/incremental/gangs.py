"""Resolved gangs that survive from one snapshot to the next.

What a gang is depends on its members, also on those that are done, on whether their nodes
exist, on the group and priority class objects, and on groups of the same name in another
dialect. Snapshots share these while they do not change, so identity tells which gangs must
be resolved again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from extender.groups.composite import POD_GROUP
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.group_sources import CORE
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
        elif (
            members is not old
            or snapshot.groups is not before.groups
            or snapshot.ended is not before.ended
            or snapshot.unreadable is not before.unreadable
        ):
            changed = {key[1:] for key, pods in members.items() if old.get(key) is not pods}
            changed |= {key[1:] for key in old if key not in members}
            changed |= {key[1:] for key in differing(before.ended, snapshot.ended)}
            told = _told(before.groups, snapshot.groups)
            left_out = differing(before.unreadable, snapshot.unreadable)
            told_of = _told_of(told) | {key[1:] for key in left_out}
            changed |= told_of
            above = _composite_in(told)
            above |= {namespace for source, namespace, _ in left_out if source == COMPOSITE}
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
                    if not changed.intersection(_rests_on(key, gang))
                }
        if snapshot.nodes is not before.nodes:
            came_or_went = before.nodes.keys() ^ snapshot.nodes.keys()
            if came_or_went:
                self._kept = {
                    key: gang
                    for key, gang in self._kept.items()
                    if not any(pod.node in came_or_went for pod in gang.members)
                }
        self._members = members
        self._snapshot = snapshot

    def __getitem__(self, key: GangKey) -> Gang:
        """Return the gang as it is in the snapshot of the last ``renew``."""
        found = self._kept.get(key)
        if found is None:
            found = self._resolver.resolve(key, self._snapshot)
            if key in self._members:
                self._kept[key] = found  # else nothing would ever tell that it can be forgotten
        return found


def _told(
    before: Mapping[tuple[str, str, str], GroupObject],
    after: Mapping[tuple[str, str, str], GroupObject],
) -> list[GroupObject]:
    """Return the objects that differ, as they were and as they are."""
    changed = differing(before, after)
    return [row for key in changed for at in (before, after) if (row := at.get(key)) is not None]


def _told_of(rows: Iterable[GroupObject]) -> set[tuple[str, str]]:
    """Return (namespace, name) of what objects tell of."""
    found: set[tuple[str, str]] = set()
    for row in rows:
        found.add((row.namespace, row.name))
        if row.of:
            found.add((row.namespace, row.of))
    return found


def _composite_in(rows: Iterable[GroupObject]) -> set[str]:
    """Return the namespaces of groups of a hierarchy: whatever is below rests on them."""
    return {
        row.namespace for row in rows if row.source == COMPOSITE or (row.source == CORE and row.of)
    }


def _rests_on(key: GangKey, gang: Gang) -> Iterator[tuple[str, str]]:
    """Yield (namespace, name) of what tells of the gang: itself, the LeaderWorkerSet that it would
    be a group of, the same of its owner where that was asked, and owners that tell who is done."""
    for name in gang.owners:
        yield key.namespace, name
    for each in (key, gang.asked):
        if each is not None:
            yield each.namespace, each.name
            yield each.namespace, each.name.rpartition("-")[0]
