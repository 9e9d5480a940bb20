"""Topology spread among the members, as the search asks for it.

The search takes the pods that a constraint counts already as given. Some of them
may be victims themselves: then their domain is less full, and perhaps the emptiest.
Which it will be is open while victims are searched, so the rule is asked in two
ways. *Loose*: in the limit they have left already, in the least count they are still
there. No true answer is lost, but one that is found must be checked. *Strict*: the
other way round. What is found holds whoever goes, but it may not be the cheapest.

Members that a rule counts and does not bind may have to come after those that it binds.
*Relaxed*, a rule lets them come to any domain: no seats are lost that hold.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

from extender.fit.member_rules import MemberSpread, counted_pods, spread_domains
from extender.fit.pod_topology_spread import counts_for
from extender.fit.view import ClusterView
from extender.gang.incremental.victims import VictimUnit
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot
from extender.search.problem import Spread
from extender.search.seating.spread import bands


class Spreading:
    """The spread rules of one gang on one view, and who is counted by them already."""

    def __init__(
        self,
        rules: Sequence[MemberSpread],
        gang: Gang,
        view: ClusterView,
        snapshot: Snapshot,
        holds: Iterable[Hold],
    ) -> None:
        self.rules = rules
        self._view = view
        self._own = {pod.uid for pod in gang.members} if rules else set()
        self._there: list[list[int]] = []
        self._others: list[list[tuple[str | GangKey, int]]] = []
        """Per rule, those counted that are not of the gang: (pod uid, or the gang whose
        seat it is; domain)."""
        seats: set[str] = set()
        held = [
            (hold, pod)
            for hold in holds
            if (pod := snapshot.pending.get(hold.uid)) is not None and hold.node in view.nodes
        ]
        for rule in rules:
            there, others = list(rule.there), self._strangers(rule, gang)
            domains = spread_domains(rule, [hold.node for hold, _ in held], view)
            for (hold, pod), domain in zip(held, domains, strict=True):
                if domain >= 0 and counts_for(rule.constraint, rule.sample.namespace, pod):
                    there[domain] += 1
                    others.append((hold.gang, domain))
                    seats.add(hold.uid)
            self._there.append(there)
            self._others.append(others)
        self.seats = frozenset(seats)
        """Uids of the pods that wait for seats which some rule counts."""
        self.strangers = frozenset(
            who for others in self._others for who, _ in others if type(who) is str
        )
        """Uids of the pods that some rule counts and that are not of the gang."""
        self.ordered = any(rule.most_later for rule in rules)
        """Seats may hold though they do not keep a rule, because of who comes first."""

    def _strangers(self, rule: MemberSpread, gang: Gang) -> list[tuple[str | GangKey, int]]:
        """Counted pods that are not of the gang; looked for only when there can be any."""
        mine = [
            pod.node
            for pod in gang.members
            if pod.node in self._view.nodes
            and counts_for(rule.constraint, rule.sample.namespace, pod)
        ]
        if sum(rule.there) == sum(d >= 0 for d in spread_domains(rule, mine, self._view)):
            return []
        return [
            (pod.uid, domain)
            for pod, domain in counted_pods(rule, self._view)
            if pod.uid not in self._own
        ]

    def by_unit(
        self, subjects: Sequence[VictimUnit | Pod | GangKey]
    ) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return unit -> (rule, domain) of each of its pods or seats that a rule counts."""
        unit_of: dict[str | GangKey, int] = {}
        for at, subject in enumerate(subjects):
            if isinstance(subject, VictimUnit):
                unit_of.update((pod.uid, at) for pod in subject.pods)
            elif isinstance(subject, GangKey):
                unit_of[subject] = at
        found: dict[int, list[tuple[int, int]]] = {}
        for rule, others in enumerate(self._others):
            for who, domain in others:
                if who in unit_of:
                    found.setdefault(unit_of[who], []).append((rule, domain))
        return {at: tuple(found[at]) for at in sorted(found)}

    def spreads(
        self,
        names: Sequence[str],
        counted: Mapping[int, Sequence[tuple[int, int]]] | None,
        *,
        strict: bool,
        relaxed: bool = False,
    ) -> tuple[Spread, ...]:
        """Return the rules over these nodes. ``counted``: as ``by_unit``, of those that may go;
        None: all may."""
        lesser = [list(there) for there in self._there]
        if counted is None:
            every = [(at, dom) for at, others in enumerate(self._others) for _, dom in others]
        else:
            every = [each for of_unit in counted.values() for each in of_unit]
        for at, dom in every:
            lesser[at][dom] -= 1
        found = []
        for rule, there, less in zip(self.rules, self._there, lesser, strict=True):
            most, fewest = (there, less) if strict else (less, there)
            own = rule.counted
            if relaxed and rule.most_later:
                own = tuple(c for c in own if c not in rule.later)
                fewest = [n + rule.most_later for n in fewest]
            found.append(
                Spread(
                    bound=rule.bound,
                    counted=own,
                    domain=array("i", spread_domains(rule, names, self._view)),
                    most=tuple(most),
                    fewest=tuple(fewest),
                    max_skew=rule.max_skew,
                    from_zero=rule.from_zero,
                )
            )
        return tuple(found)


def node_limits(rule: Spread) -> dict[int, int] | None:
    """Return node -> members that certainly keep the rule where every node is a domain.

    None where a domain has several of the nodes, or others are counted as well.
    """
    inside = [(n, domain) for n, domain in enumerate(rule.domain) if domain >= 0]
    if len({domain for _, domain in inside}) < len(inside):
        return None
    if not set(rule.counted) <= set(rule.bound):
        return None
    least = 0 if rule.from_zero else min(rule.fewest, default=0)
    return {n: max(0, least + rule.max_skew - rule.most[domain]) for n, domain in inside}


def enough(rule: Spread, seats: Mapping[int, int], members: int) -> bool:
    """Whether so many seats in each domain certainly suffice for ``members`` counted ones."""
    start = 0 if rule.from_zero else min(rule.fewest, default=0)
    for level in range(start, start + 1 if rule.from_zero else start + members + 1):
        limits = bands(rule, level)
        low = sum(band.low for band in limits)
        if low > members or any(seats.get(d, 0) < band.low for d, band in enumerate(limits)):
            return False
        if members <= sum(min(seats.get(d, 0), max(0, band.high)) for d, band in enumerate(limits)):
            return True
    return False
