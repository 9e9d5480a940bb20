"""Who has a booked start, made and looked after; plan/booking.py says what that is.

The rest of the program asks two questions: what a search has to leave to booked starts
(``holds_against``), and what they claim of a node, which stands in the book of reservations. What
comes in are pod events, ticks and rounds. A round asks the planner by yielding a question, and is
sent the answer; what is to be told and done outside is left in ``effects``.

Nothing here is recorded: who runs where and since when stands in the cluster, so a new life comes
to the same bookings once the gangs have waited their patience again. Observed run times are
forgotten too, and without them ends count as unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypedDict

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from extender.gang.booking.booked_claims import BookedClaims
from extender.gang.booking.booking_line import (
    BookingLine,
    BookingPace,
    LinePlace,
    PodEnds,
    still_there,
)
from extender.gang.core.last_check import KeptGangs
from extender.gang.core.reservations import Reservations
from extender.gang.incremental.enforcement import Enforcement
from extender.gang.plan import booking as pure
from extender.gang.plan.booking import Booking
from extender.gang.plan.ends import UNKNOWN
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.schedulers import seated_by
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource, PlanningSource
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted, rfc3339
from extender.settings.settings import Settings

log = structlog.get_logger("gang")

UNUSED_SECONDS = 90.0
"""A booking whose seats are all free, and that no plan comes of, is given up after so long: what
is in the way is nothing that ends."""
AGE_ENDED_BY = (Code.CONFLICT, Code.NOT_ENFORCED, Code.NOT_NEEDED, Code.INCOMPLETE, Code.SUSPENDED)
"""Codes of refusals of gangs that could not be planned: they begin to wait anew after that."""
ENDED_BY = (*AGE_ENDED_BY, Code.PENALTY, Code.BUDGET)
"""Codes of refusals with which a booking is over: it is not room that the gang waits for."""
FITS_NOT = Code.INFEASIBLE
"""Code of the refusal that says that the gang fits nowhere and may evict nobody for it."""

Answer = Plan | Refusal | Exception | None
"""Of the planner, or why there is none: TimeoutError where a search did not end in time."""


class AwaitedPod(TypedDict):
    """A pod that a booked start waits for, as the debug API shows it. Times are RFC 3339."""

    namespace: str
    name: str
    node: str
    ends: str | None
    """When it is expected to end; null where that is not known."""
    endsBy: str | None
    """When it ends at the latest; null where nothing makes it end."""
    sure: bool
    """Whether something makes it end."""


class BookedStart(TypedDict, total=False):
    """A booked start, or a gang that waits for one, as the debug API shows it."""

    gang: str
    booked: bool
    """Whether the start is booked."""
    why: str
    """Without a booked start: why there is none."""
    priority: int
    since: str
    """When it was booked."""
    start: str | None
    """When the gang is expected to start; null where that is not known."""
    seats: dict[str, str]
    """Uid of a member -> its node."""
    waitsFor: list[AwaitedPod]
    """Pods that the start waits for."""
    keeps: dict[str, dict[str, int]]
    """Node -> room that is kept there, by resource."""
    lostItsTurn: str
    """Which gang it stands behind, where another one is to be booked first."""


class Effects(Struct):
    """What a round, or a tick, leaves to be done."""

    notes: list[Refusal] = field(default_factory=list)
    """What owners are told of their bookings."""
    failed: list[tuple[GangKey, Exception]] = field(default_factory=list)
    """Gangs that cannot be judged, and why: others go on."""
    given_back: bool = False
    """Room that was kept is free for others."""


class Bookings:
    """The bookings of one term. One event loop only."""

    def __init__(
        self,
        settings: Settings,
        reservations: Reservations,
        planning: PlanningSource,
        gangs: KeptGangs,
        source: ClusterSource,
        clocks: Clocks,
    ) -> None:
        """``source`` has the cluster as it is, ``planning`` as planning sees it."""
        self.on = settings.fairness.booking
        """Else nothing is booked, and no round is needed."""
        self._reservations = reservations
        self._planning = planning
        self._gangs = gangs
        self._source = source
        self._clocks = clocks
        self._enforcement = Enforcement(settings.enforce)
        self._schedulers: Collection[str] = ()
        self._ends = PodEnds(clocks, settings.fairness.horizon_seconds)
        self._line = BookingLine(settings.fairness, clocks, self._ends)
        self._pace = BookingPace(clocks)
        self._booked = BookedClaims(
            settings.fairness, reservations, planning, self._line, self._ends, clocks
        )
        self._no_turn: dict[GangKey, str] = {}
        """Who is due and has no turn, and why."""
        self._sound: dict[GangKey, tuple[object, object, int, int]] = {}
        """Booking -> on what it was found to hold last."""
        self._cursor: LinePlace | None = None
        """Who of those without a booking was tried last: who comes after has the next turn."""
        self._last_generation = -1
        """Of the clusters of later that the planner was shown."""
        self._effects = Effects()
        self.run_times = self._ends.run_times

    def __len__(self) -> int:
        return len(self._booked)

    def get(self, key: GangKey) -> Booking | None:
        """Return the gang's booking."""
        return self._booked.get(key)

    # -- what others ask ------------------------------------------------------------------

    def holds_against(self, gang: Gang, snapshot: Snapshot) -> Iterator[Hold]:
        """Return what a search for the gang has to leave to booked starts."""
        kept = [booking for booking in self._booked if pure.kept_from(gang, booking)]
        return pure.holds_against(gang, kept, snapshot, self._ends.of)

    def keys(self) -> list[GangKey]:
        """Return who has a booked start."""
        return [booking.gang for booking in self._booked]

    def describe(self) -> list[BookedStart]:
        """Return, for a person, gangs with a booked start, and those that wait for one and why."""
        snapshot = self._planning.shown()
        reasons = {**self._pace.reasons(), **self._no_turn}
        return [
            *(self._described(each, snapshot) for each in self._booked),
            *(
                BookedStart(
                    gang=str(key),
                    booked=False,
                    why="; ".join(each for each in (self._line.why_behind(key), why) if each),
                )
                for key, why in reasons.items()
                if self.get(key) is None
            ),
        ]

    def _described(self, booking: Booking, snapshot: Snapshot) -> BookedStart:
        """Return which pods the gang waits for and what it keeps."""
        bound, claims = snapshot.bound, self._reservations.booked
        behind = self._line.why_behind(booking.gang)
        told: BookedStart = {
            "gang": str(booking.gang),
            "priority": booking.priority,
            "booked": True,
            "since": rfc3339(booking.made),
            "start": _time(booking.start),
            "seats": dict(sorted(booking.seats.items())),
            "waitsFor": [
                {
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "node": pod.node,
                    "ends": _time((end := self._ends.of(pod) or UNKNOWN).at),
                    "endsBy": _time(end.by),
                    "sure": end.by is not None,
                }
                for name in sorted(booking.nodes())
                for pod in bound.get(name, ())
                if pod.uid in booking.awaited
            ],
            "keeps": {
                name: dict(claim.hold.requests)
                for name in sorted(booking.nodes())
                for claim in claims.get(name, ())
                if claim.hold.gang == booking.gang and claim.hold.requests
            },
        }
        if behind:
            told["lostItsTurn"] = behind
        return told

    # -- events ---------------------------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event: what a pod that is gone had is kept at once."""
        if not self.on or old is None or not old.node or (new is not None and not new.finished):
            return
        self._pace.pod_ended()
        self._ends.gone(old)
        self._booked.pod_left(old.node)

    def tick(self) -> None:
        """Give back at once what is kept for gangs that are not acted for any more."""
        for booking in self._booked:
            if not self._acts_for(booking.gang):
                self._drop(booking.gang, "its namespace is not enforced any more")

    def effects(self) -> Effects:
        """Return what is to be done, each once."""
        effects, self._effects = self._effects, Effects()
        return effects

    # -- rounds ---------------------------------------------------------------------------

    def round(
        self,
        keys: Iterable[GangKey],
        refusals: Mapping[GangKey, Refusal],
        schedulers: Collection[str],
    ) -> Generator[GangQuestion, Answer, None]:
        """Look after bookings; ``keys`` are the gangs that wait, ``refusals`` what they and those
        that are booked were told last, ``schedulers`` those whose pods get seats."""
        self._schedulers = schedulers
        self._pace.begin()
        self.tick()
        waiting, others = self._waiting(keys, refusals)
        self._line.seen(waiting.values(), others)
        for booking in self._booked:
            with self._apart(booking.gang):
                self._judge(booking, waiting, refusals.get(booking.gang))
        self._pace.keep(waiting)
        self._booked.renew()
        for gang in sorted(waiting.values(), key=self._line.place):
            if self._pace.late():
                break
            with self._apart(gang.key):
                yield from self._work_out_again(gang)
        self._no_turn = {}
        yield from self._make_new([gang for gang in waiting.values() if self.get(gang.key) is None])
        self._booked.renew()

    def _waiting(
        self, keys: Iterable[GangKey], refusals: Mapping[GangKey, Refusal]
    ) -> tuple[dict[GangKey, Gang], list[GangKey]]:
        """Return the gangs that nothing but room is missing for, and those that wait for something
        else."""
        found: dict[GangKey, Gang] = {}
        others: list[GangKey] = []
        for key in keys:
            refusal = refusals.get(key)
            paused = self._pace.paused(key)
            if self._reservations.get(key) is not None or paused or refusal is None:
                others.append(key)
            elif refusal.code == FITS_NOT:
                with self._apart(key):
                    gang = self._resolve(key)
                    if gang.starts_whole and gang.missing and gang.complete and not gang.problems:
                        found[key] = gang
            elif refusal.code not in AGE_ENDED_BY:
                others.append(key)
        return found, others

    def _judge(
        self, booking: Booking, waiting: dict[GangKey, Gang], refusal: Refusal | None
    ) -> None:
        """Look whether the gang still needs its booking, and keeps its turn."""
        key = booking.gang
        why, own = self._over(booking, waiting, refusal)
        if not why:
            lost_by = self._line.lost(booking, self._planning.shown())
            if lost_by:
                log.info("booked start has lost its turn", gang=str(key), why=lost_by)
                self._effects.notes.append(_lost(key, lost_by))
            why = self._unwanted(key, booking.priority)
        if why:
            self._drop(key, why, own=own)

    def _over(
        self, booking: Booking, waiting: dict[GangKey, Gang], refusal: Refusal | None
    ) -> tuple[str, bool]:
        """Return why the gang needs no booking any more, "" while it does; and whether that is by
        its own doing, and without a start."""
        key = booking.gang
        if self._reservations.get(key) is not None:
            return "it has a plan", False
        gang = waiting.get(key) or self._resolve(key)
        if not gang.missing and not gang.problems:
            return "it has started", False
        if not gang.complete or gang.problems:
            return "it does not wait for room any more", True
        if not booking.seats.keys() <= {pod.uid for pod in gang.pending}:
            return "its members are others", True
        if refusal is not None and refusal.code in ENDED_BY:
            return f"it does not wait for room any more: {refusal.message}", False
        free_since = self._booked.free_since(key)
        if free_since is not None and self._clocks.monotonic() - free_since >= UNUSED_SECONDS:
            self._pace.in_vain(
                key, "its booked seats were free, and it could not be planned all the same"
            )
            return "its seats are free and it cannot be planned", False
        return "", False

    def _work_out_again(self, gang: Gang) -> Generator[GangQuestion, Answer, None]:
        booking = self._booked.get(gang.key)
        if booking is None or not self._problem(booking, gang):
            return
        if self._pace.due(gang.key, new=False):
            with self._pace.working(new=False):
                yield from self._make(gang)

    def _make_new(self, gangs: list[Gang]) -> Generator[GangQuestion, Answer, None]:
        """Book starts for those who have none and are due, in their order; by turns."""
        place = self._line.place
        order = sorted((gang for gang in gangs if self._line.due(gang)), key=place)
        after = [g for g in order if self._cursor is None or place(g) > self._cursor]
        for gang in after + [each for each in order if each not in after]:
            if self._pace.busy(new=True):
                return
            with self._apart(gang.key):
                if not self._pace.due(gang.key, new=True):
                    continue
                why = self._unwanted(gang.key, gang.preemptor_priority)
                displaced = why or self._booked.displaced(gang)
                if isinstance(displaced, str):
                    self._no_turn[gang.key] = displaced
                    continue
                self._cursor = place(gang)
                with self._pace.working(new=True):
                    yield from self._make(gang)
        self._cursor = None

    def _make(self, gang: Gang) -> Generator[GangQuestion, Answer, None]:
        key = gang.key
        before = self._booked.get(key)
        found = yield from self._earliest(gang)
        displaced: list[GangKey] | str = []
        if isinstance(found, Booking):
            displaced = self._outdated(found) or self._booked.displaced(gang, found)
        if isinstance(found, str) or isinstance(displaced, str):
            why = found if isinstance(found, str) else str(displaced)
            self._pace.not_made(key, why)
            if before is not None:
                self._drop(key, why)
            return
        if self._reservations.get(key) is not None:
            return  # it has a plan by now
        self._pace.made(key)
        for other in displaced:  # only now: it is sure that their room is of use to it
            self._drop(other, f"{key} has its turn before it")
        self._enter(found, before)

    def _enter(self, booking: Booking, before: Booking | None) -> None:
        self._line.entered(booking, before, self._planning.shown())
        if before is not None:
            booking = replace(booking, made=before.made)
        self._booked.put(booking)
        if before is None or before.start != booking.start:
            self._effects.notes.append(_story(booking))
        log.info(
            "booked start",
            gang=str(booking.gang),
            start=_time(booking.start),
            nodes=len(booking.nodes()),
            waits_for=len(booking.awaited),
        )

    def _drop(self, key: GangKey, why: str, *, own: bool = False) -> None:
        """``own``: by the gang's own doing, without a start."""
        log.info("booked start is over", gang=str(key), why=why)
        self._booked.drop(key)
        self._line.left(key, why, own=own)
        self._sound.pop(key, None)
        self._effects.given_back = True

    @contextmanager
    def _apart(self, key: GangKey) -> Iterator[None]:
        """Go on with other gangs where one cannot be judged: it has no booking for a while."""
        try:
            yield
        except TimeoutError:
            self._pause(key, "a search for its start did not end in time")
        except Exception as error:
            self._effects.failed.append((key, error))
            self._pause(key, f"its start could not be worked out: {type(error).__name__}")

    def _pause(self, key: GangKey, why: str) -> None:
        """Let the gang go without a booking for a while, whoever ends meanwhile."""
        self._pace.pause(key, why)
        if self.get(key) is not None:
            self._drop(key, why)

    # -- one gang -------------------------------------------------------------------------

    def _resolve(self, key: GangKey) -> Gang:
        return seated_by(self._gangs.resolve(key, self._source.snapshot()), self._schedulers)

    def _acts_for(self, key: GangKey) -> bool:
        return self._enforcement.everybody or self._enforcement.acts_for(
            key.namespace, self._source.snapshot()
        )

    def _unwanted(self, key: GangKey, priority: int) -> str:
        """Return why a gang whose namespace has lost its turn is not booked now: a pod of another
        namespace waits that its room would be kept from."""
        if self._line.rank(key)[0] and any(
            pod.tried
            and not pod.gated
            and pod.namespace != key.namespace
            and pod.priority <= priority
            for pod in self._planning.shown().pending.values()
        ):
            return "it has lost its turn, and pods of other namespaces wait"
        return ""

    def _problem(self, booking: Booking, gang: Gang) -> str:
        """Return why the start has to be worked out again."""
        if booking.priority != gang.preemptor_priority:
            return "its priority is another one"
        if len(booking.seats) != min(gang.missing, len(gang.pending)):
            return "it wants another number of seats"
        snapshot = self._planning.shown()
        if self._line.passed(booking):
            late = list(still_there(booking, snapshot))
            for pod in late:
                self.run_times.late(pod)
            if late:
                return "pods that it waits for have not ended when they should have"
        seen = (snapshot.nodes, snapshot.bound, self._reservations.version, self._booked.version)
        known = self._sound.get(booking.gang, (None, None, 0, 0))
        if known[0] is seen[0] and known[1] is seen[1] and known[2:] == seen[2:]:
            return ""
        taken = self._booked.taken(booking)
        why = pure.problem(booking, gang, snapshot, taken, self._ends.of)
        if not why:
            self._sound[booking.gang] = seen
        return why

    def _outdated(self, booking: Booking) -> str:
        """Return why what was worked out is not so any more: others went on meanwhile."""
        gang = self._resolve(booking.gang)
        asked = {pod.uid: pod.requests for pod in gang.pending}
        if (
            not (gang.missing and gang.complete)
            or gang.problems
            or any(asked.get(uid) != requests for uid, requests in booking.requests.items())
        ):
            return "the gang changed while its start was worked out"
        if not self._acts_for(booking.gang):
            return "its namespace is not enforced any more"
        return self._problem(booking, gang)

    # -- the earliest moment at which a gang fits, by the planner's own search -------------

    def _earliest(self, gang: Gang) -> Generator[GangQuestion, Answer, Booking | str]:
        """Return the booking with the earliest start; in words why there is none.

        Once the round is late no earlier one is looked for.
        """
        snapshot = self._planning.shown()
        ends = pure.ends_in(snapshot, pure.not_its_own(gang, self._ends.of))
        domain = pure.domain_of(gang, snapshot)
        asker, holds = pure.as_asker(gang), (*self._reservations.holds(), *self._others(gang))

        def found(until: float | None) -> Generator[GangQuestion, Answer, Plan | None]:
            self._last_generation -= 1
            then = pure.as_if_ending(snapshot, ends, until, self._last_generation, gang.key)
            answer = yield GangQuestion(asker, then, holds)
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, Plan) and not answer.victims else None

        known = pure.moments(ends, snapshot, domain)
        best: tuple[float, Plan] | None = None
        low, high = 0, len(known) - 1
        if known and (last := (yield from found(known[high]))) is not None:
            best = (known[high], last)
            while low < high and not self._pace.late():
                middle = (low + high) // 2
                plan = yield from found(known[middle])
                if plan is None:
                    low = middle + 1
                else:
                    high, best = middle, (known[middle], plan)
        if best is not None:
            return pure.booked(gang, best[1], best[0], snapshot, domain)
        plan = yield from found(None)
        if plan is None:
            return "it does not fit even when all have ended that are made to end"
        return pure.booked(gang, plan, None, snapshot, domain)

    def _others(self, gang: Gang) -> Iterator[Hold]:
        """Yield the whole seats of other bookings: they are to be had as well in the end."""
        for other in self._booked:
            makes_way = self._booked.makes_way(other, gang.key, gang.preemptor_priority)
            if other.gang != gang.key and not makes_way:
                for name, amounts in other.asked.items():
                    yield pure.as_hold(other, name, amounts)


def _story(booking: Booking) -> Refusal:
    """Return what the owner is told of a booking."""
    when = "when they end" if booking.start is None else f"by {rfc3339(booking.start)}"
    return Refusal(
        gang=booking.gang,
        code=Code.BOOKED,
        message=f"booked start: its seats are on {counted(len(booking.nodes()), 'node')}, and "
        f"{counted(len(booking.awaited), 'pod', 'there is', 'there are')} waited for, {when}; "
        "no pod is evicted, and room that becomes free there is reserved for it",
    )


def _lost(key: GangKey, why: str) -> Refusal:
    """Return what the owner of a gang is told that has lost its turn."""
    return Refusal(
        gang=key,
        code=Code.BOOKED,
        message=f"its booked start was lost: {why}; it is kept only as long as no other "
        "gang needs the room, and the gang waits behind the others",
    )


def _time(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
