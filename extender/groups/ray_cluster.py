"""A RayCluster of KubeRay: its head and its workers, of all worker groups.

Source: ray-project/kuberay ray-operator, labels of common/pod.go, which templates cannot
override. RayJobs and RayServices make RayClusters; a RayJob's submitter has no such label. The pod
that clears Redis after a cluster has ended (buildRedisCleanupJob) has the labels of its head, but
for its type: it comes alone, and would wait for those that have gone.
"""

from __future__ import annotations

from extender.groups.launched import LaunchedDialect
from extender.model.objects import GangKey, Pod

CLEANUP = "redis-cleanup"
GROUP = "ray.io/group"
"""Of workers, the name of their worker group; of the head "headgroup"."""


class RayClusterDialect(LaunchedDialect):
    """A gang is the pods of one RayCluster; losing the head loses all."""

    name = "ray-cluster"
    what = "RayCluster"
    label = "ray.io/cluster"
    witness = "ray.io/node-type"

    def key(self, pod: Pod) -> GangKey | None:
        """Return the RayCluster of its head and workers."""
        return None if pod.labels.get(self.witness) == CLEANUP else super().key(pod)

    def parts_of(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        """Return whether the pod is the head, else its worker group."""
        kind, group = pod.labels.get(self.witness, ""), pod.labels.get(GROUP, "")
        return (("head" if kind == "head" else group.lower(), ""),)

    def source(self, members: tuple[Pod, ...]) -> str | None:
        """Return where RayClusters are."""
        return self.name
