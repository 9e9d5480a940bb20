"""Rules on what is written in one namespace: the status, the records of plans, the Lease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document, kind_of
from extender.cli.findings import Finding
from extender.cli.rights_rules import LEASES, USER, is_ours, unbound
from extender.cli.workloads import at, items, name_of, namespace_of, workloads
from extender.model.settings import Settings

CONFIG_MAPS = ("", "configmaps")
STATUS = ("get", "create", "update")
"""On the ConfigMap; a name cannot be demanded of what is yet to be created."""
RECORDS = ("get", "list", "create", "update", "delete")
LEASE = ("get", "create", "update")
Resource = tuple[str, str]
"""API group, resource."""


def written_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on the rights of our accounts where something of ours is written."""
    pods = [each for each in workloads(documents) if each.extender is not None]
    if not pods or unbound(documents):
        return
    # rbac.yaml names its account also for a static pod, which comes in as a user.
    accounts = {(USER, USER)} | {
        (each.namespace, str(each.pod.get("serviceAccountName", "default"))) for each in pods
    }

    def lacking(
        chosen: str, resource: Resource, needed: Sequence[str], name: str
    ) -> Iterator[tuple[str, str]]:
        for namespace in sorted({chosen} if chosen else {each.namespace for each in pods}):
            rules = list(_rules(documents, namespace, accounts))
            lacks = [v for v in needed if not any(_allows(r, resource, v, name) for r in rules)]
            if lacks:
                yield namespace, ", ".join(lacks)

    records, status = settings.seats.record_namespace, settings.status
    if status.name:
        for namespace, verbs in lacking(
            status.namespace or records, CONFIG_MAPS, STATUS, status.name
        ):
            problem = f"no Role there lets the extender {verbs} it"
            yield broken("status-right", f"ConfigMap {namespace}/{status.name}", problem)
    for namespace, verbs in lacking(records, CONFIG_MAPS, RECORDS, ""):
        problem = f"no Role there lets the extender {verbs} ConfigMaps"
        yield broken("record-right", f"namespace {namespace}", problem)
    lease = settings.leadership
    if lease.enabled:
        for namespace, verbs in lacking(lease.namespace or records, LEASES, LEASE, lease.name):
            problem = f"no Role there lets the extender {verbs} it"
            yield broken("lease-right", f"Lease {namespace}/{lease.name}", problem)


def _rules(
    documents: Sequence[Document], namespace: str, accounts: set[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """Every rule that our accounts have in a namespace."""
    for binding in documents:
        kind, value = kind_of(binding), binding.value
        here = kind == "RoleBinding" and namespace_of(value) == namespace
        if not (here or kind == "ClusterRoleBinding"):
            continue
        if not any(is_ours(each, value, accounts) for each in items(value, "subjects")):
            continue
        wanted = at(value, "roleRef")
        for role in documents:
            found = role.value
            if kind_of(role) != wanted.get("kind") or name_of(found) != wanted.get("name"):
                continue
            if kind_of(role) == "ClusterRole" or namespace_of(found) == namespace:
                yield from items(found, "rules")


def _allows(rule: dict[str, Any], resource: Resource, verb: str, name: str) -> bool:
    """``name`` is that of the object; "" for any."""
    names = rule.get("resourceNames") or []
    return (
        resource[0] in (rule.get("apiGroups") or [])
        and resource[1] in (rule.get("resources") or [])
        and verb in (rule.get("verbs") or [])
        and (not names or (name in names and verb != "create"))
    )
