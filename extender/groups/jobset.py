"""JobSet: all pods of one JobSet, whatever its replicated Jobs.

Source: labels of sigs.k8s.io/jobset. The pods are owned by Jobs and carry the
Jobs' labels as well; the JobSet is what restarts as a whole when a Job fails,
so it is what goes as a whole. The size is on no label.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.sizes import made_by
from extender.model.gang import UNIT_ALL
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

LABEL = "jobset.sigs.k8s.io/jobset-name"


class JobSetDialect:
    """A gang is the pods that share the JobSet's name label."""

    name = "jobset"
    explicit = False
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True

    def key(self, pod: Pod) -> GangKey | None:
        """Return the JobSet of the label."""
        name = pod.labels.get(LABEL)
        return GangKey(self.name, pod.namespace, name) if name else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the size annotated, else an unknown one."""
        return made_by(members, f"JobSet {key.namespace}/{key.name}")
