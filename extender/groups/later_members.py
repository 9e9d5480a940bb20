"""Members that a group's quorum counts and that are made only once others run.

A PodGroup's minCount is of all pods of a job. Where its owner makes some of them later (a JobSet
with exclusive topology, startupPolicy InOrder or dependsOn, an MPIJob's launcher with
WaitForWorkersReady, the workers of a LeaderWorkerSet), nobody would ever start. So what can be
there by now is the quorum, if the owner may be read, and the others are foreseen as for a gang of
the owner alone: nobody goes unless there is room for all. Once they exist the quorum is the
group's.
"""

from __future__ import annotations

from msgspec.structs import replace

from extender.groups.dialect import Declaration, Dialect
from extender.model.objects import GangKey, Pod
from extender.model.owners import EXCLUSIVE
from extender.model.snapshot import Snapshot
from extender.model.texts import counted


def with_later(
    said: Declaration,
    members: tuple[Pod, ...],
    made_by: Dialect | None,
    snapshot: Snapshot,
) -> tuple[Declaration, GangKey | None]:
    """Return the declaration as far as it can be kept now, and whose owner was asked for it.

    ``made_by`` is the dialect of what made the members, None where it is none or not known.
    """
    if made_by is None or said.min_count is None or said.problems or said.parts:
        return said, None
    there = sum(not pod.deleting for pod in members)
    if there >= said.min_count:
        return said, None
    keys = {made_by.key(pod) for pod in members}
    key = next(iter(keys))
    if key is None or len(keys) > 1:
        return said, None
    return _now(said, made_by.declare(key, members, snapshot), members), key


def _now(said: Declaration, owner: Declaration, members: tuple[Pod, ...]) -> Declaration:
    assert said.min_count is not None
    if not owner.coming or owner.min_count is None or owner.unplanned or owner.problems:
        if any(EXCLUSIVE in pod.annotations for pod in members):
            told = (
                "exclusive topology: the pods that lack are made once others have a node; state a "
                "quorum without them, or let JobSets be read (rbac.otherGroups)"
            )
            return replace(said, notes=(*said.notes, told))
        return said
    least = min(said.min_count, owner.min_count)
    lack = said.min_count - least
    those = counted(lack, "pod", f"of the {said.min_count} is", f"of the {said.min_count} are")
    return replace(
        said,
        min_count=least,
        followers=owner.followers,
        notes=(*said.notes, f"{those} made once others run, and not waited for", *owner.notes),
    )
