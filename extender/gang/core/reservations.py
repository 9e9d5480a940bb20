"""The book of plans under way: who holds which seat, and what room is left for others.

A seat is held from the moment its plan enters the book, before that is rehearsed
and recorded, until its member is seen bound or the plan ends. Holds are per pod
uid; rooms are per node. The book has a version that grows with every change, so
that a plan made against an older book is noticed before it is acted on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct, field
from msgspec.structs import replace

from extender.gang.plan.booking import BookingClaim
from extender.gang.plan.candidates import Candidates
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.extended_resources import limited_for_both
from extender.model.objects import GangKey, Node, Pod, Requests
from extender.model.plan import Hold, LeavingPod, Plan, Seat, Victim
from extender.model.snapshot import Snapshot


class Tries(Struct):
    """What kube-scheduler has made of one member's open seat (refused_seats.py, hints.py)."""

    given: int = 0
    """How often the member was given it."""
    given_at: float = 0.0
    """Monotonic time of the first time."""
    asked_at: float = 0.0
    """Monotonic time of the last time."""
    unheard: int = 0
    """How often the nomination was cleared without a question since the last one."""
    unheard_at: float = 0.0
    """Monotonic time of the first of these times."""
    for_now: bool = False
    """It was not offered while another plan waited for room on its node."""
    calls: int = 0
    """How often the member was called again."""
    awaited: bool = False
    """It will be called again in a moment."""

    def call_again(self) -> int:
        """Note that the member will be called again; return how often that was so before."""
        self.awaited, self.calls = True, self.calls + 1
        return self.calls - 1

    def called(self) -> None:
        """Note that it is called now."""
        self.awaited = False


class TurnedAway(Struct, frozen=True, kw_only=True):
    """What we have kept a member off its seat with (refused_seats.py)."""

    at: float
    """Monotonic time."""
    alone: bool
    """The question was about its nominated seat alone: one about a list may follow."""


class Preemption(Struct, kw_only=True):
    """A plan under way. Mutable; owned by the coordinator."""

    plan: Plan
    id: str = ""
    """Of the plan; its record is named after it."""
    pods: dict[str, Pod]
    """uid -> member as it was when planned; the seats' requests and classes."""
    seats: dict[str, str]
    """uid -> node, for seats not yet seen bound."""
    state: PreemptionState
    since: float
    """Monotonic time at which ``state`` was entered."""
    victims: dict[str, Victim] = field(default_factory=dict)
    """uid -> victim not yet seen gone, evictions of this plan only."""
    waits: dict[str, Victim] = field(default_factory=dict)
    """uid -> pod that was terminating already, not yet seen gone."""
    sent: set[str] = field(default_factory=set)
    """Victims whose eviction the API server has accepted."""
    progress_at: float = 0.0
    """Monotonic time at which the API server accepted an eviction last."""
    deadline: float = 0.0
    """Monotonic time after which the seats go back."""
    missed: dict[str, float] = field(default_factory=dict)
    """Member uid -> since when kube-scheduler does not offer its seat."""
    cleared: set[str] = field(default_factory=set)
    """Members whose nomination kube-scheduler cleared, without a question, while seats are open."""
    refused: set[str] = field(default_factory=set)
    """Members that kube-scheduler would not put on their seats, where that is why it ends."""
    turned_away: dict[str, TurnedAway] = field(default_factory=dict)
    """Member uid -> when we kept it off its seat."""
    put_off: set[str] = field(default_factory=set)
    """Members that wait until the others are offered their seats, too."""
    put_off_until: float = 0.0
    """Monotonic time until which its start is put off for that, at most; 0: it is not."""
    put_offs: int = 0
    """How often it was put off."""
    tries: dict[str, Tries] = field(default_factory=dict)
    """Member uid -> what has come of its open seat."""
    answered: set[str] = field(default_factory=set)
    """Members that were given their seat and may be on their way to it."""
    answered_at: float = 0.0
    """Monotonic time of the last such answer."""
    presumed: set[str] = field(default_factory=set)
    """Members that may have been given their seat in a life before."""
    replans: int = 0
    """How often a plan before was changed, displacements aside."""
    unadmitted: dict[str, Pod] = field(default_factory=dict)
    """uid -> pod of another namespace that came without an offer and may keep a member off its
    untaken seat: by its room, or by a rule wherever it is."""
    displaced_by: tuple[Pod, ...] = ()
    """Those of them that it is changed for."""
    displacements: int = 0
    """How often a plan before was changed for such pods."""
    changed_for: str = ""
    """Why it is changed, in words."""
    completes: bool = False
    """Members sit by a plan before, which it took the place of: it completes their start."""
    started: float = 0.0
    """Monotonic time at which the plan was made."""
    recorded: bool = False
    """Its record is surely written: the plan may act."""
    replaces: tuple[str, ...] = ()
    """Ids of the plans before whose records stay until its own is written."""
    resumed: bool = False
    """It is of a life before, of which a request may still arrive."""
    held: float = 0.0
    """Monotonic time since when the seats are held."""
    told: bool = False
    """Its members were told that evictions have begun."""
    crowded_at: float = 0.0
    """Since when its room is there and others may be on their way to it, monotonic; 0: nobody."""
    closed_at: float = 0.0
    """Since when others were kept away from its nodes for that, monotonic; 0: they never were."""
    closed: bool = False
    """They are kept away now."""
    apart: bool | None = None
    """Whether members keep away from other pods (``counts``); None: nobody has asked yet."""
    unchecked: bool = False
    """Every rule is to be asked of its open seats again."""
    checking: bool = False
    """Every rule is being asked of its seats."""
    check_began: float = 0.0
    """Monotonic time since when, or when that was so last."""
    check_after: float = 0.0
    """Monotonic time from which on they are asked of its open seats again."""
    clear_from: float = 0.0
    """Monotonic time at which asking began last where no rule is against its seats."""
    doubted: bool = False
    """Another pod came to a node with a seat: the plan is to be compared again."""
    evicted_before: frozenset[str] = frozenset()
    """Nodes that pods have gone from for a plan before, which it took the place of."""
    seen: Snapshot | None = None
    """The cluster that the plan was searched for in, until its first eviction."""
    seen_holds: tuple[Hold, ...] = ()
    """Seats that were held for others then."""
    candidates: Candidates | None = None
    """Where a pod of no gang may preempt."""
    spared_at: tuple[object, int] = (None, 0)
    """The snapshot, and the book's version, that room for it was looked for in last."""
    nodes: object = None
    """The cluster's nodes when it was last compared with them; another object when one changed."""
    stayed: dict[str, Victim] = field(default_factory=dict)
    """uid -> victim that does not go, or cannot be evicted, where that is why it ends."""
    unsent: bool = False
    """It ends before the API server took its evictions."""
    overdue: bool = False
    """Pods whose evictions were accepted, or that terminated, did not go in time, for it or for a
    plan that it took the place of: what takes its place evicts no pod."""
    yields: bool = False
    """It ends for the sake of a more urgent plan."""
    binds_held: AbstractSet[str] = frozenset()
    """Members whose bind waits for the others' (bind_barrier/bindings.py)."""
    path: list[tuple[PreemptionState, float]] = field(default_factory=list)
    """The states that it has entered so far, each with its monotonic time: for traces."""

    def enter(self, state: PreemptionState, now: float) -> None:
        """Note that it is in another state; ``now`` is monotonic."""
        self.state, self.since = state, now
        self.path.append((state, now))

    @property
    def key(self) -> GangKey:
        """The gang it is for."""
        return self.plan.gang

    @property
    def over(self) -> bool:
        """Whether the plan has ended, whichever way."""
        return self.state is PreemptionState.ENDED

    @property
    def binding(self) -> bool:
        """Whether members sit already, or may be on their way to their seats.

        Such a gang's seats are not taken over: two gangs would run in part.
        """
        return self.sits or bool(self.answered or self.presumed)

    @property
    def evicted_from(self) -> frozenset[str]:
        """The nodes that pods have gone from, or are going from, for it or for a plan that it took
        the place of. Then also those of pods that terminated already, whose room it counts on."""
        gone = self.evicted_before.union(
            v.node for v in self.plan.victims if v.uid in self.sent or v.uid not in self.victims
        )
        return gone.union(pod.node for pod in self.plan.waits_for) if gone else gone

    @property
    def sits(self) -> bool:
        """Whether a member sits, by this plan or by one that it took the place of."""
        return self.completes or len(self.seats) < len(self.plan.seats)

    def begun_without(self, uid: str) -> bool:
        """Whether other members sit already, or may be on their way: the start goes on."""
        return self.sits or bool((self.answered | self.presumed) - {uid})

    def in_question(self, since: float) -> bool:
        """Whether our own rules may be why an open seat has not been offered ``since`` then. Other
        pods may come all the time, so what was found after that is enough."""
        return (self.unchecked or self.checking) and self.clear_from <= since

    def counts(self, pod: Pod) -> bool:
        """Whether a pod may keep members off their seats from a node without one."""
        if self.apart is None:
            shapes = (member.shape for member in self.pods.values())
            self.apart = any(shape.anti_affinity or shape.spread for shape in shapes)
        return self.apart or bool(pod.shape.anti_affinity)

    @property
    def firm(self) -> bool:
        """Whether its seats keep more urgent pods of no gang away too."""
        return self.closed or self.binding


class VictimUnits:
    """What plans under way are to evict together, by name, while one of these victims is there.

    It is asked at every question about a member of a gang, most of them while ten thousand victims
    go, so they are not looked through. What a plan still has to evict is read from its own victims
    alone: there is no count beside them that could come to say something else.
    """

    def __init__(self) -> None:
        self._plans: dict[GangKey, tuple[Preemption, dict[str, list[str]]]] = {}
        """Plan -> unit -> uids of victims that have not been found gone."""
        self._named: dict[str, set[GangKey]] = {}
        """Unit -> plans that evict it."""

    def entered(self, plan: Preemption) -> None:
        """A plan is under way from now on."""
        units: dict[str, list[str]] = {}
        for uid, victim in plan.victims.items():
            units.setdefault(victim.unit, []).append(uid)
        self._plans[plan.key] = plan, units
        for name in units:
            self._named.setdefault(name, set()).add(plan.key)

    def left(self, key: GangKey) -> None:
        """The gang's plan is under way no more."""
        _, units = self._plans.pop(key)
        for name in units:
            plans = self._named[name]
            plans.discard(key)
            if not plans:
                del self._named[name]

    def taken(self, name: str) -> bool:
        """Whether a victim of a unit is there still."""
        return any(self._there(*self._plans[key], name) for key in self._named.get(name, ()))

    @staticmethod
    def _there(plan: Preemption, units: dict[str, list[str]], name: str) -> bool:
        uids = units[name]
        while uids and uids[-1] not in plan.victims:
            uids.pop()  # so each is found gone once
        return bool(uids)


class Reservations:
    """All plans under way, indexed by gang, member and node."""

    def __init__(self) -> None:
        self.version = 0
        self._preemptions: dict[GangKey, Preemption] = {}
        self._by_id: dict[str, Preemption] = {}
        self._by_member: dict[str, GangKey] = {}
        self._by_node: dict[str, dict[str, Hold]] = {}
        self._units = VictimUnits()
        self._leaving: dict[str, dict[str, Requests]] = {}
        """Node -> uid -> requests of pods whose room the seats there count on."""
        self.touched: Callable[[str], None] = lambda node: None
        """Called with each node whose seats, or the pods that leave them, have changed."""
        self._freed: list[str] = []
        self.booked: dict[str, tuple[BookingClaim, ...]] = {}
        """What gangs with a booked start claim, by node; no part of any plan."""

    def __len__(self) -> int:
        return len(self._preemptions)

    def __iter__(self) -> Iterator[Preemption]:
        return iter(list(self._preemptions.values()))

    def get(self, key: GangKey) -> Preemption | None:
        """Return the gang's plan under way."""
        return self._preemptions.get(key)

    def plan(self, plan_id: str) -> Preemption | None:
        """Return the plan under way of this id."""
        return self._by_id.get(plan_id)

    def of_member(self, uid: str) -> Preemption | None:
        """Return the plan in which this pod has an untaken seat."""
        key = self._by_member.get(uid)
        return self._preemptions.get(key) if key is not None else None

    def takes_unit(self, name: str) -> bool:
        """Whether a plan under way is to evict what goes together under this name."""
        return self._units.taken(name)

    def open_preemption(
        self, preemption: Preemption, leaving: Iterable[tuple[str, str, Requests]]
    ) -> None:
        """Enter a plan; ``leaving`` is (node, uid, requests) of pods about to go."""
        self.close(preemption.key)
        self._preemptions[preemption.key] = self._by_id[preemption.id] = preemption
        self._units.entered(preemption)
        for uid, node in preemption.seats.items():
            self._hold(preemption, uid, node)
        for node, uid, requests in leaving:
            self._leaving.setdefault(node, {})[uid] = requests
            self.touched(node)
        self.version += 1

    def _hold(self, preemption: Preemption, uid: str, node: str) -> None:
        self._by_member[uid] = preemption.key
        self._by_node.setdefault(node, {})[uid] = Hold(
            gang=preemption.key,
            priority=preemption.plan.priority,
            uid=uid,
            node=node,
            requests=preemption.pods[uid].requests,
        )
        self.touched(node)

    def _unhold(self, uid: str, node: str) -> None:
        self.touched(node)
        self._by_member.pop(uid, None)
        held = self._by_node.get(node)
        if held is not None:
            held.pop(uid, None)
            if not held:
                del self._by_node[node]
            self._freed.append(node)

    def take_freed(self) -> Sequence[str]:
        """Return the nodes of which less is held, or perhaps booked, than when it was last called:
        kube-scheduler has left them out of its candidates for whom we kept off them."""
        freed, self._freed = self._freed, []
        return freed

    def close(self, key: GangKey) -> Preemption | None:
        """Take a plan out of the book; its seats are free for everyone again."""
        preemption = self._preemptions.pop(key, None)
        if preemption is None:
            return None
        self._by_id.pop(preemption.id, None)
        self._units.left(key)
        for uid, node in preemption.seats.items():
            self._unhold(uid, node)
        self.version += 1
        return preemption

    def seat_taken(self, uid: str) -> None:
        """Drop the hold of a member that is bound."""
        preemption = self.of_member(uid)
        if preemption is None:
            return
        was = preemption.binding
        self._unhold(uid, preemption.seats.pop(uid))
        preemption.missed.pop(uid, None)
        preemption.answered.discard(uid)
        preemption.presumed.discard(uid)
        self.version += 1
        self._settle_firmness(preemption, was=was)

    def seat_back(self, preemption: Preemption, pod: Pod, node: str) -> None:
        """A member that sat waits again: its seat is held as it was."""
        was = preemption.binding
        preemption.pods[pod.uid] = pod  # one of a life before was not among those that waited
        preemption.seats[pod.uid] = node
        self._hold(preemption, pod.uid, node)
        self.version += 1
        self._settle_firmness(preemption, was=was)

    def seat_lost(self, preemption: Preemption, uid: str) -> None:
        """A member that the others can do without is gone: the plan is for them alone."""
        left = tuple(seat for seat in preemption.plan.seats if seat.uid != uid)
        self.seat_taken(uid)
        preemption.plan = replace(preemption.plan, seats=left)

    def resized(self, preemption: Preemption, pod: Pod) -> None:
        """A member asks for another amount now: its seat takes as much."""
        preemption.pods[pod.uid] = pod
        self._hold(preemption, pod.uid, preemption.seats[pod.uid])
        self.version += 1

    def answered(self, preemption: Preemption, uid: str, now: float) -> None:
        """A member was given its seat at ``now`` (monotonic): its gang's seats are firm."""
        was = preemption.binding
        preemption.answered.add(uid)
        preemption.presumed.discard(
            uid
        )  # it has asked, so it was not on its way from a life before
        preemption.answered_at = now
        self._settle_firmness(preemption, was=was)

    def holds_binds(self, preemption: Preemption, uids: AbstractSet[str]) -> None:
        """These members' binds are held until the others' have come, and no other's."""
        preemption.binds_held = frozenset(uids)

    def keep_away(self, preemption: Preemption, since: float) -> None:
        """Keep more urgent pods of no gang off its seats since then (monotonic); 0: no longer."""
        preemption.closed = bool(since)
        preemption.closed_at = since or preemption.closed_at
        self.version += 1  # what others were told of these seats does not stand
        for node in preemption.seats.values():
            self.touched(node)

    def not_coming(self, preemption: Preemption, uids: Iterable[str]) -> None:
        """These members are not on their way to their seats, or not any more."""
        was = preemption.binding
        gone = set(uids)
        preemption.answered -= gone
        preemption.presumed -= gone
        self._settle_firmness(preemption, was=was)

    def _settle_firmness(self, preemption: Preemption, *, was: bool) -> None:
        if preemption.binding is not was:
            self.version += 1  # what others were told of these seats does not stand
            for node in preemption.seats.values():
                self.touched(node)

    def pod_left(self, node: str, uid: str) -> None:
        """Forget a leaving pod: its room is really free now, and it is in nobody's way."""
        for preemption in self._preemptions.values():
            came = uid in preemption.unadmitted
            if came and all(victim.uid != uid for victim in preemption.plan.victims):
                del preemption.unadmitted[uid]  # a victim's namespace is charged for it
        leaving = self._leaving.get(node)
        if leaving is not None and leaving.pop(uid, None) is not None:
            self.version += 1
            self.touched(node)
            if not leaving:
                del self._leaving[node]

    def swap(self, preemption: Preemption, one: str, other: str) -> None:
        """Exchange the seats of two members of one plan."""
        a, b = preemption.seats[one], preemption.seats[other]
        self._unhold(one, a)
        self._unhold(other, b)
        preemption.seats[one], preemption.seats[other] = b, a
        self._hold(preemption, one, b)
        self._hold(preemption, other, a)
        self.version += 1

    def move(self, preemption: Preemption, uid: str, node: str) -> None:
        """Move a member's seat to another node."""
        self._unhold(uid, preemption.seats[uid])
        preemption.seats[uid] = node
        preemption.missed.pop(uid, None)
        preemption.tries.pop(uid, None)
        self._hold(preemption, uid, node)
        self.version += 1

    def holds(self) -> list[Hold]:
        """Return every untaken seat, by node then uid; firm where its gang is being seated."""
        firm = {preemption.key for preemption in self._preemptions.values() if preemption.binding}
        return [
            replace(held[uid], firm=True) if held[uid].gang in firm else held[uid]
            for _, held in sorted(self._by_node.items())
            for uid in sorted(held)
        ]

    def doubt(self, node: str, but: Preemption | None = None) -> None:
        """Have the plans with seats on a node compared again, all but one."""
        for key in {hold.gang for hold in self.holds_on(node)}:
            preemption = self._preemptions.get(key)
            if preemption is not None and preemption is not but:
                preemption.doubted = True

    def unadmitted(self, pod: Pod) -> None:
        """A pod came to its node, grew there or has other labels, without an offer: plans of other
        namespaces are not to blame for what they lack because of it."""
        beside = {hold.gang for hold in self.holds_on(pod.node)}
        for key, preemption in self._preemptions.items():
            if key not in beside and not preemption.counts(pod):
                continue
            preemption.unchecked = True
            if key.namespace == pod.namespace:
                continue
            preemption.unadmitted[pod.uid] = pod

    def nodes(self) -> set[str]:
        """Return the nodes on which a seat is held, or room is booked."""
        return self._by_node.keys() | self.booked.keys()

    def book_room(self, claims: Mapping[str, tuple[BookingClaim, ...]]) -> None:
        """Take what booked starts keep of these nodes now; of the others it stays as it was."""
        changed = [node for node, each in claims.items() if each != self.booked.get(node, ())]
        self.version += bool(changed)  # what others were told of these nodes does not stand
        for node in changed:
            self.booked[node] = claims[node]
            if not claims[node]:
                del self.booked[node]
        for node in changed:
            self.touched(node)
        self._freed += changed

    def holds_on(self, node: str) -> Iterable[Hold]:
        """Return the seats held on a node."""
        return self._by_node.get(node, {}).values()

    def holds_against(self, node: str, priority: int) -> list[Hold]:
        """Return the seats on a node that keep a pod of this priority away: of gangs as urgent or
        more, and firm ones. Between a gang's first member and its last nobody comes, else it would
        start in part; nor while they are kept away (crowding)."""
        return [
            hold
            for hold in self.holds_on(node)
            if hold.priority >= priority or self._preemptions[hold.gang].firm
        ]

    def limited(self, hold: Hold) -> frozenset[str]:
        """Return what the member needs of which it is not known how much there is
        (PodShape.limited), if pods are evicted for its gang: others are kept from taking it."""
        preemption = self._preemptions.get(hold.gang)
        pod = None if preemption is None else preemption.pods.get(hold.uid)
        if preemption is None or pod is None:
            return frozenset()
        evicts = preemption.plan.victims or preemption.evicted_before
        return pod.shape.limited if evicts else frozenset()

    def limited_nodes(
        self,
        gang: GangKey,
        priority: int,
        needs: AbstractSet[str],
        nodes: Mapping[str, Node],
    ) -> frozenset[str]:
        """Return the nodes where seats that keep this gang away are of members that need some of
        the same (``limited``); ``needs`` is a PodShape's."""
        return frozenset(
            node
            for node in (self._by_node if needs else ())
            for hold in self.holds_against(node, priority)
            if hold.gang != gang
            and (limited := self.limited(hold))
            and limited_for_both(nodes.get(node), limited, needs)
        )

    def leaving_on(self, node: str) -> Collection[LeavingPod]:
        """Return the pods on a node that a plan counts as gone."""
        return self._leaving.get(node, {}).items()


def seats_of(preemption: Preemption) -> tuple[Seat, ...]:
    """Return the untaken seats as records, by node then uid."""
    return tuple(
        Seat(
            uid=uid,
            namespace=preemption.pods[uid].namespace,
            name=preemption.pods[uid].name,
            node=node,
        )
        for uid, node in sorted(preemption.seats.items(), key=lambda item: (item[1], item[0]))
    )
