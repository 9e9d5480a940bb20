"""Rules on the status ConfigMap: may it be written where it is to be?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document, kind_of
from extender.cli.findings import Finding
from extender.cli.rights_rules import USER, is_ours, unbound
from extender.cli.workloads import at, items, name_of, namespace_of, workloads
from extender.model.settings import Settings

NEEDED = ("get", "create", "update")
"""On the ConfigMap; a name cannot be demanded of what is yet to be created."""


def status_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on the rights of our accounts where the ConfigMap is written."""
    pods = [each for each in workloads(documents) if each.extender is not None]
    name = settings.status.name
    if not name or not pods or unbound(documents):
        return
    chosen = settings.status.namespace or settings.seats.record_namespace
    # rbac.yaml names its account also for a static pod, which comes in as a user.
    accounts = {(USER, USER)} | {
        (each.namespace, str(each.pod.get("serviceAccountName", "default"))) for each in pods
    }
    for namespace in sorted({chosen} if chosen else {each.namespace for each in pods}):
        rules = list(_rules(documents, namespace, accounts))
        if lacks := [verb for verb in NEEDED if not any(_allows(r, verb, name) for r in rules)]:
            place = f"ConfigMap {namespace}/{name}"
            problem = f"no Role there lets the extender {', '.join(lacks)} it"
            yield broken("status-right", place, problem)


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


def _allows(rule: dict[str, Any], verb: str, name: str) -> bool:
    names = rule.get("resourceNames") or []
    return (
        "" in (rule.get("apiGroups") or [])
        and "configmaps" in (rule.get("resources") or [])
        and verb in (rule.get("verbs") or [])
        and (not names or (name in names and verb != "create"))
    )
