"""From a snapshot and a gang to the integers of a search Problem, and back.

Only resources the members ask for, nodes that can seat a member, and units that
can make a seat there enter the problem: the rest cannot change the answer
(extender.gang.offers). Nor can units above the least priority at which enough
seats are sure (extender.gang.reach).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, islice

from msgspec import Struct

from extender.fit.blockers import blocked_nodes
from extender.fit.member_rules import self_caps
from extender.fit.selectors import matches
from extender.fit.view import ClusterView
from extender.gang.book import Hold
from extender.gang.classes import allowed_nodes, class_name, classes_of
from extender.gang.cost_levels import CostLevels
from extender.gang.ledger import Ledger
from extender.gang.offers import SHUT, Offer, Question, count_gains, offer_of, plus
from extender.gang.reach import Reach, least_priority, least_priority_over, reached
from extender.gang.regions import blockers_of, domain_keys, partition, preferred_keys
from extender.gang.spreads import Spreading, enough, node_limits
from extender.gang.units import Gathered, Gatherer, Releases, ways
from extender.gang.victims import Candidate
from extender.model.cost_order import order_of, spares_by_priority
from extender.model.gang import Gang
from extender.model.objects import DisruptionBudget, GangKey, Pod
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot
from extender.search.problem import (
    Budget,
    Cap,
    ElasticGang,
    MemberClass,
    Problem,
    Spread,
    Unit,
    Vector,
)

ENDLESS = 1 << 30
NOBODY = Gathered((), (), ())
MOST_STAYS = 20


class Built(Struct, frozen=True):
    """A problem and what its indices stand for."""

    problem: Problem
    classes: tuple[tuple[Pod, ...], ...]
    """Members of each class, by uid."""
    subjects: tuple[Candidate | Pod | GangKey, ...]
    """What each unit is: victims, a terminating pod, or a gang whose seats are taken over."""
    usable: int
    """Nodes that some member may use, room aside."""
    cut: int | None
    """Units above this priority were left out: they are not needed. None: none were."""
    unsure: bool
    """Spread rules count pods that may go: an answer has to be checked for that."""
    stays: int
    """Pods on usable nodes that may not be evicted."""
    first_stays: tuple[tuple[Pod, str], ...]
    """Some of them, by node and uid, with the reason."""


class Build:
    """One gang's question on one snapshot, before it is decided how much of it is asked.

    ``ledger`` must have been brought up to the snapshot. ``holds`` are the untaken
    seats of other gangs. ``masks`` gives, per member uid, node names that must not be
    used for its class (kube-scheduler refused them for reasons not modelled here).
    """

    def __init__(
        self,
        gang: Gang,
        snapshot: Snapshot,
        view: ClusterView,
        ledger: Ledger,
        holds: Iterable[Hold],
        settings: Settings,
        masks: Mapping[str, frozenset[str]],
    ) -> None:
        self._gang = gang
        self._snapshot = snapshot
        self._settings = settings
        self._view = view
        self._ledger = ledger
        self.classes = classes_of(gang.pending)
        self._need = min(gang.missing, len(gang.pending))
        names, nodes = ledger.names, ledger.nodes
        masked = [allowed_nodes(group, names, nodes, view, gang, masks) for group in self.classes]
        union = masked[0] if len(masked) == 1 else bytes(map(max, *masked))
        self._usable = list(compress(names, union))
        self._allowed = [set(compress(names, mask)) for mask in masked]
        self._blocked = [blocked_nodes(group[0], view) for group in self.classes]
        holds = [hold for hold in holds if hold.gang != gang.key]
        rules = self_caps(self.classes, view)
        self._caps = rules.caps
        self._spreading = Spreading(rules.spreads, gang, view, snapshot, holds)
        self._keys = domain_keys(gang, view)
        self._wish = preferred_keys(gang, self._keys, snapshot)
        self._question = _question(self.classes, gang, snapshot)
        offers = ledger.offers(self._question)
        self._gains = offers.gains
        self._kept_offers = offers.by_node
        self._offers: Mapping[str, Offer] = offers.by_node
        self._held: set[str] = set()
        self._verdicts = offers.verdicts
        self._taken_over: dict[GangKey, list[Hold]] = {}
        self._add_holds(holds)
        plan = settings.plan
        order = order_of(plan.cost_order, plan.cost_orders)
        self._order = tuple(level for level in order if level != "topology" or self._wish)
        self.cut = self._reach() if spares_by_priority(self._order) else None

    def _add_holds(self, holds: Sequence[Hold]) -> None:
        """Make the offers of nodes with seats of other gangs anew, less these."""
        gang, resources = self._gang, self._question.resources
        none: Vector = (0,) * len(resources)
        held: dict[str, Vector] = {}
        spare: dict[str, Vector] = {}
        for hold in holds:
            if hold.node not in self._offers:
                continue
            amounts = _vector(hold.requests, resources)
            held[hold.node] = plus(held.get(hold.node, none), amounts)
            if hold.priority < gang.preemptor_priority and gang.preempts:
                spare[hold.node] = plus(spare.get(hold.node, none), amounts)
                self._taken_over.setdefault(hold.gang, []).append(hold)
        if held:
            self._held = set(held)
            self._offers = {
                **self._offers,
                **{
                    name: offer_of(
                        self._ledger.sums[name],
                        self._question,
                        self._verdicts,
                        self._snapshot.now,
                        held[name],
                        spare.get(name, ()),
                    )
                    for name in held
                },
            }

    def _reach(self) -> int | None:
        """The priority up to which units are needed at most; None when that is not known."""
        usable, offers = self._usable, self._offers
        if not (self._caps or self._spreading.rules or self._keys or any(self._blocked)):
            # Sums of all nodes are kept; take back those of nodes that are out.
            gains = dict(self._gains)
            everyone = self._allowed[0].intersection(*self._allowed[1:])
            if len(everyone) < len(offers):
                for name in self._kept_offers.keys() - everyone:
                    count_gains(gains, self._kept_offers[name], -1)
            for name in self._held & everyone:
                count_gains(gains, self._kept_offers[name], -1)
                count_gains(gains, offers[name], 1)
            return reached(gains, self._need)
        limits: dict[str, int] = {}
        for cap in self._caps:
            domain = partition((cap.topology_key,), usable, self._snapshot, ())
            counted = [value for value in domain if value >= 0]
            if len(set(counted)) < len(counted):
                return None  # binds over several nodes: not a matter of sums
            for name, value in zip(usable, domain, strict=True):
                if value >= 0:
                    limits[name] = min(limits.get(name, ENDLESS), cap.limit)
        wide: list[Spread] = []
        for rule in self._spreading.spreads(usable, None, strict=True):
            here = node_limits(rule)
            if here is None:
                wide.append(rule)
            else:
                for n, limit in here.items():
                    limits[usable[n]] = min(limits.get(usable[n], ENDLESS), limit)
        domains = self._domain(usable)
        everyone = self._allowed[0].intersection(*self._allowed[1:])
        for found in self._blocked:
            everyone.difference_update(found)
        if wide:
            all_classes = set(range(len(self.classes)))
            spread = wide[0]
            if (
                len(wide) > 1
                or domains
                or not set(spread.bound) == set(spread.counted) == all_classes
            ):
                return None
            domains = spread.domain
        nodes = (
            Reach(offers[name], limits.get(name, ENDLESS), domains[i] if domains else 0)
            for i, name in enumerate(usable)
            if name in everyone and (not domains or domains[i] >= 0)
        )
        if wide:
            return least_priority_over(nodes, lambda seats: enough(spread, seats, self._need))
        return least_priority(nodes, self._need)

    def _domain(self, names: Sequence[str]) -> array[int] | None:
        if not self._keys:
            return None
        return partition(self._keys, names, self._snapshot, self._gang.bound)

    def _wished(self, names: Sequence[str]) -> array[int]:
        return partition(self._wish, names, self._snapshot, self._gang.bound)

    def emptied(self) -> Built:
        """Return the problem with everybody gone who may go: no answer here, no answer at all."""
        offers = [self._offers[name] for name in self._usable]
        return self._built(
            self._usable, [offer.total for offer in offers], NOBODY, (), strict=False
        )

    def full(self, *, strict: bool = False) -> Built:
        """Return the problem with every unit that may be needed.

        ``strict``: spread rules that hold whichever of the counted pods go.
        """
        blocked = {name for found in self._blocked for name in found}
        offers = self._offers
        most = SHUT - 1 if self.cut is None else self.cut
        names = [name for name in self._usable if name in blocked or offers[name].opens <= most]
        gatherer = Gatherer(self._verdicts, self._snapshot.now, self.cut)
        alone = len(self.classes) == 1
        for i, name in enumerate(names):
            gatherer.add_node(i, offers[name], alone=alone)
        in_the_way = ways(self._blocked)
        if in_the_way:
            for node in self._ledger.sums.values():
                for pod, key in node.pods:
                    if pod.uid in in_the_way and pod.uid not in self._question.own:
                        gatherer.add_way(pod, key)
        return self._built(
            names,
            [offers[name].free for name in names],
            gatherer.gathered(),
            self._blocked,
            strict=strict,
        )

    def _built(
        self,
        names: list[str],
        room: list[Vector],
        gathered: Gathered,
        blocked: Sequence[Mapping[str, tuple[str, ...]]],
        *,
        strict: bool,
    ) -> Built:
        resources = self._question.resources
        index = {name: i for i, name in enumerate(names)}
        priorities = [candidate.priority for candidate, _ in gathered.candidates]
        priorities += [entry.priority for entry in gathered.elastic]
        costs = CostLevels(self._order, priorities, self._snapshot)
        budgets = self._snapshot.budgets if gathered.candidates else ()
        elastic = {entry.gang: i for i, entry in enumerate(gathered.elastic)}
        units: list[Unit] = []
        subjects: list[Candidate | Pod | GangKey] = []
        for candidate, releases in gathered.candidates:
            alone = candidate.gang is not None and not candidate.whole
            units.append(
                Unit(
                    uid=candidate.uid,
                    releases=releases,
                    cost=costs.candidate(candidate),
                    pods=len(candidate.pods),
                    gang=elastic.get(candidate.gang, -1) if candidate.gang and alone else -1,
                    budgets=_budget_use(candidate.pods, budgets),
                )
            )
            subjects.append(candidate)
        for pod, releases in gathered.leaving:
            units.append(Unit(uid=pod.uid, releases=releases, cost=costs.one("waits")))
            subjects.append(pod)
        if gathered is not NOBODY:
            for key, held in sorted(self._taken_over.items()):
                released = _releases(held, index, resources)
                if released:
                    cost = costs.one("reservations")
                    uid = f"reservation {key}"
                    units.append(Unit(uid=uid, releases=released, cost=cost, pods=0))
                    subjects.append(key)
        allowed = [bytearray(name in mask for name in names) for mask in self._allowed]
        blockers = blockers_of(blocked, index, subjects, allowed)
        going: set[str | GangKey] | None = None
        if gathered is not NOBODY:
            going = {pod.uid for candidate, _ in gathered.candidates for pod in candidate.pods}
            going |= set(self._taken_over)
        problem = Problem(
            resources=resources,
            nodes=tuple(names),
            free=tuple(array("q", column) for column in zip(*room, strict=True))
            if room
            else tuple(array("q") for _ in resources),
            classes=tuple(
                MemberClass(class_name(group), request, len(group), bytes(mask))
                for group, request, mask in zip(
                    self.classes, self._question.requests, allowed, strict=True
                )
            ),
            need=self._need,
            units=tuple(units),
            levels=costs.names,
            gangs=tuple(
                ElasticGang(entry.surplus, costs.breaking(entry)) for entry in gathered.elastic
            ),
            budgets=tuple(
                Budget(
                    name=f"{budget.namespace}/{budget.name}",
                    allowed=max(0, budget.allowed),
                    hard=self._settings.plan.pdb_policy == "respect",
                    level=costs.budget_level,
                )
                for budget in budgets
            ),
            blockers=blockers,
            caps=tuple(
                Cap(
                    cap.classes,
                    partition((cap.topology_key,), names, self._snapshot, ()),
                    cap.limit,
                )
                for cap in self._caps
            ),
            spreads=self._spreading.spreads(names, going, strict=strict),
            domain=self._wished(names) if self._wish else self._domain(names),
            domain_required=not self._wish,
            domain_level=costs.level("topology") if self._wish else -1,
            fill=len(self._gang.pending) > self._need,
        )
        stays = [self._offers[name].stays for name in self._usable]
        return Built(
            problem=problem,
            classes=self.classes,
            subjects=tuple(subjects),
            usable=len(self._usable),
            cut=self.cut,
            unsure=not strict and self._spreading.unsure(going),
            stays=sum(map(len, stays)),
            first_stays=tuple(islice(chain.from_iterable(stays), MOST_STAYS)),
        )


def _question(classes: tuple[tuple[Pod, ...], ...], gang: Gang, snapshot: Snapshot) -> Question:
    resources = tuple(sorted({name for group in classes for name, _ in group[0].requests}))
    return Question(
        resources=resources,
        requests=tuple(_vector(group[0].requests, resources) for group in classes),
        priority=gang.preemptor_priority,
        preempts=gang.preempts,
        own=frozenset(member.uid for member in gang.members if member.node),
        budgets=tuple((budget.namespace, budget.selector) for budget in snapshot.budgets),
    )


def _vector(requests: Iterable[tuple[str, int]], resources: tuple[str, ...]) -> Vector:
    amounts = dict(requests)
    return tuple(amounts.get(resource, 0) for resource in resources)


def _releases(
    holds: Iterable[Hold], index: Mapping[str, int], resources: tuple[str, ...]
) -> Releases:
    total: dict[int, Vector] = {}
    for hold in holds:
        if hold.node in index:
            amounts = _vector(hold.requests, resources)
            before = total.get(index[hold.node])
            total[index[hold.node]] = amounts if before is None else plus(before, amounts)
    return tuple(sorted(total.items()))


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
