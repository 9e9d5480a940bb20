"""Which resources the sandbox serves, and the discovery documents that say so.

PodGroup of scheduling.k8s.io is v1alpha2 on Kubernetes 1.36 and v1beta1 on
1.37, and there is none before; a server speaks for one minor version, as a real
one does.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from extender.sandbox.api_status import Obj

CORE_POD_GROUP_VERSION = {"1.34": "", "1.35": "", "1.36": "v1alpha2", "1.37": "v1beta1"}
"""Kubernetes minor -> version of scheduling.k8s.io that has PodGroup, "" for none."""


class ServedResource(Struct, frozen=True):
    """One served resource. ``custom`` resources take no strategic merge patch."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = True
    custom: bool = False

    @property
    def key(self) -> str:
        """Where its objects are stored: group/plural, as one version is served."""
        return f"{self.group}/{self.plural}"

    @property
    def api_version(self) -> str:
        """What objects carry as apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the URL path of the collection, or of one object."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{name}" if name else "")


PODS = ServedResource("", "v1", "pods", "Pod")
NODES = ServedResource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = ServedResource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = ServedResource("", "v1", "events", "Event", status=False)
CONFIG_MAPS = ServedResource("", "v1", "configmaps", "ConfigMap", status=False)
PRIORITY_CLASSES = ServedResource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, status=False
)
BUDGETS = ServedResource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
JOBS = ServedResource("batch", "v1", "jobs", "Job")
LEASES = ServedResource("coordination.k8s.io", "v1", "leases", "Lease", status=False)
PLUGIN_POD_GROUPS = ServedResource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", custom=True
)
OTHER_POD_GROUPS = tuple(
    ServedResource(group, version, "podgroups", "PodGroup", custom=True)
    for group, version in (
        ("scheduling.volcano.sh", "v1beta1"),
        ("scheduling.sigs.k8s.io", "v1alpha1"),
        ("scheduling.run.ai", "v2alpha2"),
    )
)
"""PodGroups of other schedulers, served only where a test asks for them."""

SUBRESOURCES = {PODS.key: {"binding": "Binding", "eviction": "Eviction"}}


def core_pod_groups(minor: str) -> ServedResource:
    """Return PodGroup of scheduling.k8s.io as the minor version ("1.37") serves it."""
    return ServedResource(
        "scheduling.k8s.io", CORE_POD_GROUP_VERSION[minor], "podgroups", "PodGroup"
    )


def served(minor: str) -> tuple[ServedResource, ...]:
    """Return everything a server of this Kubernetes minor version has."""
    return (
        PODS,
        NODES,
        NAMESPACES,
        EVENTS,
        CONFIG_MAPS,
        PRIORITY_CLASSES,
        *((core_pod_groups(minor),) if CORE_POD_GROUP_VERSION[minor] else ()),
        PLUGIN_POD_GROUPS,
        BUDGETS,
        JOBS,
        LEASES,
    )


def discover(resources: Iterable[ServedResource], minor: str, parts: list[str]) -> Obj | None:
    """Return the discovery document at a path given in parts, or None when there is none."""
    known = list(resources)
    match parts:
        case ["version"]:
            major, lesser = minor.split(".")
            return {"major": major, "minor": lesser, "gitVersion": f"v{minor}.0"}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            names = sorted({r.group for r in known if r.group})
            groups = [_group(known, name) for name in names]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if any(r.group == group for r in known):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(known, group)}
        case ["api", version]:
            return _resource_list(known, "", version)
        case ["apis", group, version]:
            return _resource_list(known, group, version)
    return None


def _group(known: list[ServedResource], group: str) -> Obj:
    versions = sorted({r.version for r in known if r.group == group})
    entries = [{"groupVersion": f"{group}/{v}", "version": v} for v in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(known: list[ServedResource], group: str, version: str) -> Obj | None:
    entries: list[Obj] = []
    for resource in known:
        if (resource.group, resource.version) != (group, version):
            continue
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        entry = {"namespaced": resource.namespaced, "kind": resource.kind, "singularName": ""}
        entries.append({"name": resource.plural, **entry, "verbs": verbs})
        if resource.status:
            name = f"{resource.plural}/status"
            entries.append({"name": name, **entry, "verbs": ["get", "patch", "update"]})
        for sub, kind in SUBRESOURCES.get(resource.key, {}).items():
            name = f"{resource.plural}/{sub}"
            entries.append({"name": name, **entry, "kind": kind, "verbs": ["create"]})
    if not entries:
        return None
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }
