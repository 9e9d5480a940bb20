"""Which existing pods must leave before a pod may come: anti-affinity and host ports.

Unlike room, where any pod may make it, these pods are in the way one by one:
all of them must go. Spread constraints are not like that (which of several
pods leaves does not matter) and are left to a check of the finished plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.fit import node_ports
from extender.fit.inter_pod_affinity import Domain, term_picks, term_refuses
from extender.fit.node_state import NodeState
from extender.fit.view import ClusterView
from extender.model.objects import Pod, PodAffinityTerm

Coming = Sequence[tuple[Pod, Sequence[tuple[str, str]]]]
"""Pods that are on no node yet and count as if they were: one of each kind, that is of a
namespace, shape and labels, with the uid and the node of every one like it."""


def blocked_nodes(pod: Pod, view: ClusterView, coming: Coming = ()) -> dict[str, tuple[str, ...]]:
    """Return, by node, the sorted uids of the pods that keep this pod off it; nodes with any.

    Required anti-affinity counts in both directions and over the node's whole domain; host ports
    only on the node. ``coming`` are pods that the view does not know, on nodes that it knows.
    """
    closed = _closed_domains(pod, view)
    ports = _come(pod, view, coming, closed) if coming else {}
    if not closed and not pod.shape.host_ports:
        return {}
    memo: dict[tuple[Domain, ...], tuple[str, ...]] = {}
    found = {}
    for state in view.states():
        uids = _on(pod, state, closed, memo)
        takers = ports.get(state.node.name)
        if takers:
            uids = tuple(sorted(takers.union(uids)))
        if uids:
            found[state.node.name] = uids
    return found


Closed = dict[str, dict[str, set[str]]]
"""Topology key -> value -> uids of the pods that close that domain."""


def _on(
    pod: Pod, state: NodeState, closed: Closed, memo: dict[tuple[Domain, ...], tuple[str, ...]]
) -> tuple[str, ...]:
    """Union of what closes the node's domains and of who holds a wanted port there."""
    labels = state.node.labels
    domains = tuple(
        [(key, labels[key]) for key in closed if key in labels and labels[key] in closed[key]]
    )
    uids = memo.get(domains)
    if uids is None:
        together: set[str] = set().union(*(closed[key][value] for key, value in domains))
        uids = memo[domains] = tuple(sorted(together))
    wanted = pod.shape.host_ports
    if wanted and state.ports:
        holders = {
            other.uid
            for other in state.ports.values()
            if other.uid != pod.uid and node_ports.clash(wanted, other.shape.host_ports)
        }
        if holders:
            uids = tuple(sorted(holders.union(uids)))
    return uids


def _come(pod: Pod, view: ClusterView, coming: Coming, closed: Closed) -> dict[str, set[str]]:
    """Close the domains that pods to come close, and return who of them takes a wanted port."""
    own, wanted = dict.fromkeys(pod.shape.anti_affinity), pod.shape.host_ports
    ports: dict[str, set[str]] = {}
    for other, places in coming:
        apart = {term.topology_key for term in own if term_picks(term, other, view.namespaces)}
        for term in other.shape.anti_affinity:
            if term_refuses(term, pod, view.namespaces):
                apart.add(term.topology_key)
        clash = wanted and node_ports.clash(wanted, other.shape.host_ports)
        for uid, name in places if apart or clash else ():
            if uid == pod.uid:
                continue
            if clash:
                ports.setdefault(name, set()).add(uid)
            labels = view.nodes[name].labels
            for key in apart & labels.keys():
                closed.setdefault(key, {}).setdefault(labels[key], set()).add(uid)
    return ports


def _closed_domains(pod: Pod, view: ClusterView) -> Closed:
    """Domains closed to the pod by anti-affinity in either direction, and by whom."""
    closed: Closed = {}
    refusing = {
        term for term in view.refusals().by_term if term_refuses(term, pod, view.namespaces)
    }
    own = [
        term for term in dict.fromkeys(pod.shape.anti_affinity) if view.term_counts((term,)).counts
    ]
    if not refusing and not own:
        return closed
    picked: dict[tuple[int, str], list[PodAffinityTerm]] = {}

    def close(term: PodAffinityTerm, state: NodeState, uid: str) -> None:
        value = state.node.labels.get(term.topology_key)
        if value is not None and uid != pod.uid:
            closed.setdefault(term.topology_key, {}).setdefault(value, set()).add(uid)

    for state in view.states():
        if refusing:
            for guard in state.guards.values():
                for term in guard.shape.anti_affinity:
                    if term in refusing:
                        close(term, state, guard.uid)
        if own:
            for other in state.pods.values():
                kind = (id(other.labels), other.namespace)
                terms = picked.get(kind)
                if terms is None:
                    terms = [t for t in own if term_picks(t, other, view.namespaces)]
                    picked[kind] = terms
                for term in terms:
                    close(term, state, other.uid)
    return closed
