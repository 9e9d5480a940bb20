"""What the scheduler loop knows of the cluster: watched objects plus its own assumed pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec.structs import replace

from extender.decode.from_json import decode_node, decode_pod
from extender.fit.static import static_allowed
from extender.fit.view import ClusterView
from extender.model.objects import Node, Pod
from extender.model.snapshot import Snapshot
from extender.sandbox.api_status import Obj
from extender.sandbox.rest import FINISHED


class InTree(Protocol):
    """What kube-scheduler's own plugins say of one pod and the nodes."""

    def why_not(self, pod: Pod, name: str) -> str | None:
        """Return "Plugin: reason" of the first filter that keeps it off the node, else None."""

    def never(self, pod: Pod, name: str) -> bool:
        """Return whether no eviction can let the pod onto the node."""

    def score(self, name: str) -> int:
        """Return 0..100 for a node: the less of its CPU is used, the more."""


class FilterView:
    """Every filter that extender.fit models."""

    def __init__(self, view: ClusterView, nodes: Mapping[str, Node]) -> None:
        self._view = view
        self._nodes = nodes

    def why_not(self, pod: Pod, name: str) -> str | None:
        """See InTree."""
        return self._view.why_not(pod, name)

    def never(self, pod: Pod, name: str) -> bool:
        """See InTree."""
        return static_allowed(pod, self._nodes[name]) is not None

    def score(self, name: str) -> int:
        """See InTree."""
        state = self._view.state(name)
        total = state.allocatable.get("cpu", 0) or 1
        return 100 * (total - state.used.get("cpu", 0)) // total


class ClusterState:
    """Nodes and non-finished pods. An assumed pod counts as bound until the watch shows it."""

    def __init__(self, decode: Callable[[Obj], Pod] = decode_pod) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.raw: dict[str, Obj] = {}
        """Pod uid -> the object as the API has it, for the wire."""
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.assumed: dict[str, str] = {}
        """Pod uid -> node."""
        self._decode = decode
        self._generation = 0

    def set_node(self, obj: Obj) -> None:
        """Add or change a node."""
        self.nodes[obj["metadata"]["name"]] = decode_node(obj)

    def set_pod(self, obj: Obj) -> Pod | None:
        """Add or change a pod; a finished one is dropped. Returns what was known before."""
        uid = obj["metadata"]["uid"]
        before = self.pods.get(uid)
        if obj["status"].get("phase") in FINISHED:
            self.drop_pod(uid)
            return before
        self.pods[uid], self.raw[uid] = self._decode(obj), obj
        if self.pods[uid].node:
            self.assumed.pop(uid, None)
        return before

    def drop_pod(self, uid: str) -> None:
        """Forget a pod."""
        self.pods.pop(uid, None)
        self.raw.pop(uid, None)
        self.assumed.pop(uid, None)

    def assume(self, uid: str, node: str) -> None:
        """Count a pod as bound before the API says so."""
        self.assumed[uid] = node

    def forget(self, uid: str) -> None:
        """Take an assumption back."""
        self.assumed.pop(uid, None)

    def node_of(self, pod: Pod) -> str:
        """Where a pod is, or is assumed to be; "" when it waits."""
        return pod.node or self.assumed.get(pod.uid, "")

    def on(self, node: str) -> list[Pod]:
        """Return the pods on a node, assumed ones included."""
        return [pod for pod in self.pods.values() if self.node_of(pod) == node]

    def view(self, pod: Pod, *, without: frozenset[str] = frozenset()) -> InTree:
        """Return the cluster as in-tree filters see it for this pod, less some pods.

        Pods nominated to a node count there when they are at least as urgent
        (RunFilterPluginsWithNominatedPods).
        """
        self._generation += 1
        bound: dict[str, list[Pod]] = {name: [] for name in self.nodes}
        for other in self.pods.values():
            node = self.node_of(other)
            if not node and other.priority >= pod.priority and other.uid != pod.uid:
                node = other.nominated
            if node in bound and other.uid not in without:
                bound[node].append(replace(other, node=node))
        view = ClusterView.from_snapshot(
            Snapshot(
                generation=self._generation,
                nodes=dict(self.nodes),
                bound={name: tuple(pods) for name, pods in bound.items()},
                namespaces=dict(self.namespaces),
            )
        )
        return FilterView(view, self.nodes)
