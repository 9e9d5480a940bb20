"""One preemption between an API server, a scheduler, a record, and a process that is killed.

The machine is the real one (``extender.gang.core.preemption``), and so are the seats and the victim
group. Two members have seats, m0 on na and m1 on nb; the group low of two pods, a on na and b on
nb, makes room. What the record keeper, a search and a restart do is said here in a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from functools import cache
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from extender.gang.core import preemption as machine
from extender.gang.core.preemption import (
    Allowance,
    Begun,
    BudgetsNotRead,
    BudgetsRead,
    DoesNotHold,
    End,
    PlanEvent,
    Plans,
    PodSeen,
    Presumed,
    Recorded,
    RecordFailed,
    RehearsalRefused,
    Rehearsed,
    Resumed,
    Tick,
    drafted,
    step,
)
from extender.gang.core.refusals import Refusals
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.core.victim_group import (
    Answer,
    Answered,
    Claim,
    Claimed,
    ComeBack,
    Evict,
    Failure,
    Leaves,
    LookAgain,
    Owes,
    Read,
    Released,
    Tables,
    VictimGroup,
)
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.objects import DisruptionBudget, GangKey, Node, Pod
from extender.model.plan import Plan, Seat, Victim
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot
from tests.explorer.eviction_requests import EvictionRequests, write_words
from tests.explorer.victim_world import cloned, frozen

ID = "p"
HIGH, LOW = GangKey("pod-group", "default", "high"), GangKey("pod-group", "default", "low")
NOW, A_WHILE, TOO_LATE = 100.0, 116.0, 1000.0
"""Moments, monotonic: what happens takes no time, but for two ticks that come later."""
SEATS = {"m0": "na", "m1": "nb"}
ON = {"a": "na", "b": "nb"}
VICTIMS = frozenset(ON)
NODES: tuple[dict[str, Node], dict[str, Node]] = ({}, {})
"""The cluster's nodes before and after one has gone; only which object it is matters."""
PLAN = Plan(
    gang=HIGH,
    priority=10,
    seats=tuple(Seat(uid, "default", uid, node) for uid, node in SEATS.items()),
    victims=tuple(Victim(u, "default", u, node, 0, unit=str(LOW)) for u, node in ON.items()),
)
_VICTIM = {victim.uid: victim for victim in PLAN.victims}


class Setting(Struct, frozen=True):
    """How often something may happen. Zero: never."""

    rehearsals: int = 0
    """Rehearsals that are refused."""
    records: int = 0
    """Writes of the record that fail: it is there then, or not."""
    budgets: int = 0
    """Reads of budgets that fail, or say no, or that others' evictions come first."""
    lost: int = 0
    """Requests whose answer does not come."""
    refusals: int = 0
    deletions: int = 0
    """Members that are deleted."""
    nodes: int = 0
    """Nodes that go."""
    doubts: int = 0
    """Times that the plan does not hold for another reason."""
    returns: int = 0
    """Times that a member comes back from its seat."""
    crowds: int = 0
    """Assumed pods that come in the way."""
    leases: int = 0
    """Leases that are lost."""
    kills: int = 0
    late: int = 0
    """Deadlines that pass."""
    forgetful: bool = False
    """A mistake: a restart does not read the record."""
    unasked: bool = False
    """A mistake: the lease is not asked before a request."""

    def world(self) -> PreemptionWorld:
        """Return its first state."""
        return PreemptionWorld(self)


class Members(Struct, frozen=True):
    """What has become of the two: waiting, answered (on its way to its seat), bound, gone."""

    m0: str = "waiting"
    m1: str = "waiting"

    def of(self, uid: str) -> str:
        """Return what has become of one."""
        return self.m0 if uid == "m0" else self.m1

    def any(self, *states: str) -> bool:
        """Whether one is in one of these states."""
        return self.m0 in states or self.m1 in states


class NoOffers:
    """Nothing is on its way but what the world says."""

    def note(self, pod: Pod, nodes: Sequence[str] | None) -> None:
        """Take no note."""

    def settled(self, uid: str) -> object:
        """Return that nothing was offered."""
        return None


def _no_time() -> float:
    return 0.0


def _plans() -> Plans:
    plans = Plans(
        reservations=Reservations(),
        victims=Tables(2, 1, 1e9, Refusals(_no_time)),
        offers=NoOffers(),
        settings=Settings(),
        wanted={},
    )
    plans.ground = (NODES[0], None)
    return plans


def _pod(uid: str, node: str) -> Pod:
    return Pod(uid=uid, namespace="default", name=uid, node=node, requests=(("pods", 1),))


@cache
def _snapshot(shown: frozenset[str], members: Members, lost_node: str) -> Snapshot:
    bound: dict[str, tuple[Pod, ...]] = {"na": (), "nb": ()}
    for uid in sorted(shown):
        bound[ON[uid]] += (_pod(uid, ON[uid]),)
    pending = {}
    for uid, node in SEATS.items():
        if members.of(uid) == "bound":
            bound[node] += (_pod(uid, node),)
        elif members.of(uid) != "gone":
            pending[uid] = _pod(uid, "")
    return Snapshot(generation=1, nodes=NODES[bool(lost_node)], bound=bound, pending=pending)


class PreemptionWorld(EvictionRequests):
    """One state."""

    def __init__(self, setting: Setting) -> None:
        self.setting = self.left = setting
        """``left``: what may still happen."""
        self.plans = _plans()
        self.here = self.shown = VICTIMS
        self.ours: frozenset[str] = frozenset()
        self.members = Members()
        self.lost_node = ""
        self.crowd = False
        self.leads = True
        self.record: frozenset[str] | str = ""
        """What is stored: "plan", the uids that are owed, or "" for nothing."""
        self.written: frozenset[str] | str = ""
        """What the process knows to be there, or has to make sure of."""
        self.write: frozenset[str] | str | None = None
        """What is on its way there."""
        self.ended = False
        """The plan is over, for the keeper of records."""
        self.rehearsing = self.searching = self.reading = self.allowed = False
        """``allowed``: this process has read that the budgets allow what the plan evicts."""
        self.allowance = Allowance()
        self.wire: dict[str, str] = {}
        """Uid -> how far a request has come: asked, left, done, absent (404), denied."""
        self.reads: frozenset[str] = frozenset()
        self.late: frozenset[str] = frozenset()
        """Uids of requests that were lost sight of and may arrive."""
        self.timers: frozenset[PlanEvent] = frozenset()
        self.excused = False
        """Something was lost when a member might have been on its way already."""
        self.bad = ""
        self.feed(Begun(drafted(PLAN, ID, NOW, self.snapshot())))

    # -- the view that the machine is given -----------------------------------------------

    def snapshot(self) -> Snapshot:
        return _snapshot(self.shown, self.members, self.lost_node)

    def stale(self) -> str | None:
        return None

    def problem(self, preemption: Preemption) -> str:
        if self.lost_node in preemption.seats.values():
            return f"node {self.lost_node} is gone"
        return "a member is gone" if self.members.any("gone") else ""

    def no_longer(self, preemption: Preemption, *, evicts: bool = False) -> str:
        return ""

    def stays(self, preemption: Preemption) -> str:
        return ""

    def spares(self, preemption: Preemption) -> str:
        return ""

    def gone_in_part(self, preemption: Preemption, group: VictimGroup, claim: Claim) -> str:
        return ""

    def of_unit(self, victims: Sequence[Victim], priority: int) -> str:
        return ""

    def gang_of(self, victim: Victim) -> Gang | None:
        return None

    def crowded(self, preemption: Preemption) -> bool:
        return self.crowd

    def does_without(self, preemption: Preemption, uid: str) -> bool:
        return False

    def displaced_by(self, preemption: Preemption, refused: AbstractSet[str]) -> tuple[Pod, ...]:
        return ()

    def budgeted(self, victims: Collection[Victim], priority: int) -> frozenset[str]:
        return frozenset()

    def budgets_of(self, preemption: Preemption) -> Sequence[str]:
        victims = self.plans.victims
        left = any(not victims.takes(uid) for uid in preemption.victims)
        return ("default",) if self.setting.budgets and left else ()

    def allowed_by(self, preemption: Preemption, budgets: Sequence[DisruptionBudget]) -> Allowance:
        return self.allowance

    def leaves(self, pod: Pod, wall: float) -> bool:
        return False

    def member_key(self, pod: Pod) -> GangKey | None:
        return HIGH if pod.uid in SEATS else LOW

    def needs_nominations(self) -> bool:
        return False

    def on_its_way(self, name: str) -> bool:
        return False

    # -- what happens ---------------------------------------------------------------------

    @property
    def plan(self) -> Preemption | None:
        """The plan in flight."""
        return self.plans.reservations.get(HIGH)

    def feed(self, event: PlanEvent, now: float = NOW) -> Self:
        """Hand the machine an event and put its effects on their way."""
        for effect in step(self.plans, event, now, self):
            match effect:
                case machine.Rehearse():
                    self.rehearsing = True
                case machine.WriteRecord():
                    self.write = "plan"
                case machine.ReadBudgets():
                    self.reading = True
                case machine.Search():
                    self.searching = True
                case machine.RecordOver():
                    self.ended = True
                    self.settle()
                case Owes():
                    self.settle()
                case Evict(victim):
                    self.bad = self.ask(victim.uid) or self.bad
                case Read(victim):
                    self.reads |= {victim.uid}
                case ComeBack(later, _) | machine.Later(later, _):
                    self.timers |= {later}
                case machine.Defect(error, at):
                    self.bad = f"{at} is not taken in: {error!r}"
        self._level()
        return self

    def _level(self) -> None:
        """Put moments back to now, so that states are the same whenever they are reached."""
        self.plans.looks_after = 0.0
        plan = self.plan
        if plan is not None:
            plan.since = plan.progress_at = plan.answered_at = NOW
            plan.deadline = NOW + 60.0
            plan.crowded_at = NOW if plan.crowded_at else 0.0
            plan.closed_at = NOW if plan.closed_at else 0.0
            plan.path.clear()

    def settle(self) -> None:
        """Have the record of a plan that is over say what is owed."""
        if not self.ended or self.write is not None or not self.written:
            return
        owed = frozenset(victim.uid for victim in self.plans.victims.owed(ID))
        if not owed or self.written == "plan":
            self.write = owed

    def copy(self) -> Self:
        twin = copy(self)
        twin.wire = dict(self.wire)
        twin.plans = _cloned(self.plans)
        return twin

    def may(self, trouble: str) -> int:
        left: int = getattr(self.left, trouble)
        return left

    def spend(self, trouble: str) -> Self:
        twin = self.copy()
        twin.left = replace(self.left, **{trouble: self.may(trouble) - 1})
        return twin

    # -- what may happen ------------------------------------------------------------------

    def moves(self) -> Iterator[tuple[str, Self, bool]]:
        """Return what may happen next, the world after it, and whether it has to happen."""
        yield from self._steps()
        yield from self._stored()
        yield from self.requests()
        yield from self._cluster()
        yield from self._members()
        yield from self._time()
        yield from self._restarts()

    def _steps(self) -> Iterator[tuple[str, Self, bool]]:
        if self.rehearsing:
            world = self.copy()
            world.rehearsing = False
            yield "the rehearsal is accepted", world.feed(Rehearsed(ID)), True
            if self.left.rehearsals and "a" in self.here:
                world = self.spend("rehearsals")
                world.rehearsing = False
                refused = RehearsalRefused(ID, "a", Failure("no"), readable=True, told="no")
                yield "the rehearsal is refused", world.feed(refused), False
        if self.reading:
            yield from self._budgets()
        plan = self.plan
        if self.searching:
            world = self.copy()
            world.searching = False
            if plan is not None:
                world.excused |= self.members.any("answered", "bound")
                assert world.plan is not None
                world.feed(End(world.plan, "there is no other plan"))
            yield "the search finds no other plan", world, True
        if self.left.doubts and plan is not None and plan.state is not PreemptionState.CHANGING:
            world = self.spend("doubts")
            assert world.plan is not None
            yield "the plan does not hold", world.feed(DoesNotHold(world.plan, "so")), False

    def _budgets(self) -> Iterator[tuple[str, Self, bool]]:
        read = BudgetsRead(ID, (), self.plans.accepted)
        world = self.copy()
        world.reading, world.allowed, world.allowance = False, True, Allowance()
        yield "the budgets allow it", world.feed(read), True
        if not self.left.budgets:
            return
        said = {"no": Allowance("a", "no"), "that others go first": Allowance(waits=True)}
        for told, allowance in said.items():
            if allowance.uid in {"", *(self.plan.victims if self.plan is not None else ())}:
                world = self.spend("budgets")
                world.reading, world.allowance = False, allowance
                yield f"the budgets say {told}", world.feed(read), False
        world = self.spend("budgets")
        world.reading = False
        yield "the budgets cannot be read", world.feed(BudgetsNotRead(ID, "no")), False

    def _stored(self) -> Iterator[tuple[str, Self, bool]]:
        if self.write is None or not self.leads:
            return
        first = self.write == "plan"
        world = self.copy()
        world.record = world.written = self.write or ""
        world.write = None
        if first:
            world.feed(Recorded(ID))
        world.settle()
        yield f"the record is stored: {write_words(self.write)}", world, True
        if first and self.left.records:
            for there in (False, True):
                world = self.spend("records")
                world.record = "plan" if there else ""
                world.written, world.write = "plan", None  # it may be there, so it is deleted
                world.feed(RecordFailed(ID, "no answer"))
                world.settle()
                told = "it is there" if there else "it is not there"
                yield f"the write of the record fails, {told}", world, False

    def leave(self, uid: str) -> str:
        permitted = False
        if self.leads or self.setting.unasked:
            permitted, compared = machine.permits(self.plans, uid, self)
            if compared is not None:
                self.feed(compared)
        if not permitted:
            del self.wire[uid]
            self.feed(Answered(uid, Answer.NOT_SENT))
            return f"the eviction of {uid} is called off"
        if not self.leads:
            self.bad = f"the eviction of {uid} leaves, and the lease is lost"
        elif not self.record:
            self.bad = f"the eviction of {uid} leaves, and no record is stored"
        elif self.setting.budgets and not (self.allowed or self._begun()):
            self.bad = f"the eviction of {uid} leaves, and its budgets are not read"
        elif not self._wanted():
            self.bad = f"{uid} is evicted for no plan, and no pod of its group was evicted"
        self.feed(Leaves(uid))
        self.wire[uid] = "left"
        return f"the eviction of {uid} leaves"

    def _wanted(self) -> bool:
        """Whether the plan evicts, or an eviction may have begun already."""
        evicts = self.plan is not None and self.plan.state is PreemptionState.EVICTING
        return evicts or self._begun()

    def _begun(self) -> bool:
        """Whether a part of the group has gone, or may have."""
        unclear = any(getattr(self.left, n) < getattr(self.setting, n) for n in UNCLEAR)
        return unclear or bool(self.ours) or any(stage != "asked" for stage in self.wire.values())

    def _cluster(self) -> Iterator[tuple[str, Self, bool]]:
        yield from self.lost_requests()
        for uid in sorted(self.shown - self.here):
            world = self.copy()
            world.shown -= {uid}
            yield f"{uid} is seen gone", world.feed(PodSeen(_pod(uid, ON[uid]), None, 0.0)), True
        if self.left.nodes:
            world = self.spend("nodes")
            world.lost_node = "nb"
            opened = self.plan is not None and self.plan.state is PreemptionState.OPEN
            world.excused |= opened or self.members.any("answered", "bound")
            yield "node nb is gone", world, False
        if self.crowd:
            world = self.copy()
            world.crowd = False
            yield "the assumed pod is on another node", world, True
        elif self.left.crowds:
            world = self.spend("crowds")
            world.crowd = True
            yield "an assumed pod is in the way", world, False

    def _members(self) -> Iterator[tuple[str, Self, bool]]:
        for uid, node in SEATS.items():
            state, pod = self.members.of(uid), _pod(uid, "")
            plan = self.plans.reservations.of_member(uid)
            opened = plan is not None and plan.state is PreemptionState.OPEN
            if state == "waiting" and opened and self.leads and self.lost_node != node:
                world = self.copy().become(uid, "answered")
                twin = world.plans.reservations.of_member(uid)
                assert twin is not None
                world.plans.reservations.answered(twin, uid, NOW)
                if self.shown:
                    there = ", ".join(sorted(self.shown))
                    world.bad = f"{uid} is given its seat, and {there} has not gone"
                yield f"{uid} asks and is given its seat", world, True
            if state == "answered":
                if node != self.lost_node:
                    world = self.copy().become(uid, "bound")
                    seen = PodSeen(pod, _pod(uid, node), 0.0)
                    yield f"{uid} is bound", world.feed(seen), True
                if node == self.lost_node or self.left.returns:
                    needed = node == self.lost_node
                    world = self.copy() if needed else self.spend("returns")
                    world.become(uid, "waiting")
                    twin = world.plans.reservations.of_member(uid)
                    if twin is not None:
                        world.plans.reservations.not_coming(twin, [uid])
                    yield f"{uid} comes back", world, needed
            if state != "gone" and self.left.deletions:
                world = self.spend("deletions").become(uid, "gone")
                world.excused |= self.members.any("answered", "bound")
                old = _pod(uid, node) if state == "bound" else pod
                yield f"{uid} is deleted", world.feed(PodSeen(old, None, 0.0)), False

    def become(self, uid: str, state: str) -> Self:
        """A member is in another state."""
        self.members = replace(self.members, **{uid: state})
        return self

    def _time(self) -> Iterator[tuple[str, Self, bool]]:
        for timer in sorted(self.timers, key=str):
            group = None
            if isinstance(timer, LookAgain):
                group = self.plans.victims.groups.get(timer.name)
            now = NOW
            if group is not None and group.watched_until > 0:
                if self.late or self.wire or self.reads or self.shown != self.here:
                    continue
                now = group.watched_until
            elif isinstance(timer, Presumed) and self.members.any("answered"):
                continue
            world = self.copy()
            world.timers -= {timer}
            yield f"it is time for {type(timer).__name__}", world.feed(timer, now), True
        if self.plan is not None:
            key = self.key()
            world = self.copy().feed(Tick(frozenset()))
            if world.key() != key:
                yield "a tick", world, True
            world = self.copy().feed(Tick(frozenset()), A_WHILE)
            if world.key() != key:
                yield "16 seconds pass", world, False
            watched = any(g.watched_until for g in self.plans.victims.groups.values())
            if self.left.late and not watched:  # what is watched for comes sooner
                world = self.spend("late")
                world.excused |= self.members.any("answered", "bound")
                yield "the deadline passes", world.feed(Tick(frozenset()), TOO_LATE), False

    def _restarts(self) -> Iterator[tuple[str, Self, bool]]:
        if self.leads and self.left.leases:
            world = self.spend("leases")
            world.leads = False
            yield "the lease is lost", world, False
        if not self.leads:
            yield from self._again("another process takes over", self.copy, needed=True)
        elif self.left.kills:
            told = "the process is killed and starts again"
            yield from self._again(told, lambda: self.spend("kills"), needed=False)

    def _again(
        self, told: str, made: Callable[[], Self], *, needed: bool
    ) -> Iterator[tuple[str, Self, bool]]:
        for landed in (False, True) if self.write is not None else (False,):
            world = made()
            world.late |= {uid for uid, stage in world.wire.items() if stage == "left"}
            world.wire, world.reads, world.timers = {}, frozenset(), frozenset()
            world.shown, world.leads = world.here, True
            world.rehearsing = world.searching = world.ended = False
            world.reading = world.allowed = False
            if landed:
                world.record = world.write or ""
            world.write, world.plans = None, _plans()
            world.recover()
            yield told + ("; what was written had arrived" if landed else ""), world, needed

    def recover(self) -> None:
        """Take the record in, as controller/recovery.py does."""
        self.written = self.record
        if not self.record or self.setting.forgetful:
            return
        owed = VICTIMS if self.record == "plan" else frozenset(self.record)
        if left := self.here & owed:
            self.claim(left)
        waiting = {u: n for u, n in SEATS.items() if self.members.of(u) in ("waiting", "answered")}
        if self.record == "plan" and waiting and not self.members.any("gone"):
            made = drafted(PLAN, ID, NOW, self.snapshot())
            made.seats, made.recorded, made.resumed = waiting, True, True
            self.feed(Resumed(made))
            if not made.over:
                return
            self.write = None  # what is owed is counted again before it is written
        self.feed(Released(ID))
        self.ended = True
        self.settle()

    def claim(self, uids: frozenset[str]) -> None:
        """Claim what is left of the group for the plan of the life before, or watch it."""
        begun = self.here != VICTIMS
        claim = Claim(
            plan_id=ID, preemptor=HIGH, priority=10, message="", uids=uids, released=not begun
        )
        victims = tuple(_VICTIM[uid] for uid in sorted(uids))
        self.feed(Claimed(claim, victims, size=len(VICTIMS), begun=begun, watched=True))

    # -- what must hold -------------------------------------------------------------------

    def wrong(self, *, at_rest: bool) -> str:
        """Return what is wrong."""
        if self.bad or not at_rest:
            return self.bad
        if self.ours and self.here:
            stay, went = ", ".join(sorted(self.here)), ", ".join(sorted(self.ours))
            return f"the group has gone in part for good: {went} by our hand, {stay} stays"
        if self.plan is not None and not self.plan.over:
            return f"the plan waits for nothing ({self.plan.state.value})"
        book = self.plans.reservations
        if book.nodes() or len(book) or any(book.leaving_on(node) for node in ON.values()):
            return "seats are held, and no plan is in flight"
        if self.plans.wanted:
            return "pods are to go, and no plan is in flight"
        if self.record:
            return f"a record is left of a plan that is over: {write_words(self.record)}"
        if self.plans.victims.groups:
            return "a group is left that no plan wants"
        if [self.members.m0, self.members.m1].count("bound") == 1 and not self.excused:
            return "one member is bound, and the other is not"
        return ""

    def key(self) -> Hashable:
        """Return what tells states apart."""
        return (
            (self.here, self.shown, self.ours, self.late, self.reads, self.timers),
            (self.members.m0, self.members.m1, self.lost_node, self.crowd, self.leads),
            (self.record, self.written, self.write, self.ended, self.rehearsing, self.searching),
            (self.reading, self.allowed),
            tuple(sorted(self.wire.items())),
            (self.excused, self.bad, self.left),
            _frozen(self.plans),
        )


UNCLEAR = ("lost", "kills", "leases")
"""What leaves it open whether a request was done."""


def _cloned(plans: Plans) -> Plans:
    """Return plans of their own that say the same."""
    twin, book = copy(plans), Reservations()
    for preemption in plans.reservations:
        other = copy(preemption)
        other.pods, other.seats = dict(preemption.pods), dict(preemption.seats)
        other.victims, other.waits = dict(preemption.victims), dict(preemption.waits)
        other.sent, other.answered = set(preemption.sent), set(preemption.answered)
        other.presumed, other.stayed = set(preemption.presumed), dict(preemption.stayed)
        other.tries, other.path = dict(preemption.tries), []
        other.refused = set(preemption.refused)
        leaving = [
            (node, uid, requests)
            for node in ON.values()
            for uid, requests in plans.reservations.leaving_on(node)
        ]
        book.open_preemption(other, leaving)
    twin.reservations, twin.victims = book, cloned(plans.victims)
    twin.wanted = {uid: set(keys) for uid, keys in plans.wanted.items()}
    return twin


def _frozen(plans: Plans) -> Hashable:
    book = plans.reservations
    return (
        frozen(plans.victims),
        tuple(_frozen_preemption(preemption) for preemption in book),
        tuple(tuple(uid for uid, _ in book.leaving_on(node)) for node in ON.values()),
        tuple(sorted(plans.wanted)),
        plans.ground[0] is NODES[1],
    )


def _frozen_preemption(plan: Preemption) -> Hashable:
    return (
        plan.state.value,
        tuple(sorted(plan.seats)),
        tuple(sorted(plan.victims)),
        tuple(sorted(plan.sent)),
        tuple(sorted(plan.answered)),
        tuple(sorted(plan.presumed)),
        (plan.recorded, plan.resumed, plan.told, plan.doubted),
        (plan.crowded_at > 0, plan.closed_at > 0, plan.closed),
        plan.nodes is NODES[1],
    )
