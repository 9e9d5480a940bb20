"""A question about a cluster that is not quite so: manifests added to a snapshot.

For those who ask what would be (the command line's ``plan`` and the Plan call); what acts never
comes here. Objects that are there already keep their records, so that planning finds most of
what it keeps unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from extender.gang.plan.assemble import assemble
from extender.model.decode import decode_documents
from extender.model.errors import InvalidInput
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    Namespace,
    Node,
    Pod,
    PriorityClass,
)
from extender.model.snapshot import Snapshot

MAX_PODS = 100_000
"""How many pods the Jobs of one manifest may have together."""


def manifest_records(
    values: Iterable[object],
    classes: Mapping[str, PriorityClass],
    source: str,
    max_pods: int = MAX_PODS,
) -> list[object]:
    """Return the records of a manifest's documents: Jobs become their pods, classes priorities.

    ``classes`` are the cluster's PriorityClasses; ``source`` is what errors call the manifest.
    Raises InvalidInput.
    """
    known = dict(classes)
    found: list[object] = []
    left = max_pods
    for value in _objects(values, source):
        items = [value]
        if value.get("kind") == "Job":
            items = _job_pods(value, source, left)
            left -= len(items)
        for item in items:
            record = _record(item, source)
            spec = item.get("spec")
            name = spec.get("priorityClassName", "") if isinstance(spec, dict) else ""
            if isinstance(record, Pod) and name:
                record = _prioritised(record, known, name, source)
            if isinstance(record, PriorityClass):
                known[record.name] = record
            if record is not None:
                found.append(record)
    return found


def with_added(
    snapshot: Snapshot,
    added: Iterable[object],
    member_key: Callable[[Pod], GangKey | None],
) -> Snapshot:
    """Return the snapshot with these records as well.

    What has a name of its own in the cluster (nodes, groups, classes, budgets, namespaces) takes
    the place of what is there; a pod that is there already is an error. Raises InvalidInput.
    """
    by_type: dict[type, list[Any]] = {}
    for record in added:
        by_type.setdefault(type(record), []).append(record)
    pods = [pod for there in snapshot.bound.values() for pod in there]
    pods += snapshot.pending.values()
    new: list[Pod] = by_type.get(Pod, [])
    taken = {(pod.namespace, pod.name) for pod in pods}
    for pod in new:
        if (pod.namespace, pod.name) in taken:
            raise InvalidInput(f"Pod {pod.namespace}/{pod.name} is there already")
        taken.add((pod.namespace, pod.name))
    budgets = {
        (budget.namespace, budget.name): budget
        for budget in (*snapshot.budgets, *by_type.get(DisruptionBudget, []))
    }
    return assemble(
        member_key,
        nodes=[*snapshot.nodes.values(), *by_type.get(Node, [])],
        pods=[*pods, *new],
        groups=[*snapshot.groups.values(), *by_type.get(GroupObject, [])],
        priority_classes=[
            *snapshot.priority_classes.values(),
            *by_type.get(PriorityClass, []),
        ],
        budgets=budgets.values(),
        namespaces={
            **snapshot.namespaces,
            **{each.name: each.labels for each in by_type.get(Namespace, [])},
        },
        now=snapshot.now,
        generation=snapshot.generation,
        server_version=snapshot.server_version,
        unevictable=snapshot.unevictable,
        stayed=snapshot.stayed,
    )


def find_gang(text: str, snapshot: Snapshot) -> GangKey:
    """Return the one gang that ``text`` names. Raises InvalidInput, listing what there is."""
    dialect, _, rest = text.rpartition(":")
    namespace, _, name = rest.rpartition("/")
    matching = [
        key
        for key in snapshot.members
        if key.name == name
        and (not namespace or key.namespace == namespace)
        and (not dialect or key.dialect == dialect)
    ]
    if len(matching) == 1:
        return matching[0]
    known = sorted(matching or snapshot.members)
    listed = ", ".join(str(key) for key in known[:10]) or "none"
    more = f" and {len(known) - 10} more" if len(known) > 10 else ""
    what = "several gangs are" if matching else "no gang is"
    raise InvalidInput(f"{what} named {text!r}; there are: {listed}{more}")


def _objects(values: Iterable[object], source: str) -> Iterator[dict[str, Any]]:
    """Yield the objects, those inside lists as well."""
    for value in values:
        if not isinstance(value, dict):
            raise InvalidInput(f"{source}: a document is not an object")
        items = value.get("items")
        if str(value.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from _objects(items, source)
        else:
            yield value


def _record(item: dict[str, Any], source: str) -> object | None:
    """Return the record of one object, None for a kind that is not read."""
    meta = item.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise InvalidInput(f"{source}: metadata must be a mapping")
    meta.setdefault("namespace", "default")
    meta.setdefault("uid", f"manifest-{meta['namespace']}-{meta.get('name', '')}")
    try:
        records = list(decode_documents(item))
    except InvalidInput as problem:
        raise InvalidInput(f"{source}: {problem}") from problem
    return records[0] if records else None


def _prioritised(pod: Pod, classes: Mapping[str, PriorityClass], name: object, source: str) -> Pod:
    known = classes.get(name) if isinstance(name, str) else None
    if known is None:
        raise InvalidInput(f"{source}: PriorityClass {name!r} is not in the cluster")
    return replace(pod, priority=known.value, preempts=pod.preempts and known.preempts)


def _job_pods(job: dict[str, Any], source: str, left: int) -> list[dict[str, Any]]:
    """Return the pods an Indexed Job would have, at most ``left``."""
    spec = _mapping(job, "spec", source)
    meta = _mapping(job, "metadata", source)
    template = _mapping(spec, "template", source)
    inner = _mapping(template, "metadata", source)
    count = spec.get("parallelism", 1)
    if not isinstance(count, int) or not 0 <= count <= left:
        raise InvalidInput(
            f"{source}: Job {meta.get('name')}: parallelism must be a number, and Jobs may have "
            f"{left} more pods together"
        )
    name, namespace = meta.get("name", "job"), meta.get("namespace", "default")
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{index}",
                "namespace": namespace,
                "labels": {
                    **_mapping(inner, "labels", source),
                    "batch.kubernetes.io/job-name": name,
                    "batch.kubernetes.io/job-completion-index": str(index),
                },
                "annotations": {
                    **_mapping(inner, "annotations", source),
                    "batch.kubernetes.io/job-completion-index": str(index),
                },
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "name": name,
                        "uid": f"manifest-{namespace}-{name}",
                        "controller": True,
                    }
                ],
            },
            "spec": _mapping(template, "spec", source),
        }
        for index in range(count)
    ]


def _mapping(value: dict[str, Any], key: str, source: str) -> dict[str, Any]:
    found = value.get(key) or {}
    if not isinstance(found, dict):
        raise InvalidInput(f"{source}: {key} must be a mapping")
    return found
