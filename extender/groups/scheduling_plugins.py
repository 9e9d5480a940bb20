"""PodGroup of kubernetes-sigs/scheduler-plugins (coscheduling), the CRD form.

Source: scheduling.x-k8s.io/v1alpha1 PodGroup; the pod names it by label. The
CRD knows no priority and no way of disruption: pods' own priority counts, and a
preemption takes single pods.
"""

from __future__ import annotations

from extender.groups.absent import why_absent
from extender.groups.dialect import Declaration, checked_min_count
from extender.model.gang import UNIT_SINGLE
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

SOURCE = "scheduling-plugins"
LABEL = "scheduling.x-k8s.io/pod-group"


class SchedulingPluginsDialect:
    """A gang is a scheduling.x-k8s.io PodGroup with spec.minMember."""

    name = "scheduling-plugins"
    explicit = True
    unit = UNIT_SINGLE
    states_unit = False
    starts_whole = True
    keys = (LABEL,)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the PodGroup of the label."""
        group = pod.labels.get(LABEL)
        return GangKey(self.name, pod.namespace, group) if group else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return what the PodGroup object says; minMember is required by the CRD."""
        group = snapshot.groups.get((SOURCE, key.namespace, key.name))
        if group is None:
            why = why_absent(SOURCE, key.namespace, key.name, snapshot)
            return Declaration(
                problems=(f"PodGroup {key.namespace}/{key.name} (scheduling.x-k8s.io) {why}",),
            )
        problems = checked_min_count(group, "minMember", "scheduling.x-k8s.io")
        if group.min_count is None:
            problems = (
                f"PodGroup {key.namespace}/{key.name} (scheduling.x-k8s.io): minMember is not set",
            )
        return Declaration(
            min_count=group.min_count,
            priority=group.priority,
            priority_class=group.priority_class,
            preempts=group.preempts,
            topology_key=group.topology_key,
            counts_ended=True,
            problems=problems,
        )
