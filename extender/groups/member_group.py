"""Gangs of a PodGroup with minMember that its own scheduler's API group serves.

Volcano's, KAI's and Koordinator's differ in who names them and where; what is read is
the same. Their priorityClassName is not: any tenant may write any class there, while the
API server checks a pod's. Where the objects cannot be read (not served, or no right to
list them) the pods that exist count, and the gang says so.
"""

from __future__ import annotations

from extender.groups.absent import why_absent
from extender.groups.dialect import Declaration
from extender.groups.sizes import alone, made_by
from extender.model.gang import UNIT_ALL
from extender.model.names import is_name
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot


class MemberGroupDialect:
    """A gang is a PodGroup of one API group, named by the pods."""

    name: str
    """Also the source of its group objects (cache.discovery.CANDIDATES)."""
    api_group: str
    keys: tuple[str, ...]
    explicit = True
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True

    def group_name(self, pod: Pod) -> str | None:
        """Return the PodGroup that the pod names."""
        raise NotImplementedError

    def key(self, pod: Pod) -> GangKey | None:
        """Return the PodGroup named, unless nothing can have this name."""
        name = self.group_name(pod)
        return GangKey(self.name, pod.namespace, name) if name and is_name(name) else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return what the PodGroup says; 0 and 1 are no quorum."""
        what = f"PodGroup {key.namespace}/{key.name} ({self.api_group})"
        if self.name not in snapshot.group_sources:
            return made_by(members, f"{what} is not served or must not be read, and so")
        group = snapshot.groups.get((self.name, key.namespace, key.name))
        if group is None:
            why = why_absent(self.name, key.namespace, key.name, snapshot)
            return Declaration(problems=(f"{what} {why}",))
        count = group.min_count or 0
        if count < 0:
            return Declaration(problems=(f"{what}: minMember is {count}, it must not be negative",))
        return alone(Declaration(min_count=max(1, count)))
