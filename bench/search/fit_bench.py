"""How fast the filters answer on 5,000 nodes with 150,000 pods.

    python -m bench.search.fit_bench [nodes] [pods a node]

Input: synthetic, made here without randomness. Nodes of four hardware kinds in
10 zones and 250 racks, one in twenty tainted; on each node pods of 20 templates
(1 CPU, 2Gi), every tenth with required anti-affinity on the host name. Best and
median of several runs, in milliseconds unless said otherwise.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from msgspec.structs import replace

from extender.fit.blockers import blocked_nodes
from extender.fit.static import static_mask
from extender.fit.view import ClusterView
from extender.model.objects import (
    LabelSelector,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
    Taint,
)
from extender.model.snapshot import Snapshot

HOST = "kubernetes.io/hostname"


def make_node(i: int) -> Node:
    """Node number ``i``: its kind, zone, rack and taint follow from the number."""
    kind = i % 4
    return Node(
        f"node-{i:05d}",
        labels={
            HOST: f"node-{i:05d}",
            "topology.kubernetes.io/zone": f"zone-{i % 10}",
            "rack": f"rack-{i % 250}",
            "kind": f"kind-{kind}",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        },
        taints=(Taint("dedicated", "batch"),) if i % 20 == 0 else (),
        allocatable=(
            ("cpu", 32_000 + 16_000 * kind),
            ("memory", (128 + 64 * kind) << 30),
            ("nvidia.com/gpu", 8 if kind == 3 else 0),
            ("pods", 110),
        ),
    )


def app(name: str) -> LabelSelector:
    """The selector app=name."""
    return LabelSelector((Requirement("app", "In", (name,)),))


def make_pods(node: Node, count: int, labels: list[dict[str, str]]) -> tuple[Pod, ...]:
    """Fill a node with ``count`` pods of the templates in turn."""
    requests = (("cpu", 1000), ("memory", 2 << 30), ("pods", 1))
    apart = PodShape(anti_affinity=(PodAffinityTerm(HOST, app("guard"), ("ns",)),))
    plain = PodShape()
    return tuple(
        Pod(
            uid=f"{node.name}-{i:03d}",
            namespace="ns",
            name=f"{node.name}-{i:03d}",
            node=node.name,
            phase="Running",
            labels=labels[i % len(labels)],
            requests=requests,
            shape=apart if i % 10 == 0 else plain,
        )
        for i in range(count)
    )


def timed(what: str, call: Callable[[], object], runs: int = 9, per: int = 1) -> None:
    """Print best and median time of a call that does ``per`` things."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1000 / per)
    unit = "ms" if per == 1 else "ms each"
    print(f"{what:62s} best {min(taken):9.4f}  median {median(taken):9.4f} {unit}")


def main(nodes: int = 5000, pods: int = 30) -> None:
    """Print the figures."""
    made = [make_node(i) for i in range(nodes)]
    labels = [{"app": f"app-{i}", "team": f"team-{i % 3}"} for i in range(20)]
    snapshot = Snapshot(
        generation=1,
        nodes={node.name: node for node in made},
        bound={node.name: make_pods(node, pods, labels) for node in made},
        namespaces={"ns": {}},
    )
    print(f"{nodes} nodes, {nodes * pods} pods")

    def pod(shape: PodShape, uid: str = "p") -> Pod:
        requests = (("cpu", 8000), ("memory", 4 << 30), ("pods", 1))
        return Pod(uid, "ns", uid, labels={"app": "app-1"}, requests=requests, shape=shape)

    wanted = NodeSelectorTerm((Requirement("kind", "In", ("kind-2", "kind-3")),))
    chosen = pod(PodShape(node_selector=(("kubernetes.io/os", "linux"),), node_terms=(wanted,)))
    fresh = [[replace(node) for node in made] for _ in range(3)]
    timed("static_mask, first sight of class and nodes", lambda: static_mask(chosen, made), 1)
    timed("static_mask, known class, nodes never seen", lambda: static_mask(chosen, fresh.pop()), 3)
    timed("static_mask, known class and nodes", lambda: static_mask(chosen, made))

    timed("ClusterView.from_snapshot + first feasible_nodes", lambda: _first(snapshot, chosen), 3)
    view = _first(snapshot, chosen)
    name = made[7].name
    changed = replace(snapshot, bound={**snapshot.bound, name: snapshot.bound[name][1:]})
    timed(
        "the same after one node changed (previous view given)",
        lambda: ClusterView.from_snapshot(changed, view).feasible_nodes(chosen),
    )
    names = [node.name for node in made]
    rules = {
        "plain": chosen,
        "anti-affinity on the host": pod(
            PodShape(anti_affinity=(PodAffinityTerm(HOST, app("app-3"), ("ns",)),)), "anti"
        ),
        "affinity in the rack": pod(
            PodShape(affinity=(PodAffinityTerm("rack", app("app-3"), ("ns",)),)), "near"
        ),
        "spread over hosts": pod(
            PodShape(spread=(SpreadConstraint(HOST, 2, app("app-1")),)), "spread"
        ),
    }
    for what, each in rules.items():
        timed(f"first why_not, {what}", partial(view.why_not, each, name), 1)
        timed(f"why_not on every node, {what}", partial(_ask, view, each, names), per=nodes)
        timed(f"feasible_nodes, {what}", partial(view.feasible_nodes, each))

    gone = snapshot.bound[name][3]

    def moves() -> None:
        mark = view.mark()
        for i in range(500):
            view.remove(gone)
            view.add(gone, names[i])
        view.rollback(mark)

    timed("one remove or add with its rollback, all indexes live", moves, per=1000)
    timed("copy of the view", view.copy)
    timed(
        "blocked_nodes, anti-affinity on the host",
        partial(blocked_nodes, rules["anti-affinity on the host"], view),
    )


def _ask(view: ClusterView, pod: Pod, names: list[str]) -> list[str | None]:
    return [view.why_not(pod, name) for name in names]


def _first(snapshot: Snapshot, pod: Pod) -> ClusterView:
    view = ClusterView.from_snapshot(snapshot)
    view.feasible_nodes(pod)
    return view


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
