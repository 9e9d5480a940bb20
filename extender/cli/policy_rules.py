"""Rules on what tenants are allowed: who may opt out of preemption, and who may write records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.cli.catalogue import broken
from extender.cli.documents import Document
from extender.cli.findings import Finding
from extender.cli.network_rules import NAME_LABEL
from extender.cli.workloads import workloads
from extender.model.policy import BUDGET, DAEMON_SET, NamespaceSelector
from extender.model.settings import Settings

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
