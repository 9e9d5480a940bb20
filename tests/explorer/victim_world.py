"""One victim group between an API server, a wire that loses answers, and a process that is killed.

The machine is the real one (``extender.gang.core.victim_group``). Around it: pods, requests on
their way, what the cache shows, plans with their records, and how often something may go wrong.
What the record keeper and a restart do is said here in a few lines: a record is written before its
plan claims the group, is rewritten or deleted when the plan is over, and fills the tables again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy
from typing import Self

from msgspec import Struct

from extender.gang.core.refusals import Refusals
from extender.gang.core.victim_group import (
    Answer,
    Answered,
    Claim,
    Claimed,
    ComeBack,
    Event,
    Evict,
    Leaves,
    LookAgain,
    Owes,
    Read,
    Released,
    Rested,
    SeenGone,
    Tables,
    VictimState,
    permits,
    step,
)
from extender.model.objects import GangKey
from extender.model.plan import Victim
from tests.explorer.eviction_requests import EvictionRequests, write_words

GANG = "pod-group:default/low"
LATE = "z"
"""A member of the gang that waits, and may be bound to a node that it was offered."""
LIMIT = 2


class Setting(Struct, frozen=True):
    """How large the world is, and how often something may go wrong in it."""

    pods: int = 2
    plans: int = 2
    kills: int = 1
    lost: int = 1
    """Answers that do not come. The request arrives then, or late, or never."""
    strangers: int = 1
    """Pods that somebody else deletes."""
    refusals: int = 1
    late: bool = False
    """A member was offered a node before."""
    hasty: bool = False
    """A mistake: a plan claims the group when its record is sent, not when it is there."""
    forgetful: bool = False
    """A mistake: a restart does not know that some have gone, or may."""

    def world(self) -> VictimWorld:
        """Return its first state."""
        return VictimWorld(self)


class PlanSeen(Struct):
    """A plan and its record."""

    state: str = "new"
    """new, recording, flying, over."""
    record: frozenset[str] | str = ""
    """What is stored: "plan", the uids that are owed, or "" for nothing."""
    write: frozenset[str] | str | None = None
    """What is on its way there."""
    written: frozenset[str] | str = ""
    """What the process knows to be there."""


class VictimWorld(EvictionRequests):
    """One state."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.members = frozenset("abcd"[: setting.pods])
        self.here = self.shown = self.members
        self.ours: frozenset[str] = frozenset()
        self.wire: dict[str, str] = {}
        """Uid -> how far a request has come: asked, left, done, absent (404)."""
        self.reads: frozenset[str] = frozenset()
        self.late: frozenset[str] = frozenset()
        """Uids of requests that were lost sight of and may arrive."""
        self.timers: frozenset[Event] = frozenset()
        self.plans = [PlanSeen() for _ in range(setting.plans)]
        self.kills, self.lost = setting.kills, setting.lost
        self.strangers, self.refusals = setting.strangers, setting.refusals
        self.member = "offered" if setting.late else "none"
        self.bad = ""
        self.tables = Tables(LIMIT, 1, 1e9, Refusals(_no_time))

    # -- the view that the machine is given -----------------------------------------------

    def on_its_way(self, name: str) -> bool:
        return self.member == "offered"

    # -- what happens ---------------------------------------------------------------------

    def feed(self, event: Event, now: float = 0.0) -> Self:
        """Hand the machine an event and put its effects on their way."""
        for effect in step(self.tables, event, now, self):
            match effect:
                case Evict(victim):
                    self.bad = self.ask(victim.uid) or self.bad
                case Read(victim):
                    self.reads |= {victim.uid}
                case ComeBack(later, _):
                    self.timers |= {later}
                case Owes(plan_id):
                    self.settle(self.plans[int(plan_id)], plan_id)
        return self

    def settle(self, plan: PlanSeen, name: str) -> None:
        """Have the record of a plan that is over say what is owed."""
        if plan.state != "over" or plan.write is not None or not plan.written:
            return
        owed = frozenset(victim.uid for victim in self.tables.owed(name))
        if not owed or plan.written == "plan":
            plan.write = owed

    def copy(self) -> Self:
        twin = copy(self)
        twin.wire = dict(self.wire)
        twin.plans = [copy(plan) for plan in self.plans]
        twin.tables = cloned(self.tables)
        return twin

    def may(self, trouble: str) -> int:
        left: int = getattr(self, trouble)
        return left

    def spend(self, trouble: str) -> Self:
        world = self.copy()
        setattr(world, trouble, world.may(trouble) - 1)
        return world

    def claim(self, number: int, *, begun: bool = False, watched: bool = False) -> None:
        """A plan claims who is shown of the group."""
        victims = tuple(victim(uid) for uid in sorted(self.members & self.shown))
        if victims:
            uids = frozenset(each.uid for each in victims)
            claim = Claim(
                plan_id=str(number), preemptor=_HIGH, priority=number, message="", uids=uids
            )
            size = len(self.members)
            self.feed(Claimed(claim, victims, size=size, begun=begun, watched=watched))

    def over(self, number: int) -> None:
        """A plan ends."""
        plan, self.plans[number].state = self.plans[number], "over"
        self.feed(Released(str(number)))
        self.settle(plan, str(number))

    # -- what may happen ------------------------------------------------------------------

    def moves(self) -> Iterator[tuple[str, Self, bool]]:
        """Return what may happen next, the world after it, and whether it has to happen."""
        yield from self._plans()
        yield from self.requests()
        yield from self._cluster()
        yield from self._time()
        if self.kills:
            yield from self._killed()

    def _plans(self) -> Iterator[tuple[str, Self, bool]]:
        for number, plan in enumerate(self.plans):
            free = self.shown == self.members
            free = free and not any(self.tables.takes(uid) for uid in self.members)
            before = number == 0 or self.plans[number - 1].state != "new"
            if plan.state == "new" and free and before:
                world = self.copy()
                world.plans[number].state, world.plans[number].write = "recording", "plan"
                if self.setting.hasty:
                    world.claim(number)
                yield f"plan {number} is made, its record is sent", world, False
            if plan.state in ("recording", "flying"):
                world = self.copy()
                world.over(number)
                yield f"plan {number} is over", world, False
            if plan.write is not None:
                world = self.copy()
                world.stored(number)
                says = write_words(plan.write)
                yield f"the record of plan {number} is stored: {says}", world, True

    def stored(self, number: int) -> None:
        """The write of a record is done and answered."""
        plan = self.plans[number]
        assert plan.write is not None
        plan.record = plan.written = plan.write or ""
        plan.write = None
        if plan.state == "recording":
            plan.state = "flying"
            if not self.setting.hasty:
                self.claim(number)
        self.settle(plan, str(number))

    def leave(self, uid: str) -> str:
        permitted = permits(self.tables, uid, self)
        grown = not isinstance(permitted, bool) and self.member == "bound"
        if permitted and not grown:
            if not self._wanted():
                self.bad = f"{uid} is evicted for no plan, and no pod of its group was evicted"
            self.feed(Leaves(uid))
            self.wire[uid] = "left"
            return f"the eviction of {uid} leaves"
        del self.wire[uid]
        if not isinstance(permitted, bool):
            self.over(int(permitted[1].plan_id))
        self.feed(Answered(uid, Answer.NOT_SENT))
        return f"the eviction of {uid} is called off"

    def _wanted(self) -> bool:
        """Whether a plan wants the group gone, or an eviction may have begun it."""
        unclear = self.lost < self.setting.lost or self.kills < self.setting.kills
        begun = bool(self.ours) or any(stage == "left" for stage in self.wire.values())
        return unclear or begun or any(plan.state == "flying" for plan in self.plans)

    def take(self, uid: str) -> None:
        """A request is done by the API server."""
        if uid in self.here and not any(plan.record for plan in self.plans):
            self.bad = f"{uid} is evicted and no record is there"
        super().take(uid)

    def _cluster(self) -> Iterator[tuple[str, Self, bool]]:
        yield from self.lost_requests()
        for uid in sorted(self.shown - self.here):
            world = self.copy()
            world.shown -= {uid}
            yield f"{uid} is seen gone", world.feed(SeenGone(uid)), True
        if self.member == "offered":
            for state in ("bound", "turned away"):
                world = self.copy()
                world.member = state
                yield f"the waiting member is {state}", world, True
        if self.strangers:
            for uid in sorted(self.here):
                world = self.copy()
                world.strangers -= 1
                world.here -= {uid}
                yield f"somebody else deletes {uid}", world, False

    def _time(self) -> Iterator[tuple[str, Self, bool]]:
        for timer in sorted(self.timers, key=str):
            if isinstance(timer, Rested):
                world = self.copy()
                world.timers -= {timer}
                yield f"the pause of {timer.uid} is over", world.feed(timer), True
                continue
            group = self.tables.groups.get(timer.name) if isinstance(timer, LookAgain) else None
            if group is not None and group.watched_until > 0:
                settled = not self.late and not self.wire and not self.reads
                if settled and self.shown == self.here:
                    world = self.copy()
                    world.timers -= {timer}
                    until = group.watched_until
                    yield "no lost request can arrive any more", world.feed(timer, until), True
            else:
                world = self.copy()
                world.timers -= {timer}
                yield "the group is looked at again", world.feed(timer), True

    def _killed(self) -> Iterator[tuple[str, Self, bool]]:
        writes = any(plan.write is not None for plan in self.plans)
        for landed in (False, True) if writes else (False,):
            world = self.copy()
            world.kills -= 1
            world.late |= {uid for uid, stage in self.wire.items() if stage == "left"}
            world.wire, world.reads, world.timers = {}, frozenset(), frozenset()
            world.shown = self.here
            world.tables = Tables(LIMIT, 1, 1e9, Refusals(_no_time))
            for plan in world.plans:
                if landed and plan.write is not None:
                    plan.record = plan.write or ""
                plan.write, plan.written = None, plan.record
            for number, plan in enumerate(world.plans):
                if plan.state != "new":
                    world.recover(number, plan)
            told = "; what it wrote had arrived" if landed else ""
            yield f"the process is killed and starts again{told}", world, False

    def recover(self, number: int, plan: PlanSeen) -> None:
        """Fill the tables from a record and the cluster."""
        plan.state = "flying" if plan.record == "plan" else "over"
        if plan.record:
            lost, watched = self.shown != self.members, True
            if self.setting.forgetful:
                lost = watched = False
            self.claim(number, begun=lost, watched=watched)
            if plan.state == "over":
                self.over(number)

    # -- what must hold -------------------------------------------------------------------

    def wrong(self, *, at_rest: bool) -> str:
        """Return what is wrong."""
        if self.bad:
            return self.bad
        doubt = self.late | {uid for uid, stage in self.wire.items() if stage != "asked"}
        left = (self.here & self.shown) - self.tables.victims.keys()
        if doubt and left and doubt != left:
            asked, gone = ", ".join(sorted(doubt)), ", ".join(sorted(left))
            return f"{gone} is let go of while a request for {asked} may be done"
        if not at_rest:
            return ""
        if self.ours and self.here:
            stay, went = ", ".join(sorted(self.here)), ", ".join(sorted(self.ours))
            return f"the group has gone in part for good: {went} by our hand, {stay} stays"
        if self.ours and self.member == "bound":
            return "a member runs alone that was offered a node before its gang was evicted"
        for number, plan in enumerate(self.plans):
            if plan.state == "over" and plan.record:
                return f"the record of plan {number} is left, and the plan is over"
            if plan.state == "flying" and self.shown:
                return f"plan {number} waits for victims that nothing asks for"
        if not any(plan.state == "flying" for plan in self.plans) and self.tables.groups:
            return "a group is left that no plan wants"
        return ""

    def key(self) -> Hashable:
        """Return what tells states apart."""
        return (
            self.here,
            self.shown,
            self.ours,
            tuple(sorted(self.wire.items())),
            self.reads,
            self.late,
            self.timers,
            tuple((p.state, p.record, p.write, p.written) for p in self.plans),
            (self.kills, self.lost, self.strangers, self.refusals, self.member, self.bad),
            frozen(self.tables),
        )


_HIGH = GangKey("pod-group", "default", "high")


def _no_time() -> float:
    return 0.0


def victim(uid: str) -> Victim:
    """Return a pod of the gang as a victim."""
    return _VICTIMS[uid]


_VICTIMS = {
    uid: Victim(uid=uid, namespace="default", name=uid, node=uid, priority=0, unit=GANG)
    for uid in "abcd"
}


def cloned(tables: Tables) -> Tables:
    """Return tables of their own that say the same."""
    twin = copy(tables)
    groups = {id(group): copy(group) for group in tables.groups.values()}
    states = {id(state): copy(state) for state in (*tables.victims.values(), *tables.left.values())}
    claims: dict[int, Claim] = {}

    def claim_of(claim: Claim) -> Claim:
        return claims.setdefault(id(claim), copy(claim))

    for group in groups.values():
        group.claims = {name: claim_of(claim) for name, claim in group.claims.items()}
        group.victims = {uid: states[id(state)] for uid, state in group.victims.items()}
        group.phases, group.musts = dict(group.phases), dict(group.musts)
    for state in states.values():
        state.groups = [groups[id(g)] if id(g) in groups else copy(g) for g in state.groups]
        state.told = set(state.told)
        state.claim = None if state.claim is None else claim_of(state.claim)
    twin.groups = {name: groups[id(group)] for name, group in tables.groups.items()}
    twin.victims = {uid: states[id(state)] for uid, state in tables.victims.items()}
    twin.left = {uid: states[id(state)] for uid, state in tables.left.items()}
    twin.plans = {
        plan: {name: groups[id(group)] for name, group in of_plan.items()}
        for plan, of_plan in tables.plans.items()
    }
    twin.busy, twin.going, twin.stay = set(tables.busy), dict(tables.going), dict(tables.stay)
    twin.first, twin.later = copy(tables.first), copy(tables.later)
    twin.dirty = {}
    twin.gone = {}  # type: ignore[assignment]
    return twin


def frozen(tables: Tables) -> Hashable:
    """Return what tells tables apart; how long pauses are is left out."""
    return (
        tuple(
            (
                group.name,
                tuple((c.plan_id, c.released, c.uids) for c in group.claims.values()),
                group.watched_until > 0,
                group.held,
                group.looking,
                bool(group.error),
            )
            for group in tables.groups.values()
        ),
        tuple((uid, _frozen(state)) for uid, state in sorted(tables.victims.items())),
        tuple((uid, _frozen(state)) for uid, state in sorted(tables.left.items())),
        frozenset(tables.busy),
        tuple(tables.first),
        tuple(tables.later),
    )


def _frozen(state: VictimState) -> Hashable:
    return (
        state.phase.value,
        state.must,
        state.queued,
        state.resting,
        state.was_unknown,
        state.seen,
        state.failure is None,
        "" if state.claim is None else state.claim.plan_id,
        frozenset(state.told),
    )
