"""InterPodAffinity: required affinity and anti-affinity between pods, both ways.

Source: pkg/scheduler/framework/plugins/interpodaffinity. Three rules:

- affinity: in the node's domain of every term there is a pod that matches ALL
  terms. When no such pod exists anywhere, a pod that matches its own terms may
  start the group on any node that has every topology key.
- anti-affinity: no pod in the node's domain matches the term.
- anti-affinity of others: no pod in the node's domain has a term that matches
  this pod.

Terminating pods count. A pod on a node without the topology label counts nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extender.fit.namespaces import Namespaces, reached, reached_from
from extender.fit.selectors import describe_selector, matches
from extender.model.objects import Node, Pod, PodAffinityTerm

Domain = tuple[str, str]
"""Topology key and its value on a node."""


def term_picks(term: PodAffinityTerm, pod: Pod, namespaces: Namespaces) -> bool:
    """Tell whether the incoming pod's ``term`` matches the existing ``pod``."""
    return reached(term, pod.namespace, namespaces) and matches(term.selector, pod.labels)


def term_refuses(term: PodAffinityTerm, pod: Pod, namespaces: Namespaces) -> bool:
    """Tell whether an existing pod's anti-affinity ``term`` matches the incoming ``pod``."""
    return reached_from(term, pod.namespace, namespaces) and matches(term.selector, pod.labels)


def picks_all(terms: Sequence[PodAffinityTerm], pod: Pod, namespaces: Namespaces) -> bool:
    """Tell whether the pod matches every term; False for no terms."""
    return bool(terms) and all(term_picks(term, pod, namespaces) for term in terms)


class TermCounts:
    """How many existing pods match all of some terms, per domain of each term's key."""

    __slots__ = ("counts", "namespaces", "terms")

    def __init__(self, terms: tuple[PodAffinityTerm, ...], namespaces: Namespaces) -> None:
        self.terms = terms
        self.namespaces = namespaces
        self.counts: dict[Domain, int] = {}

    def clone(self) -> TermCounts:
        """Return an independent copy."""
        twin = TermCounts(self.terms, self.namespaces)
        twin.counts = dict(self.counts)
        return twin

    def update(self, pod: Pod, node: Node, delta: int) -> None:
        """Count a pod that came to the node (+1) or left it (-1)."""
        if picks_all(self.terms, pod, self.namespaces):
            for term in self.terms:
                _shift(self.counts, term.topology_key, node, delta)

    def fill(self, placed: Iterable[tuple[Node, Iterable[Pod]]]) -> None:
        """Count all pods at once, judging each set of labels once."""
        seen: dict[tuple[int, str], bool] = {}
        for node, pods in placed:
            hits = 0
            for pod in pods:
                known = (id(pod.labels), pod.namespace)
                match = seen.get(known)
                if match is None:
                    match = seen[known] = picks_all(self.terms, pod, self.namespaces)
                hits += match
            if hits:
                for term in self.terms:
                    _shift(self.counts, term.topology_key, node, hits)


class RefusalCounts:
    """How many existing pods bring each anti-affinity term into each domain."""

    __slots__ = ("by_term", "namespaces", "version")

    def __init__(self, namespaces: Namespaces) -> None:
        self.namespaces = namespaces
        self.by_term: dict[PodAffinityTerm, dict[Domain, int]] = {}
        self.version = 0
        """Goes up whenever ``refused`` may answer differently."""

    def clone(self) -> RefusalCounts:
        """Return an independent copy."""
        twin = RefusalCounts(self.namespaces)
        twin.by_term = {term: dict(counts) for term, counts in self.by_term.items()}
        twin.version = self.version
        return twin

    def update(self, pod: Pod, node: Node, delta: int) -> None:
        """Count a pod that came to the node (+1) or left it (-1)."""
        for term in pod.shape.anti_affinity:
            counts = self.by_term.setdefault(term, {})
            _shift(counts, term.topology_key, node, delta)
            if not counts:
                del self.by_term[term]
            self.version += 1

    def refused(self, pod: Pod) -> dict[Domain, PodAffinityTerm]:
        """Return the domains closed to the pod, each with one term that closes it."""
        closed: dict[Domain, PodAffinityTerm] = {}
        for term, counts in self.by_term.items():
            if term_refuses(term, pod, self.namespaces):
                for domain in counts:
                    closed.setdefault(domain, term)
        return closed


def _shift(counts: dict[Domain, int], key: str, node: Node, delta: int) -> None:
    value = node.labels.get(key)
    if value is None:
        return
    domain = (key, value)
    count = counts.get(domain, 0) + delta
    if count:
        counts[domain] = count
    else:
        counts.pop(domain, None)


def why_not_affinity(pod: Pod, node: Node, counts: TermCounts) -> str | None:
    """Return which affinity term of the pod the node does not meet, None when it meets all.

    The node must have every topology key: ``static_allowed`` says so.
    """
    missing = None
    for term in counts.terms:
        value = node.labels[term.topology_key]
        if counts.counts.get((term.topology_key, value), 0) <= 0:
            missing = missing or (term, value)
    if missing is None:
        return None
    if not counts.counts and picks_all(counts.terms, pod, counts.namespaces):
        return None
    term, value = missing
    return (
        f"InterPodAffinity: no pod in {term.topology_key}={value} matches the required "
        f"affinity to {describe_selector(term.selector)}"
    )


def missing_key(term: PodAffinityTerm) -> str:
    """Say that the node lacks the topology label of an affinity term."""
    return (
        f"InterPodAffinity: the node has no label {term.topology_key}, which the required "
        f"affinity to {describe_selector(term.selector)} needs"
    )


def why_not_anti_affinity(node: Node, counts: Sequence[TermCounts]) -> str | None:
    """Return which pods the pod's own anti-affinity keeps away from, None when there are none."""
    for entry in counts:
        if not entry.counts:
            continue
        (term,) = entry.terms
        value = node.labels.get(term.topology_key)
        found = entry.counts.get((term.topology_key, value), 0) if value is not None else 0
        if found > 0:
            return (
                f"InterPodAffinity: the pod's anti-affinity to {describe_selector(term.selector)} "
                f"meets {found} pod{'s' if found > 1 else ''} in {term.topology_key}={value}"
            )
    return None


def why_not_refused(node: Node, closed: Mapping[Domain, PodAffinityTerm]) -> str | None:
    """Return which existing pods' anti-affinity keeps the pod away, None when none does."""
    labels = node.labels
    for (key, value), term in closed.items():
        if labels.get(key) == value:
            return (
                f"InterPodAffinity: a pod in {key}={value} keeps away "
                f"{describe_selector(term.selector)} (its anti-affinity)"
            )
    return None
