"""Preemptions: plans that are being carried out, from the seats held to the last member bound.

``step(plans, event, now, view)`` applies one event and returns what is to be done, as the machine
of victim groups does (``victim_group.py``), which this one drives. It waits for nothing, reads no
clock and writes no log. ``controller/executor.py`` performs the effects and feeds what comes of
them back. What kube-scheduler makes of open seats is in ``refused_seats.py``.

==========================  ================================  ========  ==========================
state                       event                             state     effects
==========================  ================================  ========  ==========================
-                           Begun, Resumed                    PLANNED   Rehearse
PLANNED                     refused in rehearsal, by budgets  ENDED
PLANNED                     RecordFailed, BudgetsNotRead      ENDED
PLANNED                     Rehearsed                         PLANNED   WriteRecord
PLANNED                     Recorded                          PLANNED   Check
PLANNED                     Checked                           PLANNED   ReadBudgets
PLANNED                     BudgetsRead, the plan holds       EVICTING  ClaimMore, Nominate
EVICTING                    all evictions accepted            WAITING
EVICTING, WAITING           last victim gone, the plan holds            Check
EVICTING, WAITING           Checked                           OPEN      Opened
OPEN                        last member bound                 ENDED
OPEN                        a rule may be against a seat                Check
any                         does not hold                     CHANGING  Search
WAITING                     a victim does not go in time      CHANGING  Search
any                         too late, a member is gone, End   ENDED
any                         GivesWay to another plan          ENDED
==========================  ================================  ========  ==========================

The seats are held from the first event on. Entering CHANGING or ENDED lets all victim groups go
of which no pod has gone by our hand (``Released``) and all binds that are held (``SeatsReleased``).
The record of a plan that has ended stays while something is owed (``RecordOver``, ``Owes``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import NamedTuple, Protocol

from msgspec import Struct

from extender.gang.core import victim_group
from extender.gang.core.record import Others, others_of
from extender.gang.core.reservations import Preemption, Reservations, Tries, seats_of
from extender.gang.core.victim_group import (
    Claim,
    Claimed,
    Ended,
    LookAll,
    Owes,
    Refused,
    Released,
    SeenBack,
    SeenGoing,
    SeenGone,
    Sent,
    VictimGroup,
    WholeAgain,
)
from extender.gang.plan.question import Masks
from extender.gang.plan.single import SINGLE
from extender.gang.plan.validity import NOT_COMPARED, present
from extender.gang.tell.decisions import Decision, DecisionCode, Outcome, Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.objects import DisruptionBudget, GangKey, Pod
from extender.model.plan import Code, Hold, Plan, Seat, Victim
from extender.model.snapshot import Snapshot
from extender.model.texts import all_of, counted, some
from extender.settings.settings import SeatSettings, Settings

PLANNED_SECONDS = 30.0
"""How long rehearsal and record may take before the seats go back."""
CHANGING_SECONDS = 60.0
"""How long a plan may be changed, at least: searches before it and its own may take their time."""


def late(
    preemption: Preemption, now: float, settings: SeatSettings, errors: Sequence[str] = ()
) -> str | None:
    """Return why the preemption has taken too long at ``now`` (monotonic), None when it has not.

    ``errors``: what refuses its evictions.
    """
    if preemption.state is PreemptionState.ENDED:
        return None
    if preemption.state is PreemptionState.CHANGING:
        # It ends with the search, which is not begun as long as the cache is stale.
        longest = max(CHANGING_SECONDS, settings.bind_seconds)
        if now - preemption.since <= longest:
            return None
        return f"no other plan could be searched for within {longest:g} s: the seats go back"
    if preemption.state is PreemptionState.PLANNED:
        if now - preemption.since <= PLANNED_SECONDS:
            return None
        return (
            "its evictions could not be rehearsed, its record not be written, or disruption "
            f"budgets not be read, within {PLANNED_SECONDS:g} s: no pod is evicted"
        )
    if preemption.state is PreemptionState.OPEN:
        if now < preemption.deadline:
            return None
        names = ", ".join(preemption.pods[uid].name for uid in sorted(preemption.seats)[:5])
        return (
            f"{counted(len(preemption.seats), 'member')} ({names}) did not bind within "
            f"{settings.bind_seconds:g} s: the seats go back"
        )
    going = (*preemption.victims.values(), *preemption.waits.values())
    if not going:
        return _unopened(preemption, now, settings)
    if now <= _expected(preemption, going, settings):
        return None
    stuck = ", ".join(sorted(victim.name for victim in going)[:5])
    unsent = len(preemption.victims.keys() - preemption.sent)
    refused = "; ".join([f"{counted(unsent, 'eviction')} not accepted", *errors[:2]])
    return (
        f"{stuck} did not go away within the grace period and "
        f"{settings.victim_slack_seconds:g} s{f' ({refused})' if unsent else ''}"
    )


def _unopened(preemption: Preemption, now: float, settings: SeatSettings) -> str | None:
    """Return why seats whose room is there are not waited for any more."""
    awaited = (*preemption.plan.victims, *preemption.plan.waits_for)
    if now <= _expected(preemption, awaited, settings) + settings.bind_seconds:
        return None
    return (
        f"its room is there, and for {settings.bind_seconds:g} s more urgent pods have been on "
        "their way to it, or the cache was stale: the seats go back"
    )


def _expected(preemption: Preemption, going: Iterable[Victim], settings: SeatSettings) -> float:
    """Return by when (monotonic) those who go should be gone.

    Each eviction that is accepted is progress: to stop amid them would only take in vain.
    """
    longest = max((victim.grace for victim in going), default=0)
    since = max(preemption.since, preemption.progress_at)
    return since + longest + settings.victim_slack_seconds


ANSWER_SECONDS = 10.0
"""After how long a member that was told its seat and is not bound is not on its way any more."""
LOOK_AFTER_SECONDS = 5.0
"""How often it is made sure that every eviction is worked on."""
CROWDED_SECONDS = 6.0
"""How long others may be on their way to its room: longer than an assumed pod counts."""
CLOSED_SECONDS = 15.0
"""For how long they are kept away: what was offered before passes (4 s), and members are asked for
their first answer (kube-scheduler's back-off is 10 s at most)."""
PRESUMED_SECONDS = 5.0
"""How long a binding that was under way when the life before ended may take to show."""
BUDGET_READS = 5
"""How often disruption budgets are read, where they do not allow a plan's evictions ..."""
BUDGETS_SECONDS = 0.2
"""... and the first pause; each one is twice as long, up to the last one."""
CHECK_PAUSE = 3.0
"""Every rule is asked of open seats again after so many times as long as it took last."""
AT_ONCE = 128
"""How many groups are claimed at a time: verbs and events are answered in between."""

PLANNED, EVICTING, WAITING, OPEN, CHANGING, ENDED = (
    PreemptionState.PLANNED,
    PreemptionState.EVICTING,
    PreemptionState.WAITING,
    PreemptionState.OPEN,
    PreemptionState.CHANGING,
    PreemptionState.ENDED,
)


# -- what comes in ---------------------------------------------------------------------------


class Begun(NamedTuple):
    """A plan that holds now is to be carried out."""

    preemption: Preemption


class Resumed(NamedTuple):
    """A recorded plan of a life before goes on; where it does not hold, it ends, and
    ``changed_for`` says why."""

    preemption: Preemption


class Rehearsed(NamedTuple):
    """Every eviction of a plan would be accepted."""

    plan_id: str


class RehearsalRefused(NamedTuple):
    """One would not."""

    plan_id: str
    uid: str
    failure: victim_group.Failure
    readable: bool
    """The pod could be read after that, so its eviction is what fails and not the API."""
    told: str


class Recorded(NamedTuple):
    """The record of a plan is surely there."""

    plan_id: str


class RecordFailed(NamedTuple):
    """It is not."""

    plan_id: str
    why: str


class Checked(NamedTuple):
    """Every rule was asked of all seats, on the newest state."""

    plan_id: str
    why: str | None
    """Why they cannot be taken, "" when they can; None: that could not be told."""
    displaced_by: Sequence[Pod] = ()
    """The pods that came without an offer and without which they could."""
    masks: Masks | None = None
    """Nodes that members may not use from now on."""
    told: str = NOT_COMPARED
    """Why it could not be told."""


class BudgetsRead(NamedTuple):
    """Disruption budgets as the API server has them; the rest is as they were asked for."""

    plan_id: str
    budgets: Sequence[DisruptionBudget]
    names: Sequence[tuple[str, str]]
    accepted: int
    reads: int


class BudgetsNotRead(NamedTuple):
    """They cannot be read."""

    plan_id: str
    why: str


class ClaimMore(NamedTuple):
    """A plan claims its victim groups, AT_ONCE a turn. An effect that comes back as an event."""

    plan_id: str
    groups: Sequence[tuple[str, Sequence[Victim]]]
    nominate: bool


class Presumed(NamedTuple):
    """Who was given a seat in a life before sits by now, or asks again."""

    plan_id: str


class Compared(NamedTuple):
    """What ``permits`` has compared a plan with, right before a request."""

    plan_id: str
    why: str
    """Why it does not hold, "" when it does or that cannot be told."""
    nodes: object
    spared_at: tuple[object, int]
    claim: Claim
    gang: Gang | None


class DoesNotHold(NamedTuple):
    """A plan does not hold any more: another one is to be searched for.

    ``masks``: nodes that members may not use from now on.
    """

    preemption: Preemption
    why: str
    masks: Masks | None = None


class GivesWay(NamedTuple):
    """Another plan of its gang takes a plan's place."""

    preemption: Preemption
    other: Preemption


class End(NamedTuple):
    """A plan is given up. ``penal``: by its own fault, so that its gang's next one has to wait."""

    preemption: Preemption
    why: str
    penal: bool = False


class PodSeen(NamedTuple):
    """A pod has changed (None: it did not, or does not, exist). ``wall``: seconds."""

    old: Pod | None
    new: Pod | None
    wall: float


class Tick(NamedTuple):
    """Time passes. ``awaited``: names of victim groups whose end pods without a seat wait for."""

    awaited: AbstractSet[str]


PlanEvent = (
    victim_group.Event
    | Begun
    | Resumed
    | Rehearsed
    | RehearsalRefused
    | Recorded
    | RecordFailed
    | Checked
    | BudgetsRead
    | BudgetsNotRead
    | ClaimMore
    | Presumed
    | Compared
    | DoesNotHold
    | GivesWay
    | End
    | PodSeen
    | Tick
)


# -- what goes out ---------------------------------------------------------------------------


class Rehearse(NamedTuple):
    """Ask for every eviction as a dry run: Rehearsed, or RehearsalRefused."""

    preemption: Preemption
    budgeted: frozenset[str]


class WriteRecord(NamedTuple):
    """Write the plan's record: Recorded, or RecordFailed."""

    preemption: Preemption
    others: Others


class Check(NamedTuple):
    """Ask every rule of a plan's seats: Checked."""

    preemption: Preemption


class ReadBudgets(NamedTuple):
    """Read disruption budgets, after some seconds: BudgetsRead, or BudgetsNotRead."""

    preemption: Preemption
    names: Sequence[tuple[str, str]]
    """Namespace and name of each."""
    accepted: int
    """How many evictions have been accepted in these namespaces."""
    reads: int
    """How often they have been read."""
    seconds: float


class Nominate(NamedTuple):
    """Nominate the members, as a hint for autoscalers, once all evictions are sent."""

    preemption: Preemption


class Later(NamedTuple):
    """Come back with an event after some seconds."""

    event: Presumed
    seconds: float


class Acts(NamedTuple):
    """A plan is past PLANNED, whichever way."""

    plan_id: str


class Taken(NamedTuple):
    """Pods are about to be evicted."""

    pods: Sequence[Pod]


class Accepted(NamedTuple):
    """An eviction is accepted. ``first``: the plan's members are told of it."""

    sent: Sent
    preemption: Preemption | None
    first: bool


class Opened(NamedTuple):
    """All room is there: members are called to their seats."""

    preemption: Preemption


class Search(NamedTuple):
    """Search for another plan in the place of one that does not hold."""

    preemption: Preemption
    why: str
    masks: Masks


class SeatsReleased(NamedTuple):
    """Nobody may take a plan's seats any more; why."""

    preemption: Preemption
    why: str


class RoomFreed(NamedTuple):
    """Less is held on these nodes than before. kube-scheduler keeps room for those whom we
    nominated until it hears of their clearing."""

    nodes: Sequence[str]


class RecordOver(NamedTuple):
    """A plan has ended: its record is deleted, or says what is owed."""

    plan_id: str


class PlanEnded(NamedTuple):
    """A plan has ended, by itself: no other took its place."""

    preemption: Preemption
    done: bool
    penal: bool
    why: str


class ClearNominations(NamedTuple):
    """Members have no seat any more."""

    pods: Sequence[Pod]


class Seated(NamedTuple):
    """A pod of no gang has a seat: it need not be tried again."""

    pod: Pod


class Settled(NamedTuple):
    """A pod is bound or gone."""

    pod: Pod


class Park(NamedTuple):
    """A pod of no gang has lost its seat on a node, and may be tried again."""

    pod: Pod
    node: str


class SeatsFree(NamedTuple):
    """Pods that seats have kept waiting are to be tried again."""


class Log(NamedTuple):
    """Something for the log."""

    text: str
    words: Mapping[str, str]
    warns: bool = False


class Defect(NamedTuple):
    """A step was not taken in whole; the others were."""

    error: Exception
    at: str


PlanEffect = (
    victim_group.Evict
    | victim_group.Read
    | victim_group.Unmark
    | victim_group.ComeBack
    | Ended
    | Refused
    | Owes
    | Rehearse
    | WriteRecord
    | Check
    | ReadBudgets
    | ClaimMore
    | Nominate
    | Later
    | Acts
    | Taken
    | Accepted
    | Opened
    | Search
    | SeatsReleased
    | RoomFreed
    | RecordOver
    | PlanEnded
    | Decision  # its time is the moment that it is told
    | ClearNominations
    | Seated
    | Settled
    | Park
    | SeatsFree
    | Log
    | Defect
)


class PlanView(victim_group.View, Protocol):
    """The cluster as it is now, and what plans are compared with; only asked."""

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""

    def behind(self) -> bool:
        """Whether nothing can be compared now: while some watch is down the cluster may have
        changed, and neither an eviction nor a seat given away is taken back."""

    def problem(self, preemption: Preemption) -> str:
        """Return why a plan does not hold, "" when it does."""

    def no_longer(self, preemption: Preemption, *, evicts: bool = False) -> str:
        """Return why nothing is to be done for a gang any more, "" when something is.

        ``evicts``: it has to be as urgent as its plan, too.
        """

    def stays(self, preemption: Preemption) -> str:
        """Return who of those waited for does not go after all, "" when all do."""

    def spares(self, preemption: Preemption) -> str:
        """Return why nobody may have to go after all, "" when nothing speaks for it."""

    def gone_in_part(self, preemption: Preemption, group: VictimGroup, claim: Claim) -> str:
        """Return why what is left of an untouched group may stay, "" when nothing speaks for it."""

    def of_unit(self, victims: Sequence[Victim], priority: int) -> str:
        """Return why an untouched gang must not go now, "" when it may."""

    def gang_of(self, victim: Victim) -> Gang | None:
        """Return what a victim goes with now: the same object while that is unchanged."""

    def crowded(self, preemption: Preemption) -> bool:
        """Whether others may be on their way to a plan's room."""

    def does_without(self, preemption: Preemption, uid: str) -> bool:
        """Whether a gang is complete without a member."""

    def has_spare(self, preemption: Preemption, uid: str) -> bool:
        """Whether a member without a seat waits that can take a member's seat."""

    def displaced_by(self, preemption: Preemption, refused: AbstractSet[str]) -> tuple[Pod, ...]:
        """Return the pods that came to its seats without an offer and why it does not hold."""

    def budgeted(self, victims: Collection[Victim], priority: int) -> frozenset[str]:
        """Return the uids of those to evict through the Eviction API."""

    def budgets_of(self, preemption: Preemption) -> Sequence[tuple[str, str]]:
        """Return namespace and name of the budgets that count for what a plan has yet to evict."""

    def allowed_by(self, preemption: Preemption, budgets: Sequence[DisruptionBudget]) -> Allowance:
        """Return what budgets, as they were read, say to all of a plan's evictions together."""

    def leaves(self, pod: Pod, wall: float) -> bool:
        """Whether a pod's end is near, at a wall time."""

    def member_key(self, pod: Pod) -> GangKey | None:
        """Return the key of the gang that a pod belongs to."""

    def needs_nominations(self) -> bool:
        """Whether kube-scheduler may look at a part of the nodes only."""


class Allowance(NamedTuple):
    """What disruption budgets say to evictions."""

    refused: Mapping[str, str]
    """Uid of a victim that cannot be evicted once those before it are -> why."""
    waits: bool
    """Nothing is refused, but evictions of other plans come first."""


class Offers(Protocol):
    """Pods that were offered a node and are not seen bound (scheduler_view/assumed_pods.py)."""

    def note(self, pod: Pod, nodes: Sequence[str] | None) -> None:
        """A pod may be on its way to one of these nodes."""

    def settled(self, uid: str) -> object:
        """The pod is bound or gone; return what it was offered, None for nothing."""


class Plans(Struct, kw_only=True, eq=False):
    """All plans under way, and the victim groups that they claim. Changed by ``step``; what is
    made of open seats changes ``reservations`` as well (refused_seats.py, the bind barrier)."""

    reservations: Reservations
    victims: victim_group.Tables
    offers: Offers
    settings: Settings
    accepted: dict[str, int] = {}
    """Namespace -> how many evictions have been accepted there."""
    wanted: dict[str, set[GangKey]] = {}
    """Uid of a victim or waited-for pod -> plans that want it gone."""
    looks_after: float = 0.0
    """When all evictions are looked at next, monotonic."""
    ground: tuple[object, object] = (None, None)
    """Nodes and namespaces at the last look; other mappings when one of them changed."""

    def takes(self, name: str) -> bool:
        """Whether what goes together under this name is to go, or has gone in part and still has
        to: who comes to it now would have to go with it, or be left alone."""
        return self.reservations.takes_unit(name) or self.victims.owes(name)

    def of(self, claim: Claim) -> Preemption | None:
        """Return the plan under way that claims a group."""
        preemption = self.reservations.get(claim.preemptor)
        return preemption if preemption is not None and preemption.id == claim.plan_id else None


def drafted(
    plan: Plan,
    plan_id: str,
    now: float,
    snapshot: Snapshot,
    before: Preemption | None = None,
    seen: Snapshot | None = None,
    held: Iterable[Hold] = (),
) -> Preemption:
    """Return a preemption for a plan, as the cluster is in ``snapshot``; nothing is held yet.

    ``before`` is the gang's plan that it takes the place of. ``seen`` is the cluster that the
    plan was searched for in, ``held`` the seats then: what has room since may spare victims.
    """
    return Preemption(
        plan=plan,
        id=plan_id,
        pods={
            seat.uid: snapshot.pending[seat.uid]
            for seat in plan.seats
            if seat.uid in snapshot.pending
        },
        seats={seat.uid: seat.node for seat in plan.seats},
        state=PLANNED,
        since=now,
        victims={v.uid: v for v in plan.victims if present(v, snapshot)},
        waits={v.uid: v for v in plan.waits_for if present(v, snapshot)},
        started=now if before is None else before.started,
        replans=0 if before is None else before.replans + (not before.displaced_by),
        unadmitted={} if before is None else dict(before.unadmitted),
        displacements=0 if before is None else before.displacements + bool(before.displaced_by),
        completes=before is not None and before.sits,
        evicted_before=frozenset() if before is None else before.evicted_from,
        overdue=before is not None and before.overdue,
        seen=seen,
        seen_holds=tuple(
            hold
            for hold in (held if plan.victims else ())
            if hold.gang != plan.gang and hold.gang not in plan.takes_over
        ),
    )


def units_of(victims: Iterable[Victim]) -> dict[str, list[Victim]]:
    """Return victims by what goes together, in the order given."""
    units: dict[str, list[Victim]] = {}
    for victim in victims:
        units.setdefault(victim.unit or victim.uid, []).append(victim)
    return units


# -- right before a request ------------------------------------------------------------------


def permits(plans: Plans, uid: str, view: PlanView) -> tuple[bool, Compared | None]:
    """Return whether the request for a pod may leave at this moment, and what was compared for
    that, to be fed to ``step`` unless it is None.

    Asked right before the request leaves, also when it has its connection (promise 4).
    """
    untouched = victim_group.permits(plans.victims, uid, view)
    if isinstance(untouched, bool):
        return untouched, None
    group, claim = untouched
    preemption = plans.of(claim)
    if preemption is None or preemption.state is not EVICTING or view.behind():
        return False, None
    nodes, spared_at, gang = preemption.nodes, preemption.spared_at, claim.compared
    compares = preemption.doubted
    why = view.no_longer(preemption, evicts=True)
    if not why and (compares or view.snapshot().nodes is not nodes):
        compares, nodes = True, view.snapshot().nodes
        why = view.problem(preemption)
    first = next(iter(group.victims.values()), None)
    if not why and group.whole and first is not None:
        gang = view.gang_of(first.victim)
        if gang is not claim.compared:
            why = view.of_unit([state.victim for state in group.there(claim)], claim.priority)
    if not why and preemption.seen is not None and not plans.victims.asks(preemption.id):
        at = (view.snapshot(), plans.reservations.version)
        if at[0] is not spared_at[0] or at[1] != spared_at[1]:
            spared_at, why = at, view.spares(preemption)
        why = why or view.gone_in_part(preemption, group, claim)
    unchanged = spared_at is preemption.spared_at and gang is claim.compared
    if not why and not compares and unchanged:
        return True, None
    return not why, Compared(preemption.id, why, nodes, spared_at, claim, gang)


# -- the step --------------------------------------------------------------------------------


def step(
    plans: Plans, event: PlanEvent, now: float, view: PlanView, out: list[PlanEffect] | None = None
) -> list[PlanEffect]:
    """Apply one event; return what is to be done. ``now`` is monotonic.

    ``out``: where that is put, so that it is known where the view raises an error.
    """
    out = [] if out is None else out
    _Step(plans, now, view, out).apply(event)
    if freed := plans.reservations.take_freed():
        out.append(RoomFreed(freed))
    return out


class _Step:
    """One event at one moment."""

    def __init__(self, plans: Plans, now: float, view: PlanView, out: list[PlanEffect]) -> None:
        self.plans = plans
        self.book = plans.reservations
        self.now = now
        self.view = view
        self.out = out

    def apply(self, event: PlanEvent) -> None:
        """Apply it."""
        match event:
            case Begun(preemption):
                self._hold(preemption)
                self._rehearse(preemption)
            case Resumed(preemption):
                self._resume(preemption)
            case RehearsalRefused():
                self._rehearsal_refused(event)
            case Rehearsed() | Recorded() | RecordFailed() | BudgetsRead() | BudgetsNotRead():
                if (planned := self.book.plan(event.plan_id)) is not None:
                    self._planned(planned, event)
            case Checked(plan_id, why):
                if (checked := self.book.plan(plan_id)) is not None:
                    self._checked(checked, event)
            case ClaimMore():
                self._claim(event)
            case Presumed(plan_id):
                if (resumed := self.book.plan(plan_id)) is not None:
                    self.book.not_coming(resumed, resumed.presumed)
            case Compared():
                self._compared(event)
            case DoesNotHold(preemption, why, masks):
                self._replan(preemption, why, masks)
            case GivesWay(preemption, other):
                self._give_way(preemption, other)
            case End(preemption, why, penal):
                self._end(preemption, Outcome.GAVE_UP, why, penal=penal)
            case PodSeen():
                self._pod_seen(event)
            case Tick(awaited):
                self._tick(awaited)
            case _:
                self._victims(event)

    # -- the seats are held; planned, recorded ------------------------------------------------

    def _hold(self, preemption: Preemption) -> None:
        """Hold the seats, and count the room of those who go as promised."""
        snapshot = self.view.snapshot()
        # Who left since the preemption was drafted will not be told of again.
        preemption.victims = {u: v for u, v in preemption.victims.items() if present(v, snapshot)}
        preemption.waits = {u: v for u, v in preemption.waits.items() if present(v, snapshot)}
        going = {**preemption.victims, **preemption.waits}
        preemption.held = self.now
        pods = [pod for victim in going.values() if (pod := present(victim, snapshot))]
        self.book.open_preemption(preemption, [(pod.node, pod.uid, pod.requests) for pod in pods])
        for uid in going:
            self.plans.wanted.setdefault(uid, set()).add(preemption.key)
        if preemption.key.dialect == SINGLE:
            self.out += [Seated(preemption.pods[uid]) for uid in preemption.seats]

    def _rehearse(self, preemption: Preemption) -> None:
        victims = preemption.victims.values()
        budgeted = self.view.budgeted(victims, preemption.plan.priority)
        self.out.append(Rehearse(preemption, budgeted))

    def _resume(self, preemption: Preemption) -> None:
        self._hold(preemption)
        preemption.held = -inf  # a life before has held the seats
        preemption.changed_for = self.view.problem(preemption)
        if preemption.changed_for:
            self._leave(preemption)
            self._records_over(preemption)
            return
        for node in preemption.seats.values():
            # Where its members sit already, seats of those of whom none does make room.
            self.book.doubt(node, but=preemption)
        if not preemption.victims and not preemption.waits:
            # Its seats were open: members may have been answered, and not be seen bound yet.
            preemption.presumed = set(preemption.seats)
            self.out.append(Later(Presumed(preemption.id), PRESUMED_SECONDS))
        self._rehearse(preemption)

    def _rehearsal_refused(self, event: RehearsalRefused) -> None:
        # Else the next plan names it again, and the gang never comes to others.
        self._note(event.uid, event.failure, readable=event.readable, rehearsed=True)
        preemption = self.book.plan(event.plan_id)
        if preemption is not None and preemption.state is PLANNED:
            why = f"an eviction was refused in rehearsal, no pod is evicted: {event.told}"
            self._end(preemption, Outcome.GAVE_UP, why, penal=True)

    def _note(
        self, uid: str, failure: victim_group.Failure, *, readable: bool, rehearsed: bool = False
    ) -> None:
        """Remember that a pod's eviction is refused."""
        self.plans.victims.refusals.note(
            uid,
            failure.why,
            passing=failure.passing,
            unclear=failure.unclear,
            budgeted=failure.budgeted,
            readable=readable,
            rehearsed=rehearsed,
        )

    def _planned(
        self,
        preemption: Preemption,
        event: Rehearsed | Recorded | RecordFailed | Checked | BudgetsRead | BudgetsNotRead,
    ) -> None:
        if isinstance(event, RecordFailed | BudgetsNotRead):
            what = "the plan's record cannot be written"
            if isinstance(event, BudgetsNotRead):
                what = "the victims' disruption budgets cannot be read"
            why = f"{what}, so nothing is evicted: {event.why}"
            self._end(preemption, Outcome.GAVE_UP, why, code=Code.API, penal=True)
            return
        if isinstance(event, Recorded):
            preemption.recorded = True
            self._records_over(preemption)
        if preemption.state is not PLANNED:
            return  # another plan is searched for
        if not preemption.recorded:
            others = others_of(preemption.plan, self.view.snapshot())
            self.out.append(WriteRecord(preemption, others))
            return
        if preemption.victims and isinstance(event, Rehearsed | Recorded):
            self._check(preemption)
            return
        if not self._allowed(preemption, event):
            return
        why = self.view.problem(preemption) or self.view.spares(preemption)
        if why:
            self._replan(preemption, why)
            return
        self._enter(preemption, EVICTING)
        preemption.nodes = self.view.snapshot().nodes
        nominate = self.plans.settings.seats.nominate
        nominate = nominate and bool(preemption.victims or preemption.waits)
        groups = list(units_of(preemption.victims.values()).items())
        self._claim(ClaimMore(preemption.id, groups, nominate=nominate))

    def _check(self, preemption: Preemption) -> None:
        """Have the rules asked that ``view.problem`` does not ask, of affinity, spread and ports:
        before the first eviction, before the seats open, and where a member may not get its own."""
        if not preemption.checking:
            preemption.checking, preemption.unchecked = True, False
            preemption.check_began = self.now
            self.out.append(Check(preemption))

    def _checked(self, preemption: Preemption, event: Checked) -> None:
        """They have been asked."""
        preemption.checking = False
        preemption.unchecked |= event.why is None
        began = preemption.check_began
        preemption.check_after = self.now + CHECK_PAUSE * (self.now - began)
        if event.why == "":
            preemption.clear_from = began
        why = event.told if event.why is None else event.why
        if preemption.state is PLANNED and not why:
            self._planned(preemption, event)
        elif preemption.state is PLANNED or event.why:
            self._replan(preemption, why, event.masks, tuple(event.displaced_by))
        elif not why:  # else Tick comes back to it
            self._advance(preemption, checked=not preemption.doubted)

    def _allowed(self, preemption: Preemption, event: object) -> bool:
        """Whether disruption budgets allow all evictions together, by what was just read of them.

        The API server is asked for each eviction alone, in rehearsal too, and the cache is behind
        it: a gang would go in part.
        """
        names, reads = self.view.budgets_of(preemption), 0
        if not names:
            return True
        counts = self.plans.accepted
        accepted = sum(counts.get(namespace, 0) for namespace in {name[0] for name in names})
        if isinstance(event, BudgetsRead):
            reads = event.reads + 1
            if event.names == names and event.accepted == accepted:
                refused, waits = self.view.allowed_by(preemption, event.budgets)
                if not refused and not waits:
                    return True
                if refused and reads >= BUDGET_READS:
                    self._over_budget(preemption, refused)
                    return False
        seconds = BUDGETS_SECONDS * 2 ** (min(reads, BUDGET_READS) - 1) if reads else 0.0
        self.out.append(ReadBudgets(preemption, names, accepted, reads, seconds))
        return False

    def _over_budget(self, preemption: Preemption, refused: Mapping[str, str]) -> None:
        # As after a rehearsal. Budgets are their owners' to change: it is no fault of the gang.
        for uid, why in refused.items():
            failure = victim_group.Failure(why, passing=True, budgeted=True)
            self._note(uid, failure, readable=True, rehearsed=True)
        victim = preemption.victims[next(iter(refused))]
        told = f"{victim.namespace}/{victim.name}: {refused[victim.uid]}"
        why = f"disruption budgets do not allow all evictions, so no pod is evicted: {told}"
        self._end(preemption, Outcome.GAVE_UP, why)

    def _claim(self, event: ClaimMore) -> None:
        """Claim victim groups, as long as the plan evicts."""
        preemption = self.book.plan(event.plan_id)
        if preemption is None:
            return
        claimed = self.plans.victims.claimed(preemption.id)
        count = 0
        for at, (name, victims) in enumerate(event.groups, 1):
            if preemption.state not in (EVICTING, WAITING):
                break
            there = tuple(victim for victim in victims if victim.uid in preemption.victims)
            if name in claimed or not there:
                continue
            self._victims(self._claimed(preemption, there))
            count += 1
            if count == AT_ONCE:
                self.out.append(event._replace(groups=event.groups[at:]))
                return
        if preemption.state is EVICTING:
            self._advance(preemption)
        if event.nominate:
            self.out.append(Nominate(preemption))

    def _claimed(self, preemption: Preemption, there: tuple[Victim, ...]) -> Claimed:
        plan, snapshot = preemption.plan, self.view.snapshot()
        # Some may go already, by another plan's hand or somebody else's. Whom another plan has
        # only asked for may stay, so it is asked for here as well.
        pods = [pod for each in there if (pod := present(each, snapshot)) is not None]
        sent = frozenset(
            pod.uid
            for pod in pods
            if self.view.leaves(pod, snapshot.now) or self.plans.victims.accepted(pod.uid)
        )
        preemption.sent.update(sent)
        self.out.append(Taken(pods))
        uids = frozenset(victim.uid for victim in there)
        gang = self.view.gang_of(there[0]) if there[0].unit else None
        bound = () if gang is None else gang.bound
        message = (
            f"preempted by {plan.gang} (priority {plan.priority}), which runs as a whole "
            f"once {counted(len(plan.victims), 'pod', 'is', 'are')} gone"
        )
        claim = Claim(
            plan_id=preemption.id,
            preemptor=plan.gang,
            priority=plan.priority,
            message=message,
            uids=uids,
            beside=frozenset(pod.uid for pod in bound if pod.uid not in uids),
        )
        return Claimed(claim, there, sent=sent, watched=preemption.resumed)

    # -- what comes of victims ----------------------------------------------------------------

    def _victims(self, event: victim_group.Event) -> None:
        """Hand the victim groups an event, and take in what comes of it for plans."""
        found: list[victim_group.Effect] = []
        try:
            victim_group.step(self.plans.victims, event, self.now, self.view, found)
        except Exception as error:  # what is being done for the plan has to be done in whole
            self.out.append(Defect(error, type(event).__name__))
        for effect in found:
            match effect:
                case Owes():
                    pass
                case Sent():
                    self._sent(effect)
                case Refused():
                    self.out.append(effect)
                    self._refused(effect)
                case WholeAgain(name, claims):
                    for claim in claims:
                        why = f"{name} was evicted in part, and others made it whole again"
                        self._fails(claim, why)
                case _:
                    self.out.append(effect)
        self.out += dict.fromkeys(effect for effect in found if isinstance(effect, Owes))

    def _fails(self, claim: Claim, why: str) -> None:
        preemption = self.plans.of(claim)
        if preemption is not None:
            self._replan(preemption, why)

    def _compared(self, event: Compared) -> None:
        preemption = self.plans.of(event.claim)
        if preemption is None:
            return
        if event.nodes is not preemption.nodes or preemption.doubted:
            preemption.doubted, preemption.nodes = False, event.nodes
        preemption.spared_at, event.claim.compared = event.spared_at, event.gang
        if event.why:
            self._replan(preemption, event.why)

    def _sent(self, sent: Sent) -> None:
        namespace = sent.victim.namespace
        self.plans.accepted[namespace] = self.plans.accepted.get(namespace, 0) + 1
        asking = self.plans.of(sent.claim)
        self.out.append(Accepted(sent, asking, first=asking is not None and not asking.told))
        for claim in sent.claims:
            preemption = self.plans.of(claim)
            if preemption is None:
                continue
            if sent.ours:
                # From here on room comes by our own hand.
                preemption.seen, preemption.seen_holds = None, ()
                preemption.spared_at = (None, 0)
            preemption.sent.add(sent.victim.uid)
            preemption.progress_at = self.now
            preemption.told = True
            self._advance(preemption)

    def _refused(self, refused: Refused) -> None:
        victim, failure = refused.victim, refused.failure
        told = f"{victim.namespace}/{victim.name} cannot be evicted: {failure.why}"
        if not failure.own:
            self._note(victim.uid, failure, readable=refused.readable)
        if refused.left:
            message = f"{refused.name} is evicted in part: {told}"
            self.out.append(
                Decision(
                    time=0.0,
                    gang=str(refused.claim.preemptor),
                    verb=Verb.LOOP,
                    outcome=Outcome.BROKEN,
                    message=message,
                    victims=refused.left,
                )
            )
        for claim in refused.claims:
            preemption = self.plans.of(claim)
            if preemption is not None:
                if preemption.state is not CHANGING:
                    preemption.stayed[victim.uid] = victim
                self._replan(preemption, told)

    # -- wait, open, change -------------------------------------------------------------------

    def _enter(self, preemption: Preemption, state: PreemptionState) -> None:
        if preemption.state is PLANNED:
            self.out.append(Acts(preemption.id))
        preemption.enter(state, self.now)

    def _advance(self, preemption: Preemption, *, checked: bool = False) -> None:
        """Move to the state that what is left to go away calls for."""
        if preemption.state not in (EVICTING, WAITING):
            return
        if preemption.victims or preemption.waits:
            if preemption.state is EVICTING and preemption.victims.keys() <= preemption.sent:
                self._enter(preemption, WAITING)
            return
        if self.view.behind():
            return  # what it would be compared with is old; Tick comes back to it
        why = self.view.problem(preemption)
        if why:
            self._replan(preemption, why)
            return
        preemption.doubted = False
        if self.view.crowded(preemption):
            return  # Tick comes back to it
        if not checked and not preemption.presumed:  # of those its seats were open before
            self._check(preemption)
            return
        self._enter(preemption, OPEN)
        preemption.deadline = self.now + self.plans.settings.seats.bind_seconds
        self.out.append(Opened(preemption))

    def _replan(
        self,
        preemption: Preemption,
        why: str,
        masks: Masks | None = None,
        displaced_by: tuple[Pod, ...] = (),
    ) -> None:
        """Stop what can be stopped of a plan that does not hold any more; search for another."""
        if preemption.over or preemption.state is CHANGING:
            return
        refused = {node for nodes in (masks or {}).values() for node in nodes}
        displaced_by = displaced_by or self.view.displaced_by(preemption, refused)
        if displaced_by:
            names = some(sorted(pod.key for pod in displaced_by))
            why = f"{names} came or changed in its way without a filter call: {why}"
        preemption.displaced_by, preemption.changed_for = displaced_by, why
        self._enter(preemption, CHANGING)
        self._release(preemption, why)
        self._victims(Released(preemption.id))
        self.out.append(Search(preemption, why, masks or {}))

    def _release(self, preemption: Preemption, why: str) -> None:
        """Nobody may take the seats any more: whose bind is held is on its way nowhere."""
        held = frozenset(preemption.binds_held)
        if not preemption.over:
            self.book.not_coming(preemption, held)
        for uid in held:
            preemption.tries.pop(uid, None)
        self.out.append(SeatsReleased(preemption, why))

    # -- time ---------------------------------------------------------------------------------

    def _tick(self, awaited: AbstractSet[str]) -> None:
        """Look at deadlines, and at plans when nodes or namespaces have changed."""
        # A plan may have let go of a group before anything was asked for; of a broken one the
        # rest stays.
        self.out += [Ended(name) for name in sorted(awaited) if not self.plans.takes(name)]
        self._each(self._progress)
        self._each(self._deadline)
        if self.now >= self.plans.looks_after:
            self.plans.looks_after = self.now + LOOK_AFTER_SECONDS
            self._victims(LookAll(fresh=not self.view.behind()))
        snapshot, chooses = self.view.snapshot(), not self.plans.settings.enforce.everybody
        # Whom the extender acts for hangs on the labels of namespaces, where it is not everybody.
        ground = (snapshot.nodes, snapshot.namespaces if chooses else None)
        if any(new is not old for new, old in zip(ground, self.plans.ground, strict=True)):
            self.plans.ground = ground
            for preemption in self.book:
                # Others are compared when they are recorded.
                preemption.doubted |= preemption.recorded
        self._each(self._ground)

    def _each(self, look: Callable[[Preemption], None]) -> None:
        """Look at each plan; an error ends the look at that plan alone."""
        for preemption in self.book:
            try:
                look(preemption)
            except Exception as error:
                self.out.append(Defect(error, f"{preemption.key}, plan {preemption.id}"))

    def _progress(self, preemption: Preemption) -> None:
        if not preemption.victims and not preemption.waits:
            self._advance(preemption)
        self._starvation(preemption)

    def _starvation(self, preemption: Preemption) -> None:
        """Keep others away for a while whose coming keeps the seats from opening."""
        if preemption.closed_at:
            if preemption.closed and self.now - preemption.closed_at > CLOSED_SECONDS:
                self.book.keep_away(preemption, 0.0)
            return
        waits = preemption.state in (EVICTING, WAITING, OPEN)
        going = preemption.victims or preemption.waits
        if not waits or going or preemption.binding or not self.view.crowded(preemption):
            preemption.crowded_at = 0.0
        elif not preemption.crowded_at:
            preemption.crowded_at = self.now
        elif self.now - preemption.crowded_at > CROWDED_SECONDS:
            self.book.keep_away(preemption, self.now)

    def _deadline(self, preemption: Preemption) -> None:
        groups = self.plans.victims.of_plan(preemption.id)
        errors = [group.error for group in groups if group.error]
        overdue = late(preemption, self.now, self.plans.settings.seats, errors)
        if overdue is None:
            return
        self._blame(preemption)
        going = preemption.victims or preemption.waits
        if preemption.state is WAITING and going and not preemption.unsent:
            # All that it has begun is done: its seats may be free without the room of these pods.
            preemption.overdue = True
            self._replan(preemption, overdue)
        else:
            self._end(preemption, Outcome.GAVE_UP, overdue, penal=True)

    def _blame(self, preemption: Preemption) -> None:
        """Note what a plan is given up for: whose pods did not go, or which members kube-scheduler
        tried and would not put on their open seats."""
        if preemption.state is OPEN:
            for uid in preemption.seats.keys() & (preemption.missed.keys() | preemption.cleared):
                tries = preemption.tries.get(uid, Tries())
                if not tries.given and not tries.for_now:
                    preemption.refused.add(uid)
        if preemption.state not in (EVICTING, WAITING):
            return
        snapshot = self.view.snapshot()
        for victim in (*preemption.victims.values(), *preemption.waits.values()):
            pod = present(victim, snapshot)
            if pod is not None and pod.deleting:
                preemption.stayed[victim.uid] = victim
                self.plans.victims.refusals.stayed(victim.uid)
            elif pod is not None:
                preemption.unsent = True  # its request is on its way, for all that is known

    def _ground(self, preemption: Preemption) -> None:
        """Look at what the plan rests on."""
        if self.now - preemption.answered_at > ANSWER_SECONDS:
            self.book.not_coming(preemption, preemption.answered)
        # One that is not recorded is compared when it is, which may take long. Until then its seats
        # would be held against everybody, for a gang that is left alone.
        why = self.view.no_longer(preemption)
        if preemption.recorded and not why:
            look = self.view.problem if preemption.doubted else self.view.stays
            why = look(preemption)
            preemption.doubted = False
        if why:
            self._replan(preemption, why)
        elif (
            preemption.unchecked
            and preemption.state is OPEN
            and self.now >= preemption.check_after
            and not self.view.behind()
        ):
            self._check(preemption)

    # -- the end ------------------------------------------------------------------------------

    def _leave(self, preemption: Preemption) -> None:
        """Take the preemption out of the book: who must go is evicted, the others stay."""
        self._enter(preemption, ENDED)
        for uid in sorted(preemption.answered & preemption.seats.keys()):
            # On its way to a seat that nobody holds any more.
            self.plans.offers.note(preemption.pods[uid], [preemption.seats[uid]])
        self._release(preemption, "its plan has ended")
        self.book.close(preemption.key)
        for victim in (*preemption.plan.victims, *preemption.plan.waits_for):
            wanted = self.plans.wanted.get(victim.uid)
            if wanted is None:
                continue
            wanted.discard(preemption.key)
            if not wanted:
                del self.plans.wanted[victim.uid]
                self.book.pod_left(victim.node, victim.uid)
        self._victims(Released(preemption.id))

    def _records_over(self, preemption: Preemption) -> None:
        """Let go of the records of plans before, and of its own if it is over."""
        over = (*preemption.replaces, preemption.id) if preemption.over else preemption.replaces
        preemption.replaces = ()
        self.out += [RecordOver(plan_id) for plan_id in over]

    def _give_way(self, preemption: Preemption, other: Preemption) -> None:
        if preemption.over:
            return
        # Until the other's record is written a restart goes on with this one: its room is there.
        other.replaces, preemption.replaces = (*preemption.replaces, preemption.id), ()
        self._leave(preemption)
        # Who has no seat any more would keep its room from the members that have.
        seatless = preemption.seats.keys() - other.seats.keys()
        pods = [preemption.pods[uid] for uid in preemption.seats if uid in seatless]
        self.out.append(ClearNominations(pods))
        if not preemption.seats.items() <= other.seats.items():
            self.out.append(SeatsFree())  # what kept them off a node may be elsewhere

    def _end(
        self,
        preemption: Preemption,
        outcome: Outcome,
        why: str,
        *,
        penal: bool = False,
        code: DecisionCode = "",
    ) -> None:
        """Close a plan: seats back, record dropped, those kept waiting woken."""
        if preemption.over:
            return
        held, message, done = seats_of(preemption), why, outcome is Outcome.DONE
        self._release(preemption, why)
        self._leave(preemption)
        self._records_over(preemption)
        owed = self.plans.victims.unfinished_of(preemption.id)
        if owed:
            of = "of victim groups that were evicted in part"
            message += f"; {counted(owed, 'eviction', f'{of} is', f'{of} are')} still finished"
        self.out.append(
            Decision(
                time=0.0,
                gang=str(preemption.key),
                verb=Verb.LOOP,
                outcome=outcome,
                code=code,
                message=message,
                victims=preemption.plan.victims,
                seats=preemption.plan.seats if done else held,
                seconds=self.now - preemption.started,
            )
        )
        self.out.append(PlanEnded(preemption, done=done, penal=penal, why=why))
        self._clear_nominations(preemption, held)
        if not done and preemption.key.dialect == SINGLE:
            # Nobody looks after a pod of no gang but kube-scheduler, and it tries one again when
            # something changes: its own preemption has been told to wait for this plan.
            self.out += [Park(preemption.pods[seat.uid], seat.node) for seat in held]
        self.out.append(SeatsFree())

    def _clear_nominations(self, preemption: Preemption, held: Iterable[Seat]) -> None:
        """Take back what this plan has nominated its members to, or one that it took the place of.

        Without victims to wait for it nominates only whom it finds nominated elsewhere, unless
        kube-scheduler looks at a part of the nodes: then all, which may not show yet.
        """
        every = bool(preemption.plan.victims or preemption.plan.waits_for)
        every = every or preemption.replans + preemption.displacements > 0
        every = every or self.view.needs_nominations()
        pending = self.view.snapshot().pending
        pods = [preemption.pods[seat.uid] for seat in held]
        shown = [
            pod for pod in pods if every or pod.nominated or pending.get(pod.uid, pod).nominated
        ]
        self.out.append(ClearNominations(shown))

    # -- event handlers -----------------------------------------------------------------------

    def _pod_seen(self, event: PodSeen) -> None:
        old, new = event.old, event.new
        if new is None or new.finished:
            pod = old or new
            if pod is not None:
                self._gone(pod, event.wall)
            return
        if self._leaves(new, event.wall) and not (old and self._leaves(old, event.wall)):
            self._victims(SeenGoing(new.uid))
            self._goes(new)
        if new.deleting and not (old and old.deleting):
            self._leaving(new)
        if old is not None and old.requests != new.requests:
            self._resized(old, new)
        if old is not None and old.node and new.node and old.labels != new.labels:
            self.book.unadmitted(new)  # rules may count it from now on
        if old is None and new.node:
            self._victims(SeenBack(new.uid))
        elif old is not None and old.node and not new.node:
            self._unbound(new)
        if new.node and not (old and old.node):
            self._bound(new, seen=old is not None)
        elif new.nominated and not new.node and new.nominated != (old.nominated if old else ""):
            self._nominated(new)

    def _leaves(self, pod: Pod, wall: float) -> bool:
        return bool(pod.deleting) and self.view.leaves(pod, wall)

    def _resized(self, old: Pod, pod: Pod) -> None:
        """What rests on the pod's old size is compared: its own seat, and those beside it."""
        own = self.book.of_member(pod.uid)
        if own is not None:
            self.book.resized(own, pod)
        elif pod.node and _grew(old, pod):
            self.book.unadmitted(pod)
        self.book.doubt(pod.node if own is None else own.seats[pod.uid])

    def _leaving(self, pod: Pod) -> None:
        key = self.view.member_key(pod)
        own = None if key is None else self.book.get(key)
        if own is not None:
            own.doubted = True  # with a member that sat gone, the others may be too few
        self._member_lost(pod)

    def _goes(self, pod: Pod) -> None:
        for preemption in self._wanting(pod.uid):
            if pod.uid in preemption.victims:
                preemption.sent.add(pod.uid)
                self._advance(preemption)

    def _wanting(self, uid: str) -> list[Preemption]:
        """Return the plans that want this pod gone."""
        found = [self.book.get(key) for key in self.plans.wanted.get(uid, ())]
        return [preemption for preemption in found if preemption is not None]

    def _gone(self, pod: Pod, wall: float) -> None:
        if not self._leaves(pod, wall):
            self._goes(pod)
        if not pod.deleting:
            self._leaving(pod)
        self._victims(SeenGone(pod.uid))
        wanting = self._wanting(pod.uid)
        self.plans.wanted.pop(pod.uid, None)
        for preemption in wanting:
            preemption.victims.pop(pod.uid, None)
            preemption.waits.pop(pod.uid, None)
            self._advance(preemption)
        self.book.pod_left(pod.node, pod.uid)
        self.out.append(Settled(pod))
        self.plans.offers.settled(pod.uid)
        self._member_lost(pod)

    def _member_lost(self, pod: Pod) -> None:
        preemption = self.book.of_member(pod.uid)
        if preemption is None:
            return
        # Where the room is there already: others may sit, and without their seats the rest would
        # not come to them. With the barrier nobody sits before all have come.
        if (
            preemption.state is OPEN
            and not self.plans.settings.bind.enabled
            and self.view.does_without(preemption, pod.uid)
        ):
            self._log("a member that is not needed is gone", gang=str(preemption.key), pod=pod.key)
            self.book.seat_lost(preemption, pod.uid)
            self._done_if_seated(preemption)
            return
        why = f"member {pod.key} went away before it was bound"
        if preemption.state is not OPEN and self.view.has_spare(preemption, pod.uid):
            self._replan(preemption, why)
            return
        self._end(preemption, Outcome.GAVE_UP, why)

    def _nominated(self, pod: Pod) -> None:
        """kube-scheduler keeps room for a pod: whoever is less urgent does not get past it."""
        if self.book.of_member(pod.uid) is not None:
            return
        for hold in self.book.holds_on(pod.nominated):
            other = self.book.get(hold.gang)
            if other is not None and other.plan.priority <= pod.priority:
                other.doubted = True

    def _unbound(self, pod: Pod) -> None:
        """A pod's node is never taken back: the storage was put back to before its binding.

        Its gang's others may sit, or be on their way, so its plan gives it its seat again.
        """
        key = self.view.member_key(pod)
        preemption = None if key is None else self.book.get(key)
        if preemption is None or preemption.state is not OPEN:
            return
        seat = next((seat for seat in preemption.plan.seats if seat.uid == pod.uid), None)
        if seat is None or pod.uid in preemption.seats:
            return
        self._log("a member's binding was lost", warns=True, pod=pod.key, node=seat.node)
        self.book.seat_back(preemption, pod, seat.node)
        preemption.deadline = self.now + self.plans.settings.seats.bind_seconds
        preemption.doubted = True

    def _bound(self, pod: Pod, *, seen: bool) -> None:
        """``seen``: it was there before, without a node. What kube-scheduler binds was offered,
        however long ago."""
        self.out.append(Settled(pod))
        offered = self.plans.offers.settled(pod.uid)
        preemption = self.book.of_member(pod.uid)
        self.book.doubt(pod.node, but=preemption)
        if preemption is None:
            if offered is None and not seen:
                self.book.unadmitted(pod)
            return
        seat = preemption.seats[pod.uid]
        if seat != pod.node:
            self._log("member bound elsewhere", warns=True, pod=pod.key, node=pod.node, seat=seat)
        self.book.seat_taken(pod.uid)
        if preemption.seats and preemption.state in (PLANNED, EVICTING, WAITING):
            why = f"member {pod.key} has a node before the seats are open"
            self._replan(preemption, why)
            return
        self._done_if_seated(preemption)

    def _done_if_seated(self, preemption: Preemption) -> None:
        if not preemption.seats:
            victims, took = preemption.plan.victims, self.now - preemption.started
            why = (
                f"{all_of(len(preemption.plan.seats), 'member', 'is', 'are')} bound {took:.1f} s "
                f"after the plan, {counted(len(victims), 'pod', 'was', 'were')} evicted"
            )
            self._end(preemption, Outcome.DONE, why)

    def _log(self, text: str, *, warns: bool = False, **words: str) -> None:
        self.out.append(Log(text, words, warns=warns))


def _grew(old: Pod, new: Pod) -> bool:
    """Whether a pod asks for more of anything than before."""
    before = dict(old.requests)
    return any(amount > before.get(name, 0) for name, amount in new.requests)
