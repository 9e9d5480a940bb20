"""A Koordinator gang that is stated on its pods, alone or in a group of gangs.

Source: koordinator-sh/koordinator, apis/extension/coscheduling.go and
docs/proposals/scheduling/20220901-gang-scheduling.md. Its third form, the label
pod-group.scheduling.sigs.k8s.io/name, is the dialect scheduling-plugins-label; the form
with a PodGroup object is koordinator-pod-group.
"""

from __future__ import annotations

import msgspec

from extender.groups.dialect import Declaration
from extender.groups.sizes import once_together, stated_size
from extender.model.gang import UNIT_ALL
from extender.model.interning import remembered
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


class KoordinatorDialect:
    """A gang is the pods of one name; gangs that list each other in ``groups`` are one gang."""

    name = "koordinator"
    explicit = True
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True

    def key(self, pod: Pod) -> GangKey | None:
        """Return the gang of the annotation, or the first, by name, of its gang group."""
        name = pod.annotations.get(NAME)
        if not name or not is_name(name):
            return None
        together = _together(pod, name)
        return GangKey(self.name, pod.namespace, min(together) if together else name)

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the sum of what each gang of the gang group needs.

        A gang of the group that has no pod yet counts as one that is missing.
        """
        by_name: dict[str, list[Pod]] = {}
        together: set[str] = set()
        for pod in members:
            name = pod.annotations.get(NAME, key.name)
            by_name.setdefault(name, []).append(pod)
            together |= _together(pod, name)
        total = 0
        problems: list[str] = []
        notes: list[str] = []
        for name in sorted(by_name):
            said = stated_size(tuple(by_name[name]), "annotation", MIN)
            total += said.min_count or 0
            problems += said.problems
            notes += said.notes
        missing = sorted(together - by_name.keys())
        if together:
            notes.append(
                f"gang group of {counted(len(together | by_name.keys()), 'gang')}: all at once"
            )
        if missing:
            have = "has" if len(missing) == 1 else "have"
            what = counted(len(missing), "gang")
            notes.append(f"{what} of the group {have} no pod yet, first {missing[0]}")
        elsewhere = any(_elsewhere(pod) for pod in members)
        if elsewhere:
            notes.append("gangs of other namespaces in the group are not waited for")
        said = Declaration(
            min_count=None if problems else total + len(missing),
            problems=tuple(problems[:5]),
            notes=tuple(notes[:5]),
        )
        # Its match policy is once-satisfied unless the pods name another.
        return once_together(said, members)


def _together(pod: Pod, name: str) -> frozenset[str]:
    """The gangs of the pod's group in its own namespace; none when it does not name itself."""
    text = pod.annotations.get(GROUPS)
    if not text:
        return frozenset()
    own = frozenset(gang for namespace, gang in _listed(text) if namespace == pod.namespace)
    return own if name in own and len(own) > 1 else frozenset()


def _elsewhere(pod: Pod) -> bool:
    text = pod.annotations.get(GROUPS)
    return bool(text) and any(ns != pod.namespace for ns, _ in _listed(text or ""))


@remembered(256)
def _listed(text: str) -> tuple[tuple[str, str], ...]:
    """Return (namespace, name) of each gang listed; nothing of what is no such list."""
    try:
        found = msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    pairs = [each.partition("/") for each in found[: MOST_GROUPS + 1]]
    if len(pairs) > MOST_GROUPS or not all(is_name(ns) and is_name(name) for ns, _, name in pairs):
        return ()
    return tuple((namespace, name) for namespace, _, name in pairs)
