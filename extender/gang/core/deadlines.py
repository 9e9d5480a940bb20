"""How long each step of a plan may take. Nothing here waits or acts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.gang.core.book import Flight
from extender.gang.tell.flight_state import FlightState
from extender.model.plan import Victim
from extender.model.settings import SeatSettings
from extender.model.texts import counted

PLANNED_SECONDS = 30.0
"""How long rehearsal and record may take before the seats go back."""
CHANGING_SECONDS = 60.0
"""How long a plan may be changed, at least: searches before it and its own may take their time."""


def late(
    flight: Flight, now: float, settings: SeatSettings, errors: Sequence[str] = ()
) -> str | None:
    """Return why the flight has taken too long at ``now`` (monotonic), None when it has not.

    ``errors``: what refuses its evictions.
    """
    if flight.state is FlightState.ENDED:
        return None
    if flight.state is FlightState.CHANGING:
        # It ends with the search, which is not begun as long as the cache is stale.
        longest = max(CHANGING_SECONDS, settings.bind_seconds)
        if now - flight.since <= longest:
            return None
        return f"no other plan could be searched for within {longest:g} s: the seats go back"
    if flight.state is FlightState.PLANNED:
        if now - flight.since <= PLANNED_SECONDS:
            return None
        return (
            "its evictions could not be rehearsed, or its record not be written, within "
            f"{PLANNED_SECONDS:g} s: nobody is evicted"
        )
    if flight.state is FlightState.OPEN:
        if now < flight.deadline:
            return None
        names = ", ".join(flight.pods[uid].name for uid in sorted(flight.seats)[:5])
        return (
            f"{counted(len(flight.seats), 'member')} ({names}) did not bind within "
            f"{settings.bind_seconds:g} s: the seats go back"
        )
    going = (*flight.victims.values(), *flight.waits.values())
    if not going:
        return _unopened(flight, now, settings)
    if now <= _expected(flight, going, settings):
        return None
    stuck = ", ".join(sorted(victim.name for victim in going)[:5])
    unsent = len(flight.victims.keys() - flight.sent)
    refused = "; ".join([f"{counted(unsent, 'eviction')} not accepted", *errors[:2]])
    return (
        f"{stuck} did not go away within the grace period and "
        f"{settings.victim_slack_seconds:g} s{f' ({refused})' if unsent else ''}: "
        "the seats go back, nothing further is evicted for this plan"
    )


def _unopened(flight: Flight, now: float, settings: SeatSettings) -> str | None:
    """Return why seats whose room is there are not waited for any more."""
    awaited = (*flight.plan.victims, *flight.plan.waits_for)
    if now <= _expected(flight, awaited, settings) + settings.bind_seconds:
        return None
    return (
        f"its room is there, and for {settings.bind_seconds:g} s more urgent pods have been on "
        "their way to it, or the cache was stale: the seats go back"
    )


def _expected(flight: Flight, going: Iterable[Victim], settings: SeatSettings) -> float:
    """Return by when (monotonic) those who go should be gone.

    Each eviction that is accepted is progress: to stop amid them would only take in vain.
    """
    longest = max((victim.grace for victim in going), default=0)
    since = max(flight.since, flight.progress_at)
    return since + longest + settings.victim_slack_seconds
