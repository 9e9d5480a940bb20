"""A solution proved on the predicates: with the victims gone and all seats taken, every member
passes every rule on its node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from extender.fit.inter_pod_affinity import picks_all
from extender.fit.view import ClusterView
from extender.gang.incremental.victims import VictimUnit
from extender.gang.plan.built import Built
from extender.gang.plan.seating_order import Failed, left_out
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot
from extender.search.problem import Solution
from extender.search.problem.cost import broken_budgets, cost_of
from extender.search.problem.stop import Stop

MOST_COUNTED = 64
"""Units that spread rules count of which one is tried out beside a solution."""


class Trial(Struct, frozen=True):
    """A solution that was tried out."""

    built: Built
    solution: Solution
    seats: list[tuple[Pod, str]]
    """Who sits on which node."""
    failed: Failed
    """Those of them that break a rule there, and the rule."""


def tried(
    view: ClusterView,
    snapshot: Snapshot,
    others: Sequence[Hold],
    built: Built,
    solution: Solution,
    stop: Stop,
    *,
    last: bool = False,
    every_order: bool = False,
) -> Trial:
    """Try a solution out as a plan, beside the seats of other gangs. Raises OutOfTime.

    Its victims may not go in vain, either (kubernetes#112098).
    ``last``: each member has to fit as the last one, too, for kube-scheduler may try them in any
    order. The search sees to that where it knows which of the counted pods go.
    ``every_order``: seats have to hold in every order even if nobody is evicted for them.
    """
    seats = _assign(built, solution)
    leaving, taken_over = _leaving(built, solution)
    after = view_after(view, snapshot, leaving, others, taken_over)
    failed = failures(after, seats, stop)
    if last and not failed:
        whys = ((pod, node, after.why_not(pod, node)) for pod, node in seats)
        failed = [(pod, node, why) for pod, node, why in whys if why is not None]
    if not failed:
        subjects = [built.subjects[unit] for unit in solution.chosen]
        every_order = every_order or any(isinstance(each, VictimUnit) for each in subjects)
        if every_order or subjects:
            holds = (view, snapshot, leaving, others, taken_over)
            failed = resting_on_chance(*holds, seats, every_order=every_order)
    return Trial(built, solution, seats, failed)


def resting_on_chance(
    view: ClusterView,
    snapshot: Snapshot,
    leaving: Iterable[Pod],
    others: Sequence[Hold],
    taken_over: AbstractSet[GangKey],
    seats: Sequence[tuple[Pod, str]],
    *,
    every_order: bool,
) -> Failed:
    """Return the seats that need a terminating pod beside them, or, where they have to hold in
    ``every_order``, members that are bound before.

    Required affinity to a terminating pod holds now (InterPodAffinity counts such pods). When the
    victims are gone it may not: then the pods went in vain (kubernetes#112098). So did they where
    kube-scheduler binds members in another order.
    """
    if not any(pod.shape.affinity or pod.shape.spread for pod, _ in seats):
        return []
    failed: Failed = []
    gone = {pod.uid: pod for pod in leaving}
    if every_order:
        failed = left_out(view_after(view, snapshot, gone.values(), others, taken_over), seats)
    ending = {pod.uid: pod for pods in snapshot.bound.values() for pod in pods if pod.deleting}
    if failed or ending.keys() <= gone.keys() or not any(pod.shape.affinity for pod, _ in seats):
        return failed
    after = view_after(view, snapshot, (gone | ending).values(), others, taken_over)
    start = after.mark()
    failed = [each for each in failures(after, seats) if each[2].startswith("InterPodAffinity")]
    after.rollback(start)
    return failed or (left_out(after, seats) if every_order else [])


def _unmet(trial: Trial) -> list[Pod]:
    """Return a member of each required affinity for which a seat has failed."""
    alike = {
        pod.shape.affinity: pod
        for pod, _, why in reversed(trial.failed)
        if why.startswith("InterPodAffinity")
    }
    return list(alike.values())


def needed_beside(trial: Trial, view: ClusterView) -> frozenset[str]:
    """Uids of victims that members with a failed seat require beside them (required affinity)."""
    failed = _unmet(trial)
    leaving, _ = _leaving(trial.built, trial.solution)
    return frozenset(
        victim.uid
        for victim in leaving
        if not victim.deleting
        and any(picks_all(pod.shape.affinity, victim, view.namespaces) for pod in failed)
    )


def ending_beside(trial: Trial, view: ClusterView, snapshot: Snapshot) -> dict[str, str]:
    """Return uid -> what is said of a terminating pod that a member with a failed seat requires
    beside it."""
    failed = _unmet(trial)
    return {
        other.uid: f"{pod.name} requires pod {other.key} beside it (affinity), "
        "and that pod terminates"
        for name in sorted(snapshot.bound if failed else ())
        for other in snapshot.bound[name]
        if other.deleting
        for pod in failed
        if picks_all(pod.shape.affinity, other, view.namespaces)
    }


def members_beside(trial: Trial, view: ClusterView) -> frozenset[str]:
    """Return the topology key by which members with a failed seat require others of the gang beside
    them; none where there are several."""
    kinds = [group[0] for group in trial.built.classes]
    keys = frozenset(
        term.topology_key
        for pod in _unmet(trial)
        if any(picks_all(pod.shape.affinity, other, view.namespaces) for other in kinds)
        for term in pod.shape.affinity
    )
    return keys if len(keys) == 1 else frozenset()


def with_counted(trial: Trial, again: Callable[[Built, Solution], Trial], stop: Stop) -> Trial:
    """Return the trial with units gone that spread rules count, until no seat fails; as it was
    where that does not help. Cheap units first; one that turns out not to be needed stays.

    It is for what has more counted units than can be decided (extender.gang.plan.counted_units).
    """
    problem, best = trial.built.problem, trial

    def with_units(chosen: set[int]) -> Trial:
        solution = trial.solution
        scattered = bool(problem.domain is not None and not problem.domain_required) and (
            solution.cost[problem.domain_level] > 0
        )
        cost = cost_of(problem, sorted(chosen), scattered=scattered)
        moved = replace(solution, chosen=tuple(sorted(chosen)), cost=cost, optimal=False)
        return again(trial.built, moved)

    chosen = set(trial.solution.chosen)
    left = [unit for unit in trial.built.counted if unit not in chosen]
    left.sort(key=lambda unit: (problem.units[unit].cost, problem.units[unit].uid))
    added: list[int] = []
    for unit in left[:MOST_COUNTED]:
        if stop.over() or not best.failed:
            break
        more = {*chosen, *added, unit}
        if broken_budgets(problem, sorted(more)):
            continue
        tried_out = with_units(more)
        if len(tried_out.failed) < len(best.failed):
            added.append(unit)
            best = tried_out
    if best.failed:
        # Several may have to go before one seat opens.
        every = {*chosen, *left[:MOST_COUNTED]}
        if stop.over() or broken_budgets(problem, sorted(every)):
            return trial
        best, added = with_units(every), left[:MOST_COUNTED]
        if best.failed:
            return trial
    for unit in reversed(added):
        if stop.over():
            break
        fewer = with_units(set(best.solution.chosen) - {unit})
        if not fewer.failed:
            best = fewer
    return best


def _assign(built: Built, solution: Solution) -> list[tuple[Pod, str]]:
    """Give each class's seats to its members in uid order, nodes in name order.

    Members that are nominated to one of the nodes keep it, so that a plan made
    again after a restart does not move anyone.
    """
    result: list[tuple[Pod, str]] = []
    free: list[dict[str, int]] = [{} for _ in built.classes]
    for cls, node, count in solution.seats:
        free[cls][built.problem.nodes[node]] = count
    for group, nodes in zip(built.classes, free, strict=True):
        waiting: list[Pod] = []
        for pod in group:
            if nodes.get(pod.nominated):
                nodes[pod.nominated] -= 1
                result.append((pod, pod.nominated))
            else:
                waiting.append(pod)
        left = [name for name in sorted(nodes) for _ in range(nodes[name])]
        result += zip(waiting, left, strict=False)
    return result


def _leaving(built: Built, solution: Solution) -> tuple[list[Pod], set[GangKey]]:
    pods: list[Pod] = []
    taken_over: set[GangKey] = set()
    for unit in solution.chosen:
        subject = built.subjects[unit]
        if isinstance(subject, VictimUnit):
            pods += subject.pods
        elif isinstance(subject, Pod):
            pods.append(subject)
        else:
            taken_over.add(subject)
    return pods, taken_over


def view_after(
    view: ClusterView,
    snapshot: Snapshot,
    leaving: Iterable[Pod],
    holds: Iterable[Hold],
    taken_over: AbstractSet[GangKey],
) -> ClusterView:
    """Return the cluster as it will be: victims gone, others' seats taken."""
    after = view.copy()
    for pod in leaving:
        after.remove(pod)
    for hold in holds:
        held = snapshot.pending.get(hold.uid)
        if held is not None and hold.gang not in taken_over and hold.node in snapshot.nodes:
            after.add(held, hold.node)
    return after


def failures(
    after: ClusterView, seats: Iterable[tuple[Pod, str]], stop: Stop | None = None
) -> Failed:
    """Seat everyone in ``after``; return the seats that break a rule, with the rule.

    As kube-scheduler does: a member that does not fit yet is tried again once others
    sit (topology spread and affinity among members ask for that).
    """
    waiting = [(pod, node, "") for pod, node in seats]
    moved = True
    while waiting and moved:
        moved = False
        failed: Failed = []
        for pod, node, _ in waiting:
            if stop is not None:
                stop.check_first()
            why = after.seat(pod, node)
            if why is None:
                moved = True
            else:
                failed.append((pod, node, why))
        waiting = failed
    return waiting
