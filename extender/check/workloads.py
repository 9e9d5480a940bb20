"""What ``check`` reads of Kubernetes manifests: our pods among them, and what selects them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from extender.check.documents import Document, kind_of
from extender.decode.api_placement import RawSelector
from extender.decode.pod_placement import selector as label_selector
from extender.fit.selectors import matches
from extender.model.errors import InvalidInput

CONTAINER = "extender"
"""Our container's name in the manifests."""
IMAGE = "podgroup-extender"
"""In its image's name, whatever the container is called."""

TEMPLATED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job")


class Workload(Struct, frozen=True):
    """A Pod, or what makes pods from a template."""

    source: str
    """The file."""
    place: str
    """``file: Kind name``."""
    kind: str
    namespace: str
    labels: dict[str, Any]
    """Of the pods."""
    annotations: dict[str, Any]
    """Of the pods."""
    spec: dict[str, Any]
    """Of the object."""
    pod: dict[str, Any]
    """Spec of the pods."""

    @property
    def containers(self) -> list[dict[str, Any]]:
        """Every container, sidecars and init containers first."""
        return [
            each for field in ("initContainers", "containers") for each in items(self.pod, field)
        ]

    @property
    def extender(self) -> dict[str, Any] | None:
        """The container that is this program."""
        named = [each for each in self.containers if each.get("name") == CONTAINER]
        return next(iter(named or filter(_serves, self.containers)), None)

    @property
    def on_host_network(self) -> bool:
        """Whether the pods have the node's addresses; no NetworkPolicy governs those."""
        return self.pod.get("hostNetwork") is True


def workloads(documents: Sequence[Document]) -> Iterator[Workload]:
    """Every pod and pod template."""
    for document in documents:
        kind, value = kind_of(document), document.value
        if kind != "Pod" and kind not in TEMPLATED:
            continue
        template = value if kind == "Pod" else at(value, "spec", "template")
        yield Workload(
            source=document.source,
            place=f"{document.source}: {kind} {name_of(value)}",
            kind=kind,
            namespace=namespace_of(value),
            labels=at(template, "metadata", "labels"),
            annotations=at(template, "metadata", "annotations"),
            spec=at(value, "spec"),
            pod=at(template, "spec"),
        )


def _serves(container: dict[str, Any]) -> bool:
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return "serve" in words and IMAGE in str(container.get("image", ""))


def selects(selector: Any, labels: Mapping[str, Any]) -> bool:
    """Whether a metav1.LabelSelector of a manifest matches a pod with these labels.

    The empty one matches all, None nothing; nor does one that the API server refuses to store.
    """
    texts = {key: value for key, value in labels.items() if isinstance(value, str)}
    try:
        known = label_selector(msgspec.convert(selector, RawSelector | None))
    except (InvalidInput, msgspec.ValidationError):
        return False
    return matches(known, texts)


def name_of(value: dict[str, Any]) -> str:
    """The object's name, "" without one."""
    return str(at(value, "metadata").get("name", ""))


def namespace_of(value: dict[str, Any]) -> str:
    """The object's namespace; "default" where the manifest leaves it out."""
    return str(at(value, "metadata").get("namespace", "default"))


def at(value: Any, *path: str) -> dict[str, Any]:
    """Return the mapping at a path, an empty one when there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The mappings of a list under a key; what is no mapping is left out."""
    found = value.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
