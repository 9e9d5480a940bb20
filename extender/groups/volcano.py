"""A PodGroup of Volcano, named by annotation.

Source: volcano-sh/apis scheduling/v1beta1. Its controllers annotate the pods of a vcjob
(PodGroup <job>-<uid>). Pods that merely ask for its scheduler get a PodGroup of their own or
their owner's, podgroup-<uid>, with minMember 1 unless the owner says more: that names no gang
on purpose and is not read, so that a Deployment's pods stay single and a training job's are
what their labels say. volcano.sh/preemptable is an opt-out, which the policy grants or not
(model.policy).
"""

from __future__ import annotations

from extender.groups.member_group import MemberGroupDialect
from extender.groups.sizes import staying
from extender.model.objects import Pod
from extender.model.owner_budget import OwnerBudget, budget_of

ANNOTATION = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
DERIVED = "podgroup-"


class VolcanoDialect(MemberGroupDialect):
    """A gang is a scheduling.volcano.sh PodGroup with spec.minMember, its parts are tasks."""

    name = "volcano"
    keys = (ANNOTATION,)

    def group_name(self, pod: Pod) -> str | None:
        """Return the PodGroup of the annotation, unless Volcano derived it from pod or owner."""
        name = pod.annotations.get(ANNOTATION)
        if name and name.startswith(DERIVED):
            uid = name.removeprefix(DERIVED)
            if uid == pod.uid or (pod.owner is not None and uid == pod.owner.uid):
                return None
        return name

    def part_name(self, pod: Pod) -> str:
        """Return the task: the annotation, else the label, as getTaskRole of Volcano does."""
        return pod.annotations.get(TASK) or pod.labels.get(TASK, "")

    def own_budget(self, members: tuple[Pod, ...]) -> tuple[OwnerBudget | None, str]:
        """Return the budget that the job controller copies to every pod of a vcjob."""
        return budget_of(staying(members)[0].annotations) if members else (None, "")
