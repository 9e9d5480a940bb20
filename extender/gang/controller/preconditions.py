"""Does a plan under way hold on the newest state, with all that we know beyond the cache?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import Protocol

from msgspec.structs import replace

from extender.fit.disruption_budgets import guarded
from extender.gang.core.last_check import LastCheck
from extender.gang.core.preemption import Allowance, Plans, units_of
from extender.gang.core.reservations import Preemption
from extender.gang.core.victim_group import Claim, Phase, VictimGroup, shown_in
from extender.gang.incremental.classes import classes_of
from extender.gang.plan.candidates import NOBODY
from extender.gang.plan.held_seats import beyond_leaving
from extender.gang.plan.lists import samples
from extender.gang.plan.new_room import room_came
from extender.gang.plan.nominated import nominated_seats
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.plan.validity import (
    gang_problem,
    gangs_of,
    member_problem,
    over_budget,
    present,
    quick_problem,
)
from extender.gang.scheduler_view.assumed_pods import AssumedPods
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.objects import DisruptionBudget, GangKey, Pod
from extender.model.plan import Hold, Victim
from extender.model.snapshot import Snapshot, SparedPod

SPARING_REPLANS = 2
"""How often a plan is searched for again because room has come: the gang has its turn too."""


class Freshness(Protocol):
    """Whether the cache is up to date."""

    def behind(self) -> bool:
        """As PlanView.behind."""


class Spares(Protocol):
    """Who was evicted before."""

    def spared(self) -> Mapping[str, SparedPod]:
        """Return who is not evicted again yet."""


class Preconditions:
    """What the machine of preemptions is shown of the cluster. Compares; changes nothing."""

    def __init__(
        self,
        plans: Plans,
        check: LastCheck,
        offers: AssumedPods,
        node_lists: NodeLists,
        freshness: Freshness,
        evicted: Spares,
    ) -> None:
        self._reservations = plans.reservations
        self._evictions = plans.victims
        self._check = check
        self._source = check.source
        self._gangs = check.gangs
        self._settings = check.settings
        self._offers = offers
        self.node_lists = node_lists
        self._evicted = evicted
        self.behind = freshness.behind
        self.leaves = check.leaves
        self.there = check.there
        self.gang_of = check.gang_of
        self.whole_again = check.whole_again
        self.victim_problem = check.of_victim
        self.member_key = check.gangs.member_key

    # -- the cluster ----------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""
        return self._source.snapshot()

    def needs_nominations(self) -> bool:
        """Whether a seat may be missing in a list although kube-scheduler would accept it."""
        nominate = self._settings.seats.nominate
        return nominate and samples(len(self._source.snapshot().nodes))

    def budgeted(self, victims: Collection[Victim], priority: int) -> frozenset[str]:
        """Return the uids of those to evict through the Eviction API."""
        return self._check.budgeted(victims, priority)

    def budgets_of(self, preemption: Preemption) -> tuple[tuple[str, str], ...]:
        """As PlanView.budgets_of."""
        found = self._check.budgets_of(self._to_evict(preemption), preemption.plan.priority)
        return tuple(sorted({(budget.namespace, budget.name) for budget in found}))

    def allowed_by(self, preemption: Preemption, budgets: Sequence[DisruptionBudget]) -> Allowance:
        """Return what these budgets say to what the plan has yet to evict, all of it together."""
        own = self._to_evict(preemption)
        refused = over_budget(own, budgets)
        waits = not refused and bool(over_budget(own, budgets, self._first(own)))
        return Allowance(refused, waits=waits)

    def _to_evict(self, preemption: Preemption) -> list[Pod]:
        takes = self._evictions.takes
        pods = self._there(each for uid, each in preemption.victims.items() if not takes(uid))
        return [pod for pod in pods if guarded(pod)]

    def _first(self, own: Sequence[Pod]) -> list[Pod]:
        """Return the pods that may be evicted before a plan's own: of plans that evict already, of
        groups that went in part, and those whose request is under way or was lost sight of."""
        states = self._evictions.victims.values()
        victims = {
            state.victim.uid: state.victim
            for state in states
            if state.must or any(group.in_doubt for group in state.groups)
        }
        for other in self._reservations:
            if other.state in (PreemptionState.EVICTING, PreemptionState.WAITING):
                victims.update(other.victims)
        for pod in own:
            victims.pop(pod.uid, None)
        accepted = self._evictions.accepted
        return self._there(each for uid, each in victims.items() if not accepted(uid))

    def _there(self, victims: Iterable[Victim]) -> list[Pod]:
        snapshot = self._source.snapshot()
        return [pod for each in victims if (pod := present(each, snapshot)) is not None]

    def on_its_way(self, name: str) -> bool:
        """As View.on_its_way; what a life before has offered is not known for a moment."""
        if self._offers.unknown(-inf):
            return True
        members = self._source.snapshot().members.get(GangKey.read(name), ())
        return any(not pod.node and self._offers.unsettled(pod.uid) for pod in members)

    def completing(self, name: str) -> bool:
        """As View.completing."""
        return any(
            str(self._gangs.unit_key(pod)) == name
            for preemption in self._reservations
            for pod in preemption.pods.values()
        )

    def of_unit(self, victims: Sequence[Victim], priority: int) -> str:
        """Return why no pod of a gang may be evicted first now, "" when one may."""
        return self._check.of_unit(victims, priority, self.shown())

    # -- plans ----------------------------------------------------------------------------

    def shown(self) -> Snapshot:
        """Return the newest snapshot with what we know beyond it."""
        snapshot = shown_in(
            self._source.snapshot(),
            self._evictions.expected(),
            self._evictions.refusals.unevictable(),
            self._gangs.member_key,
            self._check.leaves,
            self._settings.eviction.longest_grace_seconds,
        )
        spared = self._evicted.spared()
        return replace(snapshot, spared=spared) if spared else snapshot

    def problem(self, preemption: Preemption, without: AbstractSet[str] = frozenset()) -> str:
        """Return why the plan does not hold on the newest state, "" when it does.

        ``without``: uids of pods whose room is not counted as taken.
        """
        snapshot = self.shown()
        gang = self.gang(preemption, snapshot)
        if gang is None or preemption.seats.keys() - preemption.pods.keys():
            return f"members of {preemption.key} are gone"
        why = self._check.not_for(preemption.key.namespace)
        why = why or member_problem(
            preemption.plan, gang, preemption.seats, binding=preemption.binding
        )
        if why:
            return why
        begun = self._evictions.claimed(preemption.id)
        for name, victims in units_of(preemption.victims.values()).items():
            if name not in begun:
                why = self._check.of_unit(victims, preemption.plan.priority, snapshot)
                if why:
                    return why
        why = self.stays(preemption)
        if why:
            return why
        plan = preemption.plan
        # Whose seats it takes over has none any more once the plan holds its own.
        taken = plan.takes_over if self._reservations.get(preemption.key) is not preemption else ()
        ends = {str(key) for key in (preemption.key, *taken)}
        ends |= gangs_of(plan.victims, snapshot, self._gangs.member_key)
        held = list(self._reservations.holds())
        # Where members sit already, seats of those of whom none does must leave room, not these:
        # a pod that may have the room of the latter is not what the former lack.
        holds = [
            hold
            for hold in held
            if str(hold.gang) not in ends and (hold.firm or not preemption.binding)
        ]
        going = {*preemption.victims, *preemption.waits, *without}
        holds = self._net(preemption, holds, snapshot, going)
        holds += nominated_seats(gang, snapshot, {hold.uid for hold in held})
        return quick_problem(preemption.seats, preemption.pods, snapshot, going, holds)

    def displaced_by(self, preemption: Preemption, refused: AbstractSet[str]) -> tuple[Pod, ...]:
        """Return the pods that nobody has admitted and that are why the plan does not hold.

        ``refused``: nodes on which kube-scheduler refuses its seats; what stands there may be the
        reason, whatever rule it is by.
        """
        if not preemption.unadmitted:
            return ()
        bound = self._source.snapshot().bound
        nodes = {*preemption.seats.values(), *refused}
        there = {pod.uid for name in nodes for pod in bound.get(name, ())}
        here = [pod for uid, pod in preemption.unadmitted.items() if uid in there]
        uids = {pod.uid for pod in here}
        by_room = (
            bool(here) and bool(self.problem(preemption)) and not self.problem(preemption, uids)
        )
        return tuple(pod for pod in here if by_room or pod.node in refused)

    def _net(
        self,
        preemption: Preemption,
        holds: Iterable[Hold],
        snapshot: Snapshot,
        going: AbstractSet[str],
    ) -> list[Hold]:
        """Return seats beside the plan's, less by the room of whom their plans have to wait for."""
        nodes = set(preemption.seats.values())
        beside = [hold for hold in holds if hold.node in nodes]
        return beyond_leaving(beside, self._leaves, snapshot, going)

    def _leaves(self, key: GangKey, uid: str) -> bool:
        preemption = self._reservations.get(key)
        return preemption is not None and (uid in preemption.victims or uid in preemption.waits)

    def no_longer(self, preemption: Preemption, *, evicts: bool = False) -> str:
        """Return why nothing is to be done for the gang any more, "" when something is.

        ``evicts``: it has to be urgent enough, too.
        """
        why = self._check.not_for(preemption.key.namespace)
        gang = self.gang(preemption, self._source.snapshot())
        why = why or (gang_problem(gang) if gang is not None else "")
        if not why and gang is not None and gang.before & preemption.seats.keys():
            why = f"members of {preemption.key} are deleted with their owner"
        if why or gang is None or not evicts:
            return why
        if gang.preemptor_priority >= preemption.plan.priority and gang.preempts:
            return ""
        return f"{preemption.key} may no longer evict at priority {preemption.plan.priority}"

    def does_without(self, preemption: Preemption, uid: str) -> bool:
        """Whether the gang is complete with the other members' seats."""
        gang = self.gang(preemption, self._source.snapshot())
        others = {member: node for member, node in preemption.seats.items() if member != uid}
        return gang is not None and not member_problem(
            preemption.plan, gang, others, binding=preemption.binding
        )

    def has_spare(self, preemption: Preemption, uid: str) -> bool:
        """Whether a member without a seat waits that is interchangeable with this one."""
        members = self._source.snapshot().members.get(preemption.key, ())
        spares = (
            p for p in members if not (p.node or p.deleting or p.gated or p.uid in preemption.seats)
        )
        return any(len(classes_of((preemption.pods[uid], pod))) == 1 for pod in spares)

    def spares(self, preemption: Preemption) -> str:
        """Return why nobody may have to go after all, "" when nothing speaks for it.

        A plan is searched for again for that a few times, however much comes and goes.
        """
        if (
            preemption.seen is None
            or preemption.replans >= SPARING_REPLANS
            or not preemption.victims
        ):
            return ""
        name = self.room_came(preemption, preemption.seen, preemption.seen_holds, {preemption.key})
        return f"{name} has room since the plan was made" if name else ""

    def room_came(
        self,
        preemption: Preemption,
        before: Snapshot,
        held_before: Iterable[Hold],
        taken: AbstractSet[GangKey],
    ) -> str:
        """Return a node that takes more members now than ``before``, "" for none.

        ``held_before``: seats of others then. ``taken``: gangs whose seats are the plan's to have.
        """
        now = self.shown()
        gang = self.gang(preemption, now)
        if gang is None:
            return ""
        held = self._reservations.holds()
        holds = [hold for hold in held if hold.gang not in taken]
        then = [hold for hold in held_before if hold.gang not in taken]
        seated = {hold.uid for hold in (*held, *then)}
        holds += nominated_seats(gang, now, seated)
        seen = [*then, *nominated_seats(gang, before, seated)]
        waits = {victim.uid for victim in preemption.plan.waits_for}
        named, only, free = preemption.candidates, None, NOBODY
        if named is not None:
            # A pod may have been on its way to another node, which kube-scheduler knew.
            only = named.nodes
            free = (
                self.node_lists.freed_since(named.asked) | self._reservations.nodes() | named.since
            )
        return room_came(
            preemption.pods, preemption.seats, before, now, seen, holds, waits, only, free
        )

    def gone_in_part(self, preemption: Preemption, group: VictimGroup, claim: Claim) -> str:
        """Return why the rest of a group may stay of which we evicted no pod, "" where it may not.

        Where others have taken a part of it another search may find seats without the rest. A
        plan is searched for again for that a few times, as for room that has come.
        """
        if preemption.seen is None or preemption.replans >= SPARING_REPLANS:
            return ""
        victims = preemption.plan.victims
        if not group.phases.get(Phase.ACCEPTED) and len(preemption.victims) == len(victims):
            return ""  # all are there
        had = sum(victim.unit == group.name for victim in victims)
        left = sum(state.phase is not Phase.ACCEPTED for state in group.there(claim))
        return f"some pods of {group.name} ended by themselves" if left < had else ""

    def stays(self, preemption: Preemption) -> str:
        """Return who of those waited for does not go after all, "" when all do."""
        snapshot = self._source.snapshot()
        for victim in preemption.waits.values():
            pod = present(victim, snapshot)
            if pod is not None and not pod.deleting and not self._evictions.takes(victim.uid):
                return f"{pod.key} was about to end and is not any more"
        return ""

    def gang(self, preemption: Preemption, snapshot: Snapshot) -> Gang | None:
        """Return a plan's gang as it is, None where no member is there."""
        if preemption.key.dialect == SINGLE:
            pods = [snapshot.pending[uid] for uid in preemption.seats if uid in snapshot.pending]
            return single_gang(pods[0]) if pods else None
        return self._gangs.resolve(preemption.key, snapshot)

    def crowded(self, preemption: Preemption) -> bool:
        """Whether pods that came to a seat's node, or were offered it, may be in the way."""
        if preemption.doubted:
            return True  # tick compares the plan in a moment
        if self._offers.unknown(preemption.held):
            return True
        nodes = set(preemption.seats.values())
        until = preemption.closed_at if preemption.closed else inf
        offered = self._offers.in_the_way(preemption.held, nodes, preemption.plan.priority, until)
        if not offered:
            return False
        others = [
            hold
            for hold in self._reservations.holds()
            if hold.gang != preemption.key and (hold.firm or not preemption.binding)
        ]
        going, snapshot = {*preemption.victims, *preemption.waits}, self.shown()
        seats = [*self._net(preemption, others, snapshot, going), *offered]
        return bool(quick_problem(preemption.seats, preemption.pods, snapshot, going, seats))
