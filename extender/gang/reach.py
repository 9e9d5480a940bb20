"""Down to which priority the search has to look.

When everybody up to some priority that no disruption budget covers makes enough
seats, those units are an answer that costs nothing at any level above. The best
answer costs nothing there either, so it takes nobody above that priority.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from extender.gang.offers import Offer


class Reach(Struct, frozen=True):
    """One node as far as seats may be counted on it."""

    offer: Offer
    limit: int
    """Members at most, by rules other than room."""
    domain: int
    """Topology domain: all seats lie in one of them, or are spread over them."""


def least_priority(nodes: Iterable[Reach], members: int) -> int | None:
    """Return the least priority at which ``members`` seats are sure in one domain, or None."""
    gains: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for node in nodes:
        before = 0
        for priority, sure, _ in node.offer.steps:
            seats = min(sure, node.limit)
            if seats > before:
                gains[node.domain][priority] += seats - before
                before = seats
    found = [at for gain in gains.values() if (at := reached(gain, members)) is not None]
    return min(found, default=None)


def least_priority_over(
    nodes: Iterable[Reach], enough: Callable[[Mapping[int, int]], bool]
) -> int | None:
    """Return the least priority at which the seats that are sure in each domain suffice."""
    gains: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for node in nodes:
        before = 0
        for priority, sure, _ in node.offer.steps:
            seats = min(sure, node.limit)
            if seats > before:
                gains[priority][node.domain] += seats - before
                before = seats
    seats_in: defaultdict[int, int] = defaultdict(int)
    for priority in sorted(gains):
        for domain, more in gains[priority].items():
            seats_in[domain] += more
        if enough(seats_in):
            return priority
    return None


def reached(gain: Mapping[int, int], members: int) -> int | None:
    """Return the least priority up to which the gains add up to ``members``, or None."""
    seats = 0
    for priority in sorted(gain):
        seats += gain[priority]
        # A priority at which nothing is gained any more is none that must be reached.
        if seats >= members and gain[priority]:
            return priority
    return None
