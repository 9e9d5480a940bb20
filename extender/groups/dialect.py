"""What a dialect has to say about a pod and about a gang."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from extender.model.gang import GangPart
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.owner_budget import OwnerBudget
from extender.model.snapshot import Snapshot
from extender.model.texts import all_of


class Declaration(Struct, frozen=True, gc=False):
    """What a dialect states about one gang, before defaults and configuration.

    An empty or None field means that the dialect does not say.
    """

    min_count: int | None = None
    """None: the size is stated nowhere, so every member counts."""
    parts: tuple[GangPart, ...] = ()
    """As in Gang."""
    fewest: tuple[GangPart, ...] = ()
    """Of an owner: the parts as far as it cannot do without them, where it says so."""
    budget: OwnerBudget | None = None
    """As in Gang."""
    unit: str = ""
    """UNIT_ALL or UNIT_SINGLE when the group itself decides; "" leaves it to
    configuration and to the dialect's default."""
    starts_whole: bool | None = None
    priority: int | None = None
    priority_class: str = ""
    preempts: bool = True
    topology_key: str = ""
    coming: int = 0
    """How many of its owner's pods are made once others run; followers are those of them that
    can be foreseen."""
    followers: tuple[Pod, ...] = ()
    """As in Gang."""
    whole_from: int | None = None
    """As in Gang."""
    of_one: bool = False
    """Its quorum is one pod, so it makes no gang: its pods are what their maker made of them."""
    counts_ended: bool = False
    """Members that have succeeded count for min_count (extender.groups.ended_members)."""
    problems: tuple[str, ...] = ()
    unplanned: tuple[str, ...] = ()
    """As in Gang."""
    notes: tuple[str, ...] = ()


class Dialect(Protocol):
    """One ecosystem's way to declare a gang."""

    name: str
    """As written in GroupSettings.dialects and in GangKey.dialect."""
    explicit: bool
    """True: the pod names its group on purpose, which beats what owners and
    launchers imply. Two explicit names that differ are a conflict."""
    unit: str
    """How its gangs are disrupted when neither the group nor configuration says."""
    states_unit: bool
    """True: the group always says how it is disrupted, so configuration cannot."""
    starts_whole: bool
    """Whether members wait for each other, unless the group or configuration says."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Labels and annotations of which every member has one, unless its spec names the gang:
        of a pod without any of them the dialect is not asked."""

    def key(self, pod: Pod) -> GangKey | None:
        """Return the gang the pod names in this dialect; depends on the pod alone."""

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return what is stated about the gang (the size rule lives here)."""


def checked_min_count(group: GroupObject, field: str, owner: str) -> tuple[str, ...]:
    """Return the problem with a group object's quorum: none, or one text.

    ``field`` is how the dialect spells minCount, ``owner`` its API group.
    """
    if group.min_count is None or group.min_count >= 1:
        return ()
    return (
        f"PodGroup {group.namespace}/{group.name} ({owner}): {field} is {group.min_count}, "
        "it must be at least 1",
    )


def unknown_size(members: tuple[Pod, ...], what: str) -> Declaration:
    """Return the declaration of a gang whose size is stated nowhere."""
    staying = sum(not pod.deleting for pod in members)
    those = all_of(staying, "pod", "that exists now counts", "that exist now count")
    return Declaration(notes=(f"{what} states no size: {those} as the gang",))
