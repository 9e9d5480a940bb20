"""What booked starts keep of each node's free room, for those who ask about a node.

bookings.py puts it here whenever it changes; the verbs and the mirror of seats read it through the
book. It keeps pods as urgent as the booked gang, or less, away, and nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from extender.gang.plan.booking import may_pass
from extender.gang.runtime.clocks import Clocks
from extender.model.objects import Pod, Requests
from extender.model.plan import Hold, LeavingPod


class BookingClaim(Struct, frozen=True):
    """What one booking keeps of one node now, and whose room there it counts on."""

    hold: Hold
    """Of no amounts while those who are awaited hold all that it asks for."""
    start: float | None
    """Wall clock time at which its gang starts; None: not known."""
    asked: Requests
    """What its seats there ask for, all of it kept once nobody is awaited any more."""
    awaited: tuple[LeavingPod, ...]
    """The pods there that it counts on besides."""


class BookedRoom:
    """Claims by node. Starts are told in wall clock time."""

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks or Clocks()
        self._claims: dict[str, tuple[BookingClaim, ...]] = {}

    def nodes(self) -> set[str]:
        """Return the nodes of which something is kept, or on which somebody is awaited."""
        return set(self._claims)

    def on(self, node: str) -> Iterable[Hold]:
        """Return what is kept of a node."""
        return [claim.hold for claim in self._claims.get(node, ()) if claim.hold.requests]

    def claims_on(self, node: str) -> Iterable[BookingClaim]:
        """Return what is claimed of a node, now or once those who are awaited are gone."""
        return self._claims.get(node, ())

    def against(self, node: str, pod: Pod) -> list[BookingClaim]:
        """Return what keeps this pod off: not what it is surely gone before."""
        claims = self._claims.get(node)
        if not claims:
            return []
        now = self._clocks.wall()
        return [
            claim
            for claim in claims
            if claim.hold.priority >= pod.priority and not may_pass(pod, claim.start, now)
        ]

    def put(self, claims: Mapping[str, tuple[BookingClaim, ...]]) -> list[str]:
        """Take the claims of these nodes; return the nodes whose claims are others than before."""
        changed = [name for name, each in claims.items() if each != self._claims.get(name, ())]
        for name in changed:
            if claims[name]:
                self._claims[name] = claims[name]
            else:
                del self._claims[name]
        return changed
