"""Rules on what stands around our pods: NetworkPolicies and PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document, kind_of
from extender.cli.findings import Finding
from extender.cli.workloads import Workload, at, items, name_of, namespace_of, selects, workloads

EVERYWHERE = ("0.0.0.0/0", "::/0")

EXAMPLES = ("192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:")
"""Addresses that are nobody's (RFC 5737, RFC 3849), as the manifests have them to be replaced."""


def network_findings(documents: Sequence[Document]) -> Iterator[Finding]:
    """Findings on every pod of ours that has an address of its own."""
    policies = [d for d in documents if kind_of(d) == "NetworkPolicy"]
    for each in workloads(documents):
        if each.extender is None or each.on_host_network:
            continue
        around = [
            (f"{d.source}: NetworkPolicy {name_of(d.value)}", at(d.value, "spec"))
            for d in policies
            if namespace_of(d.value) == each.namespace
            and selects(at(d.value, "spec", "podSelector"), each.labels)
        ]
        for direction, rule in (("Ingress", "no-network-policy"), ("Egress", "no-egress-policy")):
            if not any(direction in _types(spec) for _, spec in around):
                yield broken(rule, each.place, f"no NetworkPolicy of type {direction} selects it")
        for place, spec in around:
            yield from _ingress(place, spec)
            yield from _egress(place, spec)


def _types(spec: dict[str, Any]) -> list[Any]:
    """The directions a policy isolates, with the API server's default."""
    given = spec.get("policyTypes")
    if isinstance(given, list):
        return given
    return ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]


def _ingress(place: str, spec: dict[str, Any]) -> Iterator[Finding]:
    for position, rule in enumerate(items(spec, "ingress")):
        where = f"{place}: ingress[{position}]"
        peers = items(rule, "from")
        if not peers or any(_is_everybody(peer) for peer in peers):
            yield broken("policy-open", where, "admits everybody")
        yield from _example(where, peers)


def _egress(place: str, spec: dict[str, Any]) -> Iterator[Finding]:
    for position, rule in enumerate(items(spec, "egress")):
        where = f"{place}: egress[{position}]"
        peers = items(rule, "to")
        anywhere = not peers or any(_is_everybody(peer) for peer in peers)
        if anywhere and not items(rule, "ports"):
            yield broken("egress-open", where, "leads everywhere, on every port")
        elif anywhere:
            ports = ", ".join(str(port.get("port", "all")) for port in items(rule, "ports"))
            yield broken("egress-anywhere", where, f"leads to any address on port {ports}")
        yield from _example(where, peers)


def _is_everybody(peer: dict[str, Any]) -> bool:
    if "ipBlock" in peer:
        return at(peer, "ipBlock").get("cidr") in EVERYWHERE
    return not any(at(peer, key) for key in ("podSelector", "namespaceSelector"))


def _example(where: str, peers: list[dict[str, Any]]) -> Iterator[Finding]:
    for peer in peers:
        cidr = str(at(peer, "ipBlock").get("cidr", ""))
        if cidr.startswith(EXAMPLES):
            yield broken("example-address", where, f"{cidr} is an address for examples")


def budget_findings(documents: Sequence[Document]) -> Iterator[Finding]:
    """A drained node takes one replica of ours after the other, and is not held up for ever."""
    budgets = [d for d in documents if kind_of(d) == "PodDisruptionBudget"]
    for each in workloads(documents):
        if each.extender is None or each.kind == "Pod":
            continue
        around = [
            d
            for d in budgets
            if namespace_of(d.value) == each.namespace
            and selects(at(d.value, "spec", "selector"), each.labels)
        ]
        if not around:
            yield broken("no-budget", each.place, "no PodDisruptionBudget selects it")
        for document in around:
            yield from _blocking(document, each)


def _blocking(document: Document, each: Workload) -> Iterator[Finding]:
    spec = at(document.value, "spec")
    replicas = each.spec.get("replicas", 1)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    place = f"{document.source}: PodDisruptionBudget {name_of(document.value)}"
    all_needed = isinstance(least, int) and isinstance(replicas, int) and least >= replicas
    if most in (0, "0%") or least == "100%" or all_needed:
        problem = f"allows none of {replicas} replicas to go"
        yield broken("budget-blocks", place, problem)
