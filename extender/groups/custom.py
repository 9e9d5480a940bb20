"""groups.custom: gangs named and sized as the configuration says, for what nobody foresaw."""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.sizes import made_by, stated_size
from extender.model.names import is_name
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.settings.custom_groups import CustomGroup


class CustomDialect:
    """A gang is the pods that share the value of one label or annotation."""

    states_unit = True

    def __init__(self, group: CustomGroup) -> None:
        self.name = group.name
        self.explicit = group.explicit
        self.unit: str = group.unit
        self.starts_whole = group.starts_whole
        self.keys = (group.label or group.annotation,)
        self._group = group

    def key(self, pod: Pod) -> GangKey | None:
        """Return the group named, unless nothing can have this name."""
        group = self._group
        found = pod.labels.get(group.label) if group.label else None
        if group.annotation:
            found = pod.annotations.get(group.annotation)
        return GangKey(self.name, pod.namespace, found) if found and is_name(found) else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the size: configured, else where it is configured to be, else unknown."""
        group = self._group
        if group.size is not None:
            return Declaration(min_count=group.size, counts_ended=True)
        if group.size_label:
            return stated_size(members, "label", group.size_label)
        if group.size_annotation:
            return stated_size(members, "annotation", group.size_annotation)
        return made_by(members, f"group {key.namespace}/{key.name} of {self.name}")
