"""What a dump does not tell, and what a plan on it is worth without.

kubectl leaves a kind that has no object out of its lists, so a kind that is missing may also be
one that the cluster has none of. Each line says what that changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from extender.model.errors import InvalidInput
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    Namespace,
    Node,
    Pod,
    PriorityClass,
)
from extender.model.texts import counted

ASK = (
    "kubectl get nodes,namespaces,pods,priorityclasses,poddisruptionbudgets,"
    "podgroups.scheduling.k8s.io -A -o json"
)
"""The whole question. scheduler-plugins' groups are podgroups.scheduling.x-k8s.io."""


def required(records: Iterable[object]) -> None:
    """Raise InvalidInput when the dump lacks what no plan can do without."""
    if not any(isinstance(record, Node) for record in records):
        raise InvalidInput(f"the dump has no nodes: ask for all of it with `{ASK}`")


def gaps(records: Iterable[object]) -> list[str]:
    """Return what the dump lacks, and what follows from that, one line each."""
    found: dict[type, list[object]] = {}
    for record in records:
        found.setdefault(type(record), []).append(record)
    pods = [record for record in found.get(Pod, ()) if isinstance(record, Pod)]
    nodes = {record.name for record in found.get(Node, ()) if isinstance(record, Node)}
    groups = {
        (record.namespace, record.name)
        for record in found.get(GroupObject, ())
        if isinstance(record, GroupObject)
    }
    lines = []
    if not pods:
        lines.append("no pods: every node counts as empty")
    elif len({pod.namespace for pod in pods} | _namespaces(found)) == 1:
        # Of -A itself a dump says nothing: it may be that nobody else has a pod.
        lines.append(
            f"objects of one namespace only ({pods[0].namespace}): if kubectl was asked without "
            "-A, pods of other namespaces are missing, and the room they take counts as free"
        )
    if not found.get(DisruptionBudget):
        lines.append("no PodDisruptionBudgets: no pod counts as protected by one")
    if not found.get(PriorityClass):
        lines.append("no PriorityClasses: --manifest cannot name one, and there is no default")
    if not found.get(Namespace) and any(
        term.namespace_selector is not None
        for pod in pods
        for term in (*pod.shape.affinity, *pod.shape.anti_affinity)
    ):
        lines.append("no Namespaces: namespaceSelectors of pod affinity match nothing")
    lines += _counted(
        (pod.node for pod in pods if pod.node and pod.node not in nodes and not pod.finished),
        "on nodes that are not there",
        "as victims they make no room",
    )
    lines += _counted(
        (
            f"{pod.namespace}/{pod.pod_group}"
            for pod in pods
            if pod.pod_group and (pod.namespace, pod.pod_group) not in groups
        ),
        "of PodGroups that are not there",
        "no pod is evicted for such a gang, and as victims its pods are single",
    )
    return lines


def _namespaces(found: Mapping[type, list[object]]) -> set[str]:
    """Return the namespaces of what is in the dump beside pods."""
    kinds = (DisruptionBudget, GroupObject)
    return {
        record.namespace
        for kind in kinds
        for record in found.get(kind, ())
        if isinstance(record, kinds)
    }


def _counted(names: Iterable[str], what: str, so: str) -> list[str]:
    counts = Counter(names)
    if not counts:
        return []
    shown = ", ".join(sorted(counts)[:3]) + (", ..." if len(counts) > 3 else "")
    return [f"{counted(counts.total(), 'pod')} {what} ({shown}): {so}"]
