"""Definitions of other systems' kinds, with no schema: what is read of them is ours to say."""

from __future__ import annotations

from tests.controlplane.client import Client, Object

OTHERS = (
    ("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups"),
    ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
    ("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup", "podgroups"),
    ("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups"),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
)
"""API group, version, kind, plural."""


def definition(group: str, version: str, kind: str, plural: str) -> Object:
    """A namespaced kind that takes any object."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # The API server wants a reason for every CRD of a *.k8s.io group.
            "annotations": {"api-approved.kubernetes.io": "unapproved, test only"},
        },
        "spec": {
            "group": group,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "scope": "Namespaced",
            "versions": [served],
        },
    }


def install(client: Client) -> None:
    """Make all of them and wait until they are served."""
    for other in OTHERS:
        client.create(definition(*other))
    names = [f"{plural}.{group}" for group, _, _, plural in OTHERS]

    def established() -> bool:
        return all(
            any(
                condition["type"] == "Established" and condition["status"] == "True"
                for condition in client.get("CustomResourceDefinition", name)
                .get("status", {})
                .get("conditions")
                or ()
            )
            for name in names
        )

    client.wait_for(established, 30, "the definitions are served")
