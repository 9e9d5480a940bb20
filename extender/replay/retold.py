"""How kube-scheduler preempts, retold for nodes of GPUs; what this planner is compared with.

Source: pkg/scheduler/framework/preemption and plugins/defaultpreemption of Kubernetes 1.37.0 and
1.38.0-beta.0. Disruption budgets, affinity and everything else than GPUs are left out, and where
kube-scheduler chooses among equal nodes at random the first one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from extender.replay.cluster import Cluster, Member, Placement, Work

Key = tuple[int | float, ...]


class PreemptionVictim(Struct, frozen=True):
    """What goes together: a pod, or a whole gang."""

    members: tuple[Member, ...]
    gang: bool
    priority: int
    since: float
    """Since when its oldest pod has run."""

    @property
    def importance(self) -> Key:
        """Greater for what is put back first (MoreImportantVictim)."""
        return (self.priority, self.gang, len(self.members), -self.since, -self._number)

    @property
    def _number(self) -> int:
        return self.members[0].work.number


class Score(Struct, frozen=True):
    """NodeResourcesFit's two strategies."""

    packs: bool
    """MostAllocated, else LeastAllocated."""

    def best(self, free: Sequence[int], gpus: int) -> int | None:
        """Return the index of the node for a pod, None where none has room."""
        fitting = [
            (room if self.packs else -room, at) for at, room in enumerate(free) if room >= gpus
        ]
        return min(fitting)[1] if fitting else None


def without_victims(cluster: Cluster, work: Work, score: Score) -> Placement | None:
    """Place all members that wait in free room, one after the other; None unless all fit."""
    free, seats = list(cluster.free), []
    for at in work.waiting:
        node = score.best(free, work.job.gpus)
        if node is None:
            return None
        free[node] -= work.job.gpus
        seats.append((at, node))
    return Placement(seats)


# -- one pod ---------------------------------------------------------------------------------


def pod_by_pod(cluster: Cluster, work: Work, score: Score) -> Placement | None:
    """Place the next member that waits as a pod of its own, every pod a victim of its own."""
    at = work.waiting[0]
    node = score.best(cluster.free, work.job.gpus)
    if node is not None:
        return Placement([(at, node)])
    return _one_pod(cluster, work, at, _pod)


def _pod(member: Member) -> PreemptionVictim:
    work = member.work
    return PreemptionVictim((member,), gang=False, priority=work.job.priority, since=_since(work))


def _whole(member: Member) -> PreemptionVictim:
    """Return the gang of a member (disruptionMode all), or the pod alone."""
    work = member.work
    if len(work.nodes) == 1:
        return _pod(member)
    members = tuple(Member(work, at) for at, node in enumerate(work.nodes) if node >= 0)
    return PreemptionVictim(members, gang=True, priority=work.job.priority, since=_since(work))


def _since(work: Work) -> float:
    return work.held_since if work.running_since is None else work.running_since


def _one_pod(
    cluster: Cluster, work: Work, at: int, unit_of: Callable[[Member], PreemptionVictim]
) -> Placement | None:
    """DefaultPreemption: on each node all victims are removed and as many as fit are put back, the
    most important first; of the nodes the one with the least victims is taken."""
    found: list[tuple[Key, int, tuple[Member, ...]]] = []
    for node, room in enumerate(cluster.free):
        units = {
            unit.members[0]: unit
            for unit in (
                unit_of(each)
                for each in cluster.on[node]
                if each.work.job.priority < work.job.priority
            )
        }
        takes = {key: _gpus_on(unit, node) for key, unit in units.items()}
        room += sum(takes.values())
        if not units or room < work.job.gpus:
            continue
        gone = []
        for key, unit in sorted(units.items(), key=lambda each: each[1].importance, reverse=True):
            if room - takes[key] >= work.job.gpus:
                room -= takes[key]
            else:
                gone.append(unit)
        found.append((_node_key(gone), node, tuple(m for unit in gone for m in unit.members)))
    if not found:
        return None
    _, node, victims = min(found, key=lambda each: each[:2])
    return Placement([(at, node)], victims)


def _gpus_on(unit: PreemptionVictim, node: int) -> int:
    return sum(each.work.job.gpus for each in unit.members if each.work.nodes[each.at] == node)


def _node_key(gone: Sequence[PreemptionVictim]) -> Key:
    """Least for the node that pickOneNodeForPreemption takes."""
    highest = max(unit.priority for unit in gone)
    pods = sum(len(unit.members) for unit in gone)
    priorities = sum((unit.priority + 2**31) * len(unit.members) for unit in gone)
    latest = min(unit.since for unit in gone if unit.priority == highest)
    return (highest, priorities, pods, -latest)


# -- a gang ----------------------------------------------------------------------------------


def workload_aware(cluster: Cluster, work: Work, score: Score, *, ranked: bool) -> Placement | None:
    """Preempt for a whole gang, gangs going whole.

    All victims are removed, the gang is placed once, and what fits beside it is put back, the most
    important first. ``ranked``: as 1.38 does, a node is taken whose victims count least
    (RankNodes), where 1.37 goes by the score of the emptied nodes alone.
    """
    if len(work.nodes) == 1:
        return _one_pod(cluster, work, 0, _whole)
    units = {id(each.work): _whole(each) for each in cluster.victims(work.job.priority)}
    free = list(cluster.free)
    on: list[dict[int, PreemptionVictim]] = [{} for _ in free]
    for key, unit in units.items():
        for member in unit.members:
            node = member.work.nodes[member.at]
            free[node] += member.work.job.gpus
            on[node][key] = unit
    seats, condemned = [], set[int]()
    for at in work.waiting:
        chosen = _emptied(free, on, condemned, work.job.gpus, score, ranked=ranked)
        if chosen is None:
            return None
        free[chosen] -= work.job.gpus
        condemned.update(on[chosen])
        seats.append((at, chosen))
    gone: list[Member] = []
    for unit in sorted(units.values(), key=lambda each: each.importance, reverse=True):
        for member in unit.members:
            free[member.work.nodes[member.at]] -= member.work.job.gpus
        if any(free[member.work.nodes[member.at]] < 0 for member in unit.members):
            for member in unit.members:
                free[member.work.nodes[member.at]] += member.work.job.gpus
            gone += unit.members
    return Placement(seats, gone)


def _emptied(
    free: Sequence[int],
    on: Sequence[dict[int, PreemptionVictim]],
    condemned: set[int],
    gpus: int,
    score: Score,
    *,
    ranked: bool,
) -> int | None:
    if not ranked:
        return score.best(free, gpus)
    ranks = {
        node: _rank([unit for key, unit in on[node].items() if key not in condemned])
        for node, room in enumerate(free)
        if room >= gpus
    }
    if not ranks:
        return None
    least = min(ranks.values())
    return score.best(
        [room if ranks.get(node) == least else -1 for node, room in enumerate(free)], gpus
    )


def _rank(units: Sequence[PreemptionVictim]) -> Key:
    """Least for the node whose victims count least (CompareVictimSets)."""
    pods: dict[int, int] = {}
    for unit in units:
        pods[unit.priority] = pods.get(unit.priority, 0) + len(unit.members)
    return tuple(each for level in sorted(pods.items(), reverse=True) for each in level)
