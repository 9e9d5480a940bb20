"""From a snapshot and a gang to the integers of a search Problem, and back.

Only resources the members ask for, nodes some member may use, and units that
release something there enter the problem: the rest cannot change the answer.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from extender.fit.blockers import blocked_nodes
from extender.fit.member_rules import affinity_mask, self_affinity_key, self_caps
from extender.fit.selectors import matches
from extender.fit.static import static_mask
from extender.fit.view import ClusterView
from extender.gang.book import Hold
from extender.gang.ledger import NodeSum
from extender.gang.victims import Candidate, VictimPool, disrupted_work, pool_for
from extender.model.gang import Gang
from extender.model.objects import DisruptionBudget, GangKey, Pod
from extender.model.quantity import format_resource
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot
from extender.search.problem import (
    Blocker,
    Budget,
    Cap,
    ElasticGang,
    MemberClass,
    Problem,
    Unit,
    Vector,
)


class Built(Struct, frozen=True):
    """A problem and what its indices stand for."""

    problem: Problem
    classes: tuple[tuple[Pod, ...], ...]
    """Members of each class, by uid."""
    subjects: tuple[Candidate | Pod | GangKey, ...]
    """What each unit is: victims, a terminating pod, or a gang whose seats are taken over."""
    pool: VictimPool


def classes_of(pods: Iterable[Pod]) -> tuple[tuple[Pod, ...], ...]:
    """Group members that are interchangeable for every rule, largest request first.

    Labels count only through selectors that could tell members apart, so they
    are part of the key; generated per-pod labels (index, pod name) are not.
    """
    by_key: dict[object, list[Pod]] = {}
    for pod in pods:
        labels = tuple(sorted((k, v) for k, v in pod.labels.items() if k not in PER_POD_LABELS))
        by_key.setdefault((pod.requests, pod.shape, labels), []).append(pod)
    groups = [tuple(sorted(group, key=lambda pod: pod.uid)) for group in by_key.values()]
    groups.sort(key=lambda group: (tuple((n, -a) for n, a in group[0].requests), group[0].uid))
    return tuple(groups)


PER_POD_LABELS = frozenset(
    {
        "batch.kubernetes.io/job-completion-index",
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "jobset.sigs.k8s.io/job-index",
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-key",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
        "job-name",
        "controller-uid",
        "component",
        "skypilot-head-node",
        "ray-node-type",
    }
)


def build(
    gang: Gang,
    snapshot: Snapshot,
    view: ClusterView,
    sums: Mapping[str, NodeSum],
    holds: Iterable[Hold],
    resolve: Callable[[GangKey], Gang],
    settings: Settings,
    masks: Mapping[str, frozenset[str]],
) -> Built:
    """Return the gang's problem on this snapshot.

    ``holds`` are the untaken seats of other gangs. ``masks`` gives, per member
    uid, node names that must not be used for its class (kube-scheduler refused
    them for reasons that are not modelled here).
    """
    classes = classes_of(gang.pending)
    names = sorted(sums)
    everywhere = [_allowed(group, names, view, gang, masks) for group in classes]
    kept = [i for i in range(len(names)) if any(mask[i] for mask in everywhere)]
    names = [names[i] for i in kept]
    allowed = [bytearray(mask[i] for i in kept) for mask in everywhere]
    index = {name: i for i, name in enumerate(names)}
    resources = tuple(sorted({name for group in classes for name, _ in group[0].requests}))
    free = [array("q", (sums[name].free(resource) for name in names)) for resource in resources]

    blocked = [blocked_nodes(group[0], view) for group in classes]
    in_the_way = {
        uid for found in blocked for name, uids in found.items() if name in index for uid in uids
    }
    pool = pool_for(
        gang,
        snapshot,
        (
            entry
            for name, node in sums.items()
            for entry in node.pods
            if name in index or entry[0].uid in in_the_way
        ),
        resolve,
        settings.plan,
        settings.seats,
    )
    taken_over: dict[GangKey, list[Hold]] = {}
    for hold in holds:
        if hold.gang == gang.key or hold.node not in index:
            continue
        for r, amount in enumerate(_vector(hold.requests, resources)):
            free[r][index[hold.node]] -= amount
        if hold.priority < gang.preemptor_priority and gang.preempts:
            taken_over.setdefault(hold.gang, []).append(hold)

    levels = _levels(pool)
    budgets = snapshot.budgets if pool.units else ()
    elastic = {entry.gang: i for i, entry in enumerate(pool.elastic)}
    units: list[Unit] = []
    subjects: list[Candidate | Pod | GangKey] = []
    for candidate in pool.units:
        releases = _releases(candidate.pods, index, resources)
        units.append(
            Unit(
                uid=candidate.uid,
                releases=releases,
                cost=_cost(candidate, levels, snapshot),
                pods=len(candidate.pods),
                gang=elastic.get(candidate.gang, -1)
                if candidate.gang is not None and not candidate.whole
                else -1,
                budgets=_budget_use(candidate.pods, budgets),
            )
        )
        subjects.append(candidate)
    for pod in pool.terminating:
        cost = _at(levels, "waits", 1)
        units.append(Unit(uid=pod.uid, releases=_releases((pod,), index, resources), cost=cost))
        subjects.append(pod)
    for key, held in sorted(taken_over.items()):
        cost = _at(levels, "reservations", 1)
        released = _sum_releases(
            (index[hold.node], _vector(hold.requests, resources)) for hold in held
        )
        units.append(Unit(uid=f"reservation {key}", releases=released, cost=cost, pods=0))
        subjects.append(key)
    blockers = _blockers(blocked, index, units, subjects, allowed)
    problem = Problem(
        resources=resources,
        nodes=tuple(names),
        free=tuple(free),
        classes=tuple(
            MemberClass(
                name=_class_name(group),
                request=_vector(group[0].requests, resources),
                count=len(group),
                allowed=bytes(mask),
            )
            for group, mask in zip(classes, allowed, strict=True)
        ),
        need=min(gang.missing, sum(len(group) for group in classes)),
        units=tuple(units),
        levels=levels,
        gangs=tuple(
            ElasticGang(entry.surplus, _at(levels, f"gangs@{entry.priority}", 1))
            for entry in pool.elastic
        ),
        budgets=tuple(
            Budget(
                name=f"{budget.namespace}/{budget.name}",
                allowed=max(0, budget.allowed),
                hard=settings.plan.pdb_policy == "respect",
                level=0,
            )
            for budget in budgets
        ),
        blockers=blockers,
        caps=tuple(
            Cap(cap.classes, _partition((cap.topology_key,), names, snapshot, ()), cap.limit)
            for cap in self_caps(classes, view).caps
        ),
        domain=_domain(gang, names, snapshot, view),
    )
    return Built(problem=problem, classes=classes, subjects=tuple(subjects), pool=pool)


def _allowed(
    group: tuple[Pod, ...],
    names: list[str],
    view: ClusterView,
    gang: Gang,
    masks: Mapping[str, frozenset[str]],
) -> bytes:
    mask = static_mask(group[0], [view.nodes[name] for name in names])
    refused = frozenset().union(*(masks.get(pod.uid, frozenset()) for pod in group))
    near = affinity_mask(group[0], view, names, gang.pending)
    return bytes(
        ok and close and name not in refused
        for ok, close, name in zip(mask, near, names, strict=True)
    )


def _blockers(
    blocked: list[dict[str, tuple[str, ...]]],
    index: Mapping[str, int],
    units: list[Unit],
    subjects: list[Candidate | Pod | GangKey],
    allowed: list[bytearray],
) -> tuple[Blocker, ...]:
    """Turn pods in the way into units in the way; a pod that stays closes the node."""
    if not any(blocked):
        return ()
    unit_of: dict[str, int] = {}
    for i, subject in enumerate(subjects):
        if isinstance(subject, Candidate):
            unit_of.update((pod.uid, i) for pod in subject.pods)
        elif isinstance(subject, Pod):
            unit_of[subject.uid] = i
    blockers: list[Blocker] = []
    for cls, found in enumerate(blocked):
        for name in sorted(found.keys() & index.keys()):
            node = index[name]
            ways = {unit_of.get(uid, -1) for uid in found[name]}
            if -1 in ways:
                allowed[cls][node] = 0
            elif allowed[cls][node]:
                blockers.append(Blocker(cls, node, tuple(sorted(ways))))
    return tuple(blockers)


def _vector(requests: Iterable[tuple[str, int]], resources: tuple[str, ...]) -> Vector:
    amounts = dict(requests)
    return tuple(amounts.get(resource, 0) for resource in resources)


def _sum_releases(parts: Iterable[tuple[int, Vector]]) -> tuple[tuple[int, Vector], ...]:
    total: dict[int, Vector] = {}
    for node, vector in parts:
        before = total.get(node)
        total[node] = (
            vector if before is None else tuple(a + b for a, b in zip(before, vector, strict=True))
        )
    return tuple(sorted(total.items()))


def _releases(
    pods: Iterable[Pod], index: Mapping[str, int], resources: tuple[str, ...]
) -> tuple[tuple[int, Vector], ...]:
    return _sum_releases(
        (index[pod.node], _vector(pod.requests, resources)) for pod in pods if pod.node in index
    )


def _levels(pool: VictimPool) -> tuple[str, ...]:
    priorities = {unit.priority for unit in pool.units} | {e.priority for e in pool.elastic}
    middle: list[str] = []
    for priority in sorted(priorities, reverse=True):
        middle += [f"gangs@{priority}", f"pods@{priority}"]
    return ("pdb-violations", *middle, "work", "reservations", "waits", "age")


def _at(levels: tuple[str, ...], level: str, value: int) -> Vector:
    vector = [0] * len(levels)
    vector[levels.index(level)] = value
    return tuple(vector)


def _cost(candidate: Candidate, levels: tuple[str, ...], snapshot: Snapshot) -> Vector:
    vector = [0] * len(levels)
    if candidate.breaks_gang:
        vector[levels.index(f"gangs@{candidate.priority}")] = 1
    vector[levels.index(f"pods@{candidate.priority}")] = len(candidate.pods)
    for pod in candidate.pods:
        vector[-4] += disrupted_work(pod, snapshot.nodes.get(pod.node), snapshot.now)
        vector[-1] += max(0, int(snapshot.now - pod.started)) if pod.started else 0
    return tuple(vector)


def _budget_use(
    pods: tuple[Pod, ...], budgets: tuple[DisruptionBudget, ...]
) -> tuple[tuple[int, int], ...]:
    use: list[tuple[int, int]] = []
    for i, budget in enumerate(budgets):
        count = sum(
            1
            for pod in pods
            if pod.namespace == budget.namespace
            and pod.name not in budget.disrupted
            and matches(budget.selector, pod.labels)
        )
        if count:
            use.append((i, count))
    return tuple(use)


def _class_name(group: tuple[Pod, ...]) -> str:
    wants = ", ".join(format_resource(n, a) for n, a in group[0].requests if n != "pods")
    return (
        f"{group[0].name} and {len(group) - 1} like it ({wants})"
        if len(group) > 1
        else (f"{group[0].name} ({wants})")
    )


def _domain(
    gang: Gang, names: list[str], snapshot: Snapshot, view: ClusterView
) -> array[int] | None:
    """Return the domains of which all seats must share one: topology rule and self-affinity."""
    keys = set(self_affinity_key(gang.pending, view))
    if gang.topology_key:
        keys.add(gang.topology_key)
    return _partition(tuple(sorted(keys)), names, snapshot, gang.bound) if keys else None


def _partition(
    keys: tuple[str, ...], names: list[str], snapshot: Snapshot, bound: Iterable[Pod]
) -> array[int]:
    """Number the nodes' values of ``keys``; -1 where a key is missing.

    Members in ``bound`` have chosen the domain already: all others become -1.
    """

    def value(name: str) -> tuple[str, ...] | None:
        labels = snapshot.nodes[name].labels
        found = tuple(labels[key] for key in keys if key in labels)
        return found if len(found) == len(keys) else None

    values = [value(name) for name in names]
    taken = {value(pod.node) for pod in bound if pod.node in snapshot.nodes}
    order = {v: i for i, v in enumerate(sorted({v for v in values if v is not None}))}
    return array(
        "i", (order[v] if v is not None and (not taken or v in taken) else -1 for v in values)
    )
