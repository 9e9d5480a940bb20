"""From the cluster to a problem: who holds what, and what nodes offer to a kind of member.

Takes nodes with the pods on them (``holders``), and is told again only of nodes that changed.
Gives room now and with everybody gone, the priorities at which it opens, and the pods worth
looking at (``node_offers``). Proves that the pods left out are never needed. This is the
specification; ``core/census.pyx`` answers the same, compiled (``solver.open_census``).
"""

from extender.search.census.holders import (
    ENDLESS,
    FREE,
    LARGEST,
    LEAST,
    MOST_STEPS,
    SHUT,
    STAYS,
    Gathered,
    Holder,
    NumberedAmounts,
    OffersQuestion,
    Releases,
    Seatings,
)
from extender.search.census.node_offers import (
    Census,
    Offer,
    Offers,
    minus,
    offer_of,
    plus,
    seats_in,
)

__all__ = [
    "ENDLESS",
    "FREE",
    "LARGEST",
    "LEAST",
    "MOST_STEPS",
    "SHUT",
    "STAYS",
    "Census",
    "Gathered",
    "Holder",
    "NumberedAmounts",
    "Offer",
    "Offers",
    "OffersQuestion",
    "Releases",
    "Seatings",
    "minus",
    "offer_of",
    "plus",
    "seats_in",
]
