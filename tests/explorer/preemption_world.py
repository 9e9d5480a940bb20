"""Preemptions between an API server, a scheduler, their records, and a process that is killed.

The machine is the real one (``extender.gang.core.preemption``), and so are the seats and the victim
group. Two members have seats, m0 on na and m1 on nb; the group low of two pods, a on na and b on
nb, makes room. They are of one plan, p, or each of its own, p and q, and both want low gone. What
the record keeper, a search and a restart do is said here in a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from functools import cache
from itertools import product
from typing import Self

from msgspec import Struct
from msgspec.structs import astuple, replace

from extender.gang.core import preemption as machine
from extender.gang.core.preemption import (
    Allowance,
    Begun,
    BudgetsNotRead,
    BudgetsRead,
    Checked,
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
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.explorer.eviction_requests import EvictionRequests, write_words
from tests.explorer.victim_world import cloned, frozen

HIGH, TOP, LOW = (GangKey("pod-group", "default", name) for name in ("high", "top", "low"))
NOW, A_WHILE, TOO_LATE = 100.0, 116.0, 1000.0
"""Moments, monotonic: what happens takes no time, but for two ticks that come later."""
SEATS = {"m0": "na", "m1": "nb"}
ON = {"a": "na", "b": "nb"}
VICTIMS = frozenset(ON)
NODES: tuple[dict[str, Node], dict[str, Node]] = ({}, {})
"""The cluster's nodes before and after one has gone; only which object it is matters."""
_VICTIM = {u: Victim(u, "default", u, node, 0, unit=str(LOW)) for u, node in ON.items()}


def _plan(gang: GangKey, priority: int, *members: str) -> Plan:
    seats = tuple(Seat(uid, "default", uid, SEATS[uid]) for uid in members)
    return Plan(gang=gang, priority=priority, seats=seats, victims=tuple(_VICTIM.values()))


ONE = {"p": _plan(HIGH, 10, "m0", "m1")}
EQUAL = {"p": _plan(HIGH, 10, "m0"), "q": _plan(TOP, 10, "m1")}
URGENT = {"p": _plan(HIGH, 10, "m0"), "q": _plan(TOP, 20, "m1")}


class Setting(Struct, frozen=True):
    """How often something may happen. Zero: never."""

    equal: int = 0
    """Plans of the same priority that come besides."""
    urgent: int = 0
    """More urgent plans that come besides."""
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
    rules: int = 0
    """Times that a pod comes which a rule keeps from an open seat, or may keep."""
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

    @property
    def made(self) -> dict[str, Plan]:
        """Plan id -> the plan."""
        return URGENT if self.urgent else EQUAL if self.equal else ONE


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


class Carried(Struct):
    """What is under way for a plan, and how far its record has come."""

    rehearsing: bool = False
    reading: tuple[Sequence[tuple[str, str]], int] | None = None
    """Its budgets are being read: which ones, and how many evictions were accepted."""
    allowed: bool = False
    """This process has read that the budgets allow what it evicts."""
    searching: bool = False
    checking: bool = False
    record: frozenset[str] | str = ""
    """What is stored: "plan", the uids that are owed, or "" for nothing."""
    written: frozenset[str] | str = ""
    """What the process knows to be there, or has to make sure of."""
    write: frozenset[str] | str | None = None
    """What is on its way there."""
    ended: bool = False
    """It is over, for the keeper of records."""

    def settle(self, id: str, plans: Plans) -> None:
        """Have the record of a plan that is over say what is owed."""
        if not self.ended or self.write is not None or not self.written:
            return
        owed = frozenset(victim.uid for victim in plans.victims.owed(id))
        if not owed or self.written == "plan":
            self.write = owed


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
        self.of = {id: Carried() for id in setting.made}
        """Plan id -> what is under way for it."""
        self.begun = {"p"}
        """Ids of plans that have been made."""
        self.allowance = Allowance({}, waits=False)
        self.wire: dict[str, str] = {}
        """Uid -> how far a request has come: asked, left, done, absent (404), denied."""
        self.reads: frozenset[str] = frozenset()
        self.late: frozenset[str] = frozenset()
        """Uids of requests that were lost sight of and may arrive."""
        self.timers: frozenset[PlanEvent] = frozenset()
        self.excused = False
        """Something was lost when a member might have been on its way already."""
        self.bad = ""
        self.begin("p")

    # -- the view that the machine is given -----------------------------------------------

    def snapshot(self) -> Snapshot:
        return _snapshot(self.shown, self.members, self.lost_node)

    def behind(self) -> bool:
        return False

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

    def has_spare(self, preemption: Preemption, uid: str) -> bool:
        return False

    def displaced_by(self, preemption: Preemption, refused: AbstractSet[str]) -> tuple[Pod, ...]:
        return ()

    def budgeted(self, victims: Collection[Victim], priority: int) -> frozenset[str]:
        return frozenset()

    def budgets_of(self, preemption: Preemption) -> Sequence[tuple[str, str]]:
        victims = self.plans.victims
        left = any(not victims.takes(uid) for uid in preemption.victims)
        return (("default", "b"),) if self.setting.budgets and left else ()

    def allowed_by(self, preemption: Preemption, budgets: Sequence[DisruptionBudget]) -> Allowance:
        return self.allowance

    def leaves(self, pod: Pod, wall: float) -> bool:
        return False

    def member_key(self, pod: Pod) -> GangKey | None:
        plans = self.setting.made.values()
        own = [plan.gang for plan in plans if any(seat.uid == pod.uid for seat in plan.seats)]
        return own[0] if own else LOW

    def needs_nominations(self) -> bool:
        return False

    def on_its_way(self, name: str) -> bool:
        return False

    # -- what happens ---------------------------------------------------------------------

    def plan(self, id: str) -> Preemption | None:
        """Return the plan if it is under way."""
        return self.plans.reservations.plan(id)

    def begin(self, id: str) -> None:
        """A plan is made."""
        self.feed(Begun(drafted(self.setting.made[id], id, NOW, self.snapshot())))

    def feed(self, event: PlanEvent, now: float = NOW) -> Self:
        """Hand the machine an event and put its effects on their way."""
        for effect in step(self.plans, event, now, self):
            match effect:
                case machine.Rehearse(preemption):
                    self.of[preemption.id].rehearsing = True
                case machine.WriteRecord(preemption):
                    self.of[preemption.id].write = "plan"
                case machine.Check(preemption):
                    self.of[preemption.id].checking = True
                case machine.ReadBudgets(preemption, names, accepted):
                    self.of[preemption.id].reading = (names, accepted)
                case machine.Search(preemption):
                    self.of[preemption.id].searching = True
                case machine.RecordOver(plan_id):
                    self.of[plan_id].ended = True
                    self.of[plan_id].settle(plan_id, self.plans)
                case Owes(plan_id):
                    self.of[plan_id].settle(plan_id, self.plans)
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
        for plan in self.plans.reservations:
            plan.since = plan.progress_at = plan.answered_at = NOW
            plan.deadline = NOW + 60.0
            plan.check_began = plan.check_after = plan.clear_from = 0.0
            plan.apart = None
            plan.crowded_at = NOW if plan.crowded_at else 0.0
            plan.closed_at = NOW if plan.closed_at else 0.0
            plan.path.clear()

    def copy(self) -> Self:
        twin = copy(self)
        twin.wire = dict(self.wire)
        twin.plans = _cloned(self.plans)
        twin.of = {id: copy(carried) for id, carried in self.of.items()}
        twin.begun = set(self.begun)
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
        for id in sorted(self.begun):
            yield from self._steps(id)
            yield from self._stored(id)
        if self.begun != set(self.of) and self.shown == VICTIMS and self.members.m1 == "waiting":
            world = self.copy()
            world.begun.add("q")
            world.begin("q")
            yield "plan q is made", world, False
        yield from self.requests()
        yield from self._cluster()
        yield from self._members()
        yield from self._time()
        yield from self._restarts()

    def _steps(self, id: str) -> Iterator[tuple[str, Self, bool]]:
        carried, plan = self.of[id], self.plan(id)
        if carried.rehearsing:
            world = self.copy()
            world.of[id].rehearsing = False
            yield f"the rehearsal of {id} is accepted", world.feed(Rehearsed(id)), True
            if self.left.rehearsals and "a" in self.here:
                world = self.spend("rehearsals")
                world.of[id].rehearsing = False
                refused = RehearsalRefused(id, "a", Failure("no"), readable=True, told="no")
                yield f"the rehearsal of {id} is refused", world.feed(refused), False
        if carried.checking:
            world = self.copy()
            world.of[id].checking = False
            yield f"all rules hold for the seats of {id}", world.feed(Checked(id, "")), True
            if self.setting.rules and plan is not None and plan.state is PreemptionState.OPEN:
                world = self.copy()
                world.of[id].checking = False
                world.excused |= self.members.any("answered", "bound")
                yield f"a rule is against a seat of {id}", world.feed(Checked(id, "so")), False
        if self.left.rules and plan is not None and plan.state is PreemptionState.OPEN:
            world = self.spend("rules")
            twin = world.plan(id)
            assert twin is not None
            twin.unchecked = True
            yield f"a rule may be against a seat of {id}", world, False
        yield from self._budgets(id)
        if carried.searching:
            world = self.copy()
            world.of[id].searching = False
            if plan is not None:
                world.excused |= self.members.any("answered", "bound")
                twin = world.plan(id)
                assert twin is not None
                world.feed(End(twin, "there is no other plan"))
            yield f"the search finds no other plan than {id}", world, True
        if self.left.doubts and plan is not None and plan.state is not PreemptionState.CHANGING:
            world = self.spend("doubts")
            twin = world.plan(id)
            assert twin is not None
            yield f"plan {id} does not hold", world.feed(DoesNotHold(twin, "so")), False

    def _budgets(self, id: str) -> Iterator[tuple[str, Self, bool]]:
        reading = self.of[id].reading
        if reading is None:
            return
        names, accepted = reading
        plan, last = self.plan(id), machine.BUDGET_READS - 1
        world = self.copy()
        world.of[id].reading, world.of[id].allowed = None, True
        world.allowance = Allowance({}, waits=False)
        read = BudgetsRead(id, (), names, accepted, 0)
        yield f"the budgets allow what {id} evicts", world.feed(read), True
        if not self.left.budgets:
            return
        said = {"no": Allowance({"a": "no"}, waits=False), "to wait": Allowance({}, waits=True)}
        for told, allowance in said.items():
            if allowance.waits or (plan is not None and "a" in plan.victims):
                world = self.spend("budgets")
                world.of[id].reading, world.allowance = None, allowance
                yield (
                    f"the budgets say {told} to {id}",
                    world.feed(read._replace(reads=last)),
                    False,
                )
        world = self.spend("budgets")
        world.of[id].reading = None
        yield f"the budgets cannot be read for {id}", world.feed(BudgetsNotRead(id, "no")), False

    def _stored(self, id: str) -> Iterator[tuple[str, Self, bool]]:
        write = self.of[id].write
        if write is None or not self.leads:
            return
        world = self.copy()
        now = world.of[id]
        now.record = now.written = write
        now.write = None
        if write == "plan":
            world.feed(Recorded(id))
        now.settle(id, world.plans)
        yield f"the record of {id} is stored: {write_words(write)}", world, True
        if write == "plan" and self.left.records:
            for there in (False, True):
                world = self.spend("records")
                now = world.of[id]
                now.record = "plan" if there else ""
                now.written, now.write = "plan", None  # it may be there, so it is deleted
                world.feed(RecordFailed(id, "no answer"))
                now.settle(id, world.plans)
                told = "it is there" if there else "it is not there"
                yield f"the write of the record of {id} fails, {told}", world, False

    def leave(self, uid: str) -> str:
        permitted, state = False, self.plans.victims.victims.get(uid)
        claims = {id for group in state.groups for id in group.claims} if state else set()
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
        elif not any(self.of[id].record for id in claims):
            self.bad = f"the eviction of {uid} leaves, and no record is stored"
        elif self.setting.budgets and not (
            any(self.of[id].allowed for id in claims) or self._begun()
        ):
            self.bad = f"the eviction of {uid} leaves, and its budgets are not read"
        elif not self._wanted():
            self.bad = f"{uid} is evicted for no plan, and no pod of its group was evicted"
        self.feed(Leaves(uid))
        self.wire[uid] = "left"
        return f"the eviction of {uid} leaves"

    def _wanted(self) -> bool:
        """Whether the plan evicts, or an eviction may have begun already."""
        states = [plan.state for plan in self.plans.reservations]
        return PreemptionState.EVICTING in states or self._begun()

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
            opened = any(p.state is PreemptionState.OPEN for p in self.plans.reservations)
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
        if len(self.plans.reservations):
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
        writes = [id for id in sorted(self.of) if self.of[id].write is not None]
        for landed in product((False, True), repeat=len(writes)):
            world = made()
            world.late |= {uid for uid, stage in world.wire.items() if stage == "left"}
            world.wire, world.reads, world.timers = {}, frozenset(), frozenset()
            world.shown, world.leads = world.here, True
            arrived = [id for id, there in zip(writes, landed, strict=True) if there]
            for id, carried in self.of.items():
                record = (carried.write or "") if id in arrived else carried.record
                world.of[id] = Carried(record=record)
            world.plans = _plans()
            for id in sorted(world.of, reverse=True):  # the youngest first
                world.recover(id)
            yield (
                told + "".join(f"; the record of {id} had arrived" for id in arrived),
                world,
                needed,
            )

    def recover(self, id: str) -> None:
        """Take a record in, as controller/recovery.py does."""
        carried = self.of[id]
        carried.written = carried.record
        if not carried.record or self.setting.forgetful:
            return
        owed = VICTIMS if carried.record == "plan" else frozenset(carried.record)
        if left := self.here & owed:
            self.claim(id, left)
        plan = self.setting.made[id]
        members = {seat.uid: seat.node for seat in plan.seats}
        there = [uid for uid in members if self.members.of(uid) in ("waiting", "answered")]
        gone = any(self.members.of(uid) == "gone" for uid in members)
        if carried.record == "plan" and there and not gone:
            made = drafted(plan, id, NOW, self.snapshot())
            made.seats, made.recorded, made.resumed = {u: members[u] for u in there}, True, True
            self.feed(Resumed(made))
            if not made.over:
                return
            carried.write = None  # what is owed is counted again before it is written
        self.feed(Released(id))
        carried.ended = True
        carried.settle(id, self.plans)

    def claim(self, id: str, uids: frozenset[str]) -> None:
        """Claim what is left of the group for the plan of the life before, or watch it."""
        begun, plan = self.here != VICTIMS, self.setting.made[id]
        claim = Claim(
            plan_id=id,
            preemptor=plan.gang,
            priority=plan.priority,
            message="",
            uids=uids,
            released=not begun,
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
        book = self.plans.reservations
        if plans := [plan for plan in book if not plan.over]:
            return f"plan {plans[0].id} waits for nothing ({plans[0].state.value})"
        if book.nodes() or len(book) or any(book.leaving_on(node) for node in ON.values()):
            return "seats are held, and no plan is under way"
        if self.plans.wanted:
            return "pods are to go, and no plan is under way"
        for id, carried in self.of.items():
            if carried.record:
                words = write_words(carried.record)
                return f"a record is left of plan {id}, which is over: {words}"
        if self.plans.victims.groups:
            return "a group is left that no plan wants"
        one = len(self.of) == 1
        if one and [self.members.m0, self.members.m1].count("bound") == 1 and not self.excused:
            return "one member is bound, and the other is not"
        return ""

    def key(self) -> Hashable:
        """Return what tells states apart."""
        return (
            (self.here, self.shown, self.ours, self.late, self.reads, self.timers),
            (self.members.m0, self.members.m1, self.lost_node, self.crowd, self.leads),
            tuple(astuple(carried) for carried in self.of.values()),
            len(self.begun),
            self.setting.budgets and sum(self.plans.accepted.values()),
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
    twin.accepted = dict(plans.accepted)
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
