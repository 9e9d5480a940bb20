"""The old lightweight form of scheduler-plugins coscheduling: two labels, no object.

Source: kubernetes-sigs/scheduler-plugins before the PodGroup CRD; deprecated
there, still in manifests. Both labels belong on every member.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.sizes import stated_size
from extender.model.gang import UNIT_SINGLE
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"


class SchedulingPluginsLabelDialect:
    """A gang is the pods that share the name label; the second label is the quorum."""

    name = "scheduling-plugins-label"
    explicit = True
    unit = UNIT_SINGLE
    states_unit = False
    starts_whole = True
    keys = (NAME_LABEL,)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the group of the name label."""
        group = pod.labels.get(NAME_LABEL)
        return GangKey(self.name, pod.namespace, group) if group else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the one quorum that the members' labels agree on, or the problem."""
        return stated_size(members, "label", MIN_LABEL)
