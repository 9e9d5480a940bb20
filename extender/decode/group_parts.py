"""The quorum that a PodGroup with minMember states, and those of its parts.

Volcano: volcano-sh/volcano pkg/scheduler/api/job_info.go (ParseMinMemberInfo, CheckTaskReady).
KAI: kai-scheduler/KAI-Scheduler pkg/scheduler/api/podgroup_info (setSubGroups, subgroup_info).
Tenants write both. InvalidInput begins with the field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from extender.decode.api_groups import RawMemberGroupSpec, RawSubGroup
from extender.model.errors import InvalidInput
from extender.model.memory_limits import MOST_PARTS
from extender.model.memory_limits import named as named_text
from extender.model.names import quoted
from extender.model.objects import Part
from extender.model.texts import counted

VOLCANO, KAI = "volcano", "kai"
ALL_AWAITED = "minSubGroup lets some of its subGroups suffice: all of them are waited for"


class Quorum(Struct, frozen=True):
    """What a PodGroup needs to start."""

    min_count: int
    parts: tuple[Part, ...] = ()
    """Those that need a number of their own, which is ``each``."""
    whole_from: int | None = None
    """As in GroupObject."""
    note: str = ""
    """What of it does not count, in words."""


def quorum_of(source: str, spec: RawMemberGroupSpec) -> Quorum:
    """Return the quorum that the PodGroup states, in the way of this source."""
    least = 1 if spec.min_member is None else spec.min_member
    if source == VOLCANO and spec.min_task_member:
        return _of_tasks(least, spec.min_task_member)
    if source == KAI and spec.sub_groups:
        return _of_subgroups(spec.min_sub_group, spec.sub_groups)
    return Quorum(least)


def _of_tasks(min_member: int, tasks: Mapping[str, int]) -> Quorum:
    """Volcano asks for each task's own minimum only where minMember covers all of them.

    Its job controller writes the replicas of a task that states no minimum, so that a job with a
    minAvailable below all its replicas has task minima that nobody means.
    """
    _bounded(len(tasks), "spec.minTaskMember")
    for task, least in tasks.items():
        if least < 0:
            raise InvalidInput(f"spec.minTaskMember[{quoted(task)}]: must not be negative: {least}")
    if min_member < sum(tasks.values()):
        return Quorum(min_member)
    return Quorum(
        min_member,
        tuple(Part(named_text(task), each=least) for task, least in sorted(tasks.items()) if least),
    )


def _of_subgroups(enough: int | None, listed: Sequence[RawSubGroup]) -> Quorum:
    """KAI asks for the minimum of each subgroup that has none below it, and for nothing else:
    minMember beside them is not read. Where minSubGroup lets some suffice, all are asked for: which
    of them is not decided here. As a victim it has come together with the fewest."""
    _bounded(len(listed), "spec.subGroups")
    known: dict[str, RawSubGroup] = {}
    below: dict[str, list[RawSubGroup]] = {"": []}
    for each in listed:
        if not each.name:
            raise InvalidInput("spec.subGroups: one has no name")
        if each.name in known:
            raise InvalidInput(f"spec.subGroups: two are called {quoted(each.name)}")
        known[each.name] = each
        below[each.name] = []
    for each in listed:
        above = each.parent or ""
        if above not in below:
            raise InvalidInput(f"spec.subGroups[{quoted(each.name)}].parent: is not among them")
        below[above].append(each)
    order = [each.name for each in below[""]]
    for name in order:  # grows while it is walked: parents before what is below them
        order += [each.name for each in below[name]]
    if len(order) < len(listed):
        raise InvalidInput("spec.subGroups: parents in a circle")
    every: dict[str, int] = {}
    fewest: dict[str, int] = {}
    for name in reversed(order):
        children = below[name]
        if children:
            every[name] = sum(every[each.name] for each in children)
            fewest[name] = _of_children(known[name].min_sub_group, children, fewest, name)
        else:
            least = known[name].min_member
            if least is None or least < 0:
                where = f"spec.subGroups[{quoted(name)}].minMember"
                raise InvalidInput(f"{where}: a number of at least 0 is required")
            every[name] = fewest[name] = least
    total = sum(every[each.name] for each in below[""])
    some = _of_children(enough, below[""], fewest, "")
    leaves = [name for name in order if not below[name] and every[name]]
    parts = tuple(Part(named_text(name), each=every[name]) for name in leaves)
    if some < total:
        return Quorum(total, parts, max(1, some), ALL_AWAITED)
    return Quorum(total, parts)


def _of_children(
    enough: int | None, children: Sequence[RawSubGroup], fewest: Mapping[str, int], name: str
) -> int:
    """Return with how few members so many of the children can be had."""
    if enough is not None and not 0 <= enough <= len(children):
        where = f"spec.subGroups[{quoted(name)}]" if name else "spec"
        raise InvalidInput(f"{where}.minSubGroup: {enough} of {len(children)} subgroups")
    count = len(children) if enough is None else enough
    return sum(sorted(fewest[each.name] for each in children)[:count])


def _bounded(count: int, where: str) -> None:
    if count > MOST_PARTS:
        raise InvalidInput(f"{where}: {counted(count, 'entry')}, at most {MOST_PARTS} are read")
