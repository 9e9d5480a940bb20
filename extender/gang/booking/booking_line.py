"""The line of gangs that wait for a booked start: who is next, who has lost its turn, and how often
each start is worked out.

Age counts from when a gang could have been planned, as this process has seen it and by a clock that
nobody sets: pods can be made early and held back. With a member that is made anew it begins anew. A
namespace that has just been served stands behind the others with all of its gangs, so nobody
gains by having many of them wait.

A booking keeps others off room that stands idle, so it has to come to its start. It loses its turn

- when the start it was told has passed too often, though a kubelet should have ended the pods that
  are still there, or its own namespace could;
- when it waits for what its own namespace could end itself;
- when it has had its place for as long as anything is known in advance;
- when it gives its place up by its own doing after a while.

Its gang then stands behind the others of its namespace, and its namespace behind all others, for as
long as it had the place, longer each time. Meanwhile it is booked only as long as no other
namespace wants the room. One that waits for its own namespace's pods keeps its place within that
namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from math import inf

from msgspec import Struct

from extender.gang.plan.booking import SLACK_SECONDS, Booking
from extender.gang.plan.ends import End, RunTimes, end_of
from extender.gang.plan.fair_turns import MOST_NAMESPACES
from extender.gang.runtime.clocks import Clocks
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import counted
from extender.settings.fairness import FairnessSettings

LONGEST_BEHIND = 7 * 24 * 3600.0
"""No namespace stands behind for longer after one loss."""
FORGET_HORIZONS = 4
"""For so many horizons after that the loss is remembered: the next place takes one to lose."""
MOST_SLIPS = 3
"""A booking whose start has passed so often loses its turn, by the fault of its own namespace or of
kubelets. What others expect of their pods and does not come true costs nobody a turn: they have the
room meanwhile."""

AGAIN_SECONDS = 2.0
"""A gang's start is not worked out again before."""
LONGEST_AGAIN_SECONDS = 30.0
FAILED_SECONDS = 300.0
"""A gang for which this fails is not tried again before: it would fail again."""
ROUND_SECONDS = 1.0
"""After so long a round begins nothing new, and no earlier start is looked for: a round lasts so
long and two questions to the planner at most."""
SHARE = 10
"""New starts are worked out a tenth of the time at most, whoever waits for one; those that do not
hold any more, another tenth."""

LinePlace = tuple[int, tuple[bool, bool], float, float, GangKey]


class PodEnds:
    """When bound pods end, by how long others have run: forgotten with the process."""

    def __init__(self, clocks: Clocks, horizon: float) -> None:
        self._clocks = clocks
        self._horizon = horizon
        self.run_times = RunTimes()

    def of(self, pod: Pod) -> End | None:
        """Return when the pod ends by itself; None for one that is not made to end."""
        return end_of(pod, self._clocks.wall(), self.run_times, self._horizon)

    def gone(self, pod: Pod) -> None:
        """A pod runs no more: how long it ran counts where it came to its end by itself."""
        self.run_times.gone(pod)
        if not pod.deleting and not pod.disrupted:
            self.run_times.ended(pod, self._clocks.wall())


class Loss(Struct, frozen=True):
    """A namespace's last lost turn."""

    times: int
    """In a row."""
    until: float
    """Monotonic time until which it stands behind."""
    why: str


class _Tenure(Struct, frozen=True):
    since: float
    """Monotonic: when it was booked, or has lost its turn last."""
    slips: int = 0
    """How often the start that was told has passed."""


class BookingLine:
    """Who waits, and for how long who is booked keeps its place. Starts are wall clock times."""

    def __init__(self, settings: FairnessSettings, clocks: Clocks, ends: PodEnds) -> None:
        self._now = clocks.monotonic
        self._wall = clocks.wall
        self._patience = settings.patience_seconds
        self._horizon = settings.horizon_seconds
        self._ends = ends
        self._since: dict[GangKey, float] = {}
        self._youngest: dict[GangKey, float] = {}
        """When the youngest member that wants a seat was made, by the API server's clock."""
        self._behind: dict[GangKey, str] = {}
        """Gangs that have lost their turn, and why."""
        self._served: dict[str, float] = {}
        """Namespace -> when a booking of it ended last."""
        self._losses: dict[str, Loss] = {}
        self._tenures: dict[GangKey, _Tenure] = {}
        """Of all bookings that there are."""

    # -- who is next ----------------------------------------------------------------------

    def seen(self, gangs: Iterable[Gang], others: Collection[GangKey]) -> None:
        """Take who waits for room now, all of them; ``others`` wait for something else meanwhile,
        such as their turn to be planned, and do not begin anew."""
        now = self._now()
        since = {key: self._since[key] for key in others if key in self._since}
        youngest = {key: self._youngest[key] for key in since if key in self._youngest}
        for gang in gangs:
            key, made = gang.key, max(pod.created for pod in gang.pending)
            since[key] = self._since.get(key, now)
            if made > self._youngest.get(key, made):
                since[key] = max(since[key], now - max(0.0, self._wall() - made))
            youngest[key] = made
        self._since, self._youngest = since, youngest
        self._behind = {key: why for key, why in self._behind.items() if key in since}
        forget = FORGET_HORIZONS * self._horizon
        self._losses = {
            name: loss for name, loss in self._losses.items() if now < loss.until + forget
        }

    def due(self, gang: Gang) -> bool:
        """Whether it has waited long enough: all of its members that want seats have."""
        since = self._since.get(gang.key)
        return since is not None and self._now() - since >= self._patience

    def place(self, gang: Gang) -> LinePlace:
        """Return what gangs are sorted by: the more urgent first, then who has waited longer."""
        since = self._since.get(gang.key, self._now())
        served = self._served.get(gang.key.namespace, -inf)
        behind = self.rank(gang.key)
        return (-gang.preemptor_priority, behind, max(since, served), since, gang.key)

    def rank(self, key: GangKey) -> tuple[bool, bool]:
        """Return whether its namespace, and whether it itself, has lost its turn."""
        loss = self._losses.get(key.namespace)
        return (loss is not None and self._now() < loss.until, key in self._behind)

    def why_behind(self, key: GangKey) -> str:
        """Return why it has lost its turn, "" where it has not."""
        own, loss = self._behind.get(key, ""), self._losses.get(key.namespace)
        if not own and loss is not None and self._now() < loss.until:
            return f"its namespace has lost its turn: {loss.why}"
        return own

    # -- who is booked --------------------------------------------------------------------

    def entered(self, booking: Booking, before: Booking | None, snapshot: Snapshot) -> None:
        """A booking is made, in place of the one that the gang had ``before``."""
        key = booking.gang
        if before is None:
            self._tenures[key] = _Tenure(self._now())
            self._behind.pop(key, None)
        elif self.passed(before) and any(self._slips(before, snapshot)):
            tenure = self._tenures[key]
            self._tenures[key] = _Tenure(tenure.since, tenure.slips + 1)

    def left(self, key: GangKey, why: str, *, own: bool) -> None:
        """A booking is over; ``own``: by the gang's own doing, and without a start."""
        had = self._now() - self._tenures.pop(key).since
        if own and had >= self._patience:
            self._lose(key, had, why, within=True)
        self._serve(key.namespace)

    def passed(self, booking: Booking) -> bool:
        """Whether the start that was told has passed."""
        return booking.start is not None and self._wall() > booking.start + SLACK_SECONDS

    def lost(self, booking: Booking, snapshot: Snapshot) -> str:
        """Return why the gang loses its turn now, "" when it does not."""
        key = booking.gang
        if self.rank(key)[0]:
            return ""  # it has lost it already
        had = self._now() - self._tenures[key].since
        why, within = self._forfeits(booking, had, snapshot)
        if why:
            self._lose(key, had, why, within=within)
            self._tenures[key] = _Tenure(self._now())
        return why

    def _forfeits(self, booking: Booking, had: float, snapshot: Snapshot) -> tuple[str, bool]:
        """Return why, and whether it is behind its own namespace's other gangs then as well."""
        if had >= self._horizon:
            return f"it has had its place for fairness.horizonSeconds ({self._horizon:g})", True
        slips = self._tenures[booking.gang].slips
        if slips >= MOST_SLIPS:
            return f"its booked start has passed {counted(slips, 'time')}", True
        if had >= self._patience and self._wall() > (booking.start or -inf):
            for pod in still_there(booking, snapshot):
                if pod.namespace == booking.gang.namespace and not self._is_sure(pod):
                    return "it waits for pods of its own namespace without a time limit", False
        return "", False

    def _slips(self, booking: Booking, snapshot: Snapshot) -> Iterator[Pod]:
        """Yield those because of whom a start that has passed counts against the gang."""
        for pod in still_there(booking, snapshot):
            if self._is_sure(pod) or pod.namespace == booking.gang.namespace:
                yield pod

    def _is_sure(self, pod: Pod) -> bool:
        """Whether a kubelet sees to the pod's end."""
        end = self._ends.of(pod)
        return end is not None and end.by is not None

    def _serve(self, namespace: str) -> None:
        """A booking of the namespace is over: others have their turn."""
        self._served.pop(namespace, None)  # who was served last stands last
        self._served[namespace] = self._now()
        while len(self._served) > MOST_NAMESPACES:
            del self._served[next(iter(self._served))]

    def _lose(self, key: GangKey, had: float, why: str, *, within: bool) -> None:
        """The gang loses its turn, which it ``had`` for so many seconds; ``within``: to others of
        its own namespace as well."""
        now = self._now()
        before = self._losses.pop(key.namespace, None)
        times = 1 if before is None else before.times + 1
        seconds = max(self._patience, had) * 2.0 ** min(times - 1, 20)
        self._losses[key.namespace] = Loss(times, now + min(seconds, LONGEST_BEHIND), why)
        while len(self._losses) > MOST_NAMESPACES:
            del self._losses[next(iter(self._losses))]
        self._serve(key.namespace)
        if within:
            self._behind[key] = why
            if key in self._since:
                self._since[key] = now


def still_there(booking: Booking, snapshot: Snapshot) -> Iterator[Pod]:
    """Yield those who are waited for and do not go yet."""
    for name in booking.nodes():
        for pod in snapshot.bound.get(name, ()):
            if pod.uid in booking.awaited and not pod.deleting:
                yield pod


class _Tried(Struct, frozen=True):
    again: float
    """Monotonic time before which it is not tried again."""
    pause: float
    why: str
    at: float
    """When that was; of a gang that is paused, until when."""
    ended: int
    """How many pods had ended then: each may make a booking possible."""


class BookingPace:
    """When each gang is tried again, and why it was not booked. A start takes several searches on
    the whole cluster."""

    def __init__(self, clocks: Clocks) -> None:
        self._now = clocks.monotonic
        self._tried: dict[GangKey, _Tried] = {}
        self._ended = 0
        self._round_began = -inf
        self._next = {True: -inf, False: -inf}

    def begin(self) -> None:
        """A round begins."""
        self._round_began = self._now()

    def late(self) -> bool:
        """Whether the round has lasted long enough."""
        return self._now() - self._round_began >= ROUND_SECONDS

    def pod_ended(self) -> None:
        """Somebody's room has come free."""
        self._ended += 1

    def busy(self, *, new: bool) -> bool:
        """Whether no start at all may be worked out now; ``new``: of gangs without a booking."""
        return self.late() or self._now() < self._next[new]

    def due(self, key: GangKey, *, new: bool) -> bool:
        """Whether the gang's start may be worked out now; ``new``: it has no booking yet."""
        return self._now() >= max(self._next[new], self._again(key))

    @contextmanager
    def working(self, *, new: bool) -> Iterator[None]:
        """While a start is worked out: the next one has to wait in proportion."""
        began = self._now()
        try:
            yield
        finally:
            now = self._now()
            self._next[new] = now + SHARE * (now - began)

    def _again(self, key: GangKey) -> float:
        tried = self._tried.get(key)
        if tried is None:
            return -inf
        soon = tried.ended != self._ended
        return min(tried.again, tried.at + AGAIN_SECONDS) if soon else tried.again

    def made(self, key: GangKey) -> None:
        """A start was found."""
        self._note(key, AGAIN_SECONDS, "")

    def not_made(self, key: GangKey, why: str) -> None:
        """There is none: it is tried again later and later."""
        tried = self._tried.get(key)
        pause = AGAIN_SECONDS if tried is None else min(2 * tried.pause, LONGEST_AGAIN_SECONDS)
        self._note(key, pause, why)

    def in_vain(self, key: GangKey, why: str) -> None:
        """A booking came to nothing."""
        self._note(key, LONGEST_AGAIN_SECONDS, why)

    def _note(self, key: GangKey, pause: float, why: str) -> None:
        now = self._now()
        self._tried[key] = _Tried(now + pause, pause, why, now, self._ended)

    def pause(self, key: GangKey, why: str) -> None:
        """Let the gang go without a booking for a while, whoever ends meanwhile."""
        until = self._now() + FAILED_SECONDS
        self._tried[key] = _Tried(until, LONGEST_AGAIN_SECONDS, why, until, self._ended)

    def paused(self, key: GangKey) -> bool:
        """Whether it is let go without one."""
        tried = self._tried.get(key)
        return tried is not None and tried.at > self._now()

    def keep(self, keys: Container[GangKey]) -> None:
        """Forget all others, but for who is paused."""
        self._tried = {
            key: tried for key, tried in self._tried.items() if key in keys or self.paused(key)
        }

    def reasons(self) -> dict[GangKey, str]:
        """Return why gangs have not been booked."""
        return {key: tried.why for key, tried in self._tried.items() if tried.why}
