"""The line of gangs that wait for a booked start: since when each waits, and who stands behind.

Age counts from when a gang could have been planned, as this process has seen it and by a clock that
nobody sets: pods can be made early and held back. With a member that is made anew it begins anew. A
namespace that has just been served stands behind the others with all of its gangs, so nobody
gains by having many of them wait.

A booking that does not come to its start loses its turn. Its gang then stands behind the others of
its namespace, and its namespace behind all others, for as long as it had the place, longer each
time. Meanwhile it is booked only as long as no other namespace wants the room. One that waits for
its own namespace's pods keeps its place within that namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf

from msgspec import Struct

from extender.gang.plan.fair_turns import MOST_NAMESPACES
from extender.gang.runtime.clocks import Clocks
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.snapshot import Snapshot

LONGEST_BEHIND = 7 * 24 * 3600.0
"""No namespace stands behind for longer after one loss."""
FORGET_HORIZONS = 4
"""For so many horizons after that the loss is remembered: the next place takes one to lose."""

LinePlace = tuple[int, tuple[bool, bool], float, float, GangKey]


class Loss(Struct, frozen=True):
    """A namespace's last lost turn."""

    times: int
    """In a row."""
    until: float
    """Monotonic time until which it stands behind."""
    why: str


class BookingLine:
    """Who waits. ``patience`` is for how long a gang waits at least, in seconds."""

    def __init__(self, clocks: Clocks, patience: float, horizon: float) -> None:
        self._now = clocks.monotonic
        self._wall = clocks.wall
        self._patience = patience
        self._horizon = horizon
        self._since: dict[GangKey, float] = {}
        self._youngest: dict[GangKey, float] = {}
        """When the youngest member that wants a seat was made, by the API server's clock."""
        self._behind: dict[GangKey, str] = {}
        """Gangs that have lost their turn, and why."""
        self._served: dict[str, float] = {}
        """Namespace -> when a booking of it ended last."""
        self._losses: dict[str, Loss] = {}

    def seen(self, gangs: Iterable[Gang], others: Collection[GangKey]) -> None:
        """Take who waits for room now, all of them; ``others`` wait for something else meanwhile,
        such as their turn to be planned, and do not begin anew."""
        now = self._now()
        waits: dict[GangKey, float] = {}
        youngest: dict[GangKey, float] = {}
        for gang in gangs:
            made = max(pod.created for pod in gang.pending)
            waits[gang.key] = since = self._since.get(gang.key, now)
            if made > self._youngest.get(gang.key, made):
                waits[gang.key] = max(since, now - max(0.0, self._wall() - made))
            youngest[gang.key] = made
        left = {key: self._since[key] for key in others if key in self._since}
        self._since = {**left, **waits}
        self._youngest = {
            **{key: self._youngest[key] for key in left if key in self._youngest},
            **youngest,
        }
        self._behind = {key: why for key, why in self._behind.items() if key in self._since}
        self._losses = {
            name: loss
            for name, loss in self._losses.items()
            if now < loss.until + FORGET_HORIZONS * self._horizon
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
        loss = self._losses.get(key.namespace)
        if loss is not None and self._now() < loss.until:
            return self._behind.get(key) or f"its namespace has lost its turn: {loss.why}"
        return self._behind.get(key, "")

    def served(self, namespace: str) -> None:
        """A booking of the namespace is over: others have their turn."""
        self._served.pop(namespace, None)  # who was served last stands last
        self._served[namespace] = self._now()
        while len(self._served) > MOST_NAMESPACES:
            del self._served[next(iter(self._served))]

    def lose(self, key: GangKey, had: float, why: str, *, within: bool) -> None:
        """The gang loses its turn, which it ``had`` for so many seconds; ``within``: to others of
        its own namespace as well."""
        now = self._now()
        before = self._losses.pop(key.namespace, None)
        times = 1 if before is None else before.times + 1
        seconds = max(self._patience, had) * 2.0 ** min(times - 1, 20)
        self._losses[key.namespace] = Loss(times, now + min(seconds, LONGEST_BEHIND), why)
        while len(self._losses) > MOST_NAMESPACES:
            del self._losses[next(iter(self._losses))]
        self.served(key.namespace)
        if within:
            self._behind[key] = why
            if key in self._since:
                self._since[key] = now

    def booked(self, key: GangKey) -> None:
        """The gang has its turn anew."""
        self._behind.pop(key, None)


def wanted_by_others(key: GangKey, priority: int, snapshot: Snapshot) -> bool:
    """Whether a pod of another namespace waits that the gang's booked room is kept from."""
    return any(
        pod.tried and not pod.gated and pod.namespace != key.namespace and pod.priority <= priority
        for pod in snapshot.pending.values()
    )
