"""JobSet: all pods of one JobSet, whatever its replicated Jobs.

Source: labels of sigs.k8s.io/jobset. The pods are owned by Jobs and carry the
Jobs' labels as well; the JobSet is what restarts as a whole when a Job fails,
so it is what goes as a whole. The size is on no label: the JobSet has it, where it may be
read, and its Jobs tell which of its pods have finished.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.owned import FOLLOWS, owner_size
from extender.model.gang import UNIT_ALL
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

LABEL = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
INDEX = "batch.kubernetes.io/job-completion-index"


class JobSetDialect:
    """A gang is the pods that share the JobSet's name label."""

    name = "jobset"
    explicit = False
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True
    keys = (LABEL,)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the JobSet of the label."""
        name = pod.labels.get(LABEL)
        return GangKey(self.name, pod.namespace, name) if name else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the size of the JobSet, else the one annotated, else an unknown one."""
        return owner_size(self.name, key, key.name, members, snapshot, _parts_of)


def _parts_of(pod: Pod) -> tuple[tuple[str, str], ...]:
    name = pod.labels.get(REPLICATED_JOB)
    if name is None:
        return ()
    first = (pod.annotations.get(INDEX) or pod.labels.get(INDEX)) == "0"
    index = "first" if first else f"{FOLLOWS}{pod.labels.get(JOB_INDEX, '')}"
    return (name.lower(), ""), (name.lower(), index)
