"""Does a plan in flight hold on the newest state, with all that we know beyond the cache?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from math import inf

from msgspec.structs import replace

from extender.gang.core.book import Book, Flight
from extender.gang.core.evictions import Evictions
from extender.gang.core.expectations import shown_in
from extender.gang.core.last_check import KeptGangs, LastCheck
from extender.gang.core.unit import EvictionUnit
from extender.gang.plan.candidates import NOBODY
from extender.gang.plan.net_seats import net_seats
from extender.gang.plan.new_room import room_came
from extender.gang.plan.nominated import nominated_seats
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.plan.validity import gangs_of, member_problem, present, quick_problem
from extender.gang.scheduler_view.offers import UnsettledOffers
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold, Victim
from extender.model.snapshot import EMPTY, Snapshot, SparedPod

SPARING_REPLANS = 2
"""How often a plan is searched for again because room has come: the gang has its turn too."""


class Comparison:
    """Compares; changes nothing. ``snapshot`` gives the newest state."""

    def __init__(
        self,
        book: Book,
        snapshot: Callable[[], Snapshot],
        gangs: KeptGangs,
        check: LastCheck,
        evictions: Evictions,
        offers: UnsettledOffers,
        longest: int,
        freed_since: Callable[[float], frozenset[str]],
    ) -> None:
        """``longest``: the grace period that an eviction grants at most. ``freed_since(asked)``:
        nodes that may have room since a question, of a monotonic time.
        """
        self._longest = longest
        self._freed_since = freed_since
        self.spared: Callable[[], Mapping[str, SparedPod]] = lambda: EMPTY
        """Who is not evicted again yet."""
        self._book = book
        self._snapshot = snapshot
        self._gangs = gangs
        self._check = check
        self._evictions = evictions
        self._offers = offers

    def shown(self) -> Snapshot:
        """Return the newest snapshot with what we know beyond it."""
        snapshot = shown_in(
            self._snapshot(),
            self._evictions.expected(),
            self._evictions.refusals.unevictable(),
            self._gangs.member_key,
            self._check.leaves,
            self._longest,
        )
        spared = self.spared()
        return replace(snapshot, spared=spared) if spared else snapshot

    def problem(self, flight: Flight, without: AbstractSet[str] = frozenset()) -> str:
        """Return why the plan does not hold on the newest state, "" when it does.

        ``without``: uids of pods whose room is not counted as taken.
        """
        snapshot = self.shown()
        gang = self._gang(flight, snapshot)
        if gang is None or flight.seats.keys() - flight.pods.keys():
            return f"members of {flight.key} are gone"
        why = self._check.not_for(flight.key.namespace)
        why = why or member_problem(flight.plan, gang, flight.seats, binding=flight.binding)
        if why:
            return why
        begun = {unit.name for unit in self._evictions.of_plan(flight.id)}
        for name, victims in units_of(flight.victims.values()).items():
            if name not in begun:
                why = self._check.of_unit(victims, flight.plan.priority, snapshot)
                if why:
                    return why
        why = self.stays(flight)
        if why:
            return why
        plan = flight.plan
        # Whose seats it takes over has none any more once the plan holds its own.
        taken = plan.takes_over if self._book.get(flight.key) is not flight else ()
        ends = {str(key) for key in (flight.key, *taken)}
        ends |= gangs_of(plan.victims, snapshot, self._gangs.member_key)
        held = list(self._book.holds())
        # Where members sit already, seats of those of whom none does must leave room, not these:
        # a pod that may have the room of the latter is not what the former lack.
        holds = [
            hold
            for hold in held
            if str(hold.gang) not in ends and (hold.firm or not flight.binding)
        ]
        going = {*flight.victims, *flight.waits, *without}
        holds = self._net(flight, holds, snapshot, going)
        holds += nominated_seats(gang, snapshot, {hold.uid for hold in held})
        return quick_problem(flight.seats, flight.pods, snapshot, going, holds)

    def displaced_by(self, flight: Flight, refused: AbstractSet[str]) -> tuple[Pod, ...]:
        """Return the pods that nobody has admitted and that are why the plan does not hold.

        ``refused``: nodes on which kube-scheduler refuses its seats; what stands there may be the
        reason, whatever rule it is by.
        """
        if not flight.unadmitted:
            return ()
        bound = self._snapshot().bound
        nodes = {*flight.seats.values(), *refused}
        there = {pod.uid for name in nodes for pod in bound.get(name, ())}
        here = [pod for uid, pod in flight.unadmitted.items() if uid in there]
        uids = {pod.uid for pod in here}
        by_room = bool(here) and bool(self.problem(flight)) and not self.problem(flight, uids)
        return tuple(pod for pod in here if by_room or pod.node in refused)

    def _net(
        self, flight: Flight, holds: Iterable[Hold], snapshot: Snapshot, going: AbstractSet[str]
    ) -> list[Hold]:
        """Return seats beside the plan's, less by the room of whom their plans have to wait for."""
        nodes = set(flight.seats.values())
        beside = [hold for hold in holds if hold.node in nodes]
        return net_seats(beside, self._leaves, snapshot, going)

    def _leaves(self, key: GangKey, uid: str) -> bool:
        flight = self._book.get(key)
        return flight is not None and (uid in flight.victims or uid in flight.waits)

    def less_urgent(self, flight: Flight) -> str:
        """Return why the gang may evict nobody at the plan's priority any more, "" when it may."""
        gang = self._gang(flight, self._snapshot())
        if gang is None or (gang.preemptor_priority >= flight.plan.priority and gang.preempts):
            return ""
        return f"{flight.key} may no longer evict at priority {flight.plan.priority}"

    def does_without(self, flight: Flight, uid: str) -> bool:
        """Whether the gang is complete with the other members' seats."""
        gang = self._gang(flight, self._snapshot())
        others = {member: node for member, node in flight.seats.items() if member != uid}
        return gang is not None and not member_problem(
            flight.plan, gang, others, binding=flight.binding
        )

    def spares(self, flight: Flight) -> str:
        """Return why nobody may have to go after all, "" when nothing speaks for it.

        A plan is searched for again for that a few times, however much comes and goes.
        """
        if flight.seen is None or flight.replans >= SPARING_REPLANS or not flight.victims:
            return ""
        name = self.room_came(flight, flight.seen, flight.seen_holds, {flight.key})
        return f"{name} has room since the plan was made" if name else ""

    def room_came(
        self,
        flight: Flight,
        before: Snapshot,
        held_before: Iterable[Hold],
        taken: AbstractSet[GangKey],
    ) -> str:
        """Return a node that takes more members now than ``before``, "" for none.

        ``held_before``: seats of others then. ``taken``: gangs whose seats are the plan's to have.
        """
        now = self.shown()
        gang = self._gang(flight, now)
        if gang is None:
            return ""
        held = self._book.holds()
        holds = [hold for hold in held if hold.gang not in taken]
        then = [hold for hold in held_before if hold.gang not in taken]
        seated = {hold.uid for hold in (*held, *then)}
        holds += nominated_seats(gang, now, seated)
        seen = [*then, *nominated_seats(gang, before, seated)]
        waits = {victim.uid for victim in flight.plan.waits_for}
        named, only, free = flight.candidates, None, NOBODY
        if named is not None:
            # A pod may have been on its way to another node, which kube-scheduler knew.
            only = named.nodes
            free = self._freed_since(named.asked) | self._book.nodes() | named.since
        return room_came(flight.pods, flight.seats, before, now, seen, holds, waits, only, free)

    def gone_in_part(self, flight: Flight, unit: EvictionUnit) -> str:
        """Return why what is left of an untouched unit may stay, "" when nothing speaks for it.

        Where others have taken a part of it another search may find seats without the rest. A
        plan is searched for again for that a few times, as for room that has come.
        """
        if flight.seen is None or flight.replans >= SPARING_REPLANS:
            return ""
        left, victims = unit.unsent, flight.plan.victims
        if len(left) == len(unit.victims) and len(flight.victims) == len(victims):
            return ""  # all are there
        had = sum(victim.unit == unit.name for victim in victims)
        return f"a part of {unit.name} has gone by itself" if len(left) < had else ""

    def stays(self, flight: Flight) -> str:
        """Return who of those waited for does not go after all, "" when all do."""
        snapshot = self._snapshot()
        for victim in flight.waits.values():
            pod = present(victim, snapshot)
            if pod is not None and not pod.deleting and not self._evictions.takes(victim.uid):
                return f"{pod.key} was about to go and is not any more"
        return ""

    def _gang(self, flight: Flight, snapshot: Snapshot) -> Gang | None:
        if flight.key.dialect == SINGLE:
            pods = [snapshot.pending[uid] for uid in flight.seats if uid in snapshot.pending]
            return single_gang(pods[0]) if pods else None
        return self._gangs.resolve(flight.key, snapshot)

    def grown(self, unit: EvictionUnit) -> str:
        """Return why an untouched gang, if it has changed since it was compared last, stays."""
        first = next(iter(unit.victims.values()), None)
        if first is None or not first.unit:
            return ""
        gang = self._check.gang_of(first)
        if gang is unit.compared:
            return ""
        unit.compared = gang
        return self._check.of_unit(unit.victims.values(), unit.priority, self.shown())

    def crowded(self, flight: Flight) -> bool:
        """Whether pods that came to a seat's node, or were offered it, may be in the way."""
        if flight.doubted:
            return True  # tick compares the plan in a moment
        if self._offers.unknown(flight.held):
            return True
        nodes = set(flight.seats.values())
        until = flight.closed_at if flight.closed else inf
        offered = self._offers.in_the_way(flight.held, nodes, flight.plan.priority, until)
        if not offered:
            return False
        others = [
            hold
            for hold in self._book.holds()
            if hold.gang != flight.key and (hold.firm or not flight.binding)
        ]
        going, snapshot = {*flight.victims, *flight.waits}, self.shown()
        seats = [*self._net(flight, others, snapshot, going), *offered]
        return bool(quick_problem(flight.seats, flight.pods, snapshot, going, seats))


def units_of(victims: Iterable[Victim]) -> dict[str, list[Victim]]:
    """Return victims by what goes together, in the order given."""
    units: dict[str, list[Victim]] = {}
    for victim in victims:
        units.setdefault(victim.unit or victim.uid, []).append(victim)
    return units
