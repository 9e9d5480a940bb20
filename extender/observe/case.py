"""One gang that waits for its quorum, from its first member until it has it or is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from extender.gang.plan.validity import quick_problem
from extender.model.gang import Gang, GangPart
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted, cut
from extender.observe.sums import OurAnswer, Told

NAMES_TOLD = 20
"""Pods and gangs named in one list of a report."""


class Case(Struct):
    """Times are monotonic but for ``since``."""

    key: GangKey
    since: float
    """Wall clock."""
    before: Snapshot | None
    """The cluster when its first member came: nobody had gone for it yet."""
    wanted: bool = False
    """A scheduler has tried one of its members and found no room for it."""
    stranger: str = ""
    """A scheduler that has tried one, and whose pods are not planned for."""
    came: dict[str, Pod] = field(default_factory=dict)
    """Members as they first waited, by uid, while ``before`` is kept."""
    seated: set[str] = field(default_factory=set)
    """Uids of members on nodes, kept by events: a quorum may last for less than a tick."""
    of_one_before: frozenset[str] = frozenset()
    """Uids of members that are no part of the quorum, as it was looked at last (Gang.before)."""
    size_known: bool = True
    """As it was looked at last: what states the size may be seen after the pods."""
    parts: tuple[GangPart, ...] = ()
    """Of the gang as it was looked at last."""
    whole_since: float = 0.0
    """When it had its quorum for the first time; 0: it has not had it."""
    plan: Plan | None = None
    refusal: Refusal | None = None
    planned: float = 0.0
    """Wall clock."""
    beside: dict[str, frozenset[str]] = field(default_factory=dict)
    """Node of a seat -> uids of the pods that were there when the plan was made."""
    seen: dict[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Node of a seat -> its pods when it was looked at last; what is the same needs no look."""
    lost: set[str] = field(default_factory=set)
    """Nodes whose seats are lost."""
    told: Told = field(default_factory=lambda: Told(""))
    looked: float = 0.0
    empty_since: float = 0.0
    """Since when it has no member at all; 0: it has."""
    part_seconds: float = 0.0
    """For how long it has sat in part without a break."""
    part_counted: bool = False


def as_it_was(case: Case, before: Snapshot, now: Snapshot, generation: int) -> Snapshot:
    """Return the cluster as it was ``before``, with all members that the gang has ``now``.

    Members that have come to a node since wait again; where the gang has had its quorum, also
    those that have ended since. What describes gangs (PodGroups, classes, namespaces) is as now: it
    may have been made after the first pod.
    """
    key = case.key
    was = {pod.uid: pod for pod in before.members.get(key, ())}
    there = {pod.uid: pod for pod in now.members.get(key, ())}
    if case.whole_since:
        there = {**case.came, **there}
    members = []
    for pod in sorted(there.values(), key=lambda pod: (pod.created, pod.uid)):
        earlier = was.get(pod.uid)
        if earlier is not None and earlier.node:
            members.append(earlier)
        elif pod.node or pod.nominated:
            waits = replace(pod, node="", nominated="", started=0.0, phase="Pending", deleting=0.0)
            members.append(waits)
        else:
            members.append(pod)
    pending = {uid: pod for uid, pod in before.pending.items() if uid not in was}
    pending.update((pod.uid, pod) for pod in members if not pod.node)
    return replace(
        before,
        generation=generation,
        pending=pending,
        members={**before.members, key: tuple(members)},
        groups=now.groups,
        group_sources=now.group_sources,
        priority_classes=now.priority_classes,
        namespaces=now.namespaces,
        ending=now.ending,
    )


def take_plan(case: Case, plan: Plan, snapshot: Snapshot, wall: float) -> None:
    """Keep the gang's plan, made on ``snapshot``."""
    case.plan, case.refusal, case.planned = plan, None, wall
    forget_before(case)
    nodes = {seat.node for seat in plan.seats}
    case.beside = {
        node: frozenset(pod.uid for pod in snapshot.bound.get(node, ())) for node in nodes
    }
    told = case.told
    told.answer, told.planned, told.seats = OurAnswer.PLAN, wall, len(plan.seats)
    told.priority = plan.priority
    seats, victims = counted(len(plan.seats), "seat"), counted(len(plan.victims), "pod")
    told.message = f"{seats}, {victims} to evict, {plan.proof}"
    told.would_evict = len(plan.victims)
    told.would_evict_pods = named(f"{v.namespace}/{v.name}" for v in plan.victims)
    told.would_break = named(broken_by(plan))


def forget_before(case: Case) -> None:
    """Let go of the cluster as it was."""
    case.before = None
    case.came.clear()


def take_refusal(case: Case, refusal: Refusal) -> None:
    """Keep why there is no plan."""
    case.refusal = refusal
    case.told.answer = OurAnswer.REFUSAL
    case.told.message = cut(f"{refusal.code}: {refusal.message}")


def broken_by(plan: Plan) -> list[str]:
    """Return the gangs that a plan evicts as a whole."""
    return sorted({victim.unit for victim in plan.victims if victim.unit})


def named(names: Iterable[str]) -> list[str]:
    """Return the first of them."""
    return [name for name, _ in zip(names, range(NAMES_TOLD), strict=False)]


def add_name(names: list[str], name: str) -> None:
    """Add to a list of names that is cut short."""
    if name not in names and len(names) < NAMES_TOLD:
        names.append(name)


def newly_lost(case: Case, gang: Gang, snapshot: Snapshot, pods: Mapping[str, Pod]) -> int:
    """Return how many seats of the plan have been lost since it was last asked.

    A seat is lost when a pod that could not have gone there beside a held seat (of equal or lower
    priority, and not of the gang) has come to its node and there is no room for the seat any more,
    with the plan's victims gone. ``pods``: the members by uid.
    """
    plan = case.plan
    if plan is None:
        return 0
    waiting = {pod.uid for pod in gang.pending}
    going = [each.uid for each in (*plan.victims, *plan.waits_for)]
    found = 0
    for node in case.beside.keys() - case.lost:
        present = snapshot.bound.get(node, ())
        if case.seen.get(node) is present:
            continue
        case.seen[node] = present
        seats = {s.uid: node for s in plan.seats if s.node == node and s.uid in waiting}
        if not seats or not any(
            pod.uid not in case.beside[node]
            and pod.uid not in pods
            and pod.priority <= plan.priority
            and not pod.deleting
            for pod in present
        ):
            continue
        if quick_problem(seats, pods, snapshot, going, ()):
            case.lost.add(node)
            found += len(seats)
    return found
