"""The planner's problem with nothing left out: every usable node, every pod that may go.

A specification to compare with: written from the promises, it shares no code with
extender.search.census, extender.gang.plan.units or .preemptability, keeps nothing, and is slow.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from extender.fit.blockers import blocked_nodes
from extender.fit.member_rules import MemberSpread, counted_pods, self_caps, spread_domains
from extender.fit.selectors import matches
from extender.fit.static import static_mask
from extender.fit.view import ClusterView
from extender.gang.incremental.classes import classes_of
from extender.gang.incremental.protection import Protections, Shield, oldest_start
from extender.gang.incremental.victims import ONE, held, leaves_in_time, lingers, lost_work
from extender.gang.plan.topology_domains import domain_keys, domain_numbers, required_domains
from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot
from extender.search.problem import (
    Blocker,
    Budget,
    Cap,
    ElasticGang,
    MemberClass,
    Problem,
    Spread,
    Unit,
    Vector,
)
from extender.settings.policy import SYSTEM_CRITICAL
from extender.settings.settings import Settings

LAST = ("reservations", "waits", "age")
RESTART = 300


def everything(
    gang: Gang, state: Snapshot, resolver: Resolver, settings: Settings, holds: Iterable[Hold] = ()
) -> Problem:
    """The whole problem. Members without affinity to other pods only."""
    view = ClusterView.from_snapshot(state)
    classes = classes_of(gang.pending)
    resources = tuple(sorted({name for group in classes for name, _ in group[0].requests}))
    names = sorted(state.nodes)
    masks = [static_mask(group[0], [state.nodes[n] for n in names]) for group in classes]
    kept = [i for i in range(len(names)) if any(mask[i] for mask in masks)]
    names = [names[i] for i in kept]
    allowed = [bytearray(mask[i] for i in kept) for mask in masks]
    at = {name: i for i, name in enumerate(names)}

    def vector(requests: Iterable[tuple[str, int]]) -> Vector:
        amounts = dict(requests)
        return tuple(amounts.get(resource, 0) for resource in resources)

    free = [list(vector(state.nodes[name].allocatable)) for name in names]
    taken: dict[GangKey, list[tuple[int, Vector]]] = {}
    for name in names:
        for pod in state.bound.get(name, ()):
            _take(free[at[name]], vector(pod.requests))
    holds = [hold for hold in holds if hold.gang != gang.key]
    seated = {member.uid for member in gang.members} | {hold.uid for hold in holds}
    least = min([gang.preemptor_priority, *(member.priority for member in gang.pending)])
    for pod in state.pending.values():
        # What kube-scheduler has nominated to a node and is no less urgent has its room there.
        if (
            pod.nominated in at
            and pod.priority >= least
            and not pod.deleting
            and pod.uid not in seated
        ):
            _take(free[at[pod.nominated]], vector(pod.requests))
    for hold in holds:
        if hold.node in at:
            _take(free[at[hold.node]], vector(hold.requests))
            if not hold.firm and hold.priority < gang.preemptor_priority and gang.preempts:
                taken.setdefault(hold.gang, []).append((at[hold.node], vector(hold.requests)))

    def releases(pods: Iterable[Pod]) -> list[tuple[int, Vector]]:
        return [(at[pod.node], vector(pod.requests)) for pod in pods if pod.node in at]

    alone, whole, elastic, leaving = _who(gang, state, resolver, settings)
    priorities = (
        {p for _, p, _ in alone} | {p for _, p, _, _ in whole} | {p for p, _ in elastic.values()}
    )
    levels = ["pdb-violations"]
    for priority in sorted(priorities, reverse=True):
        levels += [f"work@{priority}", f"gangs@{priority}", f"pods@{priority}"]
    levels += LAST

    def work(pods: Iterable[Pod], *, alive: bool, restarts: int) -> int:
        total = 0
        for pod in pods:
            node = state.nodes.get(pod.node)
            total += lost_work(pod, node, state.now) if alive else 0
            total += RESTART * restarts * held(pod, node)
        return -(-total // ONE)

    def cost(pods: tuple[Pod, ...], **counts: int) -> Vector:
        found = dict.fromkeys(levels, 0)
        for level, count in counts.items():
            found[level] += count
        for pod in pods:
            found["age"] += max(0, int(state.now - pod.started)) if pod.started else 0
        return tuple(found.values())

    def budgets(pods: Iterable[Pod]) -> tuple[tuple[int, int], ...]:
        use = []
        for i, budget in enumerate(state.budgets):
            count = sum(
                pod.namespace == budget.namespace
                and pod.phase == "Running"
                and not pod.deleting
                and not (pod.unready and budget.unready_free)
                and matches(budget.selector, pod.labels)
                for pod in pods
            )
            if count:
                use.append((i, count))
        return tuple(use)

    numbers = {key: i for i, key in enumerate(sorted(elastic))}
    units: list[tuple[Unit, tuple[Pod, ...]]] = []
    for pod, priority, key in alone:
        lost = work([pod], alive=True, restarts=1)
        price = cost((pod,), **{f"work@{priority}": lost, f"pods@{priority}": 1})
        number = -1 if key is None else numbers.get(key, -1)
        units.append(
            (Unit(pod.uid, tuple(releases([pod])), price, 1, number, budgets([pod])), (pod,))
        )
    for gang_key, priority, pods, breaks in whole:
        counts = {f"gangs@{priority}": int(breaks), f"pods@{priority}": len(pods)}
        lost = work(pods, alive=True, restarts=1 + breaks)
        price = cost(pods, **counts, **{f"work@{priority}": lost})
        unit = Unit(str(gang_key), _merged(releases(pods)), price, len(pods), -1, budgets(pods))
        units.append((unit, pods))
    units += [(Unit(pod.uid, tuple(releases([pod])), cost((), waits=1)), (pod,)) for pod in leaving]
    for key, parts in sorted(taken.items()):
        units.append((Unit(f"reservation {key}", _merged(parts), cost((), reservations=1)), ()))
    unit_of = {pod.uid: i for i, (_, pods) in enumerate(units) for pod in pods}
    blockers = []
    for c, group in enumerate(classes):
        for name, uids in sorted(blocked_nodes(group[0], view).items()):
            if name in at:
                ways = sorted({unit_of.get(uid, -1) for uid in uids})
                if ways[0] < 0:
                    allowed[c][at[name]] = 0
                else:
                    blockers.append(Blocker(c, at[name], tuple(ways)))
    keys = domain_keys(gang, view)
    rules = self_caps(classes, view)
    return Problem(
        resources=resources,
        nodes=tuple(names),
        free=tuple(array("q", [room[r] for room in free]) for r in range(len(resources))),
        classes=tuple(
            MemberClass(group[0].name, vector(group[0].requests), len(group), bytes(mask))
            for group, mask in zip(classes, allowed, strict=True)
        ),
        need=gang.missing,
        units=tuple(unit for unit, _ in units),
        levels=tuple(levels),
        gangs=tuple(
            ElasticGang(surplus, cost((), **{f"gangs@{priority}": 1, f"work@{priority}": lost}))
            for priority, surplus, lost in (
                (*elastic[key], work(resolver.resolve(key, state).bound, alive=False, restarts=1))
                for key in sorted(elastic)
            )
        ),
        budgets=tuple(
            Budget(
                b.name,
                max(0, b.allowed),
                hard=settings.plan.pdb_policy == "respect"
                and gang.preemptor_priority < SYSTEM_CRITICAL,
            )
            for b in state.budgets
        ),
        blockers=tuple(blockers),
        caps=tuple(
            Cap(
                cap.classes,
                domain_numbers((cap.topology_key,), names, state)
                if cap.topology_key
                else array("i", range(len(names))),
                cap.limit,
            )
            for cap in rules.caps
        ),
        spreads=tuple(_spread(rule, names, view, set(unit_of)) for rule in rules.spreads),
        domain=required_domains(keys, names, state, gang) if keys else None,
    )


def _spread(rule: MemberSpread, names: list[str], view: ClusterView, goes: set[str]) -> Spread:
    """Pods that may go count only where they keep a domain from being the emptiest."""
    less = list(rule.there)
    for pod, domain in counted_pods(rule, view):
        less[domain] -= pod.uid in goes
    domains = array("i", spread_domains(rule, names, view))
    return Spread(
        rule.bound,
        rule.counted,
        domains,
        tuple(less),
        rule.there,
        rule.max_skew,
        rule.from_zero,
    )


Alone = list[tuple[Pod, int, GangKey | None]]
Whole = list[tuple[GangKey, int, tuple[Pod, ...], bool]]


def _who(
    gang: Gang, state: Snapshot, resolver: Resolver, settings: Settings
) -> tuple[Alone, Whole, dict[GangKey, tuple[int, int]], list[Pod]]:
    """Single pods with priority and elastic gang, whole gangs, elastic gangs, leaving pods."""
    own = {pod.uid for pod in gang.members}
    alone: Alone = []
    whole: dict[GangKey, tuple[int, tuple[Pod, ...], bool]] = {}
    elastic: dict[GangKey, tuple[int, int]] = {}
    leaving: list[Pod] = []

    asked = gang.preemptor_priority
    protections = Protections(settings)

    def shields(pod: Pod, victim: Gang | None) -> Sequence[Shield]:
        guards = [
            budget
            for budget in state.budgets
            if budget.namespace == pod.namespace and matches(budget.selector, pod.labels)
        ]
        together = victim is not None and victim.goes_whole
        return protections.shields(
            pod,
            state,
            budgets=len(guards),
            started=oldest_start(victim) if victim is not None and together else None,
        )

    def level(pod: Pod, found: Iterable[Shield], least: int) -> int:
        """What a preemptor must exceed to take this pod."""
        return max([pod.priority, least, *(shield.below - 1 for shield in found)])

    def floor(key: GangKey | None) -> int:
        """What a preemptor must exceed to take anybody of this gang."""
        if key is None or (victim := resolver.resolve(key, state)).problems:
            return -(2**31)
        every = [s for p in victim.bound for s in shields(p, victim) if s.gang]
        whole = victim.unit == UNIT_ALL and len(victim.bound) >= max(1, victim.min_count)
        return max([victim.victim_priority, *(s.below - 1 for s in every if whole)])

    def goes(number: int) -> bool:
        return gang.preempts and number < asked

    for name in sorted(state.bound):
        for pod in state.bound[name]:
            key = resolver.member_key(pod)
            late = lingers(pod, state.now, settings.plan, settings.seats, settings.eviction)
            if (pod.uid in own and (late or not pod.deleting)) or name not in state.nodes:
                continue
            if late:
                number = level(pod, shields(pod, None), floor(key))
                if goes(number):
                    alone.append((pod, number, None))
            elif pod.deleting:
                if leaves_in_time(pod, state.now, settings.plan, settings.seats):
                    leaving.append(pod)
            elif key is None or (victim := resolver.resolve(key, state)).problems:
                number = level(pod, shields(pod, None), pod.priority)
                if goes(number):
                    alone.append((pod, number, key))
            elif victim.unit == UNIT_ALL and len(victim.bound) >= victim.min_count:
                each = {p.uid: shields(p, victim) for p in victim.bound}
                every = [s.below - 1 for found in each.values() for s in found if s.gang]
                least = max([victim.victim_priority, *every])
                numbers = {p.uid: level(p, each[p.uid], least) for p in victim.bound}
                unit = tuple(p for p in victim.bound if goes(numbers[p.uid]))
                if unit:
                    broken = any(p.deleting and p.disrupted for p in victim.members)
                    whole[key] = (min(numbers.values()), unit, not broken)
            else:
                number = level(pod, shields(pod, victim), victim.victim_priority)
                if goes(number):
                    alone.append((pod, number, key))
                    surplus = len(victim.bound) - victim.min_count
                    if surplus >= 0:
                        elastic[key] = (victim.victim_priority, surplus)
    return alone, [(key, *entry) for key, entry in sorted(whole.items())], elastic, leaving


def _take(room: list[int], amounts: Vector) -> None:
    for r, amount in enumerate(amounts):
        room[r] -= amount


def _merged(parts: Iterable[tuple[int, Vector]]) -> tuple[tuple[int, Vector], ...]:
    total: dict[int, Vector] = {}
    for node, amounts in parts:
        before = total.get(node, (0,) * len(amounts))
        total[node] = tuple(a + b for a, b in zip(before, amounts, strict=True))
    return tuple(sorted(total.items()))
