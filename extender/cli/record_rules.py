"""Rules on plan records, lists of evictions to finish: who can write one, and is it signed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document, kind_of
from extender.cli.findings import Finding
from extender.cli.rights_rules import USER, is_ours
from extender.cli.workloads import Workload, at, items, name_of, namespace_of, workloads
from extender.model.settings import Settings

WRITERS = ("admin", "edit")
"""Roles that every cluster has, for people of a namespace: they write ConfigMaps and read Secrets.
Whoever is cluster-admin needs no record to evict."""
WRITE = frozenset(("*", "create", "update", "patch"))
READ = frozenset(("*", "get", "list", "watch"))


def record_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on the key of our pods, and on bindings that let others write records."""
    pods = [each for each in workloads(documents) if each.extender is not None]
    key = settings.seats.record_key_file
    for each in pods:
        if not key:
            yield broken("records-unsigned", each.place, "names no seats.recordKeyFile")
        elif not _mounted(each, key):
            yield broken("record-key-unmounted", each.place, f"mounts nothing at {key}")
    kept = settings.seats.record_namespace
    namespaces = {kept} if kept else {each.namespace for each in pods}
    if namespaces:
        yield from _writers(documents, pods, namespaces, signed=bool(key))


def _mounted(workload: Workload, key: str) -> bool:
    path = PurePosixPath(key)
    return any(
        path.is_relative_to(str(mount.get("mountPath") or "/"))
        for mount in items(workload.extender or {}, "volumeMounts")
        if mount.get("mountPath")
    )


def _writers(
    documents: Sequence[Document], pods: Sequence[Workload], namespaces: set[str], *, signed: bool
) -> Iterator[Finding]:
    """Whoever else may write ConfigMaps beside the records, and read the key if there is one."""
    # rbac.yaml names its account also for a static pod, which comes in as a user.
    accounts = {(USER, USER)} | {
        (each.namespace, str(each.pod.get("serviceAccountName", "default"))) for each in pods
    }
    roles = {
        (kind_of(d), _space(kind_of(d), d.value), name_of(d.value)): d
        for d in documents
        if kind_of(d) in ("Role", "ClusterRole")
    }
    for binding in documents:
        kind, value = kind_of(binding), binding.value
        everywhere = kind == "ClusterRoleBinding"
        if not everywhere and (kind != "RoleBinding" or namespace_of(value) not in namespaces):
            continue
        strangers = [
            str(subject.get("name", ""))
            for subject in items(value, "subjects")
            if not is_ours(subject, value, accounts)
        ]
        reference = at(value, "roleRef")
        role_kind, role = str(reference.get("kind", "")), str(reference.get("name", ""))
        found = roles.get((role_kind, _space(role_kind, value), role))
        rules = items(found.value, "rules") if found is not None else []
        known = role in WRITERS and role_kind == "ClusterRole"
        writes = known or _grants(rules, "configmaps", WRITE)
        if strangers and writes and (not signed or known or _grants(rules, "secrets", READ)):
            yield broken(
                "records-writable",
                f"{binding.source}: {kind} {name_of(value)}",
                f"lets {', '.join(strangers)} write ConfigMaps there"
                + (" and read the key" if signed else ""),
            )


def _space(kind: str, value: dict[str, Any]) -> str:
    return "" if kind == "ClusterRole" else namespace_of(value)


def _grants(rules: Sequence[dict[str, Any]], resource: str, verbs: frozenset[str]) -> bool:
    """Whether rules of a role allow one of the verbs on any object of the core API's resource."""
    for rule in rules:
        groups = {str(each) for each in rule.get("apiGroups") or []}
        resources = {str(each) for each in rule.get("resources") or []}
        allowed = {str(each) for each in rule.get("verbs") or []}
        if groups & {"", "*"} and resources & {resource, "*"} and allowed & verbs:
            return True
    return False
