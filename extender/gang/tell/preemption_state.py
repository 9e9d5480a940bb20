"""Where a plan under way stands, as its preemption, traces, metrics and the debug API call it."""

from __future__ import annotations

from enum import StrEnum


class PreemptionState(StrEnum):
    """docs/actuation.md has what leads where."""

    PLANNED = "planned"
    """Seats are held; the evictions are rehearsed and the record is written."""
    EVICTING = "evicting"
    """Recorded; evictions are being sent."""
    WAITING = "waiting"
    """All evictions are sent; victims terminate."""
    OPEN = "open"
    """All room is there; members may take their seats."""
    CHANGING = "changing"
    """It does not hold any more: nothing further is evicted, another plan is searched for."""
    ENDED = "ended"
    """Done or given up: the seats are nobody's any more."""
