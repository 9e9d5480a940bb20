"""What a manifest adds to a cluster: its objects as the API server would store them.

Jobs and JobSets become their pods. Priorities come from classes as the admission plugin sets
them (plugin/pkg/admission/priority): a named class, else the global default, else 0; a number
that differs from it is refused there and here. A group's class that never preempts counts for
the group, as with the feature gate PodGroupPreemptionPolicy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from extender.decode.from_json import decode_documents, decode_priority_class
from extender.gang.plan.job_pods import (
    MAX_PODS,
    Obj,
    is_indexed,
    jobs_of_jobset,
    mapping,
    pods_of_job,
    text,
)
from extender.model.errors import InvalidInput
from extender.model.objects import PriorityClass
from extender.model.texts import counted

SYSTEM_CLASSES = (
    PriorityClass("system-node-critical", 2_000_001_000),
    PriorityClass("system-cluster-critical", 2_000_000_000),
)
"""They exist in every cluster, in a dump or not (pkg/apis/scheduling/v1/helpers.go)."""

MAX_BYTES = 2**30
"""Of the pods of one manifest's Jobs, as JSON: each is a copy of its template."""


class Manifest(Struct, frozen=True):
    """What a manifest adds."""

    records: tuple[object, ...]
    jobs: frozenset[tuple[str, str]]
    """(namespace, name) of each Job whose pods are among the records."""
    independent: Mapping[tuple[str, str], str]
    """(namespace, name) of each NonIndexed Job -> why its pods are no gang."""
    unread: tuple[str, ...]
    """Objects of kinds that matter to no plan, by kind and name."""


def read(
    values: Iterable[object],
    known: Mapping[str, PriorityClass],
    max_pods: int = MAX_PODS,
    max_bytes: int = MAX_BYTES,
    going_on: Callable[[], object] = lambda: None,
) -> Manifest:
    """Return what the documents of a manifest add to a cluster with these classes, by name.

    Its Jobs may have ``max_pods`` together, of ``max_bytes``, and be as many. ``going_on`` is
    called before each Job and pod, and may raise. Raises InvalidInput that names object and field.
    """
    left, bytes_left = max_pods, max_bytes
    items = [item for value in values for item in _objects(value, "")]
    classes = {cls.name: cls for cls in SYSTEM_CLASSES} | dict(known)
    for item in items:
        if item.get("kind") == "PriorityClass":
            added = decode_priority_class(item)
            classes[added.name] = added
    records: list[object] = []
    unread: list[str] = []
    jobs: set[tuple[str, str]] = set()
    independent: dict[tuple[str, str], str] = {}
    for item in items:
        what = _named(item)
        for job in jobs_of_jobset(item, what) if item.get("kind") == "JobSet" else (item,):
            if job.get("kind") != "Job":
                decoded = list(decode_documents(_admitted(item, what, classes)))
                unread += [] if decoded else [what]
                records += decoded
                continue
            going_on()
            key = (job["metadata"]["namespace"], job["metadata"]["name"])
            jobs.add(key)
            if len(jobs) > max_pods:
                raise InvalidInput(f"{what}: more than {counted(max_pods, 'Job')}")
            if not is_indexed(job, what):
                independent[key] = (
                    f"Job {key[0]}/{key[1]} is NonIndexed: its pods are no gang by themselves "
                    "(write completionMode: Indexed, or name a group in its template)"
                )
            each = 0
            for pod in pods_of_job(job, what, left):
                going_on()
                each = each or _size(pod, what)
                bytes_left -= each
                if bytes_left < 0:
                    raise InvalidInput(
                        f"{what}: the Jobs' pods are more than {max_bytes} bytes: each is as large "
                        f"as its template, {each} bytes here"
                    )
                left -= 1
                pod["metadata"]["uid"] = _uid(pod["metadata"])
                records += decode_documents(_admitted(pod, what, classes))
    return Manifest(tuple(records), frozenset(jobs), independent, tuple(unread))


def _objects(value: Any, kind: str) -> Iterator[Obj]:
    """Yield the objects of a document, those of a list one by one."""
    if not isinstance(value, dict):
        raise InvalidInput("a document is not an object")
    kind = text(value.get("kind"), "kind") or kind
    if kind.endswith("List"):
        items = value.get("items")
        if not isinstance(items, list):
            raise InvalidInput(f"{kind}: items must be a list")
        for item in items:
            yield from _objects(item, kind.removesuffix("List"))
        return
    yield {**value, "kind": kind}


def _named(item: Obj) -> str:
    """Return "Kind namespace/name", with the defaults of a manifest filled in."""
    kind = item["kind"] or "object"
    meta = dict(mapping(item.get("metadata"), f"{kind}: metadata"))
    item["metadata"] = meta
    name = text(meta.get("name"), f"{kind}: metadata.name")
    if not name:
        raise InvalidInput(f"{kind}: metadata.name: is missing")
    namespace = text(meta.get("namespace"), f"{kind} {name}: metadata.namespace") or "default"
    what = f"{kind} {namespace}/{name}"
    meta["namespace"] = namespace
    meta["uid"] = text(meta.get("uid"), f"{what}: metadata.uid") or _uid(meta)
    return what


def _size(pod: Obj, what: str) -> int:
    try:
        return len(msgspec.json.encode(pod))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: not a JSON object: {error}") from error


def _uid(meta: Obj) -> str:
    return f"manifest-{meta['namespace']}-{meta['name']}"


def _admitted(item: Obj, what: str, classes: Mapping[str, PriorityClass]) -> Obj:
    """Return a Pod or PodGroup with the priority that admission gives it; others as they are."""
    version = text(item.get("apiVersion"), f"{what}: apiVersion")
    if (item["kind"], version) != ("Pod", "v1") and not (
        item["kind"] == "PodGroup" and version.startswith("scheduling.k8s.io/")
    ):
        return item
    spec = dict(mapping(item.get("spec"), f"{what}: spec"))
    wanted = text(spec.get("priorityClassName"), f"{what}: spec.priorityClassName")
    if wanted and wanted not in classes:
        raise InvalidInput(f"{what}: PriorityClass {wanted!r} is not in the cluster")
    chosen = classes[wanted] if wanted else _default(classes)
    stated = spec.get("priority")
    if stated is not None and (isinstance(stated, bool) or stated != chosen.value):
        source = f"PriorityClass {chosen.name!r}" if chosen.name else "no PriorityClass"
        raise InvalidInput(
            f"{what}: spec.priority {stated!r} would be refused, {source} makes it {chosen.value}: "
            "name a PriorityClass (it may be in the same manifest)"
        )
    policy = "PreemptLowerPriority" if chosen.preempts else "Never"
    asked = text(spec.get("preemptionPolicy"), f"{what}: spec.preemptionPolicy")
    if chosen.name and asked and asked != policy:
        raise InvalidInput(
            f"{what}: spec.preemptionPolicy {asked!r} would be refused, "
            f"PriorityClass {chosen.name!r} makes it {policy!r}"
        )
    return {**item, "spec": {**spec, "priority": chosen.value, "preemptionPolicy": asked or policy}}


def _default(classes: Mapping[str, PriorityClass]) -> PriorityClass:
    """Return the global default; of several the lowest, as getDefaultPriorityClass does."""
    defaults = [cls for cls in classes.values() if cls.global_default]
    return min(defaults, key=lambda cls: cls.value, default=PriorityClass("", 0))
