"""What the groups of a hierarchy say about a gang: its quorum, unit and priority."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from extender.groups.absent import why_absent
from extender.groups.composite import SUFFIX, Chain, chain_of, composite_text
from extender.groups.dialect import Declaration, checked_min_count
from extender.groups.lost_members import lost_members
from extender.model.gang import UNIT_ALL, UNIT_SINGLE
from extender.model.group_sources import CORE
from extender.model.names import quoted
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.owner_kinds import COMPOSITE
from extender.model.snapshot import Snapshot
from extender.model.texts import all_of, counted


class _Part(Struct):
    """One group of a hierarchy, with what of it has pods."""

    row: GroupObject
    below: dict[str, _Part] = field(default_factory=dict)
    staying: int = 0
    """Of a PodGroup: its pods that are neither on their way out nor lost with their node."""
    bound: int = 0
    """Those of them that have a node."""

    @property
    def least(self) -> int:
        """How many of its pods, or of the groups below it, it asks for; a basic one for one."""
        return max(1, self.row.min_count or 1)

    @property
    def quorum(self) -> int:
        """The fewest pods with which it is satisfied; a group without pods counts as one."""
        if not self.below:
            return self.least
        needs = sorted(part.quorum for part in self.below.values())
        return sum(needs[: self.least]) + max(0, self.least - len(needs))

    @property
    def everybody(self) -> int:
        """So many pods that it is satisfied whichever they are."""
        if not self.below:
            return max(self.least, self.staying)
        whole = sum(part.everybody for part in self.below.values())
        return whole + max(0, self.least - len(self.below))

    @property
    def runs(self) -> bool:
        """Whether the pods that have a node satisfy it."""
        if not self.below:
            return self.bound >= self.least
        return sum(part.runs for part in self.below.values()) >= self.least


def of_part(
    group: GroupObject, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot
) -> Declaration:
    """Return what is stated about a gang that is a PodGroup with a CompositePodGroup above it."""
    chain = chain_of(group, snapshot.groups)
    if chain.missing and COMPOSITE not in snapshot.group_sources:
        return _unread(group, chain, members)
    wrong = checked_min_count(group, "gang.minCount", "scheduling.k8s.io")
    problem = chain.problem
    if chain.missing:
        why = why_absent(COMPOSITE, group.namespace, chain.missing, snapshot)
        problem = f"{composite_text(group.namespace, chain.missing)} {why}"
    if problem or wrong:
        return Declaration(problems=wrong or (problem,))
    root = chain.rows[-1]
    starts = any(pod.hierarchy is None or pod.hierarchy[0] == key.name for pod in members)
    goes = any(pod.hierarchy is not None and pod.hierarchy[1] == key.name for pod in members)
    whole = goes and group.disrupt_all
    basic = group.min_count is None
    elsewhere = [row for row in chain.rows[1:] if row.disrupt_all]
    notes = (f"it is evicted with all of {_told(elsewhere[-1])}",) if elsewhere else ()
    return Declaration(
        min_count=1 if basic or not starts else group.min_count,
        unit=UNIT_ALL if whole else UNIT_SINGLE,
        starts_whole=False if basic or not starts else None,
        priority=root.priority,
        priority_class=root.priority_class,
        preempts=root.preempts,
        topology_key=group.topology_key,
        unplanned=_other_domains(chain.rows[1:]),
        notes=notes,
    )


def of_composite(key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
    """Return what is stated about a gang that is a CompositePodGroup.

    Which of its pods make up the quorum cannot be left to a number where groups have more pods
    than they ask for, or it more groups: then all that are there are its quorum, until it runs.
    """
    name = key.name.removesuffix(SUFFIX)
    top = snapshot.groups.get((COMPOSITE, key.namespace, name))
    if top is None:
        why = why_absent(COMPOSITE, key.namespace, name, snapshot)
        return Declaration(problems=(f"{composite_text(key.namespace, name)} {why}",))
    tree, chains = _tree(top, members, snapshot)
    if not chains:
        return Declaration(problems=(f"{_told(top)} has no PodGroup",))
    root = chains[0].rows[-1]
    starts = any(pod.hierarchy is not None and pod.hierarchy[0] == key.name for pod in members)
    goes = any(pod.hierarchy is not None and pod.hierarchy[1] == key.name for pod in members)
    said = Declaration(
        min_count=1,
        unit=UNIT_ALL if goes and top.disrupt_all else UNIT_SINGLE,
        starts_whole=False,
        priority=root.priority,
        priority_class=root.priority_class,
        preempts=root.preempts,
    )
    if not starts:
        return said
    quorum, everybody = tree.quorum, tree.everybody
    below = counted(len(tree.below), "group", f"of {_told(top)} has", f"of {_told(top)} have")
    notes = [f"{below} pods, {tree.least} must start at once"]
    if everybody > quorum and not tree.runs:
        notes.append(
            f"{all_of(everybody, 'pod', 'is', 'are')} waited for, not only the {quorum} of the "
            "least quorum: which groups start first is not chosen"
        )
    others = {row.uid: row for chain in chains for row in chain.rows if row is not top}
    return Declaration(
        min_count=quorum if tree.runs else everybody,
        unit=said.unit,
        starts_whole=True,
        whole_from=quorum,
        priority=said.priority,
        priority_class=said.priority_class,
        preempts=said.preempts,
        topology_key=top.topology_key,
        unplanned=_other_domains(others.values()),
        notes=tuple(notes),
    )


def _tree(
    top: GroupObject, members: tuple[Pod, ...], snapshot: Snapshot
) -> tuple[_Part, list[Chain]]:
    """Return the groups below ``top`` that have pods, and the chains of their PodGroups."""
    tree = _Part(top)
    leaves: dict[str, _Part] = {}
    chains: list[Chain] = []
    lost = lost_members(members, snapshot)
    for pod in members:
        leaf = leaves.get(pod.pod_group)
        if leaf is None:
            group = snapshot.groups.get((CORE, pod.namespace, pod.pod_group))
            if group is None:
                continue
            chain = chain_of(group, snapshot.groups)
            if top not in chain.rows:
                continue
            chains.append(chain)
            leaf = tree
            for row in reversed(chain.rows[: chain.rows.index(top)]):
                leaf = leaf.below.setdefault(f"{row.source}/{row.name}", _Part(row))
            leaves[pod.pod_group] = leaf
        if not pod.deleting and pod.uid not in lost:
            leaf.staying += 1
            leaf.bound += bool(pod.node)
    return tree, chains


def _unread(group: GroupObject, chain: Chain, members: tuple[Pod, ...]) -> Declaration:
    """What a PodGroup says while the groups above it are not known: they may ask for more."""
    staying = sum(not pod.deleting for pod in members)
    text = (
        f"{composite_text(group.namespace, chain.missing)} is not served or must not be read, "
        "so what must start together is not known"
    )
    return Declaration(
        min_count=max(1, staying if group.min_count is None else group.min_count),
        unit=UNIT_ALL if group.disrupt_all else UNIT_SINGLE,
        starts_whole=True,
        priority=group.priority,
        priority_class=group.priority_class,
        preempts=group.preempts,
        unplanned=(text,),
    )


def _other_domains(rows: Iterable[GroupObject]) -> tuple[str, ...]:
    """Why a gang is not planned for: groups above or below it have topology rules of their own."""
    return tuple(
        f"{_told(row)} has a topology constraint, and only that of what starts at once is kept"
        for row in sorted(rows, key=lambda row: (row.source, row.name))
        if row.topology_key
    )[:1]


def _told(row: GroupObject) -> str:
    if row.source == COMPOSITE:
        return composite_text(row.namespace, row.name)
    return f"PodGroup {row.namespace}/{quoted(row.name)}"
