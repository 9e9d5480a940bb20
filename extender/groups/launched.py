"""Gangs that an operator launches and of whose pods only labels tell: no size is on them.

It is in the object they were launched by, where such objects may be read.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.owned import owner_size
from extender.groups.sizes import made_by
from extender.model.gang import UNIT_ALL
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot


class LaunchedDialect:
    """A gang is the pods that share the name label, where a second label vouches for it."""

    name: str
    what: str
    """What it is called when its size is unknown."""
    label: str
    witness: str
    """Label that every pod of this maker has; the first alone may be anybody's."""
    explicit = False
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the name label."""
        return (self.label,)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the gang of the name label."""
        name = pod.labels.get(self.label)
        if not name or self.witness not in pod.labels:
            return None
        return GangKey(self.name, pod.namespace, name)

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the size of the owner, else the one annotated, else an unknown one."""
        source = self.source(members)
        if source is None:
            return made_by(members, f"{self.what} {key.namespace}/{key.name}")
        return owner_size(source, key, key.name, members, snapshot, self.parts_of)

    def source(self, members: tuple[Pod, ...]) -> str | None:
        """Return what the owner's kind is called in OWNER_KINDS; None: none is read."""
        return None

    def parts_of(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        """Return of which parts of the owner a pod is (groups.owned.PartsOf), as far as they
        may come later."""
        return ()
