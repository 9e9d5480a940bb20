"""A Kueue group of plain pods: its name and its total count are on every pod.

Source: sigs.k8s.io/kueue, pkg/controller/jobs/pod. The name is a label, or, since 0.18,
an annotation of the same key, which is read first. Kueue admits, preempts and deletes
the group as one, and the total is its only size. Members that Kueue still holds
(scheduling gate kueue.x-k8s.io/admission) are counted and not planned for.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.sizes import stated_size
from extender.model.gang import UNIT_ALL
from extender.model.names import is_name
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

NAME = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
SERVING = "kueue.x-k8s.io/pod-group-serving"
FAST = "kueue.x-k8s.io/pod-group-fast-admission"


class KueueDialect:
    """A gang is a Kueue pod group; StatefulSets that Kueue groups for their quota are none."""

    name = "kueue"
    explicit = True
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True
    keys = (NAME,)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the group named; None for a serving group.

        Kueue itself groups the pods of StatefulSets and LeaderWorkerSets, and marks them as
        serving: the first are made one after the other, and the second are a dialect of
        their own.
        """
        name = pod.annotations.get(NAME) or pod.labels.get(NAME)
        if not name or pod.annotations.get(SERVING) == "true" or not is_name(name):
            return None
        return GangKey(self.name, pod.namespace, name)

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the total count that the members agree on, or the problem.

        Fast admission lets members run before the others exist, so they do not wait.
        """
        said = stated_size(members, "annotation", TOTAL)
        if any(pod.annotations.get(FAST) == "true" for pod in members):
            note = f"{FAST}: members do not wait for each other"
            return Declaration(
                min_count=said.min_count,
                counts_ended=said.counts_ended,
                starts_whole=False,
                problems=said.problems,
                notes=(*said.notes, note),
            )
        return said
