"""CompositePodGroups: which gang the pods of a PodGroup start with, and what they go with.

Source: scheduling.k8s.io/v1alpha3 (Kubernetes 1.37, gate CompositePodGroup) and what
kube-scheduler 1.37.0 makes of it: pkg/scheduler/framework/preemption/types.go
(getHighestAllAncestor), framework/plugins/gangscheduling (isCPGTreeReady).

- A composite with a gang policy starts when minGroupCount of the groups right below it can; a basic
  one asks for no more than one. So what starts whole is the highest composite with a gang policy.
- What goes whole is the highest group, PodGroup or composite, whose disruptionMode is all.
- The priority of all its pods is that of the group on top.

The two need not be the same group, so a pod has two keys: that of the gang it starts with, and
that of what it goes with as a victim. Whoever writes groups may write any, cycles too: a chain that
is none makes a PodGroup of it that stands alone, with a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from extender.model.group_sources import CORE
from extender.model.names import MOST_SUBDOMAIN, quoted
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.owner_kinds import COMPOSITE

POD_GROUP: Final = "pod-group"
"""Name of the dialect."""
MOST_LEVELS: Final = 4
"""Groups above each other, the PodGroup included (WorkloadMaxTreeDepth)."""
SUFFIX: Final = "..CompositePodGroup"
"""Ends the name, in a GangKey, of a gang that is a CompositePodGroup: a PodGroup may have the same
name. No object's name has two dots in a row."""

Groups = Mapping[tuple[str, str, str], GroupObject]
Hierarchy = tuple[str, str] | None
"""As in Pod."""


class Chain(Struct, frozen=True, gc=False):
    """A PodGroup and the groups above it, as far as they can be followed."""

    rows: tuple[GroupObject, ...]
    """The PodGroup first."""
    problem: str = ""
    missing: str = ""
    """The CompositePodGroup that is not there, if that is the problem."""


def chain_of(group: GroupObject, groups: Groups) -> Chain:
    """Return what is above a PodGroup; at most MOST_LEVELS are looked at."""
    rows = [group]
    seen: set[str] = set()
    while name := rows[-1].of:
        if name in seen:
            return Chain(tuple(rows), f"{composite_text(group.namespace, name)} is above itself")
        if len(rows) == MOST_LEVELS:
            return Chain(
                tuple(rows),
                f"more than {MOST_LEVELS} groups are above each other, PodGroup "
                f"{group.namespace}/{group.name} is the lowest",
            )
        if len(name) + len(SUFFIX) > MOST_SUBDOMAIN:
            return Chain(
                tuple(rows), f"{composite_text(group.namespace, name)}: its name is too long"
            )
        above = groups.get((COMPOSITE, group.namespace, name))
        if above is None:
            return Chain(
                tuple(rows), f"{composite_text(group.namespace, name)} does not exist", missing=name
            )
        if above.min_count is not None and above.min_count < 1:
            least = f"gang.minGroupCount is {above.min_count}, it must be at least 1"
            return Chain(tuple(rows), f"{composite_text(group.namespace, name)}: {least}")
        seen.add(name)
        rows.append(above)
    return Chain(tuple(rows))


def composite_text(namespace: str, name: str) -> str:
    """Return by what a CompositePodGroup is told, there or not."""
    return f"CompositePodGroup {namespace}/{quoted(name)}"


def hierarchy_at(name: tuple[str, str], groups: Groups) -> Hierarchy:
    """Return Pod.hierarchy of the pods of a PodGroup (namespace, name), there or not."""
    group = groups.get((CORE, *name))
    return None if group is None else hierarchy_of(chain_of(group, groups))


def hierarchy_of(chain: Chain) -> Hierarchy:
    """Return Pod.hierarchy of the PodGroup's pods: None where it stands alone."""
    if chain.problem or len(chain.rows) == 1:
        return None
    starts = next((row for row in reversed(chain.rows[1:]) if row.min_count), chain.rows[0])
    goes = next((row for row in reversed(chain.rows) if row.disrupt_all), starts)
    return _gang_name(starts), _gang_name(goes)


def _gang_name(row: GroupObject) -> str:
    return row.name + SUFFIX if row.source == COMPOSITE else row.name


def placed(pods: Iterable[Pod], groups: Groups) -> list[Pod]:
    """Return the pods with the hierarchy that these groups make of them."""
    known: dict[tuple[str, str], Hierarchy] = {}
    found: list[Pod] = []
    for pod in pods:
        hierarchy: Hierarchy = None
        if pod.pod_group:
            name = (pod.namespace, pod.pod_group)
            if name not in known:
                known[name] = hierarchy_at(name, groups)
            hierarchy = known[name]
        found.append(pod if pod.hierarchy == hierarchy else replace(pod, hierarchy=hierarchy))
    return found


def unit_key(key: GangKey | None, pod: Pod) -> GangKey | None:
    """Return the key of what a pod goes with as a victim; ``key`` is the gang it starts with."""
    if key is None or pod.hierarchy is None or key.dialect != POD_GROUP:
        return key
    return key._replace(name=pod.hierarchy[1])


def keys_of(key: GangKey | None, pod: Pod) -> tuple[GangKey, ...]:
    """Return the keys of everything that the pod is a member of."""
    if key is None:
        return ()
    unit = unit_key(key, pod)
    return (key,) if unit is None or unit == key else (key, unit)
