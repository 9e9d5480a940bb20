"""Rules on rights: of the extender's account, cluster-wide and in its namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from extender.check.documents import Document, kind_of
from extender.check.findings import Finding
from extender.check.rule import Rule, broken, declare
from extender.check.workloads import at, items, name_of, namespace_of, workloads
from extender.model.group_sources import API_GROUPS, OTHER_GROUPS
from extender.model.owner_kinds import (
    COMPOSITE,
    DEVICE_CLASS_SOURCE,
    JOB,
    OTHER_KINDS,
    PARTLY_DONE,
)
from extender.settings.settings import Settings

RIGHTS_RULES = {
    "rights-admin": Rule(
        "error",
        "an attacker in the extender, its configuration or its token owns the cluster",
        "grant manifests/rbac.yaml instead of {role}",
    ),
    "rights-wildcard": Rule(
        "error",
        "a star grants what is not used, and what later versions of the API add",
        "write the rules of manifests/rbac.yaml",
    ),
    "rights-beyond": Rule(
        "error",
        "nothing uses it, so only an intruder would",
        "write the rules of manifests/rbac.yaml",
    ),
    "status-right": Rule(
        "warning",
        "the status ConfigMap is not written; nothing else is affected",
        "leave status.namespace alone, or let the account get, create and update ConfigMaps there; "
        'write status.name: "" where none is wanted',
    ),
    "record-right": Rule(
        "error",
        "no plan can be recorded, and nothing is evicted whose plan is not: every plan is given up",
        "leave seats.recordNamespace alone, or give the account the Role of manifests/rbac.yaml "
        "there",
    ),
    "lease-right": Rule(
        "error",
        "it never leads, so no verb is answered and nothing is placed",
        "leave leadership.namespace and leadership.name alone, or give the account the Role of "
        "manifests/rbac.yaml there, with that name",
    ),
    "job-right": Rule(
        "warning",
        "completed members whose pods were cleaned up do not count: the "
        "replacement of a lost one waits for ever, and as a victim the gang may be evicted in part",
        "grant list and watch on jobs of batch, as manifests/rbac.yaml does",
    ),
    "claim-right": Rule(
        "warning",
        "no pod is evicted for members that share a PersistentVolumeClaim: it is not known whether "
        "two pods may use it",
        "grant get on persistentvolumeclaims, as manifests/rbac.yaml does",
    ),
    "event-right": Rule(
        "warning",
        "it is not known which nodes an autoscaler has announced: pods are evicted for gangs "
        "although a node is on its way",
        "grant list on events, as manifests/rbac.yaml does",
    ),
    "rights-for-all": Rule(
        "error",
        "every user in that group may then delete pods in every namespace",
        "bind to the service account only",
    ),
}
"""On what their accounts may do."""
declare(RIGHTS_RULES)


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
    ("", "events", "create list"),
    ("", "persistentvolumeclaims", "get"),
    ("autoscaling.x-k8s.io", "provisioningrequests", "get"),
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
EVENT_RIGHTS = _rights(("", "events", "list"))

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
    names = ", ".join(name_of(each.value) for each in granted)
    for rule, needed, rights, lacks in (
        ("enforce-rights", not observes, EVICTING, "delete on pods, and mode is enforce"),
        ("job-right", True, JOB_RIGHTS, "list and watch on jobs"),
        ("claim-right", not observes, CLAIM_RIGHTS, "get on persistentvolumeclaims"),
        ("event-right", not observes, EVENT_RIGHTS, "list on events"),
        ("bind-right", binds, BIND_RIGHTS, "create on pods/binding, while bind.enabled is true"),
    ):
        if granted and needed and not any(_grants(each, rights) for each in granted):
            yield broken(rule, f"{granted[0].source}: ClusterRole", f"{names} grants no {lacks}")


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
            rules = list(_namespaced_rules(documents, namespace, accounts))
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


def _namespaced_rules(
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
