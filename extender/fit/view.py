"""A cheap, mutable picture of the cluster to try moves on.

A planner takes pods away, puts members on seats, asks what fits, and rolls
back. Nothing here is shared with the snapshot it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from extender.fit import inter_pod_affinity, node_name, node_ports, node_resources_fit
from extender.fit.inter_pod_affinity import Domain, RefusalCounts, TermCounts
from extender.fit.namespaces import Namespaces, namespaces_of
from extender.fit.node_state import NodeState
from extender.fit.pod_topology_spread import SpreadCounts
from extender.fit.static import PodClass, pod_class
from extender.model.errors import InvalidInput
from extender.model.objects import Node, Pod, PodAffinityTerm, PodShape
from extender.model.snapshot import Snapshot, differing

_MAX_CONTEXTS = 4096
_MAX_INHERITED = 16
"""Kinds of affinity or spread whose counts go from view to view; others are counted anew."""


class _Context:
    """What is looked up once for pods of one namespace, shape and request, and asked on every
    node."""

    __slots__ = ("affinity", "anti", "cls", "pod", "spread")

    def __init__(
        self,
        pod: Pod,
        affinity: TermCounts | None,
        anti: tuple[TermCounts, ...],
        spread: SpreadCounts | None,
    ) -> None:
        self.pod = pod
        """The first of them; keeps the ids that the context is found by from being reused."""
        self.cls: PodClass = pod_class(pod)
        self.affinity = affinity
        self.anti = anti
        self.spread = spread


class ClusterView:
    """Nodes with the pods on them, answering kube-scheduler's filters for any pod.

    Pods handed in must be records of the snapshot the view came from (or pods
    that snapshot does not know). Errors: InvalidInput for a node that does not
    exist, a pod added twice, a pod removed that is not there.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        bound: Mapping[str, tuple[Pod, ...]],
        namespaces: Namespaces,
    ) -> None:
        self.nodes = nodes
        self.namespaces = namespaces
        self._bound = bound
        # Built when first asked for, never changed afterwards, shared between copies.
        self._base: dict[str, NodeState] = {}
        # The states this view has changed.
        self._own: dict[str, NodeState] = {}
        # Pod uid -> where this view put it ("" = taken away).
        self._moved: dict[str, str] = {}
        self._log: list[tuple[bool, Pod, str, str | None]] = []
        self._affinity: dict[tuple[PodAffinityTerm, ...], TermCounts] = {}
        self._spread: dict[tuple[str, PodShape], SpreadCounts] = {}
        self._refusals: RefusalCounts | None = None
        self._contexts: dict[tuple[str, int, int], _Context] = {}
        # Pod uid -> the pod, RefusalCounts.version, and the domains closed to it then.
        self._closed: dict[str, tuple[Pod, int, Mapping[Domain, PodAffinityTerm]]] = {}

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Snapshot,
        previous: ClusterView | None = None,
        changed: AbstractSet[str] | None = None,
    ) -> ClusterView:
        """Return a view of the snapshot as it is.

        ``previous`` may be any view of an older snapshot: what it has summed up of nodes
        whose records have not changed since is taken over, its moves are not. ``changed``
        names the nodes that differ between the two, where the caller knows.
        """
        view = cls(snapshot.nodes, snapshot.bound, namespaces_of(snapshot))
        if previous is not None:
            view._inherit(previous, changed)
        return view

    def _inherit(self, previous: ClusterView, changed: AbstractSet[str] | None) -> None:
        """Take over what ``previous`` summed up, brought up to what has changed since."""
        if changed is None:
            changed = differing(previous.nodes, self.nodes)
            changed |= differing(previous._bound, self._bound)
        self._base = dict(previous._base)
        for name in changed:
            self._base.pop(name, None)
        if previous._moved or previous.namespaces != self.namespaces:
            return
        if previous._refusals is not None:
            self._refusals = previous._refusals.clone()
        if len(previous._affinity) <= _MAX_INHERITED:
            self._affinity = {key: counts.clone() for key, counts in previous._affinity.items()}
        if len(previous._spread) <= _MAX_INHERITED and previous.nodes is self.nodes:
            self._spread = {key: counts.clone() for key, counts in previous._spread.items()}
        if self._refusals is not None or self._affinity or self._spread:
            for name in changed & previous.nodes.keys():
                self._count(previous.state(name), -1)
            for name in changed & self.nodes.keys():
                self._count(self.state(name), 1)

    @property
    def laden(self) -> bool:
        """Whether it keeps counts of more kinds of affinity or spread than go to the next view."""
        return max(len(self._affinity), len(self._spread)) > _MAX_INHERITED

    def _count(self, state: NodeState, delta: int) -> None:
        """Count all pods of a node in or out of what is kept."""
        node = state.node
        if self._refusals is not None:
            for guard in state.guards.values():
                self._refusals.update(guard, node, delta)
        for pod in state.pods.values() if self._affinity or self._spread else ():
            for counts in self._affinity.values():
                counts.update(pod, node, delta)
            for spread in self._spread.values():
                spread.update(pod, node, delta)

    def copy(self) -> ClusterView:
        """Return an independent view in the same condition, with an empty undo log."""
        twin = ClusterView(self.nodes, self._bound, self.namespaces)
        twin._base = self._base
        twin._own = {name: state.clone() for name, state in self._own.items()}
        twin._moved = dict(self._moved)
        twin._affinity = {key: counts.clone() for key, counts in self._affinity.items()}
        twin._spread = {key: counts.clone() for key, counts in self._spread.items()}
        if self._refusals is not None:
            twin._refusals = self._refusals.clone()
        return twin

    # --- what is where ---------------------------------------------------------

    def state(self, name: str) -> NodeState:
        """Return the node with its pods, to be read only; InvalidInput when there is none."""
        found = self._own.get(name) or self._base.get(name)
        if found is None:
            node = self.nodes.get(name)
            if node is None:
                raise InvalidInput(f"node {name!r} does not exist in this view")
            found = self._base[name] = NodeState(node, self._bound.get(name, ()))
        return found

    def states(self) -> Iterator[NodeState]:
        """Yield every node with its pods, in the snapshot's order."""
        for name in self.nodes:
            yield self.state(name)

    def where(self, pod: Pod) -> str | None:
        """Return the node the pod is on in this view, None when it is on none."""
        moved = self._moved.get(pod.uid)
        if moved is not None:
            return moved or None
        if pod.node in self.nodes and pod.uid in self.state(pod.node).pods:
            return pod.node
        return None

    # --- moves -----------------------------------------------------------------

    def remove(self, pod: Pod) -> None:
        """Take the pod away. One whose node is gone already held no room: nothing happens."""
        moved = self._moved.get(pod.uid)
        name = pod.node if moved is None else moved
        state = self._changeable(name) if name in self.nodes else None
        # The record on the node decides: the caller's may be older.
        there = None if state is None else state.pods.get(pod.uid)
        if state is None or there is None:
            if moved is None and name and state is None:
                return
            raise InvalidInput(f"pod {pod.key} ({pod.uid}) is not on a node in this view")
        self._log.append((False, there, name, moved))
        self._move(there, state, -1)
        self._moved[pod.uid] = ""

    def add(self, pod: Pod, node_name: str) -> None:
        """Put the pod on the node, whether it fits or not."""
        already = self.where(pod)
        if already is not None:
            raise InvalidInput(f"pod {pod.key} ({pod.uid}) is already on node {already}")
        self._put(pod, node_name)

    def _put(self, pod: Pod, node_name: str) -> None:
        """Put a pod that is on no node there."""
        state = self._changeable(node_name)
        self._log.append((True, pod, node_name, self._moved.get(pod.uid)))
        self._move(pod, state, 1)
        self._moved[pod.uid] = node_name

    def mark(self) -> int:
        """Return a point to roll back to."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Undo every move since ``mark``, newest first."""
        while len(self._log) > mark:
            added, pod, name, moved = self._log.pop()
            self._move(pod, self._changeable(name), -1 if added else 1)
            if moved is None:
                del self._moved[pod.uid]
            else:
                self._moved[pod.uid] = moved

    def _changeable(self, name: str) -> NodeState:
        """Return the node's state for this view alone; InvalidInput when there is none."""
        state = self._own.get(name)
        if state is None:
            state = self._own[name] = self.state(name).clone()
        return state

    def _move(self, pod: Pod, state: NodeState, delta: int) -> None:
        if delta > 0:
            state.add(pod)
        else:
            state.remove(pod)
        node = state.node
        if self._affinity:
            for counts in self._affinity.values():
                counts.update(pod, node, delta)
        if self._spread:
            for spread in self._spread.values():
                spread.update(pod, node, delta)
        if self._refusals is not None and pod.shape.anti_affinity:
            self._refusals.update(pod, node, delta)

    # --- questions ---------------------------------------------------------------

    def why_not(self, pod: Pod, node_name: str) -> str | None:
        """Return None when every filter lets the pod onto the node now, else the first reason.

        A pod that is in the view already is judged as if it were not.
        """
        here = self.where(pod)
        if here is None:
            return self._judge(pod, self._context(pod), self._closed_to(pod), self.state(node_name))
        start = self.mark()
        self.remove(pod)
        try:
            return self._judge(pod, self._context(pod), self._closed_to(pod), self.state(node_name))
        finally:
            self.rollback(start)

    def seat(self, pod: Pod, node_name: str) -> str | None:
        """Put the pod on the node if ``why_not`` has nothing against it; return its answer."""
        if self.where(pod) is not None:
            why = self.why_not(pod, node_name)
            if why is None:
                self.add(pod, node_name)  # which refuses
            return why
        state = self.state(node_name)
        why = self._judge(pod, self._context(pod), self._closed_to(pod), state)
        if why is None:
            self._put(pod, node_name)
        return why

    def feasible_nodes(self, pod: Pod) -> list[str]:
        """Return the names of all nodes that pass every filter for the pod now, sorted."""
        start = self.mark()
        if self.where(pod) is not None:
            self.remove(pod)
        try:
            context, closed = self._context(pod), self._closed_to(pod)
            return sorted(
                state.node.name
                for state in self.states()
                if self._judge(pod, context, closed, state) is None
            )
        finally:
            self.rollback(start)

    def _judge(
        self,
        pod: Pod,
        context: _Context,
        closed: Mapping[Domain, PodAffinityTerm],
        state: NodeState,
    ) -> str | None:
        """Ask the plugins in kube-scheduler's order."""
        node = state.node
        shape = pod.shape
        reason = node_name.why_not(pod, node) if pod.node else None
        reason = reason or context.cls.why_not(node)
        if reason is not None:
            return reason
        if shape.host_ports and state.ports:
            reason = node_ports.why_not(shape.host_ports, state.taken_ports())
            if reason is not None:
                return reason
        reason = node_resources_fit.why_not(
            pod.requests, state.allocatable, state.used, len(state.pods)
        )
        if reason is None and context.spread is not None:
            reason = context.spread.why_not(pod, node)
        if reason is None and context.affinity is not None:
            reason = inter_pod_affinity.why_not_affinity(pod, node, context.affinity)
        if reason is None and context.anti:
            reason = inter_pod_affinity.why_not_anti_affinity(node, context.anti)
        if reason is None and closed:
            reason = inter_pod_affinity.why_not_refused(node, closed)
        return reason

    # --- indexes, built when a pod first needs them --------------------------------

    def _context(self, pod: Pod) -> _Context:
        key = (pod.namespace, id(pod.shape), id(pod.requests))
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) >= _MAX_CONTEXTS:
                self._contexts.clear()
            shape = pod.shape
            context = self._contexts[key] = _Context(
                pod,
                self.term_counts(shape.affinity) if shape.affinity else None,
                tuple(self.term_counts((term,)) for term in shape.anti_affinity),
                self.spread_counts(pod) if shape.spread else None,
            )
        return context

    def _closed_to(self, pod: Pod) -> Mapping[Domain, PodAffinityTerm]:
        """Return the domains that anti-affinity of the pods here closes to the pod."""
        refusals = self.refusals()
        if not refusals.by_term:
            return {}
        known = self._closed.get(pod.uid)
        if known is None or known[0] is not pod or known[1] != refusals.version:
            if len(self._closed) >= _MAX_CONTEXTS:
                self._closed.clear()
            known = self._closed[pod.uid] = (pod, refusals.version, refusals.refused(pod))
        return known[2]

    def term_counts(self, terms: tuple[PodAffinityTerm, ...]) -> TermCounts:
        """Return the counts of pods that match all ``terms``, kept up to date by moves."""
        counts = self._affinity.get(terms)
        if counts is None:
            counts = TermCounts(terms, self.namespaces)
            counts.fill((state.node, state.pods.values()) for state in self.states())
            self._affinity[terms] = counts
        return counts

    def spread_counts(self, pod: Pod) -> SpreadCounts:
        """Return the counts behind the pod's spread constraints, kept up to date by moves."""
        key = (pod.namespace, pod.shape)
        counts = self._spread.get(key)
        if counts is None:
            counts = SpreadCounts(pod.namespace, pod.shape)
            counts.fill((state.node, state.pods.values()) for state in self.states())
            self._spread[key] = counts
        return counts

    def refusals(self) -> RefusalCounts:
        """Return the anti-affinity terms of all pods here, kept up to date by moves."""
        if self._refusals is None:
            self._refusals = RefusalCounts(self.namespaces)
            for state in self.states():
                for guard in state.guards.values():
                    self._refusals.update(guard, state.node, 1)
        return self._refusals
