"""Down to which priority the search has to look.

When everybody up to some priority that no disruption budget covers makes enough
seats, those units are an answer that costs nothing at any level above. The best
answer costs nothing there either, so it takes nobody above that priority.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

Gains = Mapping[int, Mapping[int, int]]
"""Topology domain -> priority -> seats that become sure there at that priority."""


def least_priority(gains: Gains, members: int) -> int | None:
    """Return the least priority at which ``members`` seats are sure in one domain, or None."""
    found = [at for gain in gains.values() if (at := _reached(gain, members)) is not None]
    return min(found, default=None)


def least_priority_over(gains: Gains, enough: Callable[[Mapping[int, int]], bool]) -> int | None:
    """Return the least priority at which the seats that are sure in each domain suffice."""
    seats: defaultdict[int, int] = defaultdict(int)
    for priority in sorted({priority for gain in gains.values() for priority in gain}):
        for domain, gain in gains.items():
            seats[domain] += gain.get(priority, 0)
        if enough(seats):
            return priority
    return None


def _reached(gain: Mapping[int, int], members: int) -> int | None:
    """Return the least priority up to which the gains add up to ``members``, or None."""
    seats = 0
    for priority in sorted(gain):
        seats += gain[priority]
        if seats >= members:
            return priority
    return None
