"""Rules on what our accounts may do: the rights that this program uses, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document, kind_of
from extender.cli.findings import Finding
from extender.cli.workloads import at, items, name_of, namespace_of, workloads
from extender.model.group_sources import API_GROUPS, OTHER_GROUPS
from extender.model.owner_kinds import (
    COMPOSITE,
    DEVICE_CLASS_SOURCE,
    JOB,
    OTHER_KINDS,
    PARTLY_DONE,
)

GrantedRights = Mapping[tuple[str, str], frozenset[str]]
"""(API group, resource) -> verbs."""


def _rights(*lines: tuple[str, str, str]) -> GrantedRights:
    return {(group, name): frozenset(verbs.split()) for group, name, verbs in lines}


JOBS = ("batch", "jobs")
CLUSTER_RIGHTS = _rights(
    ("", "nodes", "list watch"),
    ("", "namespaces", "list watch"),
    ("policy", "poddisruptionbudgets", "list watch"),
    ("scheduling.k8s.io", "priorityclasses", "list watch"),
    ("scheduling.k8s.io", "podgroups", "list watch"),
    ("scheduling.k8s.io", "compositepodgroups", "list watch"),
    ("scheduling.x-k8s.io", "podgroups", "list watch"),
    ("resource.k8s.io", "deviceclasses", "list watch"),
    (*JOBS, "list watch"),
    ("", "pods", "get list watch patch delete"),
    ("", "pods/status", "patch"),
    ("", "pods/eviction", "create"),
    ("scheduling.k8s.io", "podgroups/status", "patch"),
    ("", "events", "create"),
    ("", "persistentvolumeclaims", "get"),
)
"""In every namespace. tests/packaging compares manifests/rbac.yaml with this."""

OPTIONAL_RIGHTS: GrantedRights = {
    (group, plural): frozenset(("list", "watch"))
    for group, plural in (
        *((API_GROUPS[source], "podgroups") for source in OTHER_GROUPS),
        *(
            (kind.group, kind.plural)
            for source, kind in OTHER_KINDS.items()
            if source not in (COMPOSITE, DEVICE_CLASS_SOURCE, JOB, PARTLY_DONE)
        ),
    )
}
"""Used where they are given: manifests/rbac-other-groups.yaml."""
BIND_RIGHTS = _rights(("", "pods/binding", "create"))
"""In every namespace, where the bind verb is served."""

LEASES = ("coordination.k8s.io", "leases")
OWN_RIGHTS = _rights(
    ("", "configmaps", "get list create update delete"),
    (*LEASES, "create get watch update"),
)
"""In the namespace of the plan records."""

OBSERVE_RIGHTS = _rights(
    ("", "nodes", "get list watch"),
    ("", "namespaces", "get list watch"),
    ("", "pods", "get list watch"),
    ("policy", "poddisruptionbudgets", "get list watch"),
    ("scheduling.k8s.io", "priorityclasses", "get list watch"),
    ("scheduling.k8s.io", "podgroups", "get list watch"),
    ("scheduling.k8s.io", "compositepodgroups", "get list watch"),
    ("scheduling.x-k8s.io", "podgroups", "get list watch"),
    ("resource.k8s.io", "deviceclasses", "get list watch"),
    (*JOBS, "get list watch"),
)
"""All that observe mode has: manifests/observe/rbac.yaml."""
EVICTING = _rights(("", "pods", "delete"))
JOB_RIGHTS = _rights((*JOBS, "list watch"))
CLAIM_RIGHTS = _rights(("", "persistentvolumeclaims", "get"))

ADMINISTRATORS = ("cluster-admin", "admin", "edit")
"""Roles that every cluster has, with rights to create pods and read Secrets."""

SCHEDULERS = ("system:kube-scheduler", "system:volume-scheduler")

CROWDS = ("system:authenticated", "system:unauthenticated", "system:serviceaccounts")

USER = "podgroup-extender"
"""Whom a static pod comes in as."""


def rights_findings(
    documents: Sequence[Document], *, binds: bool = False, observes: bool = False
) -> Iterator[Finding]:
    """Findings on bindings of our accounts, and on the roles that they name.

    ``binds``: the bind verb is served, and needs a right of its own. ``observes``: nothing is
    written, and no right to write is needed.
    """
    pods = [each for each in workloads(documents) if each.extender is not None]
    accounts = {
        (each.namespace, str(each.pod.get("serviceAccountName", "default"))) for each in pods
    } or {(USER, USER)}
    beside = any(len(each.containers) > 1 for each in pods)
    roles = {
        (kind_of(d), name_of(d.value)): d
        for d in documents
        if kind_of(d) in ("Role", "ClusterRole")
    }
    done: set[int] = set()
    for binding in documents:
        kind = kind_of(binding)
        if kind not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        subjects = items(binding.value, "subjects")
        if not any(is_ours(subject, binding.value, accounts) for subject in subjects):
            continue
        place = f"{binding.source}: {kind} {name_of(binding.value)}"
        reference = at(binding.value, "roleRef")
        role = str(reference.get("name", ""))
        if role in ADMINISTRATORS:
            yield broken("rights-admin", place, f"binds {role}", role=role)
        if role in SCHEDULERS and pods and not beside:
            yield broken("shared-account", place, f"gives the extender's account {role} too")
        for subject in subjects:
            crowd = str(subject.get("name", ""))
            if subject.get("kind") == "Group" and crowd.startswith(CROWDS):
                yield broken("rights-for-all", place, f"includes the group {crowd}")
        found = roles.get((str(reference.get("kind", "")), role))
        if found is not None and id(found) not in done:
            done.add(id(found))
            yield from _rules(
                found,
                everywhere=kind == "ClusterRoleBinding",
                binds=binds,
                observes=observes,
                beside=beside,
            )
    granted = [each for each in documents if id(each) in done and kind_of(each) == "ClusterRole"]
    if granted and not observes and not any(_grants(each, EVICTING) for each in granted):
        names = ", ".join(name_of(each.value) for each in granted)
        problem = f"{names} grants no delete on pods, and mode is enforce"
        yield broken("enforce-rights", f"{granted[0].source}: ClusterRole", problem)
    if granted and not any(_grants(each, JOB_RIGHTS) for each in granted):
        names = ", ".join(name_of(each.value) for each in granted)
        problem = f"{names} grants no list and watch on jobs"
        yield broken("job-right", f"{granted[0].source}: ClusterRole", problem)
    if granted and not observes and not any(_grants(each, CLAIM_RIGHTS) for each in granted):
        names = ", ".join(name_of(each.value) for each in granted)
        problem = f"{names} grants no get on persistentvolumeclaims"
        yield broken("claim-right", f"{granted[0].source}: ClusterRole", problem)
    if binds and granted and not any(_grants(each, BIND_RIGHTS) for each in granted):
        names = ", ".join(name_of(each.value) for each in granted)
        problem = f"{names} grants no create on pods/binding, while bind.enabled is true"
        yield broken("bind-right", f"{granted[0].source}: ClusterRole", problem)


def unbound(documents: Sequence[Document]) -> bool:
    """Whether pods of ours are among the documents, but nothing that gives them rights."""
    pods = [each for each in workloads(documents) if each.extender is not None]
    return bool(pods) and not any(kind_of(d) == "ClusterRole" for d in documents)


def is_ours(
    subject: dict[str, Any], binding: dict[str, Any], accounts: set[tuple[str, str]]
) -> bool:
    """Whether a binding's subject is one of our accounts, or everybody where our role is given."""
    name = str(subject.get("name", ""))
    match subject.get("kind"):
        case "ServiceAccount":
            return (str(subject.get("namespace", namespace_of(binding))), name) in accounts
        case "User":
            return name == USER
        case "Group":
            return name.startswith(CROWDS) and at(binding, "roleRef").get("name") == USER
    return False


def _grants(document: Document, wanted: GrantedRights) -> bool:
    """Whether one rule of a role gives all of what is wanted."""
    return all(
        any(
            group in (rule.get("apiGroups") or [])
            and resource in (rule.get("resources") or [])
            and verbs <= set(rule.get("verbs") or [])
            for rule in items(document.value, "rules")
        )
        for (group, resource), verbs in wanted.items()
    )


def _rules(
    document: Document, *, everywhere: bool, binds: bool, observes: bool, beside: bool
) -> Iterator[Finding]:
    """A role grants nothing that is not used.

    ``beside``: kube-scheduler is in the same pod, and its lease is with this account's rights.
    """
    place = f"{document.source}: {kind_of(document)} {name_of(document.value)}"
    used = {**CLUSTER_RIGHTS, **OPTIONAL_RIGHTS} if everywhere else OWN_RIGHTS
    if everywhere and binds:
        used = {**used, **BIND_RIGHTS}
    for position, rule in enumerate(items(document.value, "rules")):
        where = f"{place}: rules[{position}]"
        verbs = {str(verb) for verb in rule.get("verbs") or []}
        for group in rule.get("apiGroups") or []:
            for resource in rule.get("resources") or []:
                if "*" in (group, resource) or "*" in verbs:
                    what = (
                        f"{'/'.join(filter(None, (group, resource)))}: {', '.join(sorted(verbs))}"
                    )
                    yield broken("rights-wildcard", where, f"grants {what}")
                    continue
                of, known = (str(group), str(resource)), frozenset[str]()
                if observes:
                    known = OBSERVE_RIGHTS.get(of) or OPTIONAL_RIGHTS.get(of) or known
                    if beside and of == LEASES:
                        known = OWN_RIGHTS[LEASES]
                    if unused := (verbs & used.get(of, frozenset())) - known:
                        problem = f"grants {', '.join(sorted(unused))} on {resource}"
                        yield broken("observe-rights", where, problem)
                if more := verbs - used.get(of, frozenset()) - known:
                    problem = f"grants {', '.join(sorted(more))} on {resource}"
                    yield broken("rights-beyond", where, problem)
