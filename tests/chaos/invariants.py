"""What must hold, as functions of a history. Each returns problems in words; none is fine.

Some hold at every moment (``of_an_eviction``, ``over_commitment``), the others once faults and
arrivals have stopped and things have had time to settle (``at_rest``). A change made by hand in
the last moments, or one that a fault kept from the extender, is no reproach to it: ``excused``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from tests.chaos.groups import GroupSpec
from tests.chaos.history import EXTENDER, Break, Eviction, GroupLife, History, PodLife, PodSeen

LAG_SECONDS = 2.0
"""How far behind the cluster the extender may be without any fault: it plans on a state that is
shown to it once a second."""
BLIND_SECONDS = 15.0
"""The same with a fault that kept news from it lately."""
WAITED_SECONDS = 45.0
"""A victim's preemptor has been waiting at some time this long before."""
STORM = 3
"""Evictions for one gang, in pods that fit on the whole cluster."""

PREEMPTED_BY = re.compile(r"preempted by (?P<gang>\S+) \(priority (?P<priority>-?\d+)\)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a promise does not hold."""

    invariant: str
    subject: str
    """The group or node it is about."""
    text: str


def lag(history: History, at: float) -> float:
    """How old the extender's knowledge may have been at a moment."""
    return BLIND_SECONDS if history.blind(at - BLIND_SECONDS, at) else LAG_SECONDS


def excused(history: History, begin: float, end: float) -> bool:
    """Whether a node or member was changed by hand where the extender could not know yet."""
    first = begin - lag(history, begin)
    return any(first <= at <= end for at, _ in history.disturbed)


def room(
    history: History, spec: GroupSpec, *, by_preemption: bool = True, surely: bool = False
) -> int:
    """How many members fit at once on free room and on what less urgent pods hold.

    Exact, because the members of a group are all alike and every unit of lower priority may go.
    Those with a budget that allows some go if ``surely`` is not asked for: that is a bound.
    """
    seats = 0
    for node, cpu in history.nodes.items():
        kept = sum(
            life.seen.cpu
            for life in history.on_node(node)
            if not (by_preemption and _may_go(history, life, spec, surely=surely))
        )
        seats += max(0, cpu - kept) // spec.cpu
    return seats


def _may_go(history: History, life: PodLife, spec: GroupSpec, *, surely: bool) -> bool:
    if life.deleting_at:
        return True
    if not spec.preempts or life.seen.priority >= spec.priority:
        return False
    owner = history.groups.get(life.seen.group)
    if owner is None:
        return True
    return owner.spec.surely_evictable if surely else owner.spec.evictable


# -- at any moment --------------------------------------------------------------------------


def of_an_eviction(history: History, eviction: Eviction) -> list[Problem]:
    """What is wrong with one eviction by the extender."""
    life = history.pods[eviction.uid]
    name, priority = life.seen.name, life.seen.priority
    group = history.groups.get(life.seen.group)
    problems = []
    if group is not None and group.spec.protected:
        problems.append(Problem("protected", life.seen.group, f"{name} is protected, was evicted"))
    elif group is not None and _past_its_budget(history, group, life, eviction):
        text = f"{name} is ready, has a budget ({group.spec.budget}) and was deleted past it"
        problems.append(Problem("budget", life.seen.group, text))
    if group is not None and _finishes_a_unit(group, life, eviction):
        return problems  # Nobody need want its room any more.
    if not any(_waited(history, other, priority, eviction.at) for other in history.groups.values()):
        problems.append(
            Problem(
                "priority",
                life.seen.group,
                f"{name} of priority {priority} was evicted and nobody more urgent waited",
            )
        )
    preemptor = preemptor_of(history, life)
    if preemptor is not None:
        problems += _in_vain(history, preemptor, eviction, name)
    return problems


def _past_its_budget(history: History, group: GroupLife, life: PodLife, eviction: Eviction) -> bool:
    """Whether a pod that its budget is asked about was deleted without asking: only the Eviction
    API counts what a budget allows. It lets pods that are not ready, or pending, go by rules of
    its own."""
    known = 0.0 < life.ready_since < eviction.at - lag(history, eviction.at)
    return bool(group.spec.budget) and known and not eviction.asked


def of_a_mark(seen: PodSeen) -> list[Problem]:
    """What is wrong with a pod's condition, which says for whom it is to go."""
    found = PREEMPTED_BY.search(seen.disrupted)
    if found is None or int(found["priority"]) > seen.priority:
        return []
    text = (
        f"{seen.name} of priority {seen.priority} is to go for {found['gang']} "
        f"of priority {found['priority']}"
    )
    return [Problem("priority", seen.group, text)]


def preemptor_of(history: History, life: PodLife) -> GroupLife | None:
    """The group that a victim's condition names."""
    found = PREEMPTED_BY.search(life.disrupted)
    if found is None:
        return None
    named = found["gang"].rpartition("/")[2]
    if named in history.groups:
        return history.groups[named]
    # A pod of no gang is planned for as a gang named like the pod: GROUP-INDEX-ATTEMPT.
    return next((g for n, g in history.groups.items() if named.startswith(f"{n}-")), None)


def _finishes_a_unit(group: GroupLife, life: PodLife, eviction: Eviction) -> bool:
    """Whether a pod of the unit had gone by our hand before, when this one existed already."""
    return any(each.at < eviction.at and life.created_at <= each.at for each in group.breaks)


def _waited(history: History, group: GroupLife, priority: int, at: float) -> bool:
    """Whether a group more urgent than ``priority`` had a pod without a node lately."""
    if group.spec.priority <= priority:
        return False
    if group.leaving_at and group.leaving_at < at - WAITED_SECONDS:
        return False
    return any(
        life.seen.group == group.spec.name
        and life.created_at <= at
        and (not life.bound_at or life.bound_at > at - WAITED_SECONDS)
        and (not life.gone_at or life.gone_at > at - WAITED_SECONDS)
        for life in history.pods.values()
    )


def _in_vain(
    history: History, preemptor: GroupLife, eviction: Eviction, victim: str
) -> list[Problem]:
    """Whether the gang that a pod was evicted for could not have run."""
    spec, at = preemptor.spec, eviction.at
    since = at - lag(history, at)
    if excused(history, at, at) or preemptor.leaving_at > since:
        return []
    members = [life for life in history.of(spec.name) if life.alive]
    missing = spec.min_count - sum(life.seated for life in members)
    changed = any(
        max(life.created_at, life.bound_at, life.deleting_at, life.gone_at, life.finished_at)
        > since
        for life in history.pods.values()
        if life.removed_by != EXTENDER
    )
    if changed or missing <= 0:
        return []
    if not spec.is_gang or room(history, spec) >= missing:
        return []
    text = f"{victim} was evicted for {spec.name}, {missing} of whose members had no room anyway"
    return [Problem("in vain", spec.name, text)]


def over_commitment(history: History) -> list[Problem]:
    """Nodes with more on them than they have."""
    problems = []
    for node, cpu in {**history.nodes, **history.closed_nodes}.items():
        there = list(history.on_node(node))
        used = sum(life.seen.cpu for life in there)
        # A kubelet would refuse who comes last: kwok takes everybody.
        if used > cpu and not any(life.seen.squats for life in there):
            names = ", ".join(sorted(life.seen.name for life in there))
            problems.append(
                Problem("over-commitment", node, f"{node} has {cpu}m and {used}m on it: {names}")
            )
    return problems


def storms(history: History, since: float) -> list[Problem]:
    """Groups for which the extender evicted more pods than they can possibly need."""
    taken: Counter[str] = Counter()
    for eviction in reversed(history.evictions):
        if eviction.at < since:
            break
        life = history.pods.get(eviction.uid)
        if life is None or eviction.by != EXTENDER:
            continue
        preemptor = preemptor_of(history, life)
        if preemptor is not None:
            taken[preemptor.spec.name] += 1
    slots = sum(history.nodes.values()) // 1000 or 1
    return [
        Problem("storm", name, f"{count} pods were evicted for {name}; {slots} fit on the cluster")
        for name, count in taken.items()
        if count > STORM * slots
    ]


# -- at rest ----------------------------------------------------------------------------------


def at_rest(history: History, now: float, *, barrier_seconds: float = 0.0) -> list[Problem]:
    """What must not be so once faults and arrivals have stopped and all had time to settle."""
    return [
        *half_gone(history),
        *bound_in_part(history, now, barrier_seconds=barrier_seconds),
        *kept_waiting(history),
        *over_commitment(history),
        *left_over(history),
    ]


def half_gone(history: History) -> list[Problem]:
    """Units ``all`` of which the extender evicted some pods and left others."""
    problems = []
    for name, group in history.groups.items():
        if not group.present:
            continue
        left = {
            uid
            for each in group.breaks
            for uid in each.survivors
            if uid in history.pods and history.pods[uid].seated
        }
        if left:
            gone = [history.pods[b.victim].seen.name for b in group.breaks if _survived(b, left)]
            stay = sorted(history.pods[uid].seen.name for uid in left)
            problems.append(
                Problem(
                    "half gone",
                    name,
                    f"{group.spec}: {', '.join(gone)} evicted, {', '.join(stay)} left",
                )
            )
    return problems


def _survived(each: Break, left: set[str]) -> bool:
    return bool(each.survivors & left)


def bound_in_part(history: History, now: float, *, barrier_seconds: float = 0.0) -> list[Problem]:
    """Gangs that start whole and got only a part of their members onto nodes.

    One that ran and then lost a member to somebody else is not meant, nor one whose nodes or
    members were changed by hand while it was being bound: binding is kube-scheduler's, and
    what it has bound is not rolled back. With the bind barrier (``barrier_seconds``: how long
    after the first binding of a gang the last may be posted) all members had come before the
    first was bound, so what is changed after that is no excuse.
    """
    problems = []
    for name, group in history.groups.items():
        spec = group.spec
        if not (group.present and spec.starts_whole and group.first_bound_at):
            continue
        until = min(now, group.first_bound_at + barrier_seconds) if barrier_seconds else now
        if group.was_whole or group.lost_one or excused(history, group.first_bound_at, until):
            continue
        seated = sum(life.seated for life in history.of(name))
        problems.append(
            Problem("bound in part", name, f"{spec}: {seated} members are on nodes, no quorum")
        )
    return problems


def kept_waiting(history: History) -> list[Problem]:
    """Groups and pods of no gang that do not run although they would fit, by preemption where they
    may."""
    problems = []
    for name, group in history.groups.items():
        spec = group.spec
        if not group.present:
            continue
        members = [life for life in history.of(name) if life.alive]
        seated = sum(life.seated for life in members)
        if spec.starts_whole:
            # A gang whose owner has not made all its pods is its owner's to complete.
            wanted = spec.min_count - seated if len(members) >= spec.size else 0
        else:
            wanted = min(1, len(members) - seated)
        if wanted <= 0:
            continue
        free = room(history, spec, by_preemption=False)
        fits = room(history, spec, surely=True)
        if fits >= wanted:
            problems.append(
                Problem(
                    "kept waiting",
                    name,
                    f"{spec}: {seated} of {len(members)} on nodes, {wanted} wanted; "
                    f"{fits} fit ({free} without any eviction)",
                )
            )
    return problems


def left_over(history: History) -> list[Problem]:
    """Plan records, and nominations of gang members that wait, that nobody works on."""
    problems = [
        Problem("record left", gang, f"plan record {name} for {gang}")
        for name, gang in history.records.items()
    ]
    for life in history.pods.values():
        group = history.groups.get(life.seen.group)
        waits = life.alive and not life.seen.node and life.seen.nominated
        if waits and group is not None and group.present and group.spec.starts_whole:
            text = f"{life.seen.name} waits and is nominated to {life.seen.nominated}"
            problems.append(Problem("nomination left", group.spec.name, text))
    return problems
