"""Victim groups: which pods are evicted together, and what is known of each eviction.

``step(tables, event, now, view)`` applies one event and returns what is to be done. It waits for
nothing, reads no clock and writes no log. Time comes in as ``now``; ``ComeBack`` asks to be called
again later. What the tables ask for now is done, whichever event came: a process that starts fills
the tables with ``Claimed`` like any other, and goes on. ``controller/executor.py`` performs the
effects and feeds what comes of them back.

A group is what is evicted completely or not at all (a gang, or a single pod), by name. Plans
*claim* it. Once one of its pods goes by our hand, all pods that are in it *must finish*, whatever
becomes of the plans. A group is *watched* for a while after the answer to a request was unclear,
and after a restart: a request that was lost sight of may still arrive.

A victim, by what is known of its eviction:

==================  =============================  ========  =====================================
phase               event                          phase     effects, and what the group does
==================  =============================  ========  =====================================
PENDING, REFUSED    wanted, its turn, permitted    the same  Evict
PENDING, REFUSED    its own check says no          REFUSED   Refused if it lasts; ComeBack
any                 Leaves                         ASKED
ASKED               answer: accepted               ACCEPTED  Sent; all must finish
ASKED               answer: not there              ACCEPTED  Sent; if watched all must finish
ASKED               answer: refused                PENDING   ComeBack; if it lasts REFUSED, Refused
ASKED               answer: unclear                UNKNOWN   Read; the group is watched
ASKED               not sent after all             before    ComeBack
UNKNOWN             read: it goes                  ACCEPTED  Sent; all must finish
UNKNOWN             read: it stays                 PENDING   as after a refusal
UNKNOWN             read: cannot be read           UNKNOWN   ComeBack; then asked for or read
ASKED               seen going, or gone            ASKED     the answer says whether it was ours
UNKNOWN             seen going, or gone            ACCEPTED  all must finish
PENDING, REFUSED    seen going, or gone            ACCEPTED  all must finish if watched
any but ACCEPTED    no plan wants it, no doubt     let go    Unmark; Ended with the last one
ACCEPTED            shown to stay for 20 s         PENDING   the storage was put back to a backup
==================  =============================  ========  =====================================

*Wanted* is a pod that must finish, or that a plan claims which is not over. *Doubt* is a request
that is on its way, or unclear, or watched for. Where a pod disappears while its request is on its
way, the answer says whether we evicted it; where that is unclear we did.

No first request for a group leaves while a waiting member of its gang may still be bound to a node
that it was offered: it would run alone. A group that went in part and has become whole again by
other pods stays, once no plan wants it (``_spared``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import NamedTuple, Protocol

from cachetools import LRUCache
from msgspec import Struct, field
from msgspec.structs import replace

from extender.gang.core.refusals import Refusals
from extender.groups.composite import keys_of
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Victim
from extender.model.snapshot import Snapshot

FIRST_PAUSE = 0.2
"""Seconds before an eviction that failed is tried again; twice as long each time ..."""
LONGEST_PAUSE = 5.0
"""... at most, ..."""
REFUSED_PAUSE = 30.0
"""... or this once a refusal was told."""
LOOK_SECONDS = 1.0
"""How often a group that is held, or watched, is looked at."""
WATCH_SECONDS = 60.0
"""How long a request that was lost sight of may still arrive (the client's own limit is 30 s)."""
RETURNED_SECONDS = 20.0
"""How long a pod whose eviction was accepted is shown to stay before that counts as undone."""
REMEMBERED = 10_000
"""Pods of groups that are gone of which that is known at most."""


class Phase(Enum):
    """What is known of one victim's eviction."""

    PENDING = "waiting"
    """Nothing was sent, or the pod was found unharmed after what was sent."""
    ASKED = "asked"
    """A request is on its way: the pod may go at any moment."""
    UNKNOWN = "unknown"
    """The answer was unclear: the pod may go at any moment."""
    ACCEPTED = "accepted"
    """It goes."""
    REFUSED = "refused"
    """The API server, or our own check, keeps saying no."""


IN_DOUBT = (Phase.ASKED, Phase.UNKNOWN)
GOING = (Phase.ASKED, Phase.UNKNOWN, Phase.ACCEPTED)


class Claim(Struct, kw_only=True, eq=False):
    """A plan that wants a group gone."""

    plan_id: str
    preemptor: GangKey
    priority: int
    """The plan's; no pod at or above it goes."""
    message: str
    """Why, for the pods."""
    uids: frozenset[str]
    """The victims that the plan names."""
    beside: frozenset[str] = frozenset()
    """Uids of pods of the gang that had a node then and do not go with it."""
    released: bool = False
    """The plan is over, or goes on after a restart and has not asked for it yet."""
    compared: Gang | None = None
    """The gang when its extent was last compared; another object when that changed."""


class VictimState(Struct, kw_only=True, eq=False):
    """One victim that is not seen gone."""

    victim: Victim
    groups: list[VictimGroup]
    """Mostly one; a pod was a victim by itself for one plan and is one of a gang for another."""
    phase: Phase = Phase.PENDING
    must: bool = False
    """It goes whatever becomes of the plans."""
    queued: str = ""
    """The line in which it waits for its turn."""
    resting: bool = False
    """It is tried again later."""
    marked: bool = False
    """It has its condition DisruptionTarget, or was to get it."""
    was_unknown: bool = False
    """An earlier request was unclear when the last one left."""
    seen: SeenGoing | SeenGone | None = None
    """What was seen last while the answer to its request was awaited: it is taken in after that."""
    claim: Claim | None = None
    """For which plan it was asked for last."""
    failure: Failure | None = None
    """The unclear answer that is read back."""
    noes: int = 0
    pause: float = FIRST_PAUSE
    began: float | None = None
    """When it was tried first."""
    told: set[tuple[bool, bool]] = field(default_factory=set)
    """Whether it had to finish, and whether our own check said no, when a refusal was told."""


class VictimGroup(Struct, kw_only=True, eq=False):
    """What is evicted completely or not at all."""

    name: str
    """The gang's key as text, or the pod's uid."""
    whole: bool
    """It is a gang."""
    size: int = 0
    """How many pods it had at first."""
    claims: dict[str, Claim] = {}
    """By plan id, as long as a victim is there that the plan names."""
    victims: dict[str, VictimState] = {}
    phases: dict[Phase, int] = {}
    """How many victims are in each phase ..."""
    musts: dict[Phase, int] = {}
    """... and how many of them must finish."""
    watched_until: float = 0.0
    """Until when a request that was lost sight of may arrive; 0: it is not watched."""
    held: bool = False
    """Nothing is sent for now."""
    looking: bool = False
    """It will be looked at again."""
    error: str = ""
    """Why it cannot be finished now."""

    @property
    def touched(self) -> bool:
        """Whether it has gone in part by our hand."""
        return any(self.musts.values())

    @property
    def released(self) -> bool:
        """Whether no plan wants it any more."""
        return all(claim.released for claim in self.claims.values())

    @property
    def in_flight(self) -> bool:
        """Whether a pod of it may go, or may have gone, by a request that is not answered."""
        return any(self.phases.get(phase) for phase in IN_DOUBT)

    @property
    def in_doubt(self) -> bool:
        """The same, or by one that was lost sight of."""
        return self.watched_until > 0 or self.in_flight

    @property
    def owes(self) -> bool:
        """Whether pods of it must go and do not yet, or may by a request that is under way."""
        if self.in_flight or self.musts.get(Phase.PENDING):
            return True
        return self.watched_until > 0 and bool(self.musts.get(Phase.REFUSED))

    @property
    def lead(self) -> Claim:
        """The claim of the most urgent plan, of those that are not over first."""
        return max(self.claims.values(), key=lambda claim: (not claim.released, claim.priority))

    def there(self, claim: Claim) -> list[VictimState]:
        """Return the victims that a plan names and that are not seen gone."""
        return [state for uid, state in self.victims.items() if uid in claim.uids]


# -- what comes in ---------------------------------------------------------------------------


class Claimed(NamedTuple):
    """A plan whose record is written wants a group gone; also after a restart."""

    claim: Claim
    victims: tuple[Victim, ...]
    sent: frozenset[str] = frozenset()
    """Uids of those that go already."""
    size: int = 0
    """How many there were, when more than these."""
    begun: bool = False
    """Some of it has gone by our hand in a life before."""
    watched: bool = False
    """A request of a life before may still arrive."""


class Released(NamedTuple):
    """A plan is over."""

    plan_id: str


class Leaves(NamedTuple):
    """The request for a pod is about to leave."""

    uid: str


class Answer(Enum):
    """What came of a request."""

    ACCEPTED = "accepted"
    GONE = "gone"
    """The pod is not there: it was not this request."""
    NOT_SENT = "not sent"
    FAILED = "failed"
    """See the failure."""


class Failure(NamedTuple):
    """What the API server said instead of yes."""

    why: str
    passing: bool = False
    """It passes by itself: overload, an outage."""
    unclear: bool = False
    """The request may have been done."""
    retry_after: float = 0.0
    budgeted: bool = False
    """The Eviction API was asked."""
    own: bool = False
    """It was our own check: nothing was sent."""


class Answered(NamedTuple):
    """The request for a pod is over."""

    uid: str
    answer: Answer
    failure: Failure | None = None


class ReadBack(NamedTuple):
    """A pod was read after an unclear answer."""

    uid: str
    goes: bool | None
    """None: it could not be read."""


class SeenGoing(NamedTuple):
    """A pod is shown on its way out."""

    uid: str


class SeenGone(NamedTuple):
    """A pod is shown no more."""

    uid: str


class SeenBack(NamedTuple):
    """A pod is shown that was not."""

    uid: str


class Rested(NamedTuple):
    """The pause of a pod is over."""

    uid: str


class LookAgain(NamedTuple):
    """A group is to be looked at."""

    name: str


class LookAll(NamedTuple):
    """Everything is to be looked at; ``fresh``: a pod that is shown to stay does."""

    fresh: bool


Event = (
    Claimed
    | Released
    | Leaves
    | Answered
    | ReadBack
    | SeenGoing
    | SeenGone
    | SeenBack
    | Rested
    | LookAgain
    | LookAll
)


# -- what goes out ---------------------------------------------------------------------------


class Evict(NamedTuple):
    """Evict a pod, if ``permits`` says so right before the request leaves."""

    victim: Victim
    priority: int
    mark: str
    """The message of its condition, "" when it has that already."""


class Read(NamedTuple):
    """Look whether a pod goes."""

    victim: Victim


class Unmark(NamedTuple):
    """Take the condition back from a pod that stays."""

    victim: Victim


class ComeBack(NamedTuple):
    """Say so after some seconds: ``Rested`` of a pod, with chance in it, or ``LookAgain``."""

    event: Rested | LookAgain
    seconds: float


class Sent(NamedTuple):
    """The eviction of a pod is accepted, or the pod is gone. ``ours``: its group must finish."""

    claim: Claim
    name: str
    whole: bool
    victim: Victim
    ours: bool
    claims: tuple[Claim, ...]
    """Of all plans that want it gone."""


class Refused(NamedTuple):
    """A pod cannot be evicted."""

    claim: Claim
    name: str
    victim: Victim
    left: tuple[Victim, ...]
    """Who is left of its group if that is broken by it, () else."""
    failure: Failure
    readable: bool
    """The pod itself could be read after that."""
    claims: tuple[Claim, ...]


class WholeAgain(NamedTuple):
    """A group that went in part has become whole by others: its plans do not hold."""

    name: str
    claims: tuple[Claim, ...]


class Ended(NamedTuple):
    """All pods of a group are gone, or stay: what waits for that is to be tried again."""

    name: str


class Owes(NamedTuple):
    """What a plan owes may have changed (``Tables.owed``): its record has to say so."""

    plan_id: str


Effect = Evict | Read | Unmark | ComeBack | Sent | Refused | WholeAgain | Ended | Owes


class View(Protocol):
    """The cluster and the plans as they are now; only asked."""

    def victim_problem(self, victim: Victim, priority: int, *, alone: bool) -> str:
        """Return why a pod must not go now, "" when it may. ``alone``: its group must finish."""

    def there(self, victim: Victim) -> bool:
        """Whether a pod is on its node, and not on its way out."""

    def on_its_way(self, name: str) -> bool:
        """Whether a waiting member of a gang may be bound to a node that it was offered."""

    def whole_again(self, victim: Victim, known: AbstractSet[str], size: int) -> bool:
        """Whether the gang of a pod has become whole by others than the ``known`` ones."""

    def completing(self, name: str) -> bool:
        """Whether a plan seats others beside what is left of a gang."""


class Tables:
    """All groups that are claimed and not gone. Read by anyone, changed by ``step`` alone."""

    def __init__(
        self, limit: int, attempts: int, refused_seconds: float, refusals: Refusals
    ) -> None:
        """``limit``: requests at a time. A no counts as lasting after so many ``attempts``, or so
        many seconds. ``refusals``: which pods are to be taken by no plan for a while.
        """
        self.refusals = refusals
        self.limit = limit
        self.attempts = attempts
        self.refused_seconds = refused_seconds
        self.groups: dict[str, VictimGroup] = {}
        self.victims: dict[str, VictimState] = {}
        self.plans: dict[str, dict[str, VictimGroup]] = {}
        """Plan id -> the groups that it claims."""
        self.busy: set[str] = set()
        """Uids of pods that are being asked for, or read."""
        self.left: dict[str, VictimState] = {}
        """Uids of pods whose request has left and is not answered."""
        self.first: deque[str] = deque()
        """Who waits for a turn: pods that must finish ..."""
        self.later: deque[str] = deque()
        """... and the others."""
        self.dirty: dict[str, None] = {}
        """Uids of victims to be looked at."""
        self.going: dict[str, str] = {}
        """Uid -> node of pods that may go at any moment by what we have sent."""
        self.gone: LRUCache[str, tuple[str, Claim, int, Victim]] = LRUCache(REMEMBERED)
        """Pods that had to finish and are gone: a backup may bring them back."""
        self.stay: dict[str, float] = {}
        """Uid of a pod whose eviction was accepted -> since when it is shown to stay."""

    # -- questions ------------------------------------------------------------------------

    def expected(self) -> Mapping[str, str]:
        """Return uid -> node of pods that may go at any moment by what we have sent."""
        return self.going

    def unfinished(self) -> list[VictimGroup]:
        """Return every group that is claimed and not gone."""
        return list(self.groups.values())

    def of_plan(self, plan_id: str) -> list[VictimGroup]:
        """Return those that a plan claims, or has claimed."""
        return list(self.plans.get(plan_id, {}).values())

    def claimed(self, plan_id: str) -> set[str]:
        """Return the names of those that a plan wants gone; others of it are watched at most."""
        groups = self.plans.get(plan_id, {})
        return {name for name, group in groups.items() if not group.claims[plan_id].released}

    def broken(self) -> list[VictimGroup]:
        """Return groups of which a part has gone and the rest cannot be evicted."""
        return [group for group in self.groups.values() if group.error and group.touched]

    def owes(self, name: str) -> bool:
        """Whether pods of a group must go and do not yet, or may by a request under way."""
        group = self.groups.get(name)
        return group is not None and group.owes

    def asks(self, plan_id: str) -> bool:
        """Whether a victim of the plan may go, or have gone, by a request that is under way."""
        for state in self.left.values():
            if state.claim is not None and state.claim.plan_id == plan_id:
                return True
        return any(group.in_flight for group in self.of_plan(plan_id))

    def unfinished_of(self, plan_id: str) -> int:
        """Return how many victims of a plan must finish and do not go yet."""
        return sum(
            state.must and state.phase is not Phase.ACCEPTED
            for group in self.of_plan(plan_id)
            for state in group.there(group.claims[plan_id])
        )

    def takes(self, uid: str) -> bool:
        """Whether the pod goes for sure: it must, or its request is under way."""
        state = self.victims.get(uid)
        return state is not None and (state.must or state.phase in GOING)

    def accepted(self, uid: str) -> bool:
        """Whether the pod's eviction is accepted."""
        state = self.victims.get(uid)
        return state is not None and state.phase is Phase.ACCEPTED

    def owed(self, plan_id: str) -> list[Victim]:
        """Return what of a plan's victims its record must not forget: they must go, or they must
        if one goes that may."""
        return [
            state.victim
            for group in self.of_plan(plan_id)
            for state in group.there(group.claims[plan_id])
            if state.phase is not Phase.ACCEPTED and (state.must or group.in_doubt)
        ]

    @property
    def waiting(self) -> int:
        """How many victims wait until others have been asked for, at most."""
        return len(self.first) + len(self.later)


def wanted(state: VictimState) -> bool:
    """Whether a pod still has to be asked for."""
    if state.phase is Phase.ACCEPTED:
        return False
    return state.must or any(True for _ in _claims(state))


def permits(tables: Tables, uid: str, view: View) -> bool | tuple[VictimGroup, Claim]:
    """Return whether the request for a pod may leave at this moment; the group, and the claim it
    is asked for by, where that is so if the plan holds: nothing of the group has gone yet.
    """
    state = tables.victims.get(uid)
    if state is None or not wanted(state) or state.claim is None:
        return False
    if view.victim_problem(state.victim, state.claim.priority, alone=state.must):
        return False
    if state.must:
        return True
    group = next(g for g in state.groups if state.claim.plan_id in g.claims)
    if state.claim.released or (group.whole and view.on_its_way(group.name)):
        return False
    return group, state.claim


# -- the step --------------------------------------------------------------------------------


def step(
    tables: Tables, event: Event, now: float, view: View, out: list[Effect] | None = None
) -> list[Effect]:
    """Apply one event; return what is to be done. ``now`` is monotonic.

    ``out``: where that is put, so that it is known where the view raises an error.
    """
    out = [] if out is None else out
    _apply(tables, event, now, view, out)
    while tables.dirty:
        found = list(tables.dirty)
        tables.dirty.clear()
        for uid in found:
            state = tables.victims.get(uid)
            if state is not None:
                _look(tables, state, out)
    _fill(tables, now, view, out)
    return out


def _apply(tables: Tables, event: Event, now: float, view: View, out: list[Effect]) -> None:
    match event:
        case Claimed():
            _claimed(tables, event, now, view, out)
        case Released(plan_id):
            for group in tables.of_plan(plan_id):
                group.claims[plan_id].released = True
                _dirty(tables, group)
        case Leaves(uid) if (state := tables.victims.get(uid)) is not None:
            state.was_unknown, state.seen = state.phase is Phase.UNKNOWN, None
            tables.left[uid] = state
            _enter(tables, state, Phase.ASKED)
        case Answered(uid):
            tables.busy.discard(uid)
            _answered(tables, event, now, out)
        case ReadBack(uid):
            tables.busy.discard(uid)
            _read_back(tables, event, now, out)
        case SeenGoing(uid) | SeenGone(uid) if (state := tables.left.get(uid)) is not None:
            state.seen = event  # the answer says by whose request
        case SeenGoing(uid) if (state := tables.victims.get(uid)) is not None:
            _seen(tables, state)
        case SeenGone(uid):
            _gone(tables, uid, out)
        case SeenBack(uid):
            _back(tables, uid)
        case Rested(uid) if (state := tables.victims.get(uid)) is not None:
            state.resting = False
            tables.dirty[uid] = None
        case LookAgain(name) if (found := tables.groups.get(name)) is not None:
            found.looking = False
            _look_again(tables, found, now, out)
        case LookAll(fresh):
            _look_all(tables, now, view, out, fresh=fresh)


def _claimed(tables: Tables, event: Claimed, now: float, view: View, out: list[Effect]) -> None:
    claim, first = event.claim, event.victims[0]
    name = first.unit or first.uid
    group = tables.groups.get(name)
    if group is None:
        group = tables.groups[name] = VictimGroup(name=name, whole=bool(first.unit))
    elif group.released:
        begun = next((each for each in group.victims.values() if each.must), None)
        if begun is not None and _spared(group, begun, view, out):
            _dirty(tables, group)  # the gang is whole again: all of it goes anew
    group.claims[claim.plan_id] = claim
    group.size = max(group.size, event.size, len(event.victims))
    tables.plans.setdefault(claim.plan_id, {})[name] = group
    for victim in event.victims:
        state = tables.victims.get(victim.uid)
        if state is None:
            state = VictimState(victim=victim, groups=[])
            tables.victims[victim.uid] = state
        if group not in state.groups:
            state.groups.append(group)
            group.victims[victim.uid] = state
            _count(group, state, 1)
        if state.phase in (Phase.PENDING, Phase.REFUSED):
            state.noes, state.pause, state.began = 0, FIRST_PAUSE, None
            state.told.clear()
            _enter(tables, state, Phase.ACCEPTED if victim.uid in event.sent else Phase.PENDING)
        if event.begun:
            _must(state)
        tables.dirty[victim.uid] = None
    if event.watched:
        _watch(group, now, out)


def _answered(tables: Tables, event: Answered, now: float, out: list[Effect]) -> None:
    left = tables.left.pop(event.uid, None)
    state = left or tables.victims.get(event.uid)
    if state is None:
        return
    tables.dirty[event.uid] = None
    asked = state.phase is Phase.ASKED
    answer, failure = event.answer, event.failure
    if failure is not None and failure.unclear and left is not None:
        for group in state.groups:
            _watch(group, now, out)
        if asked and state.seen is None:
            state.failure = failure
            _enter(tables, state, Phase.UNKNOWN)
        else:
            _accepted(tables, state, out)  # seen going meanwhile, perhaps by this request
    elif answer is Answer.ACCEPTED:
        _accepted(tables, state, out)
    elif answer is Answer.GONE:
        if state.was_unknown or any(group.watched_until for group in state.groups):
            _accepted(tables, state, out)  # an earlier request may have done it
        else:
            _enter(tables, state, Phase.ACCEPTED)
            _sent(tables, state, out, ours=state.must)
    elif answer is Answer.NOT_SENT and asked and state.was_unknown:
        _enter(tables, state, Phase.UNKNOWN)
        _rest(state, now, out)
    else:
        if asked:
            _enter(tables, state, Phase.PENDING)
            if state.seen is None:
                tables.refusals.found()
        if state.seen is None and state.phase is not Phase.ACCEPTED:
            _failed(tables, state, failure, now, out)
    if isinstance(state.seen, SeenGone):
        _gone(tables, event.uid, out)
    elif state.seen is not None:
        _seen(tables, state)


def _read_back(tables: Tables, event: ReadBack, now: float, out: list[Effect]) -> None:
    state = tables.victims.get(event.uid)
    if state is None or state.phase is not Phase.UNKNOWN:
        return
    tables.dirty[event.uid] = None
    if event.goes:
        _accepted(tables, state, out)
        return
    if event.goes is False:
        _enter(tables, state, Phase.PENDING)
        tables.refusals.found()
    failure, state.failure = state.failure, None
    _failed(tables, state, failure, now, out)


def _accepted(tables: Tables, state: VictimState, out: list[Effect]) -> None:
    tables.refusals.forget(state.victim.uid)
    _enter(tables, state, Phase.ACCEPTED)
    _touch(tables, state)
    for group in state.groups:
        if not group.phases.get(Phase.REFUSED):
            group.error = ""
    _sent(tables, state, out, ours=True)


def _sent(tables: Tables, state: VictimState, out: list[Effect], *, ours: bool) -> None:
    group = state.groups[0]
    claim = state.claim or group.lead
    claims = tuple(dict.fromkeys((claim, *_claims(state))))
    out.append(
        Sent(
            claim,
            group.name,
            whole=group.whole,
            victim=state.victim,
            ours=ours,
            claims=claims,
        )
    )
    out.extend(Owes(plan_id) for each in state.groups for plan_id in each.claims)


def _seen(tables: Tables, state: VictimState) -> None:
    """A pod goes: by our request wherever that may be."""
    if state.phase is Phase.ACCEPTED:
        return
    ours = state.phase is Phase.UNKNOWN or any(group.watched_until for group in state.groups)
    _enter(tables, state, Phase.ACCEPTED)
    if ours:
        _touch(tables, state)
    for group in state.groups:
        if group.phases.get(Phase.ACCEPTED) == len(group.victims):
            group.error = ""


def _gone(tables: Tables, uid: str, out: list[Effect]) -> None:
    tables.refusals.forget(uid)
    state = tables.victims.get(uid)
    if state is None:
        return
    _seen(tables, state)
    group = state.groups[0]
    if state.must and group.whole:
        tables.gone[uid] = group.name, _best(state), group.size, state.victim
    _remove(tables, state, out)


def _touch(tables: Tables, state: VictimState) -> None:
    """A pod goes by our hand: so does the rest, whichever plan counted on it.

    Not for one that had to go anyhow: the rest was marked then, and a pod that was made since is a
    victim of its plan, and no more.
    """
    if state.must:
        return
    _must(state)
    for group in state.groups:
        for each in group.victims.values():
            _must(each)
        _dirty(tables, group)


def _back(tables: Tables, uid: str) -> None:
    """A pod that had gone is there again: the storage was put back to before that.

    Others of its group may have gone for good, or be asked for at this moment. So it counts among
    them again, as one whose eviction was accepted, until that is undone.
    """
    known = tables.gone.pop(uid, None)
    if known is None or uid in tables.victims:
        return
    name, claim, size, victim = known
    group = tables.groups.get(name)
    if group is None:
        group = tables.groups[name] = VictimGroup(name=name, whole=True, size=size)
    if claim.plan_id not in group.claims:
        claim.released = True  # the plan, if there is one still, has counted on the room
        group.claims[claim.plan_id] = claim
        tables.plans.setdefault(claim.plan_id, {})[name] = group
    group.claims[claim.plan_id].uids |= {uid}
    state = tables.victims[uid] = VictimState(victim=victim, groups=[group], must=True)
    group.victims[uid] = state
    _count(group, state, 1)
    _enter(tables, state, Phase.ACCEPTED)


def _look_all(tables: Tables, now: float, view: View, out: list[Effect], *, fresh: bool) -> None:
    shown = tables.victims.values() if fresh else ()
    stay = {
        state.victim.uid: tables.stay.get(state.victim.uid, now)
        for state in shown
        if state.phase is Phase.ACCEPTED and view.there(state.victim)
    }
    tables.stay.clear()
    tables.stay.update(stay)
    back = [uid for uid, since in stay.items() if now - since > RETURNED_SECONDS]
    for uid in back:
        del tables.stay[uid]
        state = tables.victims[uid]
        _enter(tables, state, Phase.PENDING)
    for group in {id(g): g for uid in back for g in tables.victims[uid].groups}.values():
        states = group.victims.values()
        if len(states) >= group.size and all(view.there(each.victim) for each in states):
            for uid in back:
                if uid in group.victims:
                    _must(group.victims[uid], must=False)
    if back:
        tables.refusals.found()
    for group in tables.groups.values():
        _look_again(tables, group, now, out)
        _dirty(tables, group)


# -- one victim ------------------------------------------------------------------------------


def _look(tables: Tables, state: VictimState, out: list[Effect]) -> None:
    """Have done for a victim what the tables ask for now."""
    if wanted(state) or state.phase is Phase.UNKNOWN:
        reads = _reads(state)
        if state.victim.uid in tables.busy or state.resting:
            return
        if reads or not any(group.held for group in state.groups):
            _queue(tables, state, "first" if reads or state.must else "later")
    elif not (state.must or any(True for _ in _claims(state)) or _in_doubt(state)):
        if state.marked and state.phase is not Phase.ACCEPTED:
            out.append(Unmark(state.victim))
        tables.refusals.found()
        _remove(tables, state, out)


def _in_doubt(state: VictimState) -> bool:
    return any(group.in_doubt for group in state.groups)


def _reads(state: VictimState) -> bool:
    """Whether it has to be found out what became of a request, before anything else."""
    return state.phase is Phase.UNKNOWN and (state.failure is not None or not wanted(state))


def _queue(tables: Tables, state: VictimState, line: str) -> None:
    if state.queued != line:
        state.queued = line
        (tables.first if line == "first" else tables.later).append(state.victim.uid)


def _fill(tables: Tables, now: float, view: View, out: list[Effect]) -> None:
    """Ask for as many pods as may be asked for at a time."""
    ready: dict[str, bool] = {}
    while len(tables.busy) < tables.limit and (tables.first or tables.later):
        line = "first" if tables.first else "later"
        uid = (tables.first or tables.later).popleft()
        state = tables.victims.get(uid)
        if state is None or state.queued != line:
            continue
        state.queued = ""
        if uid in tables.busy or state.resting:
            continue
        if _reads(state):
            tables.busy.add(uid)
            out.append(Read(state.victim))
            continue
        if not wanted(state):
            continue
        if any(_held(group, state, view, ready, out) for group in state.groups):
            continue
        state.claim = _best(state)
        state.began = now if state.began is None else state.began
        why = view.victim_problem(state.victim, state.claim.priority, alone=state.must)
        if not why:
            tables.busy.add(uid)
            mark = "" if state.marked else state.claim.message
            state.marked = True
            out.append(Evict(state.victim, state.claim.priority, mark))
        elif state.phase is Phase.UNKNOWN:
            # Nothing is sent any more, and searches count on its going until it is known.
            state.failure = Failure(why, own=True)
            tables.busy.add(uid)
            out.append(Read(state.victim))
        else:
            _failed(tables, state, Failure(why, own=True), now, out)


def _held(
    group: VictimGroup,
    state: VictimState,
    view: View,
    ready: dict[str, bool],
    out: list[Effect],
) -> bool:
    """Whether nothing is sent for a group for now; it is looked at again in a moment."""
    if group.held:
        return True
    if _spared(group, state, view, out):
        group.held = True
    elif group.whole and not group.touched and not state.must:
        if group.name not in ready:
            ready[group.name] = not view.on_its_way(group.name)
        group.held = not ready[group.name]
    if group.held:
        _look_later(group, out)
    return group.held


def _spared(group: VictimGroup, state: VictimState, view: View, out: list[Effect]) -> bool:
    """Whether a group that went in part stays as it is: its gang is whole again meanwhile.

    To finish it would break the gang a second time. Not spared is what goes already, and what a
    plan still wants: that plan does not hold.
    """
    if not group.whole or not state.must:
        return False
    if group.error and state.phase not in IN_DOUBT and view.completing(group.name):
        return True  # it would go from under those that are seated beside it
    if group.in_flight or group.phases.get(Phase.ACCEPTED):
        return False
    known = group.victims.keys() | frozenset.intersection(
        *(claim.beside for claim in group.claims.values())
    )
    if not view.whole_again(state.victim, known, group.size):
        return False
    if not group.released:
        claims = tuple(each for each in group.claims.values() if not each.released)
        out.append(WholeAgain(group.name, claims))
        return True
    for each in group.victims.values():
        _must(each, must=False)
    return True


def _failed(
    tables: Tables,
    state: VictimState,
    failure: Failure | None,
    now: float,
    out: list[Effect],
) -> None:
    """A pod does not go now: it is tried again, and told about once that lasts.

    ``failure`` None: the request was called off.
    """
    if failure is not None and wanted(state):
        began = now if state.began is None else state.began
        state.noes += not failure.passing
        lasting = state.noes >= tables.attempts or now - began > tables.refused_seconds
        if lasting or (failure.own and not state.must):
            telling = (state.must, state.must and failure.own)
            if telling not in state.told:
                state.told.add(telling)
                _refuse(tables, state, failure, out)
            elif state.phase is Phase.PENDING:
                _enter(tables, state, Phase.REFUSED)  # it was asked for in between
    _rest(state, now, out, 0.0 if failure is None else failure.retry_after)


def _rest(state: VictimState, now: float, out: list[Effect], asked: float = 0.0) -> None:
    longest = REFUSED_PAUSE if any(group.error for group in state.groups) else LONGEST_PAUSE
    state.resting = True
    out.append(ComeBack(Rested(state.victim.uid), min(max(state.pause, asked), longest)))
    state.pause = min(state.pause * 2, REFUSED_PAUSE)


def _refuse(tables: Tables, state: VictimState, failure: Failure, out: list[Effect]) -> None:
    readable = state.phase is Phase.PENDING
    if readable:
        _enter(tables, state, Phase.REFUSED)
    victim, group = state.victim, state.groups[0]
    for each in state.groups:
        each.error = f"{victim.namespace}/{victim.name}: {failure.why}"
    left: tuple[Victim, ...] = ()
    if state.must and group.whole:
        left = tuple(each.victim for each in group.victims.values())
    out.append(
        Refused(
            claim=state.claim or group.lead,
            name=group.name,
            victim=victim,
            left=left,
            failure=failure,
            readable=readable,
            claims=tuple(_claims(state)),
        )
    )


# -- bookkeeping -----------------------------------------------------------------------------


def _claims(state: VictimState) -> Iterable[Claim]:
    """Return the claims on a pod of plans that are not over."""
    uid = state.victim.uid
    return (
        claim
        for group in state.groups
        for claim in group.claims.values()
        if not claim.released and uid in claim.uids
    )


def _best(state: VictimState) -> Claim:
    """Return the claim by which a pod is asked for: the most urgent plan's."""
    uid = state.victim.uid
    claims = list(_claims(state)) or [
        claim for group in state.groups for claim in group.claims.values() if uid in claim.uids
    ]
    return max(claims, key=lambda claim: claim.priority)


def _count(group: VictimGroup, state: VictimState, by: int) -> None:
    group.phases[state.phase] = group.phases.get(state.phase, 0) + by
    if state.must:
        group.musts[state.phase] = group.musts.get(state.phase, 0) + by


def _enter(tables: Tables, state: VictimState, phase: Phase) -> None:
    """Change a victim's phase: the one place where that is done."""
    uid = state.victim.uid
    there = tables.victims.get(uid) is state
    if there:
        for group in state.groups:
            _count(group, state, -1)
    before, state.phase = state.phase, phase
    if not there:
        return
    for group in state.groups:
        _count(group, state, 1)
    if phase in GOING:
        tables.going[uid] = state.victim.node
    else:
        tables.going.pop(uid, None)
    if before in IN_DOUBT and phase not in IN_DOUBT:
        for group in state.groups:
            if not group.in_doubt:
                _doubt_over(tables, group)


def _must(state: VictimState, *, must: bool = True) -> None:
    """Change whether a victim must finish."""
    if state.must is must:
        return
    uid = state.victim.uid
    groups = [group for group in state.groups if group.victims.get(uid) is state]
    for group in groups:
        _count(group, state, -1)
    state.must = must
    for group in groups:
        _count(group, state, 1)


def _dirty(tables: Tables, group: VictimGroup) -> None:
    tables.dirty.update(dict.fromkeys(group.victims))


def _doubt_over(tables: Tables, group: VictimGroup) -> None:
    """Have victims let go of that no plan wants: no request can take them any more."""
    if sum(group.musts.values()) == len(group.victims):
        return
    if any(claim.released for claim in group.claims.values()):
        _dirty(tables, group)


def _watch(group: VictimGroup, now: float, out: list[Effect]) -> None:
    group.watched_until = now + WATCH_SECONDS
    _look_later(group, out)


def _look_later(group: VictimGroup, out: list[Effect]) -> None:
    if not group.looking:
        group.looking = True
        out.append(ComeBack(LookAgain(group.name), LOOK_SECONDS))


def _look_again(tables: Tables, group: VictimGroup, now: float, out: list[Effect]) -> None:
    if group.held:
        group.held = False
        _dirty(tables, group)
    if 0 < group.watched_until <= now:
        group.watched_until = 0.0
        if not group.in_doubt:
            _doubt_over(tables, group)
    if group.watched_until > 0:
        _look_later(group, out)


def _remove(tables: Tables, state: VictimState, out: list[Effect]) -> None:
    """Take a victim out that is gone, or let go of; and what ends with it."""
    uid = state.victim.uid
    for group in state.groups:
        _count(group, state, -1)
        del group.victims[uid]
        over = [c for c in group.claims.values() if c.uids.isdisjoint(group.victims)]
        for claim in over:
            del group.claims[claim.plan_id]
            of_plan = tables.plans[claim.plan_id]
            del of_plan[group.name]
            if not of_plan:
                del tables.plans[claim.plan_id]
            out.append(Owes(claim.plan_id))
        if not group.victims:
            del tables.groups[group.name]
            out.append(Ended(group.name))
    del tables.victims[uid]
    tables.going.pop(uid, None)
    tables.dirty.pop(uid, None)


# -- a snapshot with what is known beyond it ---------------------------------------------------


def shown_in(
    snapshot: Snapshot,
    expected: Mapping[str, str],
    unevictable: Mapping[str, str],
    member_key: Callable[[Pod], GangKey | None],
    leaves: Callable[[Pod, float], bool],
    longest: int,
) -> Snapshot:
    """Return the snapshot with the ``expected`` pods (uid -> node) already terminating.

    A request cannot be called back, so the pod's room is nobody's to spare: a plan that takes
    another victim instead would evict one too many. The name is kube-controller-manager's
    (UIDTrackingControllerExpectations): deletions that were asked for and are not seen yet.

    ``longest``: the grace period that an eviction grants at most. ``leaves(pod, now)`` tells which
    of the terminating ones were on their way out without it.
    """
    if not expected and not unevictable:
        return snapshot
    changed: dict[str, Pod] = {}
    bound = dict(snapshot.bound)
    for name in sorted(set(expected.values()) & bound.keys()):
        pods = tuple(
            replace(pod, deleting=snapshot.now + min(pod.grace, longest), disrupted=True)
            if pod.uid in expected and not leaves(pod, snapshot.now)
            else pod
            for pod in bound[name]
        )
        leaving = {new.uid: new for old, new in zip(bound[name], pods, strict=True) if old != new}
        if leaving:
            changed |= leaving
            bound[name] = pods
    if not changed:
        return replace(snapshot, unevictable=unevictable) if unevictable else snapshot
    members = dict(snapshot.members)
    for key in {key for pod in changed.values() for key in keys_of(member_key(pod), pod)}:
        if key in members:
            members[key] = tuple(changed.get(pod.uid, pod) for pod in members[key])
    return replace(snapshot, bound=bound, members=members, unevictable=unevictable)
