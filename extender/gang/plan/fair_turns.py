"""Whose turn it is to be planned: the more urgent first, then who has used less time.

Planning time is what gangs of all namespaces share: there is one planner. Of gangs of
equal priority the namespace goes first that has used least of it lately, so one with
many dear searches delays each of the others by one search, not by all of its own. And
while gangs of others wait, a namespace gets no more than its share of the time, however
urgent it says its gangs are; only system-critical priorities are above that.

Used seconds fade with a half-life, so nothing is owed for ever. Pure: times are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import exp2

from msgspec import Struct

from extender.model.gang import Gang

HALF_LIFE = 60.0
"""Seconds in which used time counts for half."""
WINDOW = HALF_LIFE / 0.6931471805599453
"""Seconds of full use that the fading sum comes to (the integral of the decay)."""
MOST_NAMESPACES = 10_000
SYSTEM_CRITICAL = 2_000_000_000
"""The priority of system-cluster-critical, which no user class may have or exceed.
Source: pkg/apis/scheduling/types.go, SystemCriticalPriority."""


class Turn(Struct, frozen=True):
    """A gang that wants to be planned."""

    namespace: str
    priority: int
    since: float
    """When it began to wait, or was created: breaks ties."""
    name: str
    """Unique; breaks what ties are left."""


def turn_of(gang: Gang) -> Turn:
    """Return the turn that a gang wants."""
    since = min((pod.created for pod in gang.present), default=0.0)
    return Turn(gang.key.namespace, gang.preemptor_priority, since, str(gang.key))


def place_of(turn: Turn) -> tuple[int, float, str]:
    """Return what orders those of one namespace, and all that wait for the same room."""
    return (-turn.priority, turn.since, turn.name)


class _Used(Struct):
    seconds: float
    at: float


class FairTurns:
    """Planning time used, by namespace."""

    def __init__(self, share: float) -> None:
        """``share`` of the time that a namespace gets while others wait; 1 for all of it."""
        self._share = share
        self._used: dict[str, _Used] = {}

    def spend(self, namespace: str, seconds: float, now: float) -> None:
        """Count planning time; ``now`` is monotonic."""
        used = self.used(namespace, now) + max(0.0, seconds)
        self._used.pop(namespace, None)  # who was served last stands last
        self._used[namespace] = _Used(used, now)
        while len(self._used) > MOST_NAMESPACES:
            del self._used[next(iter(self._used))]

    def used(self, namespace: str, now: float) -> float:
        """Return the seconds a namespace has used, faded."""
        entry = self._used.get(namespace)
        if entry is None:
            return 0.0
        return entry.seconds * exp2(-max(0.0, now - entry.at) / HALF_LIFE)

    def totals(self, now: float) -> dict[str, float]:
        """Return used seconds, faded, of every namespace that has used some lately."""
        found = {namespace: self.used(namespace, now) for namespace in self._used}
        return {namespace: seconds for namespace, seconds in found.items() if seconds >= 0.001}

    def order(self, waiting: Iterable[Turn], now: float) -> list[Turn]:
        """Return them in the order of their turns, as things are now."""
        used: dict[str, float] = {}
        for turn in waiting:
            used.setdefault(turn.namespace, self.used(turn.namespace, now))

        def key(turn: Turn) -> tuple[bool, int, float, float, str]:
            above = turn.priority >= SYSTEM_CRITICAL
            over = not above and self._over(used[turn.namespace])
            return (over, -turn.priority, used[turn.namespace], turn.since, turn.name)

        return sorted(waiting, key=key)

    def must_wait(self, turn: Turn, others: Iterable[Turn], now: float) -> bool:
        """Whether its namespace has used its share while gangs of others wait.

        ``others`` may name gangs of the same namespace, which do not count.
        """
        if turn.priority >= SYSTEM_CRITICAL or not self._over(self.used(turn.namespace, now)):
            return False
        return any(
            other.namespace != turn.namespace and not self._over(self.used(other.namespace, now))
            for other in others
        )

    def _over(self, used: float) -> bool:
        return self._share < 1 and used > self._share * WINDOW


class TurnLine:
    """Those that wait, each to be taken in its turn as things are then.

    ``order`` sorts those of several namespaces, and is asked about the first of each: within one
    nothing changes. To sort all of them for each turn would keep everybody waiting for who has
    ten thousand gangs.
    """

    def __init__(self, waiting: Iterable[Turn], order: Callable[[list[Turn]], list[Turn]]) -> None:
        self._order = order
        self._of: dict[str, list[Turn]] = {}
        """Namespace -> its turns, the next one last."""
        for turn in waiting:
            self._of.setdefault(turn.namespace, []).append(turn)
        for turns in self._of.values():
            turns.sort(key=place_of, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._of)

    def take(self) -> Turn:
        """Return whose turn it is and go on without it."""
        first = self._order([turns[-1] for turns in self._of.values()])[0]
        turns = self._of[first.namespace]
        turns.pop()
        if not turns:
            del self._of[first.namespace]
        return first


def retry_pause(seconds: float, shortest: float, longest: float, times: float) -> float:
    """Return for how long a refusal stands that took ``seconds`` to find.

    ``times`` as long as the search took, so that asking again takes a small part of the time
    at most; ``longest`` at most, but never less than ``shortest`` would allow.
    """
    return min(max(shortest, longest), times * seconds)
