"""Short ways to write model records in tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.fit.view import ClusterView
from extender.model.objects import (
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requests,
    Requirement,
    Taint,
)
from extender.model.snapshot import Snapshot

HOST = "kubernetes.io/hostname"


def requests(**amounts: int) -> Requests:
    """CPU in milli-cores; "gpu" stands for example.com/gpu; a pod slot is always there."""
    named = {"example.com/gpu" if k == "gpu" else k: v for k, v in amounts.items()}
    return tuple(sorted({**named, "pods": 1}.items()))


def selector(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(k, "In", (v,)) for k, v in sorted(labels.items())))


def term(key: str = HOST, *, namespaces: Iterable[str] = ("ns",), **labels: str) -> PodAffinityTerm:
    return PodAffinityTerm(key, selector(**labels), tuple(namespaces))


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
    **allocatable: int,
) -> Node:
    amounts = {"cpu": 4000, "pods": 10, **allocatable}
    if "gpu" in amounts:
        amounts["example.com/gpu"] = amounts.pop("gpu")
    return Node(
        name,
        labels={HOST: name, **(labels or {})},
        taints=tuple(taints),
        unschedulable=unschedulable,
        allocatable=tuple(sorted(amounts.items())),
    )


def pod(
    name: str,
    on: str = "",
    *,
    shape: PodShape | None = None,
    namespace: str = "ns",
    labels: Mapping[str, str] | None = None,
    deleting: float = 0.0,
    wants: Requests | None = None,
) -> Pod:
    return Pod(
        uid=f"uid-{namespace}-{name}",
        namespace=namespace,
        name=name,
        node=on,
        labels=dict(labels or {}),
        requests=requests(cpu=1000) if wants is None else wants,
        shape=shape or PodShape(),
        deleting=deleting,
    )


def snapshot(
    nodes: Iterable[Node],
    pods: Iterable[Pod] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> Snapshot:
    bound: dict[str, list[Pod]] = {}
    for each in pods:
        bound.setdefault(each.node, []).append(each)
    return Snapshot(
        generation=1,
        nodes={each.name: each for each in nodes},
        bound={name: tuple(sorted(on, key=lambda p: p.uid)) for name, on in bound.items()},
        namespaces=namespaces if namespaces is not None else {"ns": {}},
    )


def view(
    nodes: Iterable[Node],
    pods: Iterable[Pod] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> ClusterView:
    return ClusterView.from_snapshot(snapshot(nodes, pods, namespaces))


ZONED = [
    node("a1", labels={"zone": "a"}),
    node("a2", labels={"zone": "a"}),
    node("b1", labels={"zone": "b"}),
    node("c1"),
]
