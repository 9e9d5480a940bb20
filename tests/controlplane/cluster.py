"""What one test gets: an empty cluster with a namespace of its own."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import ApiError, Client, Object
from tests.controlplane.harness import ControlPlane
from tests.controlplane.objects import make_node, make_pod, make_pod_group, make_priority_class
from tests.controlplane.releases import Release
from tests.controlplane.scheduler import scheduler_config
from tests.controlplane.watching import Watch


@dataclass
class Cluster:
    """A control plane without nodes, and a client bound to a fresh namespace."""

    control_plane: ControlPlane
    client: Client
    namespace: str
    watches: list[Watch] = field(default_factory=list)

    @property
    def release(self) -> Release:
        """The release this cluster runs."""
        return self.control_plane.release

    def make_namespace(self) -> None:
        """Make the namespace; pods are refused until it has its service account."""
        self.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        )
        self.client.wait_for(
            lambda: self.client.get_or_none("ServiceAccount", "default"), what="service account"
        )

    def nodes(self, count: int, cpu: str | int = 4, *, prefix: str = "n", **more: Any) -> list[str]:
        """Make nodes ``n0``, ``n1``, ... (see ``make_node``) and return their names."""
        made = [f"{prefix}{index}" for index in range(count)]
        for name in made:
            self.client.create(make_node(name, cpu, **more))
        return made

    def needs_pod_groups(self) -> None:
        """Skip the test, which is about PodGroups, where there are none."""
        if not self.release.pod_groups:
            pytest.skip(f"Kubernetes {self.release.minor} has no PodGroup of scheduling.k8s.io")

    def pod_group(self, name: str, min_count: int | None, **more: Any) -> Object:
        """Make a PodGroup in this release's dialect (see ``make_pod_group``)."""
        self.needs_pod_groups()
        return self.client.create(make_pod_group(self.release, name, min_count, **more))

    def priority_classes(self, **values: int) -> None:
        """Make priority classes and wait until admission knows them.

        Admission reads them from an informer: for some milliseconds a new class is refused as
        unknown, and one made again under an old name still has its old value.
        """
        for name, value in values.items():
            self.client.create(make_priority_class(name, value))
            self.client.wait_for(
                functools.partial(self._knows_priority, name, value), what=f"class {name} known"
            )

    def _knows_priority(self, name: str, value: int) -> bool:
        """Whether a pod of a priority class gets the right priority."""
        pod = make_pod("probe", priority_class=name)
        try:
            path = self.client.resource("v1/Pod").path(self.namespace)
            made = self.client.request("POST", path, pod, dryRun="All")
        except ApiError:
            return False
        return bool(made["spec"]["priority"] == value)

    def watch(self, kind: str = "Pod", namespace: str | None = None) -> Watch:
        """Start a watch that ends with the test."""
        made = Watch(self.client, kind, namespace)
        self.watches.append(made)
        return made

    def use_extender(self, url: str, *, gates: Sequence[str] = (), **overrides: Any) -> None:
        """Restart kube-scheduler with the documented configuration for an extender."""
        self.use_scheduler(scheduler_config(url, **overrides), gates=gates)

    def use_scheduler(
        self, config: Object, *, gates: Sequence[str] = (), program: Path | None = None
    ) -> None:
        """Restart kube-scheduler with a configuration; the next test has the default again."""
        self.control_plane.restart_scheduler(config, gates=gates, program=program)
