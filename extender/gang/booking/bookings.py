"""Who has a booked start, made and looked after; plan/booking.py says what that is.

Nothing here is recorded: who runs where and since when stands in the cluster, so a new life comes
to the same bookings once the gangs have waited their patience again. Observed run times are
forgotten too, and without them ends count as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from msgspec.structs import replace

from extender.gang.booking.booked_claims import BookedClaims
from extender.gang.booking.booked_room import BookedRoom
from extender.gang.booking.booking_line import BookingLine, LinePlace, wanted_by_others
from extender.gang.booking.booking_pace import BookingPace
from extender.gang.booking.booking_places import Places
from extender.gang.booking.booking_search import BookingSearch, Search
from extender.gang.booking.booking_tenure import Tenures, still_there
from extender.gang.booking.booking_told import described, lost, not_booked, story
from extender.gang.controller.planner_thread import Overran
from extender.gang.core.reservations import Reservations
from extender.gang.plan import booking as pure
from extender.gang.plan.booking import Booking
from extender.gang.plan.ends import End, RunTimes, end_of
from extender.gang.runtime.clocks import Clocks
from extender.model.errors import NotReady
from extender.model.fairness import FairnessSettings
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Hold, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import rfc3339

log = structlog.get_logger("gang")

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


AGE_ENDED_BY = (Code.CONFLICT, Code.NOT_ENFORCED, Code.NOT_NEEDED, Code.INCOMPLETE, Code.SUSPENDED)
"""Codes of refusals of gangs that could not be planned: they begin to wait anew after that."""


class Bookings:
    """The bookings of one term. One event loop only.

    ``snapshot`` is the cluster as planning sees it; ``resolve(key)`` the gang as it is;
    ``refused(key)`` what it was told last; ``search`` asks the planner, with other gangs' seats
    given, and waits its turn.
    """

    def __init__(
        self,
        settings: FairnessSettings,
        reservations: Reservations,
        clocks: Clocks,
        snapshot: Callable[[], Snapshot],
        resolve: Callable[[GangKey], Gang],
        refused: Callable[[GangKey], Refusal | None],
        search: Search,
        changed: Callable[[], None] = lambda: None,
        tell: Callable[[Refusal], object] = lambda refusal: None,
        failed: Callable[[GangKey, Exception], None] = lambda key, error: None,
        beat: Callable[[], None] = lambda: None,
        acts_for: Callable[[str], bool] = lambda namespace: True,
    ) -> None:
        """``changed`` is called when room that was kept is given back, ``tell`` with what owners
        are told of a booking, ``failed`` with a gang that cannot be judged: others go on;
        ``beat`` before each question to the planner; ``acts_for`` says whether gangs of a
        namespace are planned for."""
        self._settings = settings
        self._reservations = reservations
        self._clocks = clocks
        self._snapshot = snapshot
        self._resolve = resolve
        self._refused = refused
        self._changed = changed
        self._tell = tell
        self._failed = failed
        self._acts_for = acts_for
        self._booked = BookedClaims(reservations, snapshot, self._end, clocks)
        self._line = BookingLine(clocks, settings.patience_seconds, settings.horizon_seconds)
        self._places = Places(settings, self._booked, self._line, snapshot)
        self._earliest = BookingSearch(
            reservations, self._booked, self._places.makes_way, snapshot, self._end, search, beat
        ).earliest
        self._tenures = Tenures(settings, self._line, clocks, self._end)
        self._pace = BookingPace(clocks)
        self._no_turn: dict[GangKey, str] = {}
        """Who is due and has no turn, and why."""
        self._sound: dict[GangKey, tuple[object, object, int, int]] = {}
        """Booking -> on what it was found to hold last."""
        self._cursor: LinePlace | None = None
        """Who of those without a booking was tried last: who comes after has the next turn."""
        self.run_times = RunTimes()
        reservations.booked = BookedRoom(clocks)

    def __len__(self) -> int:
        return len(self._booked)

    def get(self, key: GangKey) -> Booking | None:
        """Return the gang's booking."""
        return self._booked.get(key)

    # -- what others ask ------------------------------------------------------------------

    def holds_against(self, gang: Gang, snapshot: Snapshot) -> Iterator[Hold]:
        """Return what a search for the gang has to leave to booked starts."""
        kept = [booking for booking in self._booked if pure.kept_from(gang, booking)]
        return pure.holds_against(gang, kept, snapshot, self._end)

    def describe(self) -> list[dict[str, Any]]:
        """Return, for a person, who has a booked start, and who waits for one and why."""
        snapshot, room = self._snapshot(), self._reservations.booked
        reasons = {**self._pace.reasons(), **self._no_turn}
        left = {key: why for key, why in reasons.items() if self.get(key) is None}
        return [
            *(described(each, snapshot, room, self._end, self._line) for each in self._booked),
            *not_booked(left, self._line),
        ]

    # -- what the cache reports -----------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event: what a pod that is gone had is kept at once."""
        if old is None or not old.node or (new is not None and not new.finished):
            return
        self._pace.pod_ended()
        self.run_times.gone(old)
        if not old.deleting and not old.disrupted:
            self.run_times.ended(old, self._clocks.wall())
        self._booked.pod_left(old.node)

    def tick(self) -> None:
        """Give back at once what is kept for gangs that are not acted for any more."""
        for booking in self._booked:
            if not self._acts_for(booking.gang.namespace):
                self._drop(booking.gang, "its namespace is not enforced any more")

    # -- rounds ---------------------------------------------------------------------------

    async def round(self, keys: Iterable[GangKey]) -> None:
        """Look after bookings; ``keys`` are the gangs that wait."""
        if not self._settings.booking:
            return
        self._pace.begin()
        self.tick()
        waiting, others = self._waiting(keys)
        self._line.seen(waiting.values(), others)
        for booking in self._booked:
            with self._apart(booking.gang):
                self._judge(booking, waiting)
        self._pace.keep(waiting)
        self._booked.renew()
        for gang in sorted(waiting.values(), key=self._line.place):
            if self._pace.late():
                break
            with self._apart(gang.key):
                await self._work_out_again(gang)
        self._no_turn = {}
        await self._make_new([gang for gang in waiting.values() if self.get(gang.key) is None])
        self._booked.renew()

    def _judge(self, booking: Booking, waiting: dict[GangKey, Gang]) -> None:
        """Look whether the gang still needs its booking, and keeps its turn."""
        key = booking.gang
        own = self._given_up(booking, waiting)
        why = own or self._over(booking)
        if not why:
            lost_by = self._tenures.lost(booking, self._snapshot())
            if lost_by:
                log.info("booked start has lost its turn", gang=str(key), why=lost_by)
                self._tell(lost(key, lost_by))
            why = self._unwanted(key, booking.priority)
        if why:
            self._drop(key, why, own)

    async def _work_out_again(self, gang: Gang) -> None:
        booking = self._booked.get(gang.key)
        if booking is None or not self._problem(booking, gang):
            return
        if self._pace.due(gang.key, new=False):
            with self._pace.working(new=False):
                await self._make(gang)

    async def _make_new(self, gangs: list[Gang]) -> None:
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
                displaced = why or self._places.displaced(gang)
                if isinstance(displaced, str):
                    self._no_turn[gang.key] = displaced
                    continue
                self._cursor = place(gang)
                with self._pace.working(new=True):
                    await self._make(gang)
        self._cursor = None

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
        self._pace.pause(key, why)
        if self.get(key) is not None:
            self._drop(key, why)

    def _waiting(self, keys: Iterable[GangKey]) -> tuple[dict[GangKey, Gang], list[GangKey]]:
        """Return the gangs that nothing but room is missing for, and those that wait for something
        else."""
        found: dict[GangKey, Gang] = {}
        others: list[GangKey] = []
        for key in keys:
            refusal = self._refused(key)
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

    def _given_up(self, booking: Booking, waiting: dict[GangKey, Gang]) -> str:
        """Return why the gang does not want its booking any more, "" while it does."""
        if self._reservations.get(booking.gang) is not None:
            return ""
        gang = waiting.get(booking.gang) or self._resolve(booking.gang)
        if not gang.missing and not gang.problems:
            return ""  # it has started: its plan was made and over since the last round
        if not gang.complete or gang.problems:
            return "it does not wait for room any more"
        if not booking.seats.keys() <= {pod.uid for pod in gang.pending}:
            return "its members are others"
        return ""

    def _over(self, booking: Booking) -> str:
        """Return why the gang needs no booking any more, "" while it does."""
        key = booking.gang
        if self._reservations.get(key) is not None:
            return "it has a plan"
        if not self._resolve(key).missing:
            return "it has started"
        refusal = self._refused(key)
        if refusal is not None and refusal.code in ENDED_BY:
            return f"it does not wait for room any more: {refusal.message}"
        free_since = self._booked.free_since(key)
        if free_since is not None and self._clocks.monotonic() - free_since >= UNUSED_SECONDS:
            self._pace.in_vain(
                key, "its booked seats were free, and it could not be planned all the same"
            )
            return "its seats are free and it cannot be planned"
        return ""

    def _unwanted(self, key: GangKey, priority: int) -> str:
        """Return why a gang whose namespace has lost its turn is not booked now."""
        if self._line.rank(key)[0] and wanted_by_others(key, priority, self._snapshot()):
            return "it has lost its turn, and pods of other namespaces wait"
        return ""

    def _drop(self, key: GangKey, why: str, own: str = "") -> None:
        """``own``: by the gang's own doing, without a start."""
        log.info("booked start is over", gang=str(key), why=why)
        self._booked.drop(key)
        self._tenures.left(key, own)
        self._sound.pop(key, None)
        self._changed()

    def _problem(self, booking: Booking, gang: Gang) -> str:
        """Return why the start has to be worked out again."""
        if booking.priority != gang.preemptor_priority:
            return "its priority is another one"
        if len(booking.seats) != min(gang.missing, len(gang.pending)):
            return "it wants another number of seats"
        snapshot = self._snapshot()
        if self._tenures.passed(booking):
            late = list(still_there(booking, snapshot))
            for pod in late:
                self.run_times.late(pod)
            if late:
                return "pods that it waits for have not ended when they should have"
        seen = (snapshot.nodes, snapshot.bound, self._reservations.version, self._booked.version)
        known = self._sound.get(booking.gang, (None, None, 0, 0))
        if known[0] is seen[0] and known[1] is seen[1] and known[2:] == seen[2:]:
            return ""
        taken = self._booked.taken(booking, self._places.makes_way)
        why = pure.problem(booking, gang, snapshot, taken, self._end)
        if not why:
            self._sound[booking.gang] = seen
        return why

    async def _make(self, gang: Gang) -> None:
        before = self._booked.get(gang.key)
        answer = await self._earliest(gang, self._pace.late)
        if isinstance(answer, Booking):
            answer = self._outdated(answer) or answer
        displaced: list[GangKey] = []
        if isinstance(answer, Booking):
            found = self._places.displaced(gang, answer)
            if isinstance(found, str):
                answer = found
            else:
                displaced = found
        if isinstance(answer, str):
            self._pace.not_made(gang.key, answer)
            if before is not None:
                self._drop(gang.key, answer)
            return
        if self._reservations.get(gang.key) is not None:
            return  # it has a plan by now
        self._pace.made(gang.key)
        for key in displaced:  # only now: it is sure that their room is of use to it
            self._drop(key, f"{gang.key} has its turn before it")
        self._enter(answer, before)

    def _enter(self, booking: Booking, before: Booking | None) -> None:
        key = booking.gang
        self._tenures.entered(booking, before, self._snapshot())
        if before is not None:
            booking = replace(booking, made=before.made)
        self._booked.put(booking)
        if before is None or before.start != booking.start:
            self._tell(story(booking))
        log.info(
            "booked start",
            gang=str(key),
            start=None if booking.start is None else rfc3339(booking.start),
            nodes=len(booking.nodes()),
            waits_for=len(booking.awaited),
        )

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
        if not self._acts_for(booking.gang.namespace):
            return "its namespace is not enforced any more"
        return self._problem(booking, gang)

    def _end(self, pod: Pod) -> End | None:
        return end_of(pod, self._clocks.wall(), self.run_times, self._settings.horizon_seconds)
