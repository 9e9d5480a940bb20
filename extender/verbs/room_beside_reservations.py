"""What a node still has for pods that hold no seat there.

kube-scheduler has already checked that the pod fits now; what it cannot know is
that room on the node, present or about to come free, is promised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from extender.gang.core.reservations import Reservations
from extender.gang.plan.booking import keep_off
from extender.gang.runtime.clocks import Clocks
from extender.model.extended_resources import limited_for_both
from extender.model.objects import GangKey, Node, Pod, Requests
from extender.model.texts import some
from extender.verbs.allowances import Allowances, Pods

NONE: frozenset[str] = frozenset()


class Rooms(Pods, Protocol):
    """What is needed of the cache here."""

    def node(self, name: str) -> Node | None:
        """Return a node by name."""

    def short(self, node: str, wants: Iterable[tuple[str, int]]) -> str | None:
        """Return a resource of which the node has less free than wanted (KeyError: unknown)."""


class SeatClaim(Struct, frozen=True):
    """What seats on a node take beyond what those who leave give back."""

    amounts: dict[str, int]
    gangs: tuple[GangKey, ...]
    limited: frozenset[str]
    """What members for whom pods are evicted need, and of which it is not known how much there is
    (PodShape.limited): another pod's volume may take the only attachment, for example."""


class Spare:
    """Answers whether a pod fits beside the seats held on a node."""

    def __init__(self, reservations: Reservations, rooms: Rooms, clocks: Clocks) -> None:
        self._reservations = reservations
        self._rooms = rooms
        self._clocks = clocks
        self._allowances = Allowances(rooms, clocks.monotonic)
        self._claims: dict[tuple[str, int], SeatClaim | None] = {}
        self._claims_version = -1

    def why_not(self, pod: Pod, node: str, leaving: Sequence[Pod] = ()) -> str | None:
        """Return why the pod must not go to the node, None when no seat is in the way.

        ``leaving`` are pods there that would be evicted for this pod. A seat of a
        less urgent gang is in the way only while the gang is being seated: else promise 5
        holds against pods of equal or lower priority.
        """
        claim = self._claim(node, pod.priority)
        # What keeps nothing yet matters to who would evict those that it waits for.
        claims = self._reservations.booked.get(node, ())
        booked = [
            each
            for each in (keep_off(claims, pod, self._clocks.wall()) if claims else ())
            if leaving or each.hold.requests
        ]
        if claim is None and not booked:
            return None
        if claim is not None and claim.limited and (needs := pod.shape.limited):
            shared = limited_for_both(self._rooms.node(node), claim.limited, needs)
            if shared:
                told = _told(claim.gangs, pod.namespace)
                return f"its room is held for {told}, whose members need {min(shared)} too"
        held: Mapping[str, int] = {} if claim is None else claim.amounts
        wants = {name: amount + held.get(name, 0) for name, amount in pod.requests}
        for each in booked:
            _add(wants, each.hold.requests, 1)
        if leaving:
            counted = {uid for uid, _ in self._reservations.leaving_on(node)}
            counted.update(uid for each in booked for uid, _ in each.awaited)
            for victim in leaving:
                if victim.uid not in counted:
                    _add(wants, victim.requests, -1)
        self._allowances.count(wants, node, but=pod.uid)
        try:
            short = self._rooms.short(node, wants.items())
        except KeyError:
            return "the node is not known here yet, and seats are held on it"
        if short is None:
            return None
        gangs = {each.hold.gang for each in booked}.union(() if claim is None else claim.gangs)
        told = _told(tuple(sorted(gangs)), pod.namespace)
        return f"its room is {'booked' if claim is None else 'held'} for {told} (short of {short})"

    def offered(self, pod: Pod, node: str) -> None:
        """Note that the pod may be assumed on the node from now on."""
        self._allowances.add(pod, node)

    def _claim(self, node: str, priority: int) -> SeatClaim | None:
        """Return what seats there claim against a pod of this priority; kept per book version."""
        if self._claims_version != self._reservations.version:
            self._claims.clear()
            self._claims_version = self._reservations.version
        key = (node, priority)
        if key not in self._claims:
            self._claims[key] = self._sum(node, priority)
        return self._claims[key]

    def _sum(self, node: str, priority: int) -> SeatClaim | None:
        holds = self._reservations.holds_against(node, priority)
        if not holds:
            return None
        amounts: dict[str, int] = {}
        for hold in holds:
            for name, amount in hold.requests:
                amounts[name] = amounts.get(name, 0) + amount
        for _, requests in self._reservations.leaving_on(node):
            for name, amount in requests:
                amounts[name] = amounts.get(name, 0) - amount
        gangs = tuple(sorted({hold.gang for hold in holds}))
        return SeatClaim(amounts, gangs, NONE.union(*map(self._reservations.limited, holds)))


def _told(gangs: tuple[GangKey, ...], namespace: str) -> str:
    """Name the gangs of one namespace: others' names are not for its tenant to read."""
    own = [str(key) for key in gangs if key.namespace == namespace]
    others = len(gangs) - len(own)
    return some([*own, f"{others} of other namespaces"]) if others else some(own)


def _add(wants: dict[str, int], requests: Requests, sign: int) -> None:
    """Change the amounts of the resources that are asked for; others do not matter."""
    for name, amount in requests:
        if name in wants:
            wants[name] += sign * amount
