"""Seats that kube-scheduler will not offer: exchanged between members, else changed."""

from __future__ import annotations

from collections.abc import Callable

from extender.gang.act.book import Book, Flight, State
from extender.gang.act.evidence import Evidence
from extender.gang.act.planner_thread import Masks
from extender.model.objects import Pod

MISSED_SECONDS = 3.0
"""A seat that kube-scheduler does not offer for this long is changed: its own cache
may be behind ours by a moment, but not by seconds."""


class RefusedSeats:
    """Reacts to them. ``change(flight, why, masks)`` searches for another plan."""

    def __init__(
        self,
        book: Book,
        monotonic: Callable[[], float],
        evidence: Evidence,
        change: Callable[[Flight, str, Masks], None],
    ) -> None:
        self._book = book
        self._now = monotonic
        self._evidence = evidence
        self._change = change

    def seat_not_offered(self, flight: Flight, pod: Pod, others: frozenset[str]) -> None:
        """Note that kube-scheduler would not put the member on its seat.

        Swap with an interchangeable member that cannot have its own seat either;
        else, when it stays so, plan again without that node. Before the seats
        are open their room is not there, and nothing else is to be expected.
        """
        if flight.state is not State.OPEN:
            return
        self._book.not_coming(flight, [pod.uid])
        for other, node in flight.seats.items():
            twin = flight.pods[other]
            if other in flight.missed and node in others and _alike(twin, pod):
                self._book.swap(flight, pod.uid, other)
                flight.missed.clear()
                return
        flight.missed.setdefault(pod.uid, self._now())
        self._look(flight, pod)

    def look(self, flight: Flight) -> None:
        """Change the seat of a member that was refused it and has not asked again.

        With others assumed on their seats kube-scheduler may have no node left on which it would
        ask about that member, while they wait for it.
        """
        for uid in [uid for uid in flight.missed if uid in flight.seats]:
            if flight.state is State.OPEN and uid in flight.missed:
                self._look(flight, flight.pods[uid])

    def _look(self, flight: Flight, pod: Pod) -> None:
        now = self._now()
        if min(now - flight.missed[pod.uid], now - flight.since) >= MISSED_SECONDS:
            flight.missed.clear()
            node = flight.seats[pod.uid]
            self._evidence.refuses(pod, node)
            alike = [
                uid for uid, twin in flight.pods.items() if uid == pod.uid or _alike(twin, pod)
            ]
            masks = dict.fromkeys(alike, frozenset({node}))
            self._change(flight, f"kube-scheduler does not accept {pod.name} on {node}", masks)


def _alike(one: Pod, other: Pod) -> bool:
    """Whether two members may trade seats."""
    return one.uid != other.uid and (one.requests, one.shape) == (other.requests, other.shape)
