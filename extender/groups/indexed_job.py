"""A Job with completionMode Indexed.

Source: batch/v1 Job; the Job controller puts the completion index on each pod
as annotation and, since 1.28, as label. Jobs in NonIndexed mode carry neither
and are no gang: their pods are interchangeable and independent. The controlling
owner names the Job; label batch.kubernetes.io/job-name only repeats it.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.owned import owner_size
from extender.groups.sizes import made_by
from extender.model.gang import UNIT_ALL
from extender.model.objects import GangKey, Pod
from extender.model.owner_kinds import JOB
from extender.model.snapshot import Snapshot

INDEX = "batch.kubernetes.io/job-completion-index"


class IndexedJobDialect:
    """A gang is the pods of one Indexed Job.

    It goes whole as a victim, but does not start whole: an Indexed Job that asks
    for nothing runs index by index on a stock cluster and must go on doing so.
    """

    name = "indexed-job"
    explicit = False
    unit = UNIT_ALL
    states_unit = False
    starts_whole = False
    keys = (INDEX,)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the Job that owns the pod, when the pod has a completion index."""
        owner = pod.owner
        if owner is None or owner.kind != "Job":
            return None
        if INDEX not in pod.annotations and INDEX not in pod.labels:
            return None
        return GangKey(self.name, pod.namespace, owner.name)

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return what the Job still wants, where all Jobs are read, else the size annotated.

        They are where groups.startsWhole makes such gangs wait: for nothing else the size counts.
        """
        if (JOB, key.namespace, key.name) in snapshot.groups:
            return owner_size(JOB, key, key.name, members, snapshot, _none_comes_later)
        return made_by(members, f"Indexed Job {key.namespace}/{key.name}")


def _none_comes_later(pod: Pod) -> tuple[tuple[str, str], ...]:
    return ()
