"""Rules on replicas: how many a manifest may run at once, and whether they agree on one leader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document, kind_of
from extender.cli.findings import Finding
from extender.gang.act.leader_label import LABEL
from extender.model.settings import Settings

CONTAINER = "extender"
"""Our container's name in the manifests."""


def replica_findings(documents: list[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on the Deployments, Pods and Services that stand beside a configuration."""
    for document in documents:
        kind, value = kind_of(document), document.value
        if kind in ("Deployment", "Pod"):
            spec = _at(value, "spec")
            pod = _at(value, "spec", "template", "spec") if kind == "Deployment" else spec
            ours = _extender(pod)
            if ours is None:
                continue
            name = f"{document.source}: {kind} {_at(value, 'metadata').get('name', '')}"
            yield from _several(kind, spec, name, settings)
            yield from _probes(ours, name, settings)
        elif kind == "Service":
            yield from _service(value, document.source, settings)


def _several(kind: str, spec: dict[str, Any], name: str, settings: Settings) -> Iterator[Finding]:
    leadership = settings.leadership
    if kind == "Pod":
        if not leadership.enabled:
            yield broken("static-pods", f"{name}", "leadership.enabled is false")
        return
    replicas = spec.get("replicas", 1)
    rolling = _at(spec, "strategy").get("type", "RollingUpdate") == "RollingUpdate"
    if replicas == 1 and not rolling:
        return
    many = f"{replicas} replicas" if replicas != 1 else "a rolling update"
    if not leadership.enabled:
        problem = f"{many} without leadership.enabled"
        yield broken("two-planners", name, problem)
    elif leadership.identity:
        problem = f"{many}, all of the identity {leadership.identity!r}"
        yield broken("shared-identity", name, problem)


def _probes(ours: dict[str, Any], name: str, settings: Settings) -> Iterator[Finding]:
    if not settings.leadership.enabled:
        return
    for probe in ("startupProbe", "readinessProbe"):
        path = _at(ours, probe, "httpGet").get("path")
        if path == "/readyz":
            yield broken("standby-not-ready", f"{name}: {probe}", "asks for /readyz")


def _service(value: dict[str, Any], source: str, settings: Settings) -> Iterator[Finding]:
    selector = _at(value, "spec", "selector")
    if not settings.leadership.enabled or not selector:
        return
    place = f"{source}: Service {_at(value, 'metadata').get('name', '')}"
    if LABEL in selector and not settings.leadership.label_pod:
        problem = f"selects {LABEL}, and leadership.labelPod is false"
        yield broken("no-leader-label", place, problem)
    if LABEL not in selector:
        yield broken("service-standby", place, f"does not select {LABEL}")


def _extender(pod: dict[str, Any]) -> dict[str, Any] | None:
    for field in ("initContainers", "containers"):
        for container in pod.get(field) or []:
            if isinstance(container, dict) and container.get("name") == CONTAINER:
                return container
    return None


def _at(value: Any, *path: str) -> dict[str, Any]:
    """Return the mapping at a path, an empty one when there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
