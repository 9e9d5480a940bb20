"""Rules on what stands around our pods: NetworkPolicies and PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import collapse_addresses, ip_network
from typing import Any

from extender.check.documents import Document, kind_of
from extender.check.findings import Finding
from extender.check.rule import Rule, broken, declare
from extender.check.workloads import Workload, at, items, name_of, namespace_of, selects, workloads
from extender.model.texts import counted

NETWORK_RULES = {
    "no-network-policy": Rule(
        "error",
        "every pod of the cluster reaches its ports",
        "apply a NetworkPolicy that admits its callers only (manifests/ has one for each way), and "
        "name its file with --manifest",
    ),
    "no-egress-policy": Rule(
        "error",
        "an attacker who runs code in it can send what it knows of the cluster anywhere",
        "apply a NetworkPolicy of type Egress (manifests/ has one for each way), and name its file "
        "with --manifest",
    ),
    "policy-open": Rule(
        "error",
        "a NetworkPolicy that admits every pod to a port protects nothing",
        "name namespaces, pods or addresses under from",
    ),
    "egress-open": Rule(
        "error",
        "a NetworkPolicy that leads everywhere keeps nothing in",
        "name the API server's and DNS' ports, and their addresses where they are known",
    ),
    "egress-anywhere": Rule(
        "hint",
        "any address with that port open can be sent to, not only the API server",
        "write your API server's addresses under to",
    ),
    "example-address": Rule(
        "warning",
        "no node has it, so no caller is admitted",
        "write your control plane nodes' addresses",
    ),
    "no-budget": Rule(
        "error",
        "draining nodes may take all replicas at once, and then nothing is scheduled",
        "apply a PodDisruptionBudget with minAvailable: 1, and name its file with --manifest",
    ),
    "budget-blocks": Rule(
        "error",
        "no node with a replica can be drained",
        "leave room for one: minAvailable: 1 with two replicas",
    ),
}
"""On what stands around them."""
declare(NETWORK_RULES)


NARROW = {4: 8, 6: 7}
"""Address family -> shortest prefix that can be somebody's own (10.0.0.0/8, fc00::/7)."""
NAME_LABEL = "kubernetes.io/metadata.name"
"""The API server gives it to every namespace."""

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
        if not peers or _reach_everybody(peers):
            yield broken("policy-open", where, "admits every pod")
        yield from _example(where, peers)


def _egress(place: str, spec: dict[str, Any]) -> Iterator[Finding]:
    for position, rule in enumerate(items(spec, "egress")):
        where = f"{place}: egress[{position}]"
        peers = items(rule, "to")
        anywhere = not peers or _reach_everybody(peers)
        if anywhere and not items(rule, "ports"):
            yield broken("egress-open", where, "leads everywhere, on every port")
        elif anywhere:
            ports = ", ".join(str(port.get("port", "all")) for port in items(rule, "ports"))
            yield broken("egress-anywhere", where, f"leads to any address on port {ports}")
        yield from _example(where, peers)


def _reach_everybody(peers: list[dict[str, Any]]) -> bool:
    """Whether these peers together are whoever comes: all addresses, or every namespace's pods.

    Pods of every namespace that have some label are everybody too: tenants label their pods.
    """
    blocks = [str(at(peer, "ipBlock").get("cidr", "")) for peer in peers if "ipBlock" in peer]
    return _wide(blocks) or any(_every_namespace(peer) for peer in peers if "ipBlock" not in peer)


def _wide(blocks: list[str]) -> bool:
    """Whether the addresses are more than anybody's own; halves of everything are everything."""
    for family, shortest in NARROW.items():
        networks: list[Any] = []
        for block in blocks:
            try:
                network = ip_network(block, strict=False)  # 1.2.3.4/0 is 0.0.0.0/0
            except ValueError:
                continue  # the API server refuses it
            if network.version == family:
                networks.append(network)
        if any(network.prefixlen < shortest for network in collapse_addresses(networks)):
            return True
    return False


def _every_namespace(peer: dict[str, Any]) -> bool:
    if "namespaceSelector" not in peer:
        return not at(peer, "podSelector")  # {}: the API server refuses it, or takes it for all
    selector = at(peer, "namespaceSelector")
    asked = [
        each
        for each in items(selector, "matchExpressions")
        if each.get("operator") == "In"
        or (each.get("operator") == "Exists" and each.get("key") != NAME_LABEL)
    ]
    return not at(selector, "matchLabels") and not asked


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
            and selects(at(d.value, "spec").get("selector"), each.labels)
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
        problem = f"allows none of {counted(replicas, 'replica')} to be evicted"
        yield broken("budget-blocks", place, problem)
