"""Members of a gang that are interchangeable, and where each kind may go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.decode.quantity import format_resource
from extender.fit.member_rules import affinity_mask
from extender.fit.view import ClusterView
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.texts import some

PER_POD_LABELS = frozenset(
    {
        "batch.kubernetes.io/job-completion-index",
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "jobset.sigs.k8s.io/job-index",
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-key",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
        "job-name",
        "controller-uid",
        "component",
        "skypilot-head-node",
        "kueue.x-k8s.io/pod-group-pod-index",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "spark-exec-id",
        "training.kubeflow.org/replica-index",
        "volcano.sh/task-index",
        "ray-node-type",
    }
)

MOST_TOLD = 8
"""Resources of a class that are named."""


def classes_of(pods: Iterable[Pod]) -> tuple[tuple[Pod, ...], ...]:
    """Group members that are interchangeable for every rule, largest request first.

    Labels count only through selectors that could tell members apart, so they
    are part of the key; generated per-pod labels (index, pod name) are not.
    """
    by_key: dict[object, list[Pod]] = {}
    known: dict[object, list[Pod]] = {}
    for pod in pods:
        # Members of one template share these records: compare them once.
        same = (id(pod.requests), id(pod.shape), id(pod.labels))
        group = known.get(same)
        if group is None:
            labels = tuple(sorted((k, v) for k, v in pod.labels.items() if k not in PER_POD_LABELS))
            group = known[same] = by_key.setdefault((pod.requests, pod.shape, labels), [])
        group.append(pod)
    groups = [tuple(sorted(group, key=lambda pod: pod.uid)) for group in by_key.values()]
    groups.sort(key=lambda group: (tuple((n, -a) for n, a in group[0].requests), group[0].uid))
    return tuple(groups)


def allowed_nodes(
    group: tuple[Pod, ...],
    names: tuple[str, ...],
    mask: bytes,
    view: ClusterView,
    gang: Gang,
    masks: Mapping[str, frozenset[str]],
    *,
    opens: bool,
) -> bytes:
    """Return one byte a node, 1 where nothing but room, caps and blockers can be against it.

    ``mask`` says so for what node and pod alone decide. ``opens`` as for affinity_mask.
    """
    if group[0].shape.affinity:
        near = affinity_mask(group[0], view, names, gang.pending, opens=opens)
        mask = bytes(ok and close for ok, close in zip(mask, near, strict=True))
    refused = (
        frozenset().union(*(masks.get(pod.uid, frozenset()) for pod in group)) if masks else ()
    )
    if refused:
        mask = bytes(ok and name not in refused for ok, name in zip(mask, names, strict=True))
    return mask


def class_name(group: tuple[Pod, ...], part: str = "") -> str:
    """Return the class in words: an example, how many, of which part, what one asks for."""
    asked = [(n, a) for n, a in group[0].requests if n != "pods"]
    wants = some([format_resource(n, a) for n, a in asked[:MOST_TOLD]], MOST_TOLD, len(asked))
    who = group[0].name + (f" of {part}" if part else "")
    return f"{who} and {len(group) - 1} like it ({wants})" if len(group) > 1 else f"{who} ({wants})"
