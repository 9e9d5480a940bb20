"""Rules on what tenants may do: opting out, limits, and who may write records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from extender.check.documents import Document, kind_of
from extender.check.findings import Finding
from extender.check.network_rules import NAME_LABEL
from extender.check.rights_rules import USER, is_ours
from extender.check.rule import Rule, broken, declare
from extender.check.workloads import Workload, at, items, name_of, namespace_of, workloads
from extender.gang.controller.rounds import BOUND_SECONDS
from extender.settings.policy import BUDGET, DAEMON_SET, NamespaceSelector
from extender.settings.settings import Settings

POLICY_RULES = {
    "opt-out-for-all": Rule(
        "warning",
        "every tenant can protect its pods from all but system-critical priorities",
        "select the namespaces that may, or leave it out: then those labelled "
        "podgroup-extender.io/opt-out: allowed may",
    ),
    "unprotected": Rule(
        "warning",
        "the cluster's own pods there may be evicted for more urgent pods",
        "add kube-system to plan.protectedNamespaces",
    ),
    "budgets-ignored": Rule(
        "warning",
        "plans exceed PodDisruptionBudgets as if there were none",
        "leave policy.optOut[PodDisruptionBudget] out, or select the namespaces that are trusted",
    ),
    "daemon-sets-go": Rule(
        "warning",
        "their controller creates them again on the node at once, and they are evicted again",
        "leave it out, unless no DaemonSet's pods tolerate the taints",
    ),
    "no-gangs": Rule(
        "warning",
        "every pod is one by itself: gangs are evicted and started in part",
        "leave groups.dialects out, or list those that are in use",
    ),
    "opt-out-of-gangs": Rule(
        "warning",
        "one small pod keeps its whole gang from being preempted",
        "write shields: pod, unless that is meant",
    ),
    "shields-for-all": Rule(
        "hint",
        "a tenant with a budget of 0, or a DaemonSet, is moved by system-critical pods only",
        "where tenants are not trusted, give policy.optOut[PodDisruptionBudget] and [DaemonSet] a "
        "namespace selector",
    ),
    "records-unsigned": Rule(
        "hint",
        "only the rights on the records' namespace keep others from writing a list of evictions",
        "make the Secret podgroup-extender-records (docs/operations.md, Records of plans) and name "
        "the mounted key in seats.recordKeyFile",
    ),
    "record-key-unmounted": Rule(
        "error",
        "serve does not start without the configured key",
        "mount the Secret podgroup-extender-records, as manifests/deployment.yaml does",
    ),
    "records-writable": Rule(
        "error",
        "a user who may write ConfigMaps there can make a restart carry out a forged plan",
        "give them another namespace, or sign the records with a key that they cannot read",
    ),
    "records-shared": Rule(
        "error",
        "a user who may write ConfigMaps there can make a restart carry out a forged plan",
        "keep records in the extender's own namespace, or sign them with seats.recordKeyFile",
    ),
}
"""On what tenants are allowed."""
declare(POLICY_RULES)
LIMIT_RULES = {
    "overrun-late": Rule(
        "warning",
        "/livez fails after a minute without progress, so the process restarts before a search "
        "that does not end is stopped",
        "set plan.seconds and plan.overrunSeconds to less than 60 in all",
    ),
    "share-whole": Rule(
        "hint",
        "searches for one namespace's gangs may then keep all others waiting, however long",
        "write namespaceShare: 0.5, unless all namespaces are one owner's",
    ),
    "retry-at-once": Rule(
        "warning",
        "a gang that was refused is searched for again and again, at the expense of others",
        "write retrySeconds: 2",
    ),
    "never-suspended": Rule(
        "warning",
        "a gang whose members never start has pods evicted for it again and again",
        "write giveUps: 3",
    ),
    "limit-wide": Rule(
        "warning",
        "a limit that is never reached protects nothing",
        "leave it out, or stay within {most}",
    ),
    "grace-endless": Rule(
        "warning",
        "seats are held as long as a victim's owner likes",
        "write longestGraceSeconds: 3600, or the longest that a checkpoint takes",
    ),
}
"""On limits between tenants."""
declare(LIMIT_RULES)


SHIELDS = (BUDGET, DAEMON_SET)
"""What keeps pods from going that Kubernetes itself has, and every tenant may make."""
SYSTEM_NAMESPACE = "kube-system"
LEAST_ASKED = 0
"""Priority of pods without a class; hardly anybody who preempts has less."""
SHARED_NAMESPACES = ("default", "kube-public", "kube-system")
"""Where others than this program write ConfigMaps."""


def _everybody(chosen: NamespaceSelector | None) -> bool:
    """Whether a new namespace is selected as it is: no label is asked for that somebody sets."""
    return chosen is not None and not (
        chosen.match_labels
        or any(
            e.operator == "In" or (e.operator == "Exists" and e.key != NAME_LABEL)
            for e in chosen.match_expressions
        )
    )


def shield_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on what every tenant can make, told of an installation and not of its settings."""
    for each in workloads(documents):
        if each.extender is None:
            continue
        open_to_all = [key for key in SHIELDS if _everybody(settings.policy.rule(key).namespaces)]
        if open_to_all:
            problem = f"takes {' and '.join(open_to_all)} from every namespace (policy.optOut)"
            yield broken("shields-for-all", each.place, problem)


def _disregarded(settings: Settings, source: str) -> Iterator[Finding]:
    """What Kubernetes, or a default of ours, protects and this configuration does not."""
    plan = settings.plan
    if SYSTEM_NAMESPACE not in plan.protected_namespaces:
        place = f"{source}: plan.protectedNamespaces"
        yield broken("unprotected", place, f"does not have {SYSTEM_NAMESPACE}")
    for key, rule in (("budgets-ignored", BUDGET), ("daemon-sets-go", DAEMON_SET)):
        chosen = settings.policy.rule(rule)
        place = f"{source}: policy.optOut[{rule}]"
        if chosen.namespaces is None:
            yield broken(key, f"{place}.namespaces", "is null: they count in no namespace")
        elif chosen.preemptors_below <= LEAST_ASKED:
            problem = f"is {chosen.preemptors_below}: they count against no priority"
            yield broken(key, f"{place}.preemptorsBelow", problem)
    if plan.evict_daemon_set_pods:
        yield broken("daemon-sets-go", f"{source}: plan.evictDaemonSetPods", "is true")
    if not settings.groups.dialects and not settings.groups.custom:
        yield broken("no-gangs", f"{source}: groups.dialects", "is empty")


def policy_findings(settings: Settings, source: str) -> Iterator[Finding]:
    """Findings on ``policy`` and on where plan records are kept."""
    for key, rule in settings.policy.opt_out.items():
        place = f"{source}: policy.optOut[{key}]"
        # A budget and a DaemonSet count everywhere unless the configuration says otherwise.
        if _everybody(rule.namespaces) and key not in SHIELDS:
            problem = "selects every namespace that has no label against it"
            yield broken("opt-out-for-all", f"{place}.namespaces", problem)
        if rule.shields == "gang" and key != BUDGET:
            yield broken("opt-out-of-gangs", f"{place}.shields", "is gang")
    yield from _disregarded(settings, source)
    seats = settings.seats
    if seats.record_namespace in SHARED_NAMESPACES and not seats.record_key_file:
        problem = f"is {seats.record_namespace}, and seats.recordKeyFile is not set"
        yield broken("records-shared", f"{source}: seats.recordNamespace", problem)


DAY = 24 * 3600
LEAST_RETRY_SECONDS = 0.1
LEAST_SUSPENDED_SECONDS = 60.0
WIDEST: tuple[tuple[str, float, Callable[[Settings], float]], ...] = (
    ("server.maxConnections", 65_536, lambda settings: settings.server.max_connections),
    ("server.maxBytesInFlight", 4 * 2**30, lambda settings: settings.server.max_bytes_in_flight),
    ("server.headSeconds", 300, lambda settings: settings.server.head_seconds),
    ("server.bodySeconds", 300, lambda settings: settings.server.body_seconds),
    ("seats.giveUps", 100, lambda settings: settings.seats.give_ups),
    ("seats.bindSeconds", DAY, lambda settings: settings.seats.bind_seconds),
    ("seats.maxReplans", 100, lambda settings: settings.seats.max_replans),
    ("seats.victimSlackSeconds", DAY, lambda settings: settings.seats.victim_slack_seconds),
    ("plan.budgetsPerNamespace", 2_000, lambda settings: settings.plan.budgets_per_namespace),
    ("plan.patienceSeconds", DAY, lambda settings: settings.plan.patience_seconds),
    ("plan.minRuntimeSeconds", 7 * DAY, lambda settings: settings.plan.min_runtime_seconds),
    ("cache.staleSeconds", 300, lambda settings: settings.cache.stale_seconds),
    ("cache.stallSeconds", 3600, lambda settings: settings.cache.stall_seconds),
    ("api.connections", 1024, lambda settings: settings.api.connections),
    ("api.requestsPerSecond", 100_000, lambda settings: settings.api.requests_per_second),
    ("eviction.attempts", 1000, lambda settings: settings.eviction.attempts),
    ("eviction.concurrency", 1024, lambda settings: settings.eviction.concurrency),
    ("grpc.maxCalls", 4096, lambda settings: settings.grpc.max_calls),
    ("grpc.maxStreams", 4096, lambda settings: settings.grpc.max_streams),
)
"""Field, the most that still limits somebody, and its value."""


def limit_findings(settings: Settings, source: str) -> Iterator[Finding]:
    """Limits that are off, or so wide that they do not limit."""
    plan, seats = settings.plan, settings.seats
    if plan.seconds + plan.overrun_seconds >= BOUND_SECONDS:
        total = plan.seconds + plan.overrun_seconds
        yield broken("overrun-late", f"{source}: plan.overrunSeconds", f"ends after {total:g} s")
    if plan.namespace_share == 1:
        yield broken("share-whole", f"{source}: plan.namespaceShare", "is 1")
    if plan.retry_seconds < LEAST_RETRY_SECONDS:
        yield broken("retry-at-once", f"{source}: plan.retrySeconds", f"is {plan.retry_seconds:g}")
    if not seats.give_ups:
        yield broken("never-suspended", f"{source}: seats.giveUps", "is 0")
    elif seats.suspend_seconds < LEAST_SUSPENDED_SECONDS:
        problem = f"is {seats.suspend_seconds:g}"
        yield broken("never-suspended", f"{source}: seats.suspendSeconds", problem)
    for name, most, value in WIDEST:
        if value(settings) > most:
            yield broken("limit-wide", f"{source}: {name}", f"is {value(settings)}", most=str(most))
    if settings.eviction.longest_grace_seconds > DAY:
        yield broken(
            "grace-endless",
            f"{source}: eviction.longestGraceSeconds",
            f"is {settings.eviction.longest_grace_seconds}",
        )


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
