"""What a node still has for pods that hold no seat there.

kube-scheduler has already checked that the pod fits now; what it cannot know is
that room on the node, present or about to come free, is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from extender.gang.book import Book
from extender.model.objects import Pod, Requests

ALLOWANCE_SECONDS = 5.0
"""How long a node that was offered to a pod counts as possibly taken by it.

kube-scheduler assumes a pod on its node long before the binding shows in our
cache; two pods offered one gap in turn would both take it, at a seat's expense.
"""


class Rooms(Protocol):
    """What is needed of the cache here."""

    def free(self, node: str) -> Mapping[str, int] | None:
        """Return allocatable minus requests of bound pods, None for an unknown node."""

    def pod(self, uid: str) -> Pod | None:
        """Return a non-finished pod by uid."""


class Allowance(Struct):
    """A pod that may be on its way to one of the nodes it was offered."""

    requests: Requests
    until: float


class Spare:
    """Answers whether a pod fits beside the seats held on a node."""

    def __init__(self, book: Book, rooms: Rooms, monotonic: Callable[[], float]) -> None:
        self._book = book
        self._rooms = rooms
        self._now = monotonic
        self._allowed: dict[str, dict[str, Allowance]] = {}

    def why_not(self, pod: Pod, node: str, leaving: Iterable[Pod] = ()) -> str | None:
        """Return why the pod must not go to the node, None when no seat is in the way.

        ``leaving`` are pods there that would be evicted for this pod.
        A seat of a less urgent gang is never in the way: promise 5 holds against
        pods of equal or lower priority.
        """
        holds = [
            hold
            for hold in self._book.holds_on(node)
            if hold.priority >= pod.priority and hold.uid != pod.uid
        ]
        if not holds:
            return None
        free = self._rooms.free(node)
        if free is None:
            return "the node is not known here yet, and seats are held on it"
        room = dict(free)
        promised = dict(self._book.leaving_on(node))
        promised.update((victim.uid, victim.requests) for victim in leaving)
        for requests in promised.values():
            _add(room, requests, 1)
        for hold in holds:
            _add(room, hold.requests, -1)
        for uid, allowance in self._live(node).items():
            if uid != pod.uid:
                _add(room, allowance.requests, -1)
        for name, amount in pod.requests:
            if amount > room.get(name, 0):
                gangs = ", ".join(sorted({str(hold.gang) for hold in holds}))
                return f"its room is held for {gangs} (short of {name})"
        return None

    def offered(self, pod: Pod, node: str) -> None:
        """Note that the pod may be assumed on the node from now on."""
        until = self._now() + ALLOWANCE_SECONDS
        self._allowed.setdefault(node, {})[pod.uid] = Allowance(pod.requests, until)

    def _live(self, node: str) -> dict[str, Allowance]:
        allowed = self._allowed.get(node)
        if not allowed:
            return {}
        now = self._now()
        for uid in [uid for uid, a in allowed.items() if a.until < now or self._settled(uid)]:
            del allowed[uid]
        if not allowed:
            del self._allowed[node]
        return allowed

    def _settled(self, uid: str) -> bool:
        """Whether the cache shows where the pod went. One it does not know yet is underway."""
        pod = self._rooms.pod(uid)
        return pod is not None and bool(pod.node)


def _add(room: dict[str, int], requests: Requests, sign: int) -> None:
    for name, amount in requests:
        room[name] = room.get(name, 0) + sign * amount
