"""A PodGroup of Volcano, named by annotation.

Source: volcano-sh/apis scheduling/v1beta1. Its controllers annotate the pods of a vcjob
(PodGroup <job>-<uid>) and, one by one, those that merely ask for its scheduler
(podgroup-<uid>, minMember 1 unless their owner says more). volcano.sh/preemptable is an
opt-out, which the policy grants or not (model.policy).
"""

from __future__ import annotations

from extender.groups.member_group import MemberGroupDialect
from extender.model.objects import Pod

ANNOTATION = "scheduling.k8s.io/group-name"


class VolcanoDialect(MemberGroupDialect):
    """A gang is a scheduling.volcano.sh PodGroup with spec.minMember."""

    name = "volcano"
    api_group = "scheduling.volcano.sh"

    def group_name(self, pod: Pod) -> str | None:
        """Return the PodGroup of the annotation."""
        return pod.annotations.get(ANNOTATION)
