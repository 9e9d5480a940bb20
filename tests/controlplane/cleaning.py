"""Remove everything a test made, so that one control plane can serve many tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.controlplane.client import PATIENCE, ApiError, Client, Object

OWNERS = ("Job", "Deployment", "ReplicaSet", "StatefulSet")
"""Kinds whose controllers would bring deleted pods back; gone before the pods."""

NAMESPACED = (
    "PodGroup",
    "Workload",
    "PodDisruptionBudget",
    "Lease",
    "ConfigMap",
    "Service",
    "ResourceClaim",
    "PersistentVolumeClaim",
)
"""Kinds removed one by one, because a namespace takes five seconds to begin with it."""

CLUSTER_WIDE = (
    "Node",
    "CSINode",
    "PriorityClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "PersistentVolume",
    "ResourceSlice",
    "DeviceClass",
    "StorageClass",
    "Namespace",
)

NO_FINALIZERS = {"metadata": {"finalizers": None}}

LOOK_AGAIN = "example.com/look-again"
"""Annotation that makes the API server look at a definition again."""

FAILED = ("InstanceDeletionFailed", "InstanceDeletionCheck")
"""Reasons of a definition's condition Terminating: what it defines could not be removed."""


@dataclass
class Baseline:
    """What was there before the first test; ``clean`` brings the cluster back to it."""

    client: Client
    kept: dict[str, set[str]] = field(default_factory=dict)
    """UIDs by kind."""

    def __post_init__(self) -> None:
        """Remember the present state."""
        for kind in CLUSTER_WIDE:
            self.kept[kind] = {each["metadata"]["uid"] for each in self.client.list(kind, "")}
        for kind in NAMESPACED:
            self.kept[kind] = {each["metadata"]["uid"] for each in self._present(kind)}

    def clean(self, timeout: float = PATIENCE) -> None:
        """Delete all that is new and wait until it is gone, finalizers or not."""
        for kind in OWNERS:
            for space in {each["metadata"]["namespace"] for each in self.client.list(kind, "")}:
                self.client.delete_all(kind, space, propagation="Background")
        self.client.wait_for(self._no_pods, timeout, "all pods removed")
        for kind in NAMESPACED:
            self._remove(kind)
        for kind in CLUSTER_WIDE:
            self._remove(kind)
        try:
            self.client.wait_for(self._none_left, timeout, "all that a test made removed")
        except TimeoutError as problem:
            raise TimeoutError(f"{problem}; left: {', '.join(self.left())}") from None

    def left(self) -> list[str]:
        """What is still there, as ``Kind namespace/name``."""
        found = [("Pod", each) for each in self.client.list("Pod", "")]
        for kind in (*NAMESPACED, *CLUSTER_WIDE):
            found += [(kind, each) for each in self._new(kind)]
        return [
            f"{kind} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}"
            for kind, each in found
        ]

    def _present(self, kind: str) -> Iterator[Object]:
        """All objects of a kind, of every namespace; none where it is not served."""
        try:
            found = self.client.list(kind, "")
        except LookupError:
            return
        except ApiError as error:
            # The client remembers a test's CRD of that name, which is gone by now.
            if error.status != 404:
                raise
            return
        yield from found

    def _new(self, kind: str) -> list[Object]:
        """Objects of a kind that were not there at the beginning."""
        kept = self.kept[kind]
        return [
            each
            for each in self._present(kind)
            if each["metadata"]["uid"] not in kept and _made_by_a_test(each)
        ]

    def _remove(self, kind: str) -> None:
        """Delete the new objects of a kind; many nodes go in one request."""
        objects = self._new(kind)
        if kind == "Node" and not self.kept[kind] and len(objects) > 1:
            self.client.delete_all(kind, "")
            return
        for each in objects:
            self._delete(kind, each)

    def _delete(self, kind: str, each: Object) -> None:
        """Delete one object; a finalizer whose owner is not coming back is taken off."""
        name, space = each["metadata"]["name"], each["metadata"].get("namespace", "")
        self.client.delete(kind, name, space, missing_ok=True)
        if each["metadata"].get("finalizers"):
            with contextlib.suppress(ApiError):
                self.client.patch(kind, name, NO_FINALIZERS, space)

    def _none_left(self) -> bool:
        """Whether all is gone; changes definitions whose removal the API server no longer tries.

        It removes the objects of a definition first. Listing them may fail with ``storage is
        (re)initializing`` where nobody has listed that kind yet. It tries again after 5 ms; if its
        cache lacks by then what it wrote itself about the failure, that attempt ends with a
        conflict, and none follows: it waits for a change of the definition, and leaves changes of
        the condition Terminating out (``crd_finalizer.go`` of 1.37). Its next look is within five
        minutes, or at once after any other change.
        """
        if not self.left():
            return True
        for each in self._new("CustomResourceDefinition"):
            conditions = each.get("status", {}).get("conditions", ())
            if any(c["type"] == "Terminating" and c["reason"] in FAILED for c in conditions):
                metadata = each["metadata"]
                # A value that is there already would be no change.
                change = {"metadata": {"annotations": {LOOK_AGAIN: metadata["resourceVersion"]}}}
                with contextlib.suppress(ApiError):  # It may just have gone.
                    self.client.patch("CustomResourceDefinition", metadata["name"], change, "")
        return False

    def _no_pods(self) -> bool:
        """Remove pods until there are none: a Job may have made one more in the meantime."""
        pods = self.client.list("Pod", "")
        if not pods:
            return True
        for space in {each["metadata"]["namespace"] for each in pods}:
            self.client.delete_all("Pod", space, grace=0)
        for metadata in (each["metadata"] for each in pods):
            if metadata.get("finalizers"):
                with contextlib.suppress(ApiError):  # It may just have gone.
                    name, space = metadata["name"], metadata["namespace"]
                    self.client.patch("Pod", name, NO_FINALIZERS, space)
        return False


def _made_by_a_test(each: Object) -> bool:
    """Whether an object is not one that the control plane makes by itself, at any time.

    A namespace on its way out is empty, cannot be filled again and is not waited for: the
    namespace controller lets five seconds pass before it looks at one.
    """
    metadata = each["metadata"]
    leaving = each.get("spec", {}).get("finalizers") and "deletionTimestamp" in metadata
    return not (
        leaving
        or metadata.get("namespace", "").startswith("kube-")
        or "kubernetes.io/bootstrapping" in metadata.get("labels", {})
        or metadata["name"] == "kube-root-ca.crt"
    )
