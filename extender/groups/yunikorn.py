"""A YuniKorn application with task groups.

Source: apache/yunikorn-k8shim, pkg/common/constants and pkg/common/utils. The
application's id is a label or an annotation; annotation task-groups, on the first pod or
on all, lists the groups with their minMember. YuniKorn holds the gang's room with
placeholder pods, which carry the id and their task group as well: they are members
like those that replace them. It replaces them only when all have a node, one by one: it deletes
the placeholder, and when that is gone binds the pod in its place.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from extender.decode.interning import remembered
from extender.groups.dialect import Declaration
from extender.groups.sizes import gang_parts, made_by, once_together, staying
from extender.model.gang import UNIT_ALL
from extender.model.names import is_name
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

APP = "yunikorn.apache.org/app-id"
LABELS = ("applicationId", "spark-app-selector")
GROUP = "yunikorn.apache.org/task-group-name"
GROUPS = "yunikorn.apache.org/task-groups"
SPARK_ROLE = "spark-role"
PLACEHOLDER = ("internal.yunikorn.apache.org/placeholder", "yunikorn.apache.org/placeholder")
"""Annotation of placeholders, newer and older."""
MOST_TEXTS = 16
"""Ways to write the same task groups; YuniKorn's users write them once, in a template."""


class TaskGroup(Struct, gc=False, rename="camel"):
    """What is read of a task group."""

    name: str
    min_member: int


class YuniKornDialect:
    """A gang is the pods of one application that are in a task group."""

    name = "yunikorn"
    explicit = False
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True
    keys = (GROUP, GROUPS)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the application; None without a task group, for YuniKorn gangs nothing then."""
        annotations = pod.annotations
        if GROUP not in annotations and GROUPS not in annotations:
            return None
        name = pod.labels.get(APP) or annotations.get(APP)
        for label in LABELS:
            name = name or pod.labels.get(label)
        return GangKey(self.name, pod.namespace, name) if name and is_name(name) else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the sum of the task groups' minMember.

        Where the members are Spark's, the driver makes its executors once it runs: to wait
        for them all would be to wait for ever, so what is there counts.
        """
        what = f"YuniKorn application {key.namespace}/{key.name}"
        texts = {text for pod in staying(members) if (text := pod.annotations.get(GROUPS))}
        if not texts:
            return made_by(members, what)
        if len(texts) > MOST_TEXTS:
            return Declaration(
                problems=(
                    f"annotation {GROUPS} is written in {counted(len(texts), 'way')} on the "
                    f"pods of {what}, "
                    f"at most {MOST_TEXTS} are read",
                )
            )
        groups = {_task_groups(text) for text in texts}
        if len(groups) > 1:
            return Declaration(
                problems=(f"annotation {GROUPS} differs between the pods of {what}",)
            )
        found = groups.pop()
        if found is None:
            return Declaration(
                problems=(
                    f"annotation {GROUPS} of {what} is no list of groups with name and minMember "
                    "of at least 1 (or is cut: over 8,192 characters)",
                )
            )
        if any(SPARK_ROLE in pod.labels for pod in members):
            return made_by(members, f"the Spark driver of {what} makes its executors later, and")
        least = dict(found)
        everybody = (*members, *snapshot.ended.get(key, ()))
        parts = gang_parts(least, everybody, lambda pod: {pod.annotations.get(GROUP, "")})
        sized = Declaration(min_count=sum(least.values()), parts=parts, counts_ended=True)
        said = once_together(sized, members)
        return replace(said, whole_from=1) if _replaced(members) else said


def is_placeholder(pod: Pod) -> bool:
    """Whether the pod only holds the place of another."""
    return any(pod.annotations.get(key) == "true" for key in PLACEHOLDER)


def _replaced(members: tuple[Pod, ...]) -> bool:
    """Whether placeholders are being replaced, so that all have had a node."""
    holding = [is_placeholder(pod) for pod in members]
    real = zip(members, holding, strict=True)
    return any(holding) and any(pod.node and not holds for pod, holds in real)


@remembered(256)
def _task_groups(text: str) -> tuple[tuple[str, int], ...] | None:
    """Return (name, minMember) of each task group by name, None where they cannot be read."""
    try:
        groups = msgspec.json.decode(text, type=list[TaskGroup])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Fields of no meaning are skipped level by level: a thousand brackets are too many.
        return None
    if not groups or any(not 1 <= group.min_member < 2**31 for group in groups):
        return None
    least: dict[str, int] = {}
    for group in groups:
        least[group.name] = least.get(group.name, 0) + group.min_member
    return tuple(sorted(least.items()))
