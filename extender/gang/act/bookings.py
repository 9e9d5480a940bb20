"""Who has a booked start, made and looked after; plan/booking.py says what that is.

Nothing here is recorded: all that a booking rests on is in the cluster (how long the gang exists,
who runs where, since when), so a new life comes to one that is no later, as soon as the gang was
refused once. Only observed run times are forgotten, and without them ends count as unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import structlog
from msgspec import Struct
from msgspec.structs import replace

from extender.gang.act.book import Book
from extender.gang.act.booked_room import BookedRoom, Claim
from extender.gang.act.clocks import Clocks
from extender.gang.act.pending_gangs import Urgency, urgency_of
from extender.gang.act.planner_thread import Overran
from extender.gang.plan import booking as pure
from extender.gang.plan.booking import Amounts, Booking
from extender.gang.plan.ends import End, RunTimes, end_of
from extender.model.errors import NotReady
from extender.model.fairness import FairnessSettings
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import rfc3339

log = structlog.get_logger("gang")

AGAIN_SECONDS = 2.0
"""A gang's start is not worked out again before: several searches on the whole cluster."""
LONGEST_AGAIN_SECONDS = 30.0
FAILED_SECONDS = 300.0
"""A gang for which this fails is not tried again before: it would fail again."""
ROUND_SECONDS = 1.0
"""After so long a round begins nothing new, and no earlier start is looked for: a round lasts so
long and two questions to the planner at most."""
SHARE = 10
"""New starts are worked out a tenth of the time at most, whoever waits for one; those that do not
hold any more, another tenth."""
UNUSED_SECONDS = 90.0
"""A booking whose seats are all free, and that no plan comes of, is given up after so long: what
is in the way is nothing that ends."""
ENDED_BY = (
    Code.SUSPENDED,
    Code.PENALTY,
    Code.CONFLICT,
    Code.NOT_ENFORCED,
    Code.NOT_NEEDED,
    Code.INCOMPLETE,
    Code.BUDGET,
)
"""Codes of refusals with which a booking is over: it is not room that the gang waits for."""
FITS_NOT = Code.INFEASIBLE
"""Code of the refusal that says that the gang fits nowhere and may evict nobody for it."""

Search = Callable[[Gang, Snapshot, tuple[Hold, ...]], Awaitable[Plan | Refusal]]


class _Tried(Struct, frozen=True):
    again: float
    """Monotonic time before which it is not tried again."""
    pause: float
    why: str
    at: float
    """When that was; of a gang that is paused, until when."""
    ended: int
    """How many pods had ended then: each may make a booking possible."""


class Bookings:
    """The bookings of one term. One event loop only.

    ``snapshot`` is the cluster as planning sees it; ``resolve(key)`` the gang as it is;
    ``refused(key)`` what it was told last; ``search`` asks the planner, with other gangs' seats
    given, and waits its turn.
    """

    def __init__(
        self,
        settings: FairnessSettings,
        book: Book,
        clocks: Clocks,
        snapshot: Callable[[], Snapshot],
        resolve: Callable[[GangKey], Gang],
        refused: Callable[[GangKey], Refusal | None],
        search: Search,
        changed: Callable[[], None] = lambda: None,
        tell: Callable[[Refusal], object] = lambda refusal: None,
        failed: Callable[[GangKey, Exception], None] = lambda key, error: None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        """``changed`` is called when room that was kept is given back, ``tell`` with what owners
        are told of a booking, ``failed`` with a gang that cannot be judged: others go on;
        ``beat`` before each question to the planner."""
        self._settings = settings
        self._book = book
        self._clocks = clocks
        self._snapshot = snapshot
        self._resolve = resolve
        self._refused = refused
        self._search = search
        self._changed = changed
        self._tell = tell
        self._failed = failed
        self._beat = beat
        self._booked: dict[GangKey, Booking] = {}
        self._tried: dict[GangKey, _Tried] = {}
        self._free_since: dict[GangKey, float] = {}
        self._last_generation = -1
        self._ended = 0
        self._next_new = -inf
        self._next_again = -inf
        self._round_began = -inf
        self._cursor: Urgency | None = None
        """Who of those without a booking was tried last: who comes after has the next turn."""
        self.run_times = RunTimes()
        book.booked = BookedRoom(clocks.wall)

    def __len__(self) -> int:
        return len(self._booked)

    def get(self, key: GangKey) -> Booking | None:
        """Return the gang's booking."""
        return self._booked.get(key)

    # -- what others ask ------------------------------------------------------------------

    def holds_against(self, gang: Gang, snapshot: Snapshot) -> Iterator[Hold]:
        """Yield what a search for the gang has to leave to booked starts."""
        for booking in self._booked.values():
            if pure.kept_from(gang, booking):
                yield from pure.holds_against(gang, booking, snapshot, self._end)

    def describe(self) -> list[dict[str, Any]]:
        """Return, for a person, who has a booked start, and who waits for one and why."""
        snapshot = self._snapshot()
        found: list[dict[str, Any]] = [
            {
                "gang": str(each.gang),
                "priority": each.priority,
                "booked": True,
                "since": rfc3339(each.made),
                "start": None if each.start is None else rfc3339(each.start),
                "seats": dict(sorted(each.seats.items())),
                "waitsFor": [
                    {"namespace": pod.namespace, "name": pod.name, "node": pod.node, **_told(end)}
                    for name in sorted(each.nodes())
                    for pod in snapshot.bound.get(name, ())
                    if pod.uid in each.awaited and (end := self._end(pod) or End(None))
                ],
                "keeps": {
                    hold.node: dict(hold.requests)
                    for name in sorted(each.nodes())
                    for hold in self._book.booked.on(name)
                    if hold.gang == each.gang
                },
            }
            for each in self._booked.values()
        ]
        return found + [
            {"gang": str(key), "booked": False, "why": tried.why}
            for key, tried in self._tried.items()
            if tried.why and key not in self._booked
        ]

    # -- what the cache reports -----------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event: what a pod that is gone had is kept at once."""
        if old is None or not old.node or (new is not None and not new.finished):
            return
        self._ended += 1
        if not old.deleting and not old.disrupted:
            self.run_times.ended(old, self._clocks.wall())
        if any(old.node in booking.nodes() for booking in self._booked.values()):
            self._keep()

    # -- rounds ---------------------------------------------------------------------------

    async def round(self, keys: Iterable[GangKey]) -> None:
        """Look after bookings; ``keys`` are the gangs that wait."""
        if not self._settings.booking:
            return
        self._round_began = self._clocks.monotonic()
        waiting = self._waiting(keys)
        for key in list(self._booked):
            with self._apart(key):
                why = self._over(key, waiting)
                if why:
                    self._drop(key, why)
        self._tried = {
            key: tried
            for key, tried in self._tried.items()
            if key in waiting or self._is_paused(key)
        }
        self._keep()
        for gang in sorted(waiting.values(), key=urgency_of):
            if self._late():
                break
            with self._apart(gang.key):
                booking = self._booked.get(gang.key)
                if booking is None or not self._problem(booking, gang):
                    continue
                now = self._clocks.monotonic()
                if now >= max(self._next_again, self._again(gang.key)):
                    try:
                        await self._make(gang)
                    finally:
                        self._next_again = self._throttled(now)
        await self._make_new([gang for gang in waiting.values() if gang.key not in self._booked])
        self._keep()

    async def _make_new(self, gangs: list[Gang]) -> None:
        """Book starts for those who have none, most urgent first, then oldest; by turns."""
        order = sorted((gang for gang in gangs if self._due(gang)), key=urgency_of)
        after = [g for g in order if self._cursor is None or urgency_of(g) > self._cursor]
        for gang in after + [each for each in order if each not in after]:
            now = self._clocks.monotonic()
            if now < self._next_new or self._late():
                return
            with self._apart(gang.key):
                if now >= self._again(gang.key) and self._displaced(gang) is not None:
                    self._cursor = urgency_of(gang)
                    try:
                        await self._make(gang)
                    finally:
                        self._next_new = self._throttled(now)
        self._cursor = None

    def _late(self) -> bool:
        return self._clocks.monotonic() - self._round_began >= ROUND_SECONDS

    def _throttled(self, began: float) -> float:
        """Return when the next start may be worked out, after one that was begun then."""
        now = self._clocks.monotonic()
        return now + SHARE * (now - began)

    @contextmanager
    def _apart(self, key: GangKey) -> Iterator[None]:
        """Go on with other gangs where one cannot be judged: it has no booking for a while."""
        try:
            yield
        except NotReady:
            raise
        except Overran:
            self._pause(key, "a search for its start did not end in time")
        except Exception as error:
            self._failed(key, error)
            self._pause(key, f"its start could not be worked out: {type(error).__name__}")

    def _pause(self, key: GangKey, why: str) -> None:
        """Let the gang go without a booking for a while, whoever ends meanwhile."""
        until = self._clocks.monotonic() + FAILED_SECONDS
        self._tried[key] = _Tried(until, LONGEST_AGAIN_SECONDS, why, until, self._ended)
        if key in self._booked:
            self._drop(key, why)

    def _is_paused(self, key: GangKey) -> bool:
        tried = self._tried.get(key)
        return tried is not None and tried.at > self._clocks.monotonic()

    def _waiting(self, keys: Iterable[GangKey]) -> dict[GangKey, Gang]:
        """Return the gangs that nothing but room is missing for."""
        found: dict[GangKey, Gang] = {}
        for key in keys:
            refusal = self._refused(key)
            if self._book.get(key) is not None or refusal is None or refusal.code != FITS_NOT:
                continue
            if self._is_paused(key):
                continue
            with self._apart(key):
                gang = self._resolve(key)
                if gang.starts_whole and gang.missing and gang.complete and not gang.problems:
                    found[key] = gang
        return found

    def _due(self, gang: Gang) -> bool:
        """Whether it has waited long enough, as its youngest member has."""
        youngest = max(pod.created for pod in gang.pending)
        return self._clocks.wall() - youngest >= self._settings.patience_seconds

    def _over(self, key: GangKey, waiting: dict[GangKey, Gang]) -> str:
        """Return why the gang has no booking any more, "" while it has."""
        if self._book.get(key) is not None:
            return "it has a plan"
        refusal = self._refused(key)
        if refusal is not None and refusal.code in ENDED_BY:
            return f"it does not wait for room any more: {refusal.message}"
        gang = waiting.get(key) or self._resolve(key)
        if not (gang.missing and gang.complete) or gang.problems:
            return "it does not wait for room any more"
        if not self._booked[key].seats.keys() <= {pod.uid for pod in gang.pending}:
            return "its members are others"
        free_since = self._free_since.get(key)
        now = self._clocks.monotonic()
        if free_since is not None and now - free_since >= UNUSED_SECONDS:
            self._tried[key] = _Tried(
                now + LONGEST_AGAIN_SECONDS,
                LONGEST_AGAIN_SECONDS,
                "its booked seats were free, and it could not be planned all the same",
                now,
                self._ended,
            )
            return "its seats are free and it cannot be planned"
        return ""

    def _drop(self, key: GangKey, why: str) -> None:
        log.info("booked start is over", gang=str(key), why=why)
        del self._booked[key]
        self._free_since.pop(key, None)
        self._keep()
        self._changed()

    def _problem(self, booking: Booking, gang: Gang) -> str:
        """Return why the start has to be worked out again."""
        if booking.priority != gang.preemptor_priority:
            return "its priority is another one"
        snapshot = self._snapshot()
        late = booking.start is not None and snapshot.now > booking.start + pure.SLACK_SECONDS
        if late and any(True for _ in self._still_there(booking, snapshot)):
            return "pods that it waits for have not ended when they should have"
        return pure.problem(booking, snapshot, self._taken(booking), self._end)

    def _still_there(self, booking: Booking, snapshot: Snapshot) -> Iterator[Pod]:
        for name in booking.nodes():
            for pod in snapshot.bound.get(name, ()):
                if pod.uid in booking.awaited and not pod.deleting:
                    yield pod

    def _taken(self, booking: Booking) -> dict[str, Amounts]:
        """Return what others' seats and bookings take of each node."""
        taken: dict[str, Amounts] = {}
        for hold in self._book.holds():
            if hold.gang != booking.gang:
                pure.add(taken.setdefault(hold.node, {}), hold.requests, 1)
        for other in self._booked.values():
            if other.gang != booking.gang and other.priority >= booking.priority:
                for name in other.nodes() & booking.nodes():
                    pure.add(taken.setdefault(name, {}), pure.asked(other, name).items(), 1)
        return taken

    def _displaced(self, gang: Gang) -> list[GangKey] | None:
        """Return who has to make way for it to be booked; None where it has no turn.

        A booked gang keeps its place, and only a more urgent one takes it.
        """
        if gang.key in self._booked:
            return []
        domain = pure.domain_of(gang, self._snapshot())
        beside = [each for each in self._booked.values() if each.domain & domain]
        many = len(beside) - self._settings.booked_per_domain + 1
        least = sorted(beside, key=lambda each: (each.priority, -each.made))[: max(0, many)]
        if any(each.priority >= gang.preemptor_priority for each in least):
            return None
        return [each.gang for each in least]

    def _again(self, key: GangKey) -> float:
        tried = self._tried.get(key)
        if tried is None:
            return -inf
        return (
            tried.again
            if tried.ended == self._ended
            else min(tried.again, tried.at + AGAIN_SECONDS)
        )

    async def _make(self, gang: Gang) -> None:
        before = self._booked.get(gang.key)
        answer = await self._earliest(gang)
        displaced = self._displaced(gang)
        if displaced is None:
            answer = "others were booked on its nodes meanwhile"
        elif isinstance(answer, Booking):
            answer = self._outdated(answer) or answer
        now = self._clocks.monotonic()
        if isinstance(answer, str):
            tried = self._tried.get(gang.key)
            pause = AGAIN_SECONDS if tried is None else min(2 * tried.pause, LONGEST_AGAIN_SECONDS)
            self._tried[gang.key] = _Tried(now + pause, pause, answer, now, self._ended)
            if before is not None:
                self._drop(gang.key, answer)
            return
        if self._book.get(gang.key) is not None:
            return  # it has a plan by now
        self._tried[gang.key] = _Tried(now + AGAIN_SECONDS, AGAIN_SECONDS, "", now, self._ended)
        if before is not None:
            answer = replace(answer, made=before.made)
        for key in displaced or ():  # only now: it is sure that their room is of use to it
            self._drop(key, f"the more urgent {gang.key} has its turn")
        self._booked[gang.key] = answer
        if before is None or before.start != answer.start:
            self._tell(_story(answer))
        self._free_since.pop(gang.key, None)
        log.info(
            "booked start",
            gang=str(gang.key),
            start=None if answer.start is None else rfc3339(answer.start),
            nodes=len(answer.nodes()),
            waits_for=len(answer.awaited),
        )
        self._keep()

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
        return self._problem(booking, gang)

    async def _earliest(self, gang: Gang) -> Booking | str:
        """Return the booking with the earliest start; in words why there is none."""
        snapshot = self._snapshot()
        ends = pure.ends_in(snapshot, self._end)
        domain = pure.domain_of(gang, snapshot)
        holds = (*self._book.holds(), *self._others(gang, snapshot))
        known = pure.moments(ends, snapshot, domain)
        asker = pure.as_asker(gang)

        async def found(until: float | None) -> Plan | None:
            self._last_generation -= 1
            then = pure.as_if_ending(snapshot, ends, until, self._last_generation, gang.key)
            self._beat()
            answer = await self._search(asker, then, holds)
            return answer if isinstance(answer, Plan) and not answer.victims else None

        best: tuple[float, Plan] | None = None
        low, high = 0, len(known) - 1
        if known and (last := await found(known[high])) is not None:
            best = (known[high], last)
            while low < high and not self._late():
                middle = (low + high) // 2
                plan = await found(known[middle])
                if plan is None:
                    low = middle + 1
                else:
                    high, best = middle, (known[middle], plan)
        if best is None:
            plan = await found(None)
            if plan is None:
                return "it does not fit even when all have ended that are made to end"
            booking = pure.booked(gang, plan, None, snapshot, domain)
        else:
            booking = pure.booked(gang, best[1], best[0], snapshot, domain)
            if all(ends[uid].by is not None for uid in booking.awaited):
                return booking
        share, resource = pure.idle_share(booking, snapshot)
        if share > self._settings.idle_share:
            return (
                f"up to {share:.0%} of the cluster's {resource} could stand idle for it, nobody "
                f"knows for how long; fairness.idleShare is {self._settings.idle_share:.0%}"
            )
        return booking

    def _others(self, gang: Gang, snapshot: Snapshot) -> Iterator[Hold]:
        """Yield the whole seats of other bookings: they are to be had as well in the end."""
        for other in self._booked.values():
            if other.gang != gang.key and other.priority >= gang.preemptor_priority:
                for name in other.nodes():
                    yield pure.as_hold(other, name, pure.asked(other, name))

    def _end(self, pod: Pod) -> End | None:
        return end_of(pod, self._clocks.wall(), self.run_times)

    def _keep(self) -> None:
        """Put what is claimed now into the book."""
        if not self._booked and not self._book.booked.nodes():
            return
        snapshot = self._snapshot()
        claims: dict[str, list[Claim]] = {}
        now = self._clocks.monotonic()
        for booking in self._booked.values():
            if self._book.get(booking.gang) is not None:
                continue  # its plan holds its seats
            waits = False
            for name in booking.nodes():
                there = snapshot.bound.get(name, ())
                counted = list(pure.waited_for(booking, there, self._end))
                waits = waits or bool(counted)
                amounts = pure.claim(booking, name, there, self._end)
                if amounts or counted:
                    hold = pure.as_hold(booking, name, amounts)
                    uids = frozenset(pod.uid for pod in counted)
                    claims.setdefault(name, []).append(Claim(hold, booking.start, uids))
            if waits:
                self._free_since.pop(booking.gang, None)
            else:
                self._free_since.setdefault(booking.gang, now)
        self._book.book_room({name: tuple(each) for name, each in claims.items()})


def _story(booking: Booking) -> Refusal:
    when = "when they end" if booking.start is None else f"by {rfc3339(booking.start)}"
    return Refusal(
        gang=booking.gang,
        code=Code.BOOKED,
        message=f"booked start: its seats are on {len(booking.nodes())} nodes, and "
        f"{len(booking.awaited)} pods there are waited for, {when}; nobody is evicted, and what "
        "comes free there is kept for it",
    )


def _told(end: End) -> dict[str, object]:
    """``sure``: a kubelet sees to an end, be it a later one than is likely."""
    at, by = (None if each is None else rfc3339(each) for each in (end.at, end.by))
    return {"ends": at, "endsBy": by, "sure": by is not None}
