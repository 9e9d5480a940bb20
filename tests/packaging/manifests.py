"""Read the manifests as an installation would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
NAMESPACE = "podgroup-extender"

Object = dict[str, Any]

NOT_OBJECTS = {
    "kustomization.yaml",
    "kube-scheduler-config.yaml",
    "kube-scheduler-config-split.yaml",
    "static-pod/kube-scheduler-config.yaml",
    "static-pod/extender-config.yaml",
    "barrier/kube-scheduler-config.yaml",
}
"""Files that no API server is given."""


def names() -> list[str]:
    """Every file with API objects, relative to manifests/."""
    found = {str(path.relative_to(MANIFESTS)) for path in MANIFESTS.rglob("*.yaml")}
    assert found >= NOT_OBJECTS
    return sorted(found - NOT_OBJECTS)


def read(name: str) -> list[Object]:
    """All documents of one file."""
    return [d for d in yaml.safe_load_all((MANIFESTS / name).read_text()) if d is not None]


def pick(name: str, kind: str, called: str | None = None) -> Object:
    """The one object of a kind (and name) in a file."""
    (found,) = [
        each
        for each in read(name)
        if each["kind"] == kind and called in (None, each["metadata"]["name"])
    ]
    return found


def pod_specs() -> Iterator[tuple[str, Object]]:
    """Every pod that the manifests run in the cluster: file and pod spec."""
    for name in names():
        if name.startswith("examples/"):
            continue
        for each in read(name):
            if each["kind"] == "Pod":
                yield name, each["spec"]
            elif "template" in each.get("spec", {}):
                yield name, each["spec"]["template"]["spec"]


def rules(name: str, kind: str, called: str) -> set[tuple[str, str, str]]:
    """The (verb, group, resource) that a Role or ClusterRole grants."""
    return {
        (verb, group, resource)
        for rule in pick(name, kind, called)["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
