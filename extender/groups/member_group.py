"""Gangs of a PodGroup with minMember that its own scheduler's API group serves.

Volcano's, KAI's and Koordinator's differ in who names them and where; what is read is
the same. Their priorityClassName is not: any tenant may write any class there, while the
API server checks a pod's. Where the objects cannot be read (not served, or no right to
list them) the pods that exist count, and the gang says so.
"""

from __future__ import annotations

from msgspec.structs import replace

from extender.groups.absent import why_absent
from extender.groups.dialect import Declaration
from extender.groups.sizes import alone, made_by
from extender.model.gang import UNIT_ALL, GangPart
from extender.model.group_sources import API_GROUPS
from extender.model.names import is_name
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.owner_budget import OwnerBudget
from extender.model.snapshot import Snapshot


class MemberGroupDialect:
    """A gang is a PodGroup of one API group, named by the pods."""

    name: str
    """Also the source of its group objects (model.group_sources.API_GROUPS)."""
    api_group: str
    """Told of the PodGroup; the one that is read."""
    keys: tuple[str, ...]
    explicit = True
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True

    def __init_subclass__(cls) -> None:
        """Raises KeyError for a name that no source of group objects has: none would be read."""
        cls.api_group = API_GROUPS[cls.name]

    def group_name(self, pod: Pod) -> str | None:
        """Return the PodGroup that the pod names."""
        raise NotImplementedError

    def part_name(self, pod: Pod) -> str:
        """Return which part of the group the pod belongs to, "" for none."""
        return ""

    def own_budget(self, members: tuple[Pod, ...]) -> tuple[OwnerBudget | None, str]:
        """Return the budget that the pods themselves state, and what of it does not count."""
        return None, ""

    def key(self, pod: Pod) -> GangKey | None:
        """Return the PodGroup named, unless nothing can have this name."""
        name = self.group_name(pod)
        return GangKey(self.name, pod.namespace, name) if name and is_name(name) else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return what the PodGroup says; 0 and 1 are no quorum, but for a part of its own."""
        what = f"PodGroup {key.namespace}/{key.name} ({self.api_group})"
        if self.name not in snapshot.group_sources:
            said = made_by(members, f"{what} is not served or must not be read, and so")
            return _with_budget(said, *self.own_budget(members))
        group = snapshot.groups.get((self.name, key.namespace, key.name))
        if group is None:
            why = why_absent(self.name, key.namespace, key.name, snapshot)
            return Declaration(problems=(f"{what} {why}",))
        count = group.min_count or 0
        if count < 0:
            return Declaration(problems=(f"{what}: minMember is {count}, it must not be negative",))
        found = self._parts(group, (*members, *snapshot.ended.get(key, ())))
        said = Declaration(
            min_count=max(1, count), parts=found, whole_from=group.whole_from, counts_ended=True
        )
        if group.unkept:
            return replace(said, unplanned=(group.unkept,))
        there = {pod.uid for pod in members}
        if all(there <= part.uids for part in found):
            # A quorum of one that any pod makes; not one of a part that others wait for.
            said = alone(said)
        return _with_budget(said, group.budget, group.note)

    def _parts(self, group: GroupObject, members: tuple[Pod, ...]) -> tuple[GangPart, ...]:
        """Return the parts that need a number of members of their own, with their members."""
        if not group.parts:
            return ()
        uids: dict[str, list[str]] = {part.name: [] for part in group.parts}
        for pod in members:
            within = uids.get(self.part_name(pod))
            if within is not None:
                within.append(pod.uid)
        return tuple(
            GangPart(part.name, frozenset(uids[part.name]), part.each) for part in group.parts
        )


def _with_budget(said: Declaration, budget: OwnerBudget | None, note: str) -> Declaration:
    return replace(said, budget=budget, notes=(*said.notes, note) if note else said.notes)
