"""Hypothesis strategies for small, crowded worlds in which most rules bite."""

from __future__ import annotations

from hypothesis import strategies as st

from extender.model.objects import (
    HostPort,
    LabelSelector,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requests,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from extender.model.snapshot import Snapshot

NAMESPACES = {"red": {"team": "a"}, "blue": {"team": "b"}, "bare": {}}
KEYS = ("zone", "rack", "kubernetes.io/hostname")

spaces = st.sampled_from(sorted(NAMESPACES))
pod_labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from("xy"), max_size=2)


@st.composite
def requirements(draw: st.DrawFn, keys: tuple[str, ...], values: tuple[str, ...]) -> Requirement:
    operator = draw(st.sampled_from(["In", "In", "NotIn", "Exists", "DoesNotExist"]))
    chosen: tuple[str, ...] = ()
    if operator in ("In", "NotIn"):
        chosen = tuple(draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)))
    return Requirement(draw(st.sampled_from(keys)), operator, chosen)


def selectors(keys: tuple[str, ...], values: tuple[str, ...]) -> st.SearchStrategy[LabelSelector]:
    return st.lists(requirements(keys, values), max_size=2).map(
        lambda found: LabelSelector(tuple(found))
    )


pod_selectors = st.none() | selectors(("app", "tier"), ("x", "y"))
namespace_selectors = st.none() | selectors(("team",), ("a", "b"))


@st.composite
def affinity_terms(draw: st.DrawFn) -> PodAffinityTerm:
    return PodAffinityTerm(
        draw(st.sampled_from(KEYS)),
        draw(pod_selectors),
        tuple(sorted(draw(st.sets(spaces, max_size=2)))),
        draw(namespace_selectors),
    )


@st.composite
def spread_constraints(draw: st.DrawFn) -> SpreadConstraint:
    return SpreadConstraint(
        draw(st.sampled_from(KEYS)),
        draw(st.integers(1, 2)),
        draw(pod_selectors),
        draw(st.integers(1, 3)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


numeric = st.builds(
    lambda operator, value: Requirement("gen", operator, (value,)),
    st.sampled_from(["Gt", "Lt"]),
    st.sampled_from("123"),
)
node_requirements = numeric | requirements(("zone", "rack", "gen"), ("1", "2", "a"))
name_requirements = st.builds(
    lambda operator, value: Requirement("metadata.name", operator, (value,)),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n0", "n1"]),
)
node_terms = st.builds(
    NodeSelectorTerm,
    st.lists(node_requirements, max_size=2).map(tuple),
    st.lists(name_requirements, max_size=1).map(tuple),
)
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "t", "node.kubernetes.io/unschedulable"]),
    st.sampled_from(["Exists", "Equal"]),
    st.sampled_from(["", "v"]),
    st.sampled_from(["", "NoSchedule", "NoExecute"]),
)
taints = st.builds(
    Taint,
    st.sampled_from("tu"),
    st.sampled_from(["", "v"]),
    st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
)
host_ports = st.builds(
    HostPort,
    st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from([80, 81]),
)


def few(of: st.SearchStrategy[object], most: int = 1) -> st.SearchStrategy[tuple[object, ...]]:
    """Mostly nothing: a pod with every rule at once fits nowhere and shows nothing."""
    some = st.lists(of, min_size=1, max_size=most).map(tuple)
    return st.integers(0, 3).flatmap(lambda n: some if n == 3 else st.just(()))


shapes = st.builds(
    PodShape,
    node_selector=few(st.tuples(st.just("zone"), st.sampled_from("12"))),
    node_terms=few(node_terms, 2).map(lambda terms: terms or None),
    affinity=few(affinity_terms(), 2),
    anti_affinity=few(affinity_terms(), 2),
    spread=few(spread_constraints(), 2),
    tolerations=few(tolerations, 2),
    host_ports=few(host_ports, 2),
)
wants: st.SearchStrategy[Requests] = st.builds(
    lambda cpu, gpu: tuple((k, v) for k, v in (("cpu", cpu), ("gpu", gpu), ("pods", 1)) if v),
    st.integers(0, 3),
    st.sampled_from([0, 0, 1]),
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    labels = {"kubernetes.io/hostname": name}
    for key in ("zone", "rack", "gen"):
        value = draw(st.sampled_from(["", "1", "2"]))
        if value:
            labels[key] = value
    amounts = {
        "cpu": draw(st.integers(2, 8)),
        "gpu": draw(st.sampled_from([0, 2])),
        "pods": draw(st.sampled_from([0, 2, 5, 5, 5])),
    }
    return Node(
        name,
        labels=labels,
        taints=draw(few(taints)),  # type: ignore[arg-type]
        unschedulable=draw(st.sampled_from([False] * 5 + [True])),
        allocatable=tuple((k, v) for k, v in sorted(amounts.items()) if v),
    )


@st.composite
def pods(draw: st.DrawFn, name: str, on: str = "") -> Pod:
    return Pod(
        uid=name,
        namespace=draw(spaces),
        name=name,
        node=on,
        labels=draw(pod_labels),
        requests=draw(wants),
        shape=draw(shapes),
        deleting=draw(st.sampled_from([0.0, 0.0, 0.0, 9.0])) if on else 0.0,
    )


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    """Up to 4 nodes, 6 pods on them (some on a node that is gone) and 3 that wait."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    bound: dict[str, list[Pod]] = {}
    for i in range(draw(st.integers(0, 6))):
        on = draw(st.sampled_from([*names, *names, "gone"]))
        bound.setdefault(on, []).append(draw(pods(f"b{i}", on)))
    waiting = [draw(pods(f"p{i}")) for i in range(draw(st.integers(1, 3)))]
    return Snapshot(
        generation=1,
        nodes={name: draw(nodes(name)) for name in names},
        bound={name: tuple(on) for name, on in bound.items()},
        pending={pod.uid: pod for pod in waiting},
        namespaces=NAMESPACES,
    )
