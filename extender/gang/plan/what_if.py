"""A question about a cluster that is not quite so: a manifest added to a snapshot.

For those who ask what would be (the command line and the Plan call); what acts never comes here.
Objects that are there already keep their records, so that planning finds most of what it keeps
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from extender.gang.plan.assemble import assemble
from extender.gang.plan.manifest import Manifest
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


def with_added(
    snapshot: Snapshot, manifest: Manifest, member_key: Callable[[Pod], GangKey | None]
) -> Snapshot:
    """Return the snapshot with what a manifest adds.

    What has a name of its own in the cluster (nodes, groups, classes, budgets, namespaces) takes
    the place of what is there, and so do pods for pending ones of their name or of their Job.
    Raises InvalidInput when such a pod has a node already: another of its name cannot come.
    """
    by_type: dict[type, list[Any]] = {}
    for record in manifest.records:
        by_type.setdefault(type(record), []).append(record)
    new: list[Pod] = by_type.get(Pod, [])
    names = {(pod.namespace, pod.name) for pod in new}

    def again(pod: Pod) -> bool:
        job = (pod.namespace, pod.owner.name) if pod.owner and pod.owner.kind == "Job" else None
        return (pod.namespace, pod.name) in names or job in manifest.jobs

    bound = [pod for there in snapshot.bound.values() for pod in there]
    for pod in bound:
        if again(pod):
            raise InvalidInput(
                f"Pod {pod.key} of the manifest is there already and has a node, {pod.node}"
            )
    budgets = {
        (budget.namespace, budget.name): budget
        for budget in (*snapshot.budgets, *by_type.get(DisruptionBudget, []))
    }
    return assemble(
        member_key,
        nodes=[*snapshot.nodes.values(), *by_type.get(Node, [])],
        pods=[*bound, *(pod for pod in snapshot.pending.values() if not again(pod)), *new],
        groups=[*snapshot.groups.values(), *by_type.get(GroupObject, [])],
        group_sources=snapshot.group_sources,
        priority_classes=[
            *snapshot.priority_classes.values(),
            *by_type.get(PriorityClass, []),
        ],
        budgets=budgets.values(),
        namespaces={
            **snapshot.namespaces,
            **{each.name: each.labels for each in by_type.get(Namespace, [])},
        },
        ending=snapshot.ending,
        now=snapshot.now,
        generation=snapshot.generation,
        server_version=snapshot.server_version,
        unevictable=snapshot.unevictable,
        stayed=snapshot.stayed,
        spared=snapshot.spared,
    )


def added_gangs(
    manifest: Manifest, member_key: Callable[[Pod], GangKey | None]
) -> frozenset[GangKey]:
    """Return the gangs that have pods in a manifest."""
    pods = (record for record in manifest.records if isinstance(record, Pod))
    return frozenset(key for pod in pods if (key := member_key(pod)) is not None)


def only_gang(added: Collection[GangKey], manifest: Manifest, naming: str) -> GangKey:
    """Return the one gang that a manifest adds, which need not be named.

    Raises InvalidInput, which tells what it adds and ``naming``: how one of several is named.
    """
    if len(added) == 1:
        return next(iter(added))
    found = ", ".join(map(str, sorted(added))) or "no gang with pods"
    why = "; ".join(manifest.independent.values())
    raise InvalidInput(f"the manifest adds {found}: {naming}" + (f" ({why})" if why else ""))


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
