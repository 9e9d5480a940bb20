"""From a snapshot and a gang to the integers of a search Problem, and back.

Only resources the members ask for, nodes that can seat a member, and units that
can make a seat there enter the problem: the rest cannot change the answer
(extender.search.census). Nor can units above the least priority at which enough
seats are sure.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from extender.fit.member_rules import EACH_NODE, MemberCap, leaders, self_caps
from extender.fit.node_ports import slot
from extender.fit.view import ClusterView
from extender.gang.incremental.classes import allowed_nodes
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.incremental.victim_costs import VictimSums
from extender.gang.incremental.victims import VictimUnit
from extender.gang.plan.blocker_units import blockers_of
from extender.gang.plan.budgets import Uses, budgets_of
from extender.gang.plan.built import Built, ProblemNodes
from extender.gang.plan.cost_levels import CostLevels
from extender.gang.plan.held_rules import blocked_beside, blocking_pods, coming_pods
from extender.gang.plan.held_seats import gives_way, reservations, seatings, taken_over, vector
from extender.gang.plan.part_classes import by_part
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.spreads import Spreading
from extender.gang.plan.sure_seats import SureSeats, inside_of_all
from extender.gang.plan.topology_domains import (
    cap_domains,
    domain_keys,
    preferred_domains,
    preferred_keys,
    required_domains,
)
from extender.gang.plan.units import Units, units_of, ways, within, without
from extender.gang.plan.volumes import must_go, with_own
from extender.groups.composite import unit_key
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.model.texts import some
from extender.search.census import FREE, STAYS, Offers, OffersQuestion, Releases
from extender.search.problem import (
    Budget,
    Cap,
    ElasticGang,
    Problem,
    Unit,
    Vector,
)
from extender.search.problem.stop import OutOfTime, Stop
from extender.search.several.leading_class import JOINT, leads
from extender.search.several.reductions import least_request
from extender.settings.cost_order import CostLevel, order_of, spares_by_priority
from extender.settings.settings import Settings

if TYPE_CHECKING:
    from extender.search.core.census import Offers as CompiledOffers

MOST_CAPS = 256
"""Limits that members set for each other, of a few hundred ports or topology keys at most."""
MOST_LEADING = 8
"""Pods that all have to go for members to open a domain; it is not tried where there are more."""
MOST_ALIKE = 2
"""So many times what one class asks for another one may ask for, where all are asked about as one:
what is enough for the least of them is hardly enough for more."""
MOST_LEADERS = 8
"""Classes that are looked at for one that decides alone."""
NOBODY = Units()
MOST_STAYS = 20


class Restrictions(Struct, frozen=True):
    """What seats and victims have to keep to beside the rules of the question."""

    devices_apart: bool = False
    """At most one member that claims devices sits on one node."""
    volumes_apart: bool = False
    """At most one member that has volumes of its own sits on one node."""
    apart_on: frozenset[str] | None = None
    """The nodes where these two count; None: all."""
    together: frozenset[str] = frozenset()
    """Topology keys of which all members share a value, beside those that they must."""
    keep: frozenset[str] = frozenset()
    """Uids of pods that do not go."""
    opens: bool = False
    """Members open a domain of their own (Build._leading)."""


NO_RESTRICTIONS = Restrictions()


class Build:
    """One gang's question on one snapshot, before it is decided how much of it is asked.

    ``planning`` must have been brought up to the snapshot. The question's ``holds`` are the untaken
    seats of other gangs, and the nodes that kube-scheduler has nominated pods to. Its ``masks``
    gives, per member uid, node names that must not be used for its class (kube-scheduler refused
    them for reasons not modelled here).
    """

    def __init__(
        self,
        question: GangQuestion,
        view: ClusterView,
        planning: PlanningCache,
        settings: Settings,
        stop: Stop,
        restrictions: Restrictions = NO_RESTRICTIONS,
    ) -> None:
        """Raises OutOfTime when not even a first answer is waited for."""
        gang, snapshot = question.gang, question.snapshot
        keep, opens = restrictions.keep, restrictions.opens
        self._gang = gang
        self._keep = keep
        self._stop = stop
        self._snapshot = snapshot
        self._settings = settings
        self._view = view
        self._planning = planning
        self._pending = gang.pending
        self._need = min(gang.missing, len(self._pending))
        self.parts = by_part(planning.classes(self._pending), gang, self._need)
        self.classes = self.parts.classes
        self.least = self.parts.least
        """Of each class; may be raised before the question is asked anew."""
        self._below = gang.preemptor_priority if gang.preempts else FREE + 1
        self.narrowed = False
        """Some members may open a domain if more pods go than are tried: a "no" proves nothing."""
        leading = [self._leading(group) for group in self.classes]
        self.may_open = any(leading)
        """Members may open a domain of their own, with some pods gone, or sit beside those."""
        self._close_nodes(question.masks or {}, leading)
        holds = [hold for hold in question.holds if hold.gang != gang.key]
        coming = coming_pods(holds, snapshot, self.classes)
        self._blocked = []
        for group, those in zip(self.classes, leading, strict=True):
            stop.check_first()
            found = blocked_beside(group, gang, view, coming, those, opens=opens and bool(those))
            self._blocked.append(must_go(group, found, snapshot))
        self._rule_over_members(holds)
        self._blocking = blocking_pods(self._blocked, coming) | self._spreading.seats
        self._unknown: list[tuple[MemberCap, str]] = []
        """Caps for what is not known by node, and what that is."""
        if restrictions.devices_apart:
            claiming = [c for c, group in enumerate(self.classes) if group[0].shape.devices]
            self._keep_apart(claiming, restrictions.apart_on, "device claims")
        if restrictions.volumes_apart:
            own = with_own(self._pending)
            having = [c for c, group in enumerate(self.classes) if group[0].shape.volumes in own]
            self._keep_apart(having, restrictions.apart_on, "volumes of their own")
        must = domain_keys(gang, view, opens=opens and all(leading))
        self._keys = tuple(sorted({*must, *restrictions.together}))
        self._wish = preferred_keys(gang, self._keys, snapshot)
        self._resources = tuple(sorted({n for group in self.classes for n, _ in group[0].requests}))
        self._requests = tuple(vector(group[0].requests, self._resources) for group in self.classes)
        places = self._usable.index
        self._taken_over = taken_over(holds, gang, places, self._blocking)
        self._held = seatings(holds, gang, places, self._resources)
        self.kept = [hold for hold in holds if hold.node in places and not gives_way(hold, gang)]
        """Seats of others on usable nodes that the gang may not take over."""
        self._asked: dict[tuple[Vector, ...], Offers | CompiledOffers] = {}
        self._offers = self._offers_to(self._requests)
        plan = settings.plan
        impatient = gang.patience is not None
        order = order_of(plan.cost_order, plan.cost_orders, impatient=impatient)
        self._order = tuple(each for each in order if self._wish or each is not CostLevel.TOPOLOGY)
        # What is sure with everybody gone is not where some stay for their grace periods.
        self._patience = gang.patience if plan.slow_victims == "stay" else None
        # Nor is it where some stay because members require them beside.
        reach = spares_by_priority(self._order) and self._patience is None and not keep
        self.cut = self._reach() if reach else None
        self._slow: tuple[Pod, ...] = ()

    def _keep_apart(self, classes: list[int], nodes: frozenset[str] | None, what: str) -> None:
        """Seat at most one member of these classes on each of the nodes."""
        if not classes:
            return
        cap = MemberCap(tuple(classes), EACH_NODE, 1, nodes)
        self._unknown.append((cap, what))
        self._caps += (cap,)

    def _leading(self, group: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Return the pods all of which have to go for members of a class to open a domain of their
        own (extender.fit.member_rules.leaders); () where one of them stays."""
        found: list[Pod] = []
        planning = self._planning
        for pod in leaders(group[0], self._view, self._pending):
            self._stop.check_first()
            key = planning.member_key(pod)
            own = key == self._gang.key and not pod.deleting
            unit = unit_key(key, pod)
            priority = planning.preemptability.of_pod(pod, unit, planning.now).priority
            if own or pod.uid in self._keep or priority >= self._below:
                return ()
            found.append(pod)
            if len(found) > MOST_LEADING:
                self.narrowed = True
                return ()
        return tuple(found)

    def _close_nodes(
        self, masks: Mapping[str, frozenset[str]], leading: Iterable[tuple[Pod, ...]]
    ) -> None:
        """Find the nodes of use to any class, which of them each class may use, and the classes
        that required affinity keeps off every node that accepts them otherwise (``unmet``)."""
        masked = []
        unmet: set[int] = set()
        names = self._planning.names
        for cls, (group, those) in enumerate(zip(self.classes, leading, strict=True)):
            self._stop.check_first()
            mask = self._planning.mask(group[0])
            asked = partial(allowed_nodes, group, names, mask, self._view, self._gang)
            masked.append(asked(masks, opens=bool(those)))
            if group[0].shape.affinity and any(mask) and not any(masked[-1]):
                unmet |= set() if any(asked({}, opens=bool(those))) else {cls}
        self.unmet = frozenset(unmet)
        union = masked[0] if len(masked) == 1 else bytes(map(max, *masked))
        self._usable = self._planning.usable(union)
        self._allowed = [bytes(compress(mask, union)) for mask in masked]

    def _rule_over_members(self, holds: Sequence[Hold]) -> None:
        """Find what members set each other: caps, and spread rules with whom these count."""
        rules = self_caps(self.classes, self._view, self._stop.check_first)
        self._caps = rules.caps
        self.unstated = bool(rules.verify) or len(rules.caps) > MOST_CAPS
        """Members set each other limits that are seen only when seats are tried out."""
        if len(self._caps) > MOST_CAPS:
            # Those that bind most classes; what the others forbid is seen when seats are tried out.
            self._caps = tuple(sorted(rules.caps, key=lambda cap: -len(cap.classes))[:MOST_CAPS])
        counted = holds if rules.spreads else ()
        self._spreading = Spreading(rules.spreads, self._gang, self._view, self._snapshot, counted)

    def _offers_to(self, requests: tuple[Vector, ...]) -> Offers | CompiledOffers:
        """What the usable nodes offer to members of these requests."""
        offers = self._asked.get(requests)
        if offers is None:
            question = OffersQuestion(
                self._planning.numbers(self._resources),
                requests,
                self._below,
                self._planning.own_number(self._gang),
                tuple(map(len, self.classes)) if len(requests) > 1 else (),
            )
            offers = self._planning.offers(question, self._usable.slots, self._held)
            self._asked[requests] = offers
        return offers

    def _reach(self) -> int | None:
        """The priority up to which units are needed at most; None when that is not known."""
        usable = self._usable.names
        numbered = self._numbered(usable)
        seats = SureSeats(
            self._offers,
            len(self.classes),
            self._need,
            inside_of_all(self._allowed, self._blocked, self._usable.index),
        )
        return seats.least_priority(
            [(cap.limit, numbered(cap)) for cap in self._caps],
            self._spreading.spreads(usable, None, strict=True),
            self._domain(usable),
        )

    def _numbered(self, names: Sequence[str]) -> Callable[[MemberCap], array[int]]:
        """Caps of one topology key share their domains: there may be hundreds of them."""
        known: dict[tuple[str, frozenset[str] | None], array[int]] = {}

        def domains(cap: MemberCap) -> array[int]:
            key = (cap.topology_key, cap.nodes)
            if key not in known:
                known[key] = cap_domains(cap, names, self._snapshot)
            return known[key]

        return domains

    def _domain(self, names: Sequence[str]) -> array[int] | None:
        if not self._keys:
            return None
        return required_domains(self._keys, names, self._snapshot, self._gang)

    def _wished(self, names: Sequence[str]) -> array[int]:
        return preferred_domains(self._wish, names, self._snapshot, self._gang)

    @property
    def ordered(self) -> bool:
        """Whether only the ``relaxed`` problems have every answer: where members that a spread rule
        counts have to come after others."""
        return self._spreading.ordered

    def emptied(self, *, relaxed: bool = False) -> Built:
        """Return the problem with everybody gone who may go: no answer here, no answer at all."""
        room = self._offers.total_room()
        part = ProblemNodes(self._usable.names, self._allowed, room, relaxed=relaxed)
        return self._built(part, NOBODY)

    def full(self, *, strict: bool = False, relaxed: bool = False) -> Built:
        """Return the problem with every unit that may be needed.

        ``strict``: spread rules that hold whichever of the counted pods go.
        """
        alone = len(self.classes) == 1
        return self._with_units_for(self._offers, alone=alone, strict=strict, relaxed=relaxed)

    def leading(self) -> Iterator[tuple[int, Built]]:
        """Yield classes that may decide the cost for all, each with a problem in which units
        that are of no use to it are missing (extender.search.several.leading_class)."""
        requests = self._requests
        if len(requests) < 2 or self._need < len(self._pending) or self._keys or self._wish:
            return
        if self._spreading.rules:
            return
        asked = [frozenset(compress(self._resources, request)) for request in requests]
        order = sorted(
            range(len(requests)), key=lambda c: (-len(asked[c]), -len(self.classes[c]), c)
        )
        least, most = least_request(requests), tuple(map(max, *requests))
        if len(set(asked)) == 1 and all(
            b <= MOST_ALIKE * a for a, b in zip(least, most, strict=True)
        ):
            yield from self._led_by(JOINT, least)
        # One that has its seats already hardly decides; of the others the most demanding may.
        lead = next((c for c in order[:MOST_LEADERS] if self._lacks_seats(c)), order[0])
        yield from self._led_by(lead, requests[lead])

    def _led_by(self, lead: int, request: Vector) -> Iterator[tuple[int, Built]]:
        built = self._with_units_for(self._offers_to((request,)), alone=True)
        if leads(built.problem):
            yield lead, built

    def _lacks_seats(self, cls: int) -> bool:
        """Whether the class, were it alone, would need somebody to go."""
        gains = self._offers_to((self._requests[cls],)).gains(self._allowed[cls])
        return gains.get(0, {}).get(FREE, 0) < len(self.classes[cls])

    def _with_units_for(
        self,
        offers: Offers | CompiledOffers,
        *,
        alone: bool,
        strict: bool = False,
        relaxed: bool = False,
    ) -> Built:
        """Return the problem with the units that may be needed by whom the offers are to."""
        usable = self._usable
        most = min(self._below, STAYS) - 1 if self.cut is None else self.cut
        places = self._offers.opening(most)
        gathered = offers.gather(places, most, alone=alone)
        if offers is not self._offers:
            # A terminating pod costs a little, and may have room for a class that does not lead.
            leaving = self._offers.gather(places, FREE, alone=False).leaving
            gathered = gathered._replace(leaving=leaving)
        # A pod that a spread rule counts may open a seat by going, whatever its room.
        counted = {"": tuple(self._spreading.strangers)}
        found = [*self._blocked, counted] if self._spreading.rules else self._blocked
        in_the_way = ways(found, self._gang.key, self._snapshot, self._planning)
        part = ProblemNodes(
            tuple([usable.names[at] for at in places]),
            [bytes([mask[at] for at in places]) for mask in self._allowed],
            self._offers.free_room(places),
            self._blocked,
            strict=strict,
            relaxed=relaxed,
        )
        units = units_of(gathered, in_the_way, self._planning, most)
        own = frozenset(pod.uid for pod in self._gang.bound if pod.hierarchy is not None)
        units = without(units, own | self._keep) if own or self._keep else units
        self._slow = ()
        if self._patience is not None:
            longest = self._settings.eviction.longest_grace_seconds
            units, self._slow = within(units, self._patience, longest, self._snapshot.now)
        try:
            return self._built(part, units)
        except OutOfTime:
            raise
        except Exception:
            sound = self._sound(units)
            if len(sound.candidates) == len(units.candidates):
                raise
        return self._built(part, sound)

    @property
    def closed(self) -> frozenset[int]:
        """Classes (indices) without a usable node that no pod or seat keeps them off."""
        return frozenset(
            cls
            for cls, (mask, blocked) in enumerate(zip(self._allowed, self._blocked, strict=True))
            if all(name in blocked for name in compress(self._usable.names, mask))
        )

    @property
    def ruled(self) -> bool:
        """Whether more than room decides who may go or sit where: budgets, rules, pods in the
        way."""
        rules = self._caps or self.unstated or self._spreading.rules or self._keys
        beside = any(group[0].shape.affinity for group in self.classes)
        return bool(rules or beside or any(self._blocked) or self._snapshot.budgets)

    @property
    def room_alone(self) -> bool:
        """Whether room alone decides: neither rules nor the owner's patience."""
        return not self.ruled and self._patience is None

    def stayers(self) -> list[tuple[Pod, str]]:
        """Return some of those that may not be evicted, by node and uid, with the reason."""
        slow = sorted(self._slow, key=lambda pod: (pod.node, pod.uid))[:MOST_STAYS]
        found = [(pod, f"takes {pod.grace} s to end") for pod in slow]
        # A pod keeps members off a whole domain: it need not be on a node that they may use.
        closing = {uid for nodes in self._blocked for uids in nodes.values() for uid in uids}
        for name in self._planning.names if closing else ():
            if not any(pod.uid in closing for pod in self._snapshot.bound.get(name, ())):
                continue
            stays = self._planning.why_stays(name, self._gang)
            found += [each for each in stays if each[0].uid in closing]
            if len(found) >= MOST_STAYS:
                break
        told = {pod.uid for pod, _ in found}
        for name in compress(self._usable.names, self._offers.stays()):
            if len(found) >= MOST_STAYS:
                break
            stays = self._planning.why_stays(name, self._gang)
            found += [each for each in stays if each[0].uid not in told]
        return found[:MOST_STAYS]

    def _built(self, part: ProblemNodes, gathered: Units) -> Built:
        """Return the problem of a part of the cluster from which these units may go."""
        costs, sums = self._costs(gathered)
        budgets, uses = self._budgets(gathered, costs)
        units, subjects = self._units(part, gathered, costs, sums, uses)
        allowed = [bytearray(mask) for mask in part.masks]
        blockers = blockers_of(part.blocked, part.names, subjects, allowed, self._taken_over)
        counted = self._spreading.by_unit(subjects) if self._spreading.rules else {}
        everybody = gathered is NOBODY
        broken = self._planning.victim_costs.of(gathered.elastic)
        problem = Problem(
            resources=self._resources,
            nodes=part.names,
            free=part.room,
            classes=self.parts.of_search(self._requests, allowed, self.least),
            need=self._need,
            units=units,
            levels=costs.names,
            gangs=tuple(
                ElasticGang(
                    entry.at_best if part.relaxed else entry.surplus, costs.breaking(entry, summed)
                )
                for entry, summed in zip(gathered.elastic, broken, strict=True)
            ),
            budgets=budgets,
            blockers=blockers,
            caps=self._limits(part.names),
            spreads=self._spreading.spreads(
                part.names,
                None if everybody else counted,
                strict=part.strict,
                relaxed=part.relaxed,
            ),
            domain=self._wished(part.names) if self._wish else self._domain(part.names),
            domain_required=not self._wish,
            domain_level=costs.level(CostLevel.TOPOLOGY) if self._wish else -1,
            fill=len(self._pending) > self._need,
        )
        return Built(
            problem=problem,
            classes=self.classes,
            subjects=subjects,
            usable=len(self._usable.names),
            cut=self.cut,
            stays=sum(self._offers.stays()) + len(self._slow),
            slow=self._slow,
            counted=counted,
            strangers=self._spreading.strangers,
            blocked=part.blocked,
            dear=any(entry.at_best > entry.surplus for entry in gathered.elastic),
        )

    def _costs(self, gathered: Units) -> tuple[CostLevels, Sequence[VictimSums]]:
        """The levels that these units are counted at, and what each candidate's pods hold."""
        candidates = [candidate for candidate, _ in gathered.candidates]
        priorities = [candidate.priority for candidate in candidates]
        priorities += [entry.priority for entry in gathered.elastic]
        patience = self._settings.plan.patience_seconds
        if self._gang.patience is not None:
            patience = min(patience, self._gang.patience)
        sums = self._planning.victim_costs.of(candidates)
        slow = {
            candidate.uid: sum(pod.grace > patience for pod in candidate.pods)
            for candidate, summed in zip(candidates, sums, strict=True)
            if summed.grace > patience
        }
        order = tuple(each for each in self._order if slow or each is not CostLevel.GRACE)
        restart = self._settings.plan.restart_seconds
        impatient = self._gang.patience is not None
        levels = CostLevels(order, priorities, self._snapshot, slow, restart, impatient=impatient)
        return levels, sums

    def _units(
        self,
        part: ProblemNodes,
        gathered: Units,
        costs: CostLevels,
        sums: Sequence[VictimSums],
        uses: Mapping[str, Uses],
    ) -> tuple[tuple[Unit, ...], tuple[VictimUnit | Pod | GangKey, ...]]:
        """Everything that may make room, and what each is: victims, pods that terminate already,
        seats of less urgent gangs."""
        candidates = [candidate for candidate, _ in gathered.candidates]
        elastic: dict[GangKey, list[tuple[int, frozenset[str] | None]]] = {}
        for i, entry in enumerate(gathered.elastic):
            elastic.setdefault(entry.gang, []).append((i, entry.uids))
        units: list[Unit] = []
        subjects: list[VictimUnit | Pod | GangKey] = [*candidates]
        vectors = costs.candidates(candidates, sums)
        for (candidate, releases), cost in zip(gathered.candidates, vectors, strict=True):
            uid, key = candidate.uid, candidate.gang
            gang = -1
            if key is not None and not candidate.whole:
                of = elastic.get(key, ())
                gang = next((i for i, uids in of if uids is None or uid in uids), -1)
            units.append(Unit(uid, releases, cost, len(candidate.pods), gang, uses.get(uid, ())))
        for pod, releases in gathered.leaving:
            units.append(Unit(uid=pod.uid, releases=releases, cost=costs.one(CostLevel.WAITS)))
            subjects.append(pod)
        if gathered is not NOBODY:
            taken, one = self._taken_over, costs.one(CostLevel.RESERVATIONS)
            names, resources = part.names, self._resources
            for unit, key in reservations(taken, names, resources, one, self._blocking):
                units.append(unit)
                subjects.append(key)
        return tuple(units), tuple(subjects)

    def _limits(self, names: Sequence[str]) -> tuple[Cap, ...]:
        """What members set each other: how many of them one domain may have."""
        numbered = self._numbered(names)
        return tuple(
            Cap(cap.classes, numbered(cap), cap.limit, self._rule(cap)) for cap in self._caps
        )

    def _rule(self, cap: MemberCap) -> str:
        """Return which rule of the members a cap says."""
        for each, what in self._unknown:
            if cap is each:
                return f"{what}, which are not known by node"
        if cap.topology_key != EACH_NODE:
            return f"required anti-affinity on {cap.topology_key}"
        ports = [set(map(slot, self.classes[c][0].shape.host_ports)) for c in cap.classes]
        names = [f"{port}/{protocol}" for protocol, port, _ in sorted(set.intersection(*ports))]
        return f"host port {some(names)}" if names else "host ports"

    def _budgets(
        self, gathered: Units, costs: CostLevels
    ) -> tuple[tuple[Budget, ...], dict[str, Uses]]:
        asked = self._gang.preemptor_priority
        level = costs.budget_level
        return budgets_of(gathered, self._planning, self._snapshot, asked, level, self._stop)

    def _sound(self, gathered: Units) -> Units:
        """Without candidates whose cost or budgets cannot be told; those are set aside."""
        sound: list[tuple[VictimUnit, Releases]] = []
        for entry in gathered.candidates:
            units = [entry[0]]
            try:
                costs = CostLevels(
                    self._order, [units[0].priority], self._snapshot, {}, 0, impatient=False
                )
                costs.candidates(units, self._planning.victim_costs.of(units))
                self._budgets(replace(NOBODY, candidates=(entry,)), costs)
            except OutOfTime:
                raise
            except Exception as error:  # a mistake of ours about this unit
                self._planning.preemptability.aside.put(units[0].pods, error)
            else:
                sound.append(entry)
        return replace(gathered, candidates=tuple(sound))
