"""Volumes that are provisioned when and where a test says.

The storage class waits for the first consumer and names a provisioner that does not exist, so
kube-scheduler's PreBind waits in VolumeBinding until somebody makes the volume. The test does
that, and what the PersistentVolume controller would do after it.
"""

from __future__ import annotations

from tests.controlplane.client import Client, Object

CLASS = "by-hand"
SELECTED = "volume.kubernetes.io/selected-node"


def storage_class(client: Client) -> None:
    """Make the class."""
    client.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS},
            "provisioner": "example.com/by-hand",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )


def claim(client: Client, name: str) -> Object:
    """Make a claim; return the pod's spec that uses it."""
    client.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {
                "storageClassName": CLASS,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def selected(client: Client, name: str) -> str:
    """The node that kube-scheduler's PreBind wants the volume for; "" when it does not wait."""
    found = client.get("PersistentVolumeClaim", name)["metadata"].get("annotations") or {}
    return str(found.get(SELECTED, ""))


def provision(client: Client, name: str, node: str) -> None:
    """Make the volume, usable on one node only, and bind the claim to it."""
    held = client.get("PersistentVolumeClaim", name)
    volume = f"{client.namespace}-{name}"
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    client.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "storageClassName": CLASS,
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": "/nowhere"},
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": client.namespace,
                    "name": name,
                    "uid": held["metadata"]["uid"],
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }
    )
    client.patch("PersistentVolume", volume, {"status": {"phase": "Bound"}}, subresource="status")
    done = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    client.patch(
        "PersistentVolumeClaim",
        name,
        {"metadata": {"annotations": done}, "spec": {"volumeName": volume}},
    )
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    client.patch("PersistentVolumeClaim", name, {"status": status}, subresource="status")


def let_go(client: Client) -> None:
    """Take off the finalizers that no controller here takes off."""
    for each in client.list("PersistentVolumeClaim"):
        name = each["metadata"]["name"]
        client.patch("PersistentVolumeClaim", name, {"metadata": {"finalizers": None}})


def bound_claim(client: Client, name: str, mode: str) -> Object:
    """Make a claim bound to a volume that every node has; return the pod's spec that uses it."""
    volume = f"{client.namespace}-{name}"
    parts: Object = {
        "storageClassName": CLASS,
        "accessModes": [mode],
    }
    size = {"storage": "1Gi"}
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    client.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "annotations": done},
            "spec": {**parts, "volumeName": volume, "resources": {"requests": size}},
        }
    )
    owner = {"kind": "PersistentVolumeClaim", "namespace": client.namespace, "name": name}
    source = {"csi": {"driver": "disks.example.com", "volumeHandle": volume}}
    client.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {**parts, **source, "capacity": size, "claimRef": owner},
        }
    )
    status = {"phase": "Bound", "accessModes": [mode], "capacity": size}
    client.patch("PersistentVolumeClaim", name, {"status": status}, subresource="status")
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}
