"""How long each step of a plan may take. Nothing here waits or acts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.gang.core.reservations import Preemption
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Victim
from extender.model.texts import counted
from extender.settings.settings import SeatSettings

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
