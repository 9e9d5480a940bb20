"""A Koordinator gang that is stated on its pods, alone or in a group of gangs.

Source: koordinator-sh/koordinator, apis/extension/coscheduling.go and
docs/proposals/scheduling/20220901-gang-scheduling.md. Its third form, the label
pod-group.scheduling.sigs.k8s.io/name, is the dialect scheduling-plugins-label; the form
with a PodGroup object is koordinator-pod-group.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extender.decode.interning import remembered
from extender.groups.dialect import Declaration
from extender.groups.sizes import gang_parts, once_together, stated_size
from extender.model.gang import UNIT_ALL
from extender.model.names import is_name
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

PREFIX = "gang.scheduling.koordinator.sh/"
NAME = PREFIX + "name"
MIN = PREFIX + "min-available"
GROUPS = PREFIX + "groups"
MOST_GROUPS = 64
"""Gangs of one gang group; a longer list is not followed."""
MOST_TEXTS = 2 * MOST_GROUPS
"""Ways in which the pods of one gang may write it: each gang of a group has its own template."""

Listed = tuple[Mapping[str, frozenset[str]], bool]
"""Of a list of gangs: their names by namespace, and whether there is more than one namespace."""
NOTHING: Listed = ({}, False)


class KoordinatorDialect:
    """A gang is the pods of one name; gangs that list each other in ``groups`` are one gang."""

    name = "koordinator"
    explicit = True
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True
    keys = (NAME,)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the gang of the annotation, or the first, by name, of its gang group."""
        name = pod.annotations.get(NAME)
        if not name or not is_name(name):
            return None
        together = _together(pod.annotations.get(GROUPS, ""), pod.namespace, name)
        return GangKey(self.name, pod.namespace, min(together) if together else name)

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the sum of what each gang of the gang group needs.

        A gang of the group that has no pod yet counts as one that is missing.
        """
        by_name: dict[str, list[Pod]] = {}
        lists: set[tuple[str, str]] = set()
        for pod in members:
            name = pod.annotations.get(NAME, key.name)
            by_name.setdefault(name, []).append(pod)
            lists.add((pod.annotations.get(GROUPS, ""), name))
        if len(lists) > MOST_TEXTS:
            return Declaration(
                problems=(
                    f"annotation {GROUPS} is written in {counted(len(lists), 'way')} on the "
                    f"pods of gang {key.name}, at most {MOST_TEXTS} are read",
                )
            )
        together: set[str] = set()
        for text, name in lists:
            together |= _together(text, key.namespace, name)
        least = dict.fromkeys(together - by_name.keys(), 1)
        problems: list[str] = []
        notes: list[str] = []
        for name in sorted(by_name):
            said = stated_size(tuple(by_name[name]), "annotation", MIN)
            least[name] = said.min_count or 0
            problems += said.problems
            notes += said.notes
        missing = sorted(together - by_name.keys())
        if together:
            notes.append(
                f"gang group of {counted(len(together | by_name.keys()), 'gang')}: all at once"
            )
        if missing:
            # They may have pods all the same: pods that list another group, or none, which are
            # then gangs of their own.
            those = counted(len(missing), "gang", "of the group has", "of the group have")
            notes.append(
                f"{those} no pod that lists the group, "
                f"first {missing[0]}: one of each is waited for"
            )
        if any(_elsewhere(text, key.namespace) for text, _ in lists):
            notes.append("gangs of other namespaces in the group are not waited for")
        everybody = (*members, *snapshot.ended.get(key, ()))
        said = Declaration(
            min_count=None if problems else sum(least.values()),
            parts=gang_parts(least, everybody, lambda pod: {pod.annotations.get(NAME, key.name)}),
            problems=tuple(problems[:5]),
            counts_ended=True,
            notes=tuple(notes[:5]),
        )
        # Its match policy is once-satisfied unless the pods name another.
        return once_together(said, members)


def _together(text: str, namespace: str, name: str) -> frozenset[str]:
    """The gangs of a pod's group in its own namespace; none when it does not name itself."""
    if not text:
        return frozenset()
    own = _listed(text)[0].get(namespace, frozenset())
    return own if name in own and len(own) > 1 else frozenset()


def _elsewhere(text: str, namespace: str) -> bool:
    if not text:
        return False
    own, several = _listed(text)
    return several or bool(own and namespace not in own)


@remembered(256)
def _listed(text: str) -> Listed:
    """Return the gangs listed; nothing of what is no such list."""
    try:
        found = msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NOTHING
    if len(found) > MOST_GROUPS:
        return NOTHING
    by_namespace: dict[str, set[str]] = {}
    for each in found:
        namespace, _, name = each.partition("/")
        if not is_name(namespace) or not is_name(name):
            return NOTHING
        by_namespace.setdefault(namespace, set()).add(name)
    return {at: frozenset(names) for at, names in by_namespace.items()}, len(by_namespace) > 1
