"""Rules on replicas: how many a manifest may run at once, and whether they agree on one leader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extender.check.documents import Document, kind_of
from extender.check.findings import Finding
from extender.check.rule import Rule, broken, declare
from extender.check.workloads import at, name_of, workloads
from extender.gang.leader_election.lease import LABEL
from extender.model.texts import counted
from extender.settings.mode import OBSERVE
from extender.settings.settings import Settings

REPLICA_RULES = {
    "two-planners": Rule(
        "error",
        "two extenders at the same time promise the same room twice",
        "set leadership.enabled: true, or run one replica with strategy Recreate",
    ),
    "shared-identity": Rule(
        "error",
        "each of them takes the lease that it reads for its own, so several act",
        "leave leadership.identity out: each process then makes a name of its own",
    ),
    "static-pods": Rule(
        "warning",
        "a static pod on several control plane nodes is several extenders, and all of them plan",
        "set leadership.enabled: true, unless there is one control plane node only",
    ),
    "standby-not-ready": Rule(
        "error",
        "/readyz is false on a standby for as long as another replica leads: a kube-scheduler "
        "beside it never starts, a roll-out never ends and no node with the leader can be drained",
        "ask for /readyz/caches, which says that the replica could lead",
    ),
    "no-leader-label": Rule(
        "error",
        "no pod ever gets the label, so the Service has no endpoint",
        "set leadership.labelPod: true",
    ),
    "service-standby": Rule(
        "error",
        "calls also go to standbys, which refuse them",
        'add podgroup-extender.io/leader: "true" to the selector and set leadership.labelPod: true',
    ),
}
"""On several replicas."""
declare(REPLICA_RULES)


def replica_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on the Deployments, Pods and Services that stand beside a configuration."""
    if settings.mode == OBSERVE:
        return  # nobody acts, so nobody has to lead
    for each in workloads(documents):
        if each.extender is not None and each.kind in ("Deployment", "Pod"):
            yield from _several(each.kind, each.spec, each.place, settings)
            yield from _probes(each.extender, each.place, settings)
    for document in documents:
        if kind_of(document) == "Service":
            yield from _service(document.value, document.source, settings)


def _several(kind: str, spec: dict[str, Any], name: str, settings: Settings) -> Iterator[Finding]:
    leadership = settings.leadership
    many = several(kind, spec)
    if kind == "Pod":
        if not leadership.enabled:
            yield broken("static-pods", f"{name}", "leadership.enabled is false")
    elif not many:
        return
    elif not leadership.enabled:
        problem = f"{many} without leadership.enabled"
        yield broken("two-planners", name, problem)
    elif leadership.identity:
        problem = f"{many}, all of the identity {leadership.identity!r}"
        yield broken("shared-identity", name, problem)


def several(kind: str, spec: dict[str, Any]) -> str:
    """Return why several of its pods may run at once, "" when they cannot."""
    if kind == "Pod":
        return "one on each control plane node"
    replicas = spec.get("replicas", 1)
    rolling = at(spec, "strategy").get("type", "RollingUpdate") == "RollingUpdate"
    if replicas == 1 and not rolling:
        return ""
    return counted(replicas, "replica") if replicas != 1 else "a rolling update"


def _probes(ours: dict[str, Any], name: str, settings: Settings) -> Iterator[Finding]:
    if not settings.leadership.enabled:
        return
    for probe in ("startupProbe", "readinessProbe"):
        path = at(ours, probe, "httpGet").get("path")
        if path == "/readyz":
            yield broken("standby-not-ready", f"{name}: {probe}", "asks for /readyz")


def _service(value: dict[str, Any], source: str, settings: Settings) -> Iterator[Finding]:
    selector = at(value, "spec", "selector")
    if not settings.leadership.enabled or not selector:
        return
    place = f"{source}: Service {name_of(value)}"
    if LABEL in selector and not settings.leadership.label_pod:
        problem = f"selects {LABEL}, and leadership.labelPod is false"
        yield broken("no-leader-label", place, problem)
    if LABEL not in selector:
        yield broken("service-standby", place, f"does not select {LABEL}")
