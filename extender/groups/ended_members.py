"""Members that have succeeded: how far they count for the size of their gang.

Kueue (runnableOrSucceededPods of pkg/controller/jobs/pod) and Volcano (ReadyTaskNum,
CheckTaskReady) count them. Without that a gang of four of which one is done would be below its
quorum for ever: the three that run together would be single victims, and one made anew would wait
for a fourth.

They stand in for members that lack, never for one that is there or that a Job still makes: a Job of
a hundred pods, four at a time, starts four at once however many are done. Those of an earlier run
under the group's name do not count. Of those whose pods are gone their owners tell
(extender.groups.done_by_owner); owners that state the size leave them out of it
(extender.groups.owned).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from extender.groups.dialect import Declaration
from extender.groups.done_by_owner import CleanedUp
from extender.model.gang import GangPart
from extender.model.objects import EMPTY_SHAPE, GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

MOST_ENDED = 20_000
"""Kept of all gangs; the longest known go first. kube-controller-manager keeps 12,500 finished pods
unless told otherwise (--terminated-pod-gc-threshold)."""
NEVER_REUSED = frozenset({"kueue"})
"""Dialects of whose groups none begins anew while pods of it are there that are done."""


def counts_as_ended(pod: Pod) -> bool:
    """Whether the pod is done with its work, and not on its way out."""
    return pod.phase == "Succeeded"


def slim(pod: Pod) -> Pod:
    """Return what is kept of a pod that is done."""
    return replace(pod, shape=EMPTY_SHAPE, requests=(), nominated="", tried=False, unready=False)


def of_this_run(key: GangKey, members: Sequence[Pod], snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods that are done and belong to the same run of the gang as ``members``.

    A pod of the same owner does: what one owner has done it does not do again. Without that, one
    beside which a member was there when it started.
    """
    ended = snapshot.ended.get(key, ())
    if not ended or key.dialect in NEVER_REUSED:
        return ended
    staying = [pod for pod in members if not pod.deleting]
    owners = {pod.owner.uid for pod in staying if pod.owner is not None and pod.owner.uid}
    first = min((pod.created for pod in staying), default=0.0)
    return tuple(
        pod
        for pod in ended
        if (pod.owner is not None and pod.owner.uid in owners)
        or (staying and pod.started and first <= pod.started)
    )


def less_ended(
    said: Declaration, ended: Sequence[Pod], gone: CleanedUp, members: Sequence[Pod]
) -> tuple[Declaration, int]:
    """Return the declaration without what pods that are done stand in for, and how many do.

    ``gone``: those that exist no longer; of which part they were is not known. As a victim the
    gang is whole without what a Job makes in their place: those beside them ran together.
    """
    over = len(ended) + gone.count
    if not over or not said.counts_ended or said.min_count is None or said.problems:
        return said, 0
    staying = {pod.uid for pod in members if not pod.deleting}
    together = _left(said.min_count, over, len(staying))
    least = _left(said.min_count, over, max(len(staying), gone.awaited))
    parts = tuple(
        part for each in said.parts if (part := _part_left(each, ended, staying)) is not None
    )
    stands_in = said.min_count - least
    whole_from = said.whole_from
    if together < least:
        whole_from = together if whole_from is None else min(whole_from, together)
    if not stands_in and parts == said.parts:
        return replace(said, whole_from=whole_from), 0
    done = counted(over, "member", "has", "have")
    told = f"{done} succeeded, and {least} of its {said.min_count} are needed still"
    return replace(
        said,
        min_count=least,
        parts=parts,
        whole_from=None if whole_from is None else max(1, min(whole_from, least)),
        notes=(*said.notes, told),
    ), max(1, stands_in)


def _left(least: int, done: int, there: int) -> int:
    """How many are needed still of ``least``: pods that are done fill up what lacks."""
    return max(1, least - done, min(least, there))


def _part_left(part: GangPart, ended: Sequence[Pod], staying: set[str]) -> GangPart | None:
    done = sum(pod.uid in part.uids for pod in ended)
    if not done:
        return part
    there = len(part.uids & staying)
    least = max(part.least - done, min(part.least, there))
    return replace(part, least=least) if least else None
