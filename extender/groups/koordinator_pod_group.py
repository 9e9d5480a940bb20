"""A PodGroup of Koordinator, named by label: the form with an object.

Source: koordinator-sh/koordinator apis/thirdparty/scheduler-plugins (the API group that
scheduler-plugins had before scheduling.x-k8s.io).
"""

from __future__ import annotations

from extender.groups.member_group import MemberGroupDialect
from extender.model.objects import Pod

LABEL = "pod-group.scheduling.sigs.k8s.io"


class KoordinatorPodGroupDialect(MemberGroupDialect):
    """A gang is a scheduling.sigs.k8s.io PodGroup with spec.minMember."""

    name = "koordinator-pod-group"
    keys = (LABEL,)

    def group_name(self, pod: Pod) -> str | None:
        """Return the PodGroup of the label."""
        return pod.labels.get(LABEL)
