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

from extender.decode.owners import EXCLUSIVE
from extender.groups.dialect import Declaration
from extender.model.objects import Pod
from extender.model.texts import counted


def with_later(said: Declaration, owner: Declaration, members: tuple[Pod, ...]) -> Declaration:
    """Return the declaration of a group as far as it can be kept now.

    ``owner`` is what the one that made all of the members says.
    """
    assert said.min_count is not None
    if sum(not pod.deleting for pod in members) >= said.min_count:
        return said
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
