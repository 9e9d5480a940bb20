"""A RayCluster of KubeRay: its head and its workers, of all worker groups.

Source: ray-project/kuberay ray-operator, labels of common/pod.go, which templates cannot
override. RayJobs and RayServices make RayClusters; a RayJob's submitter has no such label.
"""

from __future__ import annotations

from extender.groups.launched import LaunchedDialect
from extender.model.objects import Pod


class RayClusterDialect(LaunchedDialect):
    """A gang is the pods of one RayCluster; losing the head loses all."""

    name = "ray-cluster"
    what = "RayCluster"
    label = "ray.io/cluster"
    witness = "ray.io/node-type"

    def source(self, members: tuple[Pod, ...]) -> str | None:
        """Return where RayClusters are."""
        return self.name
