"""A PodGroup of the KAI scheduler, named by the annotation that its pod-grouper writes.

Source: NVIDIA/KAI-Scheduler pkg/apis/scheduling/v2alpha2. The grouper derives the name
from the pod's owner, so a group that somebody named goes before it. Preemptibility is an
opt-out, which the policy grants or not (model.policy). Replicas stay single pods: the grouper
gives them groups of one.
"""

from __future__ import annotations

from extender.groups.member_group import MemberGroupDialect
from extender.model.objects import Pod

ANNOTATION = "pod-group-name"
SUBGROUP = "kai.scheduler/subgroup-name"
DEFAULT_SUBGROUP = "default"
REPLICAS = ("ReplicaSet", "StatefulSet", "DaemonSet")
"""Owners of such; of LeaderWorkerSets too, whose pods are a dialect of their own."""


class KaiDialect(MemberGroupDialect):
    """A gang is a scheduling.run.ai PodGroup with spec.minMember, its parts are subGroups."""

    name = "kai"
    keys = (ANNOTATION,)
    explicit = False

    def group_name(self, pod: Pod) -> str | None:
        """Return the PodGroup of the annotation; None for replicas, which need no other."""
        if pod.owner is not None and pod.owner.kind in REPLICAS:
            return None
        return pod.annotations.get(ANNOTATION)

    def part_name(self, pod: Pod) -> str:
        """Return the subgroup; without a label KAI takes the one of this name."""
        return pod.labels.get(SUBGROUP) or DEFAULT_SUBGROUP
