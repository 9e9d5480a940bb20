"""Whose victims did not go, or whose pods came in the way of seats: others are tried instead.

A plan that is given up since a victim does not go (a finalizer, a node that is gone, a budget that
changed its mind), or since pods with spec.nodeName come to its seats again and again, says nothing
of the gang that wanted in. What is remembered is whose pods they
were: after the second plan in a row that a namespace's pods were the end of, the gang counts on
none of them for a while, neither as victims nor as room that comes. A pod that does not go is let
alone anyway; but a tenant may have as many of them as it likes, and each costs a plan, with whom
else that plan evicts.

Nothing of this holds for system-critical gangs, or within one namespace: nobody needs protection
from itself.

Pure: times are given, monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from msgspec import Struct

from extender.gang.plan.fair_turns import SYSTEM_CRITICAL
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.snapshot import EMPTY
from extender.model.texts import counted, cut

DID_NOT_GO = "did not terminate when they were evicted for"
TOOK_SEATS = "came or changed in the way of"
FREE_TRIES = 1
"""So many plans that a namespace's pods were the end of have no consequence."""
FIRST_SECONDS = 120.0
"""For how long nobody of the namespace is counted on after the next one; then twice as long ..."""
LONGEST_SECONDS = 3600.0
"""... up to this. After so long without another one all is forgotten."""
MOST_GANGS = 10_000
MOST_TOLD = 3
MOST_NAMESPACES = 32
"""More are not remembered, of a gang: names are tenants' to make up."""


class _Stay(Struct, frozen=True):
    times: int
    last: float
    until: float
    why: str
    pods: frozenset[str]
    """Uids of the last ones."""


class StayedVictims:
    """Remembers, gang by gang. One event loop only."""

    def __init__(self) -> None:
        self._stays: dict[GangKey, dict[str, _Stay]] = {}
        self._soonest = inf
        """When the next one is over."""
        self._version = 0

    def note(
        self,
        gang: GangKey,
        namespace: str,
        pods: Mapping[str, str],
        now: float,
        what: str = DID_NOT_GO,
    ) -> None:
        """A plan for the gang ended since ``pods`` (uid -> name) did ``what``.

        The same ones again are no second time. ``what``: DID_NOT_GO or TOOK_SEATS.
        """
        known = self._stays.get(gang, {}).get(namespace)
        if known is not None and pods.keys() <= known.pods:
            return
        stays = self._stays.pop(gang, {})  # who was noted last stands last
        before = stays.pop(namespace, None)
        fresh = before is None or now - before.last >= LONGEST_SECONDS
        times = 1 if before is None or fresh else before.times + 1
        beyond = times - FREE_TRIES - 1
        lasting = 0.0 if beyond < 0 else min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(beyond, 9))
        last = ", ".join(sorted(pods.values())[:MOST_TOLD])
        why = cut(
            f"pods of namespace {namespace} {what} {gang}, "
            f"{counted(times, 'time')} in a row, the last time {last}: others are tried"
        )
        stays[namespace] = _Stay(times, now, now + lasting, why, frozenset(pods))
        while len(stays) > MOST_NAMESPACES:
            del stays[next(iter(stays))]
        self._stays[gang] = stays
        while len(self._stays) > MOST_GANGS:
            del self._stays[next(iter(self._stays))]
        self._soonest = min(self._soonest, now + lasting)
        self._version += 1

    def seated(self, gang: GangKey) -> None:
        """Forget what was noted of the gang: a plan has come to its end."""
        if self._stays.pop(gang, None):
            self._version += 1

    def of(self, gang: Gang, now: float) -> Mapping[str, str]:
        """Return the namespaces that the gang does not count on now, with the reason."""
        stays = self._stays.get(gang.key)
        if not stays or gang.preemptor_priority >= SYSTEM_CRITICAL:
            return EMPTY
        return {name: stay.why for name, stay in sorted(stays.items()) if now < stay.until} or EMPTY

    def version(self, now: float) -> int:
        """Return a number that grows when ``of`` may give another answer."""
        if now >= self._soonest:
            self._version += 1
            left = (stay.until for stays in self._stays.values() for stay in stays.values())
            self._soonest = min((until for until in left if until > now), default=inf)
        return self._version
