"""Upstream scheduling.k8s.io PodGroup, named by spec.schedulingGroup.podGroupName.

Source: KEP 4671 (gang scheduling) and KEP 5710 (disruption mode, priority).
Versions v1alpha2, v1alpha3 and v1beta1 differ only in spelling, which decoding
has evened out.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration, checked_min_count
from extender.model.gang import UNIT_ALL, UNIT_SINGLE
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

SOURCE = "core"


class PodGroupDialect:
    """A gang is a PodGroup object; a basic one constrains disruption only."""

    name = "pod-group"
    explicit = True
    unit = UNIT_SINGLE
    states_unit = True
    starts_whole = True

    def key(self, pod: Pod) -> GangKey | None:
        """Return the PodGroup of spec.schedulingGroup."""
        if pod.pod_group:
            return GangKey(self.name, pod.namespace, pod.pod_group)
        return None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return what the PodGroup object says.

        disruptionMode holds for a basic group as well: the KEP refuses that
        pair, upstream's own integration test runs it.
        """
        group = snapshot.groups.get((SOURCE, key.namespace, key.name))
        if group is None:
            return Declaration(
                problems=(
                    f"PodGroup {key.namespace}/{key.name} (scheduling.k8s.io) does not exist",
                ),
            )
        basic = group.min_count is None
        return Declaration(
            min_count=1 if basic else group.min_count,
            unit=UNIT_ALL if group.disrupt_all else UNIT_SINGLE,
            starts_whole=False if basic else None,
            priority=group.priority,
            priority_class=group.priority_class,
            preempts=group.preempts,
            topology_key=group.topology_key,
            problems=checked_min_count(group, "gang.minCount", "scheduling.k8s.io"),
        )
