"""Does a plan still hold on a newer state of the cluster?

A plan is made on one snapshot and acted on later: right away, after a restart, or when the
room it waited for is there. Whatever changed in between, nobody may be evicted, and no
member seated, for a gang that cannot run any more. Three questions, from cheap to thorough:

``unchanged``   nothing the plan rests on is another object than when it was made.
``quick_problem``  members, victims, and what node and requests alone decide about each seat.
``Planner.check``  all of that and every predicate, with victims gone and others' seats taken.

Nobody is ever added to a plan here: it holds with whoever is left of its victims, or it
does not hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from extender.fit.disruption_budgets import guarded, takes
from extender.fit.selector_index import SelectorIndex
from extender.fit.selectors import matches
from extender.fit.static import static_allowed
from extender.gang.incremental.protection import Protections, oldest_start
from extender.model.gang import Gang
from extender.model.names import quoted
from extender.model.objects import DisruptionBudget, GangKey, Pod, Requests
from extender.model.plan import Hold, Plan, Victim
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

NOT_COMPARED = "it could not be compared with the newest state"
"""Why a plan does not hold of which that cannot be told."""
INDEXED = 8
"""From so many pods on the budgets that select them are looked up in an index."""


class Resolves(Protocol):
    """What tells a pod's gang."""

    def member_key(self, pod: Pod) -> GangKey | None:
        """Return the key of the gang the pod belongs to, None for a pod of no gang."""

    def unit_key(self, pod: Pod) -> GangKey | None:
        """Return the key of what the pod goes with as a victim, None for a pod of no gang."""

    def resolve(self, key: GangKey, snapshot: Snapshot) -> Gang:
        """Return the gang as it is in the snapshot."""


def unchanged(plan: Plan, gang: Gang, before: Snapshot, now: Snapshot) -> bool:
    """Whether everything the plan rests on is the same object in both snapshots.

    Snapshots share what did not change, so this is a matter of identity. Rules of members that
    count other pods rest on all nodes.
    """
    if before is now:
        return True
    shapes = [pod.shape for pod in gang.pending]
    if any(shape.affinity or shape.anti_affinity or shape.spread for shape in shapes):
        return False
    if before.budgets is not now.budgets or before.groups is not now.groups:
        return False
    if before.members.get(gang.key) is not now.members.get(gang.key):
        return False
    nodes = {seat.node for seat in plan.seats}
    nodes.update(victim.node for victim in (*plan.victims, *plan.waits_for))
    return all(
        before.nodes.get(name) is now.nodes.get(name)
        and before.bound.get(name) is now.bound.get(name)
        for name in nodes
    )


def ending_problem(namespace: str, snapshot: Snapshot) -> str:
    """Return why no gang of the namespace can start, "" when one may.

    A binding is created below its pod, and NamespaceLifecycle (k8s.io/apiserver) refuses to create
    anything in a namespace that is being deleted.
    """
    if namespace not in snapshot.ending:
        return ""
    return f"namespace {namespace} is being deleted, and no pod of it can be bound any more"


def gang_problem(gang: Gang) -> str:
    """Return why no plan for the gang holds any more by what it has become, "" when one may."""
    if gang.problems:
        return f"{gang.key} has a problem: {gang.problems[0]}"
    if gang.unplanned:
        return f"{gang.key} is not planned for any more: {gang.unplanned[0]}"
    return ""


def member_problem(
    plan: Plan, gang: Gang, seats: Mapping[str, str], *, binding: bool = False
) -> str:
    """Return what is wrong with the gang's members, "" when its seats still complete it.

    ``seats`` are the untaken ones, uid -> node. ``binding``: a member sits already, or may be on
    its way. Where a gang's size is stated nowhere one that comes then is no part of what is seated:
    without its seats the gang would run with fewer still.
    """
    why = gang_problem(gang)
    if why:
        return why
    waiting = {pod.uid for pod in gang.pending}
    for seat in plan.seats:
        if seat.uid in seats and seat.uid not in waiting:
            return f"member {seat.namespace}/{seat.name} is not pending any more"
    if gang.missing > len(seats) and (gang.size_known or not binding):
        return (
            f"{gang.key} now lacks {counted(gang.missing, 'member')} of its quorum, "
            f"and the plan has {counted(len(seats), 'seat')}"
        )
    for part, lack in zip(gang.parts, gang.lacks, strict=True):
        if lack > len(part.uids & seats.keys()):
            return (
                f"{gang.key} now lacks {counted(lack, 'member')} of part {quoted(part.name)}, and "
                f"the plan has {counted(len(part.uids & seats.keys()), 'seat')} for it"
            )
    if plan.victims and (gang.preemptor_priority < plan.priority or not gang.preempts):
        return f"{gang.key} may no longer evict at priority {plan.priority}"
    return ""


def victim_problem(
    victim: Victim,
    priority: int,
    snapshot: Snapshot,
    resolver: Resolves,
    protections: Protections,
    *,
    alone: bool = False,
) -> str:
    """Return why a pod must not be evicted at ``priority`` now, "" when it may be (promise 4).

    Gone or leaving pods are no problem; one that was given more time to leave than a victim gets
    is a victim like others, by itself. ``alone``: the rest of its unit has gone by our hand
    already, so what its gang as a whole has become does not count, only the pod itself does.
    """
    pod = present(victim, snapshot)
    if pod is None or protections.leaves(pod, snapshot.now):
        return ""
    key = resolver.unit_key(pod)
    gang = None if key is None else resolver.resolve(key, snapshot)
    why = _pod_problem(pod, gang, priority, snapshot, protections, begun=alone)
    if why:
        return why
    if pod.deleting:
        return ""
    if not alone and gang is not None and victim.unit != str(gang.key) and gang.goes_whole:
        return f"its gang {gang.key} is now evicted as a whole"
    return ""


def whole_again(gang: Gang, unit: AbstractSet[str], size: int) -> bool:
    """Whether others have come in the place of those of a unit that went: it runs, whole.

    ``unit``: uids of its pods that are known of, ``size``: how many they were at first.
    """
    bound = {member.uid for member in gang.bound}
    # Members that start one by one have no quorum: as many as went, then.
    known = gang.size_known and gang.starts_whole
    enough = gang.runs_with(bound) if known else len(bound) >= size
    return gang.goes_whole and enough and not bound <= unit


def _pod_problem(
    pod: Pod,
    gang: Gang | None,
    priority: int,
    snapshot: Snapshot,
    protections: Protections,
    *,
    begun: bool = False,
) -> str:
    """Return why this pod itself stays for a preemptor of this priority, "" when it need not."""
    least, started = pod.priority, None
    if gang is not None and not gang.problems:
        least = max(least, gang.victim_priority)
        started = oldest_start(gang) if gang.goes_whole else None
    if least >= priority:
        return f"its priority {least} is not below {priority}"
    return protections.why(pod, snapshot, priority, started=started, gang=gang, begun=begun)


def unit_problem(
    victims: Iterable[Victim],
    priority: int,
    snapshot: Snapshot,
    resolver: Resolves,
    protections: Protections,
) -> str:
    """Return why a unit of which nobody has gone must not be evicted now, "" when it may be.

    A member of its gang that is not in the unit stays for a reason of its own, or the unit
    has grown.
    """
    victims = list(victims)
    for victim in victims:
        why = victim_problem(victim, priority, snapshot, resolver, protections)
        if why:
            return f"{victim.namespace}/{victim.name}: {why}"
    known = {victim.uid for victim in victims}
    for victim in victims:
        pod = present(victim, snapshot)
        if pod is None or not victim.unit:
            continue
        key = resolver.unit_key(pod)
        if key is not None:
            gang = resolver.resolve(key, snapshot)
            for extra in gang.bound:
                if extra.uid in known:
                    continue
                why = _pod_problem(extra, gang, priority, snapshot, protections)
                if not why:
                    whole = "which is evicted as a whole"
                    return f"{extra.key} has joined the gang {victim.unit}, {whole}"
            why = _gang_shield(gang, priority, snapshot, protections)
            if why:
                return f"{victim.unit} is evicted completely or not at all, and {why}"
            break
    return ""


def _gang_shield(gang: Gang, priority: int, snapshot: Snapshot, protections: Protections) -> str:
    """Return which pod keeps all of its gang from going at this priority, and why, or ""."""
    started = oldest_start(gang)
    for pod in gang.bound:
        for shield in protections.shields(pod, snapshot, started=started, gang=gang):
            if shield.gang and priority < shield.below:
                return f"{pod.name} stays: {shield.why}"
    return ""


def present(victim: Victim | Pod, snapshot: Snapshot) -> Pod | None:
    """Return the pod as it is on its node now, None when it is gone."""
    for pod in snapshot.bound.get(victim.node, ()):
        if pod.uid == victim.uid:
            return pod
    return None


def gangs_of(
    victims: Sequence[Victim], snapshot: Snapshot, member_key: Callable[[Pod], GangKey | None]
) -> set[str]:
    """Return the gangs that victims are of: what each goes with, and what it starts with."""
    found = {victim.gang for victim in victims}
    for victim in victims:
        pod = present(victim, snapshot) if victim.gang else None
        if pod is not None and pod.hierarchy is not None:
            found.add(str(member_key(pod)))
    return found


def covered_by_budget(
    victims: Iterable[Victim], snapshot: Snapshot, protections: Protections, priority: int
) -> frozenset[str]:
    """Return the uids of victims that a PodDisruptionBudget covers, as far as it counts against
    a preemptor of this priority."""
    there = (present(victim, snapshot) for victim in victims if snapshot.budgets)
    pods = [pod for pod in there if pod is not None]
    return frozenset(guarding(pods, snapshot, protections, priority))


def guarding(
    pods: Sequence[Pod], snapshot: Snapshot, protections: Protections, priority: int
) -> dict[str, list[DisruptionBudget]]:
    """Return uid -> the PodDisruptionBudgets that select a pod, of those that count against a
    preemptor of this priority; no entry where none does."""
    counts = protections.budget_counts
    namespaces = {
        name for name in {pod.namespace for pod in pods} if counts(name, priority, snapshot)
    }
    there = [budget for budget in snapshot.budgets if budget.namespace in namespaces]
    picked = zip(pods, _selecting(pods, there), strict=True)
    return {pod.uid: [there[at] for at in found] for pod, found in picked if found}


def _selecting(pods: Sequence[Pod], budgets: Sequence[DisruptionBudget]) -> list[list[int]]:
    """Return, for each pod, the places of the budgets that select it.

    An index of them is worth its making where several pods are asked for: a namespace may have a
    thousand budgets of many values each.
    """
    if len(pods) < INDEXED:
        return [
            [
                at
                for at, each in enumerate(budgets)
                if each.namespace == pod.namespace and matches(each.selector, pod.labels)
            ]
            for pod in pods
        ]
    index = SelectorIndex((each.namespace, each.selector) for each in budgets)
    return [index.matching(pod.namespace, pod.labels) for pod in pods]


def over_budget(
    pods: Iterable[Pod], budgets: Sequence[DisruptionBudget], first: Iterable[Pod] = ()
) -> dict[str, str]:
    """Return uid -> why, of the pods that the Eviction API refuses once those before them are
    evicted: ``first``, as far as it evicts these at all, and then ``pods`` in their order.

    Source: ``Create`` in pkg/registry/core/pod/storage/eviction.go.
    """
    left = [budget.allowed for budget in budgets]
    refused: dict[str, str] = {}
    asked = [(pod, False) for pod in first] + [(pod, True) for pod in pods]
    asked = [(pod, own) for pod, own in asked if guarded(pod)]
    selecting = _selecting([pod for pod, _ in asked], budgets)
    for (pod, own), found in zip(asked, selecting, strict=True):
        if len(found) > 1:
            names = " and ".join(quoted(budgets[at].name) for at in found[:2])
            why = f"PodDisruptionBudgets {names} select it, and the Eviction API takes one"
            if own:
                refused[pod.uid] = why
            continue
        for at in found:
            budget = budgets[at]
            if not takes(pod, budget):
                continue
            if left[at]:
                left[at] -= 1
            elif own:
                told = f"PodDisruptionBudget {budget.namespace}/{budget.name}"
                allows = counted(budget.allowed, "eviction")
                refused[pod.uid] = f"{told} allows {allows} now, and the plan needs more"
    return refused


def quick_problem(
    seats: Mapping[str, str],
    pods: Mapping[str, Pod],
    snapshot: Snapshot,
    going: Iterable[str],
    holds: Iterable[Hold],
) -> str:
    """Return why the seats cannot all be taken, by what nodes and requests alone decide.

    ``seats``: untaken ones, uid -> node. ``pods``: their members. ``going``: uids of pods whose
    room is counted on. ``holds``: other gangs' seats that these must leave room for.
    """
    on_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for uid, name in seats.items():
        on_node[name].append(snapshot.pending.get(uid, pods[uid]))
    leaving = set(going)
    held: defaultdict[str, list[Requests]] = defaultdict(list)
    for hold in holds:
        if hold.node in on_node:
            held[hold.node].append(hold.requests)
    for name in sorted(on_node):
        node = snapshot.nodes.get(name)
        if node is None:
            return f"node {name} is gone"
        for shape_of in {(pod.shape, pod.requests): pod for pod in on_node[name]}.values():
            why = static_allowed(shape_of, node)
            if why is not None:
                return f"{shape_of.name} on {name}: {why}"
        short = _short(
            dict(node.allocatable),
            on_node[name],
            [
                *(p.requests for p in snapshot.bound.get(name, ()) if p.uid not in leaving),
                *held[name],
            ],
        )
        if short:
            return f"node {name} has no room for its seats any more: short of {short}"
    return ""


def _short(free: dict[str, int], members: Iterable[Pod], others: Iterable[Requests]) -> str:
    """Return a resource the members ask for and the node lacks, "" when there is none."""
    asked: defaultdict[str, int] = defaultdict(int)
    for pod in members:
        for name, amount in pod.requests:
            if amount:
                asked[name] += amount
    for requests in others:
        for name, amount in requests:
            if name in asked:
                asked[name] += amount
    return next((name for name in sorted(asked) if asked[name] > free.get(name, 0)), "")
