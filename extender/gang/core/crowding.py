"""Seats that stay closed because more urgent pods keep coming: after a while they are kept away.

While a more urgent pod may be on its way to a seat's node, no member is answered. Each such pod is
offered many nodes and takes one, so a stream of them that all go elsewhere could keep a gang out
for as long as it lasts. A gang whose room is there and that has been crowded for CROWDED_SECONDS
is firm against pods of no gang, as it is between its first answer and its last; once a plan, and
for CLOSED_SECONDS at most. More urgent gangs may take its seats as before.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.gang.core.book import Book, Flight
from extender.gang.tell.flight_state import FlightState

CROWDED_SECONDS = 6.0
"""How long others may be on their way to its room: longer than one offer counts (offers.py)."""
CLOSED_SECONDS = 15.0
"""For how long they are kept away: what was offered before passes (4 s), and members are asked for
their first answer (kube-scheduler's back-off is 10 s at most)."""


class Crowding:
    """Looks at plans whose room is there. ``crowded(flight)`` says whether others may take it."""

    def __init__(
        self, book: Book, crowded: Callable[[Flight], bool], monotonic: Callable[[], float]
    ) -> None:
        self._book = book
        self._crowded = crowded
        self._now = monotonic

    def look(self, flight: Flight) -> None:
        """Take note of one plan; now and then."""
        now = self._now()
        if flight.closed_at:
            if flight.closed and now - flight.closed_at > CLOSED_SECONDS:
                self._book.keep_away(flight, 0.0)
            return
        waits = flight.state in (FlightState.EVICTING, FlightState.WAITING, FlightState.OPEN)
        going = flight.victims or flight.waits
        if not waits or going or flight.binding or not self._crowded(flight):
            flight.crowded_at = 0.0
        elif not flight.crowded_at:
            flight.crowded_at = now
        elif now - flight.crowded_at > CROWDED_SECONDS:
            self._book.keep_away(flight, now)
