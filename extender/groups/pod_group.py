"""Upstream scheduling.k8s.io PodGroup, named by spec.schedulingGroup.podGroupName.

Source: KEP 4671 (gang scheduling) and KEP 5710 (disruption mode, priority).
Versions v1alpha2, v1alpha3 and v1beta1 differ only in spelling, which decoding
has evened out. In 1.35 there was no PodGroup: spec.workloadRef names a pod group
of a Workload (v1alpha1), each replica key of which is a gang of its own. From 1.37
on a PodGroup may be part of a CompositePodGroup: see extender.groups.composite.
"""

from __future__ import annotations

from extender.decode.from_api import OF_WORKLOAD
from extender.groups.absent import why_absent, why_unknown
from extender.groups.composite import POD_GROUP, SUFFIX
from extender.groups.composite_gang import of_composite, of_part
from extender.groups.dialect import Declaration, checked_min_count
from extender.model.gang import UNIT_ALL, UNIT_SINGLE
from extender.model.group_sources import CORE
from extender.model.names import quoted
from extender.model.objects import GangKey, Pod
from extender.model.owner_kinds import CORE_WORKLOAD
from extender.model.snapshot import Snapshot

SOURCE = CORE


class PodGroupDialect:
    """A gang is a PodGroup object; a basic one constrains disruption only."""

    name = POD_GROUP
    explicit = True
    unit = UNIT_SINGLE
    states_unit = True
    starts_whole = True
    keys = ()  # spec.schedulingGroup

    def key(self, pod: Pod) -> GangKey | None:
        """Return the PodGroup of spec.schedulingGroup, or the composite that it starts with."""
        if pod.hierarchy is not None:
            return GangKey(self.name, pod.namespace, pod.hierarchy[0])
        if pod.pod_group:
            return GangKey(self.name, pod.namespace, pod.pod_group)
        return None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return what the PodGroup object says.

        disruptionMode holds for a basic group as well: the KEP refuses that
        pair, upstream's own integration test runs it.
        """
        if key.name.endswith(SUFFIX):
            return of_composite(key, members, snapshot)
        if OF_WORKLOAD in key.name:
            return _of_workload(key, snapshot)
        group = snapshot.groups.get((SOURCE, key.namespace, key.name))
        if group is None:
            why = why_absent(SOURCE, key.namespace, key.name, snapshot)
            return Declaration(
                problems=(f"PodGroup {key.namespace}/{key.name} (scheduling.k8s.io) {why}",),
            )
        if group.of:
            return of_part(group, key, members, snapshot)
        basic = group.min_count is None
        return Declaration(
            min_count=1 if basic else group.min_count,
            unit=UNIT_ALL if group.disrupt_all else UNIT_SINGLE,
            starts_whole=False if basic else None,
            priority=group.priority,
            priority_class=group.priority_class,
            preempts=group.preempts,
            topology_key=group.topology_key,
            counts_ended=True,
            problems=checked_min_count(group, "gang.minCount", "scheduling.k8s.io"),
        )


def _of_workload(key: GangKey, snapshot: Snapshot) -> Declaration:
    """Return what a Workload says of one of its pod groups: its minCount, and nothing else.

    As kube-scheduler 1.35 does, pods whose Workload is not there do not start.
    """
    name, _, rest = key.name.partition(OF_WORKLOAD)
    part_name = rest.partition(OF_WORKLOAD)[0]
    what = f"Workload {key.namespace}/{name} (scheduling.k8s.io/v1alpha1)"
    workload = snapshot.groups.get((CORE_WORKLOAD, key.namespace, name))
    if workload is None:
        why = why_unknown(CORE_WORKLOAD, key.namespace, name, snapshot)
        return Declaration(problems=(f"{what} {why}",))
    part = next((part for part in workload.parts if part.name == part_name), None)
    if part is None:
        return Declaration(problems=(f"{what} has no pod group {quoted(part_name)}",))
    basic = not part.each
    wrong = () if part.each >= 0 else (f"{what}: gang.minCount is {part.each}, at least 1 is due",)
    return Declaration(
        min_count=max(1, part.each), starts_whole=False if basic else None, problems=wrong
    )
