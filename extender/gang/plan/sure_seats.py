"""Seats that are sure whoever is chosen, and the least priority at which they suffice.

Only rules that bind on one node each, or one spread rule over all members, are a matter of sums.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from extender.gang.plan.priority_cutoff import least_priority, least_priority_over
from extender.gang.plan.spreads import enough, node_limits
from extender.search.census import Offers
from extender.search.problem import Spread

if TYPE_CHECKING:
    from extender.search.core.census import Offers as CompiledOffers

ENDLESS = 1 << 30


def inside_of_all(
    allowed: Sequence[bytes],
    blocked: Sequence[Mapping[str, tuple[str, ...]]],
    places: Mapping[str, int],
) -> bytes:
    """Return the mask of the nodes where every class may sit and nobody stands in its way."""
    inside = bytes(map(min, *allowed)) if len(allowed) > 1 else allowed[0]
    if not any(blocked):
        return inside
    open_now = bytearray(inside)
    for name in set().union(*blocked) & places.keys():
        open_now[places[name]] = 0
    return bytes(open_now)


class SureSeats:
    """Of a gang of so many classes that lacks ``need`` seats, on the nodes ``inside``."""

    def __init__(
        self, offers: Offers | CompiledOffers, classes: int, need: int, inside: bytes
    ) -> None:
        self._offers = offers
        self._classes = classes
        self._need = need
        self._inside = inside

    def least_priority(
        self,
        caps: Iterable[tuple[int, array[int]]],
        spreads: Iterable[Spread],
        domains: array[int] | None,
    ) -> int | None:
        """Return the priority up to which units are needed at most; None when it is not known.

        ``caps``: at most so many members in each domain, which are given node by node.
        ``domains``: those of which one has to hold all members.
        """
        limits = array("i", [ENDLESS]) * len(self._inside)
        for limit, domain in caps:
            counted = [value for value in domain if value >= 0]
            if len(set(counted)) < len(counted):
                return None  # binds over several nodes: not a matter of sums
            for at, value in enumerate(domain):
                if value >= 0:
                    limits[at] = min(limits[at], limit)
        wide: list[Spread] = []
        for rule in spreads:
            here = node_limits(rule)
            if here is None:
                wide.append(rule)
            else:
                for at, most in here.items():
                    limits[at] = min(limits[at], most)
        if not wide:
            return least_priority(self._offers.gains(self._inside, limits, domains), self._need)
        spread, everybody = wide[0], set(range(self._classes))
        if len(wide) > 1 or domains or not set(spread.bound) == set(spread.counted) == everybody:
            return None
        gains = self._offers.gains(self._inside, limits, spread.domain)
        return least_priority_over(gains, lambda seats: enough(spread, seats, self._need))
