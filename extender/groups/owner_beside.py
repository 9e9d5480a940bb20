"""What a group's members are by their owner, where the group states one number for all of them.

KubeRay (Volcano, scheduler-plugins, scheduling.k8s.io) and training-operator make a PodGroup of
which any pods would be the quorum: two workers, and the RayCluster's head has no node. The number
does not replace what each part of the owner needs.

Where the group asks for fewer pods than its owner makes, what the owner cannot do without is needed
still: a RayCluster's head and minReplicas of each worker group. KubeRay asks for no fewer, but does
not write scheduler-plugins' PodGroup again when the RayCluster changes. Other owners say no such
thing (minAvailable of a training job is of whichever pods).

A group may be of some of the owner's pods alone. It is where its number is too small for all parts,
or where pods of the owner are in no group: parts without a pod in it are not waited for then.
"""

from __future__ import annotations

from msgspec.structs import replace

from extender.groups.dialect import Declaration, Dialect
from extender.groups.later_members import with_later
from extender.groups.sizes import ALONE
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot


def with_owner(
    said: Declaration,
    members: tuple[Pod, ...],
    made_by: Dialect | None,
    snapshot: Snapshot,
    *,
    ended: int,
) -> tuple[Declaration, GangKey | None]:
    """Return the declaration of the group with what its owner adds, and whose owner was asked.

    ``made_by`` is the dialect of what made the members, None where it is none or not known;
    ``ended``: how many more are done, of which their owner may not tell yet.
    """
    if made_by is None or said.min_count is None or said.problems or said.parts:
        return said, None
    keys = [made_by.key(pod) for pod in members]
    known = set(keys) - {None}
    key = known.pop() if len(known) == 1 else None
    if key is None:
        return said, None
    own = tuple(pod for pod, of in zip(members, keys, strict=True) if of is not None)
    owner = made_by.declare(key, own, snapshot)
    if len(own) == len(members):
        said = with_later(said, owner, members)
    return _with_parts(said, owner, partly=key in snapshot.members or ended > 0), key


def _with_parts(said: Declaration, owner: Declaration, *, partly: bool) -> Declaration:
    """Return the declaration with the parts of the owner; ``partly``: not of all."""
    assert said.min_count is not None
    if owner.problems or (said.starts_whole is False and not said.of_one):
        return said
    parts = owner.parts
    if partly or said.min_count < sum(part.least for part in parts):
        parts = tuple(part for part in parts if part.uids)
    if said.min_count < sum(part.least for part in parts):
        parts = tuple(part for part in owner.fewest if part.uids)
    if not parts:
        return said
    if said.of_one:
        notes = tuple(note for note in said.notes if note != ALONE)
        said = replace(said, of_one=False, starts_whole=None, notes=notes)
    # As a victim it is whole without pods that are done, if each part of the owner has run.
    whole_from = said.whole_from or said.min_count
    return replace(said, parts=parts, whole_from=whole_from if owner.whole_from else None)
