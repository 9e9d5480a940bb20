"""Which existing pods must leave before a pod may come: anti-affinity and host ports.

Unlike room, where any pod may make it, these pods are in the way one by one:
all of them must go. Spread constraints are not like that (which of several
pods leaves does not matter) and are left to a check of the finished plan.
"""

from __future__ import annotations

from extender.fit import node_ports
from extender.fit.inter_pod_affinity import Domain, term_picks, term_refuses
from extender.fit.node_state import NodeState
from extender.fit.view import ClusterView
from extender.model.objects import Pod, PodAffinityTerm


def anti_affinity_blockers(pod: Pod, view: ClusterView, node_name: str) -> tuple[str, ...]:
    """Return the sorted uids of the pods that keep this pod off the node, () for none.

    Required anti-affinity counts in both directions and over the node's whole
    domain; host ports only on the node. Asking for many nodes: blocked_nodes.
    """
    return _on(pod, view.state(node_name), _closed_domains(pod, view), {})


def blocked_nodes(pod: Pod, view: ClusterView) -> dict[str, tuple[str, ...]]:
    """Return anti_affinity_blockers of every node that has any, in one pass over the view."""
    closed = _closed_domains(pod, view)
    if not closed and not pod.shape.host_ports:
        return {}
    memo: dict[tuple[Domain, ...], tuple[str, ...]] = {}
    found = {}
    for state in view.states():
        uids = _on(pod, state, closed, memo)
        if uids:
            found[state.node.name] = uids
    return found


def _on(
    pod: Pod,
    state: NodeState,
    closed: dict[Domain, set[str]],
    memo: dict[tuple[Domain, ...], tuple[str, ...]],
) -> tuple[str, ...]:
    labels = state.node.labels
    keys = {key for key, _ in closed}
    domains = tuple(
        domain for key in sorted(keys) if (domain := (key, labels.get(key, ""))) in closed
    )
    uids = memo.get(domains)
    if uids is None:
        together: set[str] = set()
        for domain in domains:
            if domain[0] in labels:
                together |= closed[domain]
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


def _closed_domains(pod: Pod, view: ClusterView) -> dict[Domain, set[str]]:
    """Domains closed to the pod by anti-affinity in either direction, with the pods that do it."""
    closed: dict[Domain, set[str]] = {}
    refusing = {
        term for term in view.refusals().by_term if term_refuses(term, pod, view.namespaces)
    }
    own = [
        term for term in dict.fromkeys(pod.shape.anti_affinity) if view.term_counts((term,)).counts
    ]
    if not refusing and not own:
        return closed
    picked: dict[tuple[int, str], tuple[PodAffinityTerm, ...]] = {}
    for state in view.states():
        labels = state.node.labels
        for guard in state.guards.values() if refusing else ():
            if guard.uid == pod.uid:
                continue
            for term in guard.shape.anti_affinity:
                if term in refusing and term.topology_key in labels:
                    _note(closed, term, labels[term.topology_key], guard.uid)
        for other in state.pods.values() if own else ():
            kind = (id(other.labels), other.namespace)
            terms = picked.get(kind)
            if terms is None:
                terms = picked[kind] = tuple(
                    term for term in own if term_picks(term, other, view.namespaces)
                )
            if terms and other.uid != pod.uid:
                for term in terms:
                    if term.topology_key in labels:
                        _note(closed, term, labels[term.topology_key], other.uid)
    return closed


def _note(closed: dict[Domain, set[str]], term: PodAffinityTerm, value: str, uid: str) -> None:
    closed.setdefault((term.topology_key, value), set()).add(uid)
