"""Who holds what on each node, and what the nodes therefore offer to a kind of member.

A search problem is drawn from here: room now, room with everybody gone who may go,
down to which priority somebody must go, and which pods are worth looking at. This
is the specification; ``extender.search.core.census`` answers the same, compiled,
and keeps per question what it found on each node until the node changes.

Pods whose end cannot change how many members fit on their node are left out. Why
that is right: let ``m`` be one resource and H the pods there that hold some of it.
To seat k members, pods that hold at least D = k * request[m] - free[m] of ``m`` must
go, all of them from H. The least that any such pods hold of another resource r is
bounded from below by taking them in the order of r per m, the last one in part; and by the number
of pods that D takes at least, each with as little of r as any.
When free[r] plus that bound is enough for k members, for every r and every k that
can be gained, then whatever set of pods makes room for k members still does without
the pods outside H: they are never needed. With several classes the same holds of every
way to seat some of each, of which there are few: a leader is one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from itertools import accumulate, product
from math import prod
from operator import mul
from typing import NamedTuple

from extender.search.census.holders import (
    ENDLESS,
    FREE,
    LEAST,
    MOST_STEPS,
    SHUT,
    Gathered,
    Holder,
    NumberedAmounts,
    OffersQuestion,
    Seatings,
)
from extender.search.problem import Vector


class Census:
    """Nodes by slot, each with what it has and who is there."""

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[Mapping[int, int], tuple[Holder, ...]]] = {}

    def put(self, slot: int, allocatable: NumberedAmounts, holders: Sequence[Holder]) -> None:
        """Say what is on a node now; ``holders`` in order of priority.

        The compiled census raises OverflowError, and changes nothing, beyond LARGEST.
        """
        self.nodes[slot] = (dict(allocatable), tuple(holders))

    def drop(self, slot: int) -> None:
        """Forget a node."""
        del self.nodes[slot]

    def offers(
        self, question: OffersQuestion, slots: array[int], held: Mapping[int, Seatings]
    ) -> Offers:
        """What these nodes offer now. ``held`` is by position in ``slots``."""
        return Offers(self, question, slots, held)


class Offer(NamedTuple):
    """One node's offer."""

    free: Vector
    """(R,) room now, less the seats of others."""
    total: Vector
    """(R,) room with everybody gone who may go."""
    needed: tuple[tuple[Holder, Vector], ...]
    """Who is worth looking at, by priority, with what of the R resources each holds."""
    steps: tuple[tuple[int, int, int], ...]
    """(priority, sure, most), priorities rising from FREE: seats once all up to that
    priority are gone. ``sure`` counts members as large as the largest of every resource
    and leaves pods under a budget where they are; ``most`` adds up the classes, each as
    if alone."""
    now: int
    """Seats with nobody gone, counted as ``most``."""
    opens: int
    """The least priority at which ``most`` is above 0; SHUT where there is none."""
    stays: int
    """Pods that do not go."""

    def most_at(self, priority: int) -> int:
        """Return ``most`` when all up to ``priority`` are gone."""
        return max((most for step, _, most in self.steps if step <= priority), default=0)


class Offers:
    """The offers of some nodes to one question. Positions are those in ``slots``."""

    def __init__(
        self,
        census: Census,
        question: OffersQuestion,
        slots: array[int],
        held: Mapping[int, Seatings],
    ) -> None:
        self._offers = [
            offer_of(*census.nodes[slot], question, held.get(at)) for at, slot in enumerate(slots)
        ]
        self._resources = len(question.resources)

    def stays(self) -> array[int]:
        """How many pods may not be evicted, node by node; 0 where no member could ever be."""
        return array("i", (offer.stays for offer in self._offers))

    def gains(
        self, inside: bytes, limit: array[int] | None = None, domain: array[int] | None = None
    ) -> dict[int, dict[int, int]]:
        """Seats that become sure at each priority, added up by ``domain`` (None: all in 0).

        Counted are nodes with 1 ``inside`` and a domain that is not -1, up to ``limit``
        members each.
        """
        gains: dict[int, dict[int, int]] = {}
        for at, offer in enumerate(self._offers):
            if not inside[at] or (domain is not None and domain[at] < 0):
                continue
            before = 0
            for priority, sure, _ in offer.steps:
                seats = sure if limit is None else min(sure, limit[at])
                if seats > before:
                    gain = gains.setdefault(0 if domain is None else domain[at], {})
                    gain[priority] = gain.get(priority, 0) + seats - before
                    before = seats
        return gains

    def opening(self, most: int) -> array[int]:
        """Positions of nodes where a member fits once all up to ``most`` are gone."""
        return array("i", (at for at, offer in enumerate(self._offers) if offer.opens <= most))

    def free_room(self, positions: Iterable[int]) -> tuple[array[int], ...]:
        """R columns of room now."""
        return self._columns([self._offers[at].free for at in positions])

    def total_room(self) -> tuple[array[int], ...]:
        """R columns of room with everybody gone who may go, all positions."""
        return self._columns([offer.total for offer in self._offers])

    def _columns(self, rows: Sequence[Vector]) -> tuple[array[int], ...]:
        return tuple(
            array("q", (max(LEAST, row[r]) for row in rows)) for r in range(self._resources)
        )

    def gather(self, positions: Sequence[int], most: int, *, alone: bool) -> Gathered:
        """Everybody on these nodes worth looking at, up to priority ``most``.

        Releases name a node by its place in ``positions``. ``alone``: there is one
        class only; where it gains no member nobody need go.
        """
        found = Gathered([], [], {})
        parts: dict[int, dict[int, Vector]] = {}
        for place, at in enumerate(positions):
            offer = self._offers[at]
            if alone and offer.most_at(most) == offer.now:
                continue
            for holder, amounts in offer.needed:
                if holder.priority > most:
                    break
                if holder.priority == FREE:
                    found.leaving.append((holder.subject, ((place, amounts),)))
                elif holder.whole:
                    part = parts.setdefault(holder.gang, {})
                    before = part.get(place)
                    part[place] = amounts if before is None else plus(before, amounts)
                else:
                    found.alone.append((holder.subject, ((place, amounts),)))
        found.whole.update((gang, tuple(part.items())) for gang, part in parts.items())
        return found


def offer_of(
    allocatable: Mapping[int, int],
    holders: Sequence[Holder],
    question: OffersQuestion,
    seatings: Seatings | None,
) -> Offer:
    """Return one node's offer."""
    resources, requests = question.resources, question.requests
    whole = tuple([allocatable.get(number, 0) for number in resources])
    amounts = [_vector(holder.requests, resources) for holder in holders]
    free = whole
    for taken in amounts:
        free = minus(free, taken)
    if seatings is not None:
        free = minus(free, seatings.held)
    if min(free, default=0) < LEAST or not any(seats_in(whole, request) for request in requests):
        # No member could ever be here, or the sums are beyond a problem's: nobody need go.
        return Offer(free, free, (), (), 0, SHUT, 0)
    entries: list[tuple[Holder, Vector]] = []
    stays = 0
    for holder, taken in zip(holders, amounts, strict=True):
        if question.own >= 0 and holder.gang == question.own and holder.priority != FREE:
            continue
        if holder.priority >= question.below:
            stays += 1
        else:
            entries.append((holder, taken))
    start = free if seatings is None else plus(free, seatings.spare)
    steps, total = _steps(start, entries, question)
    if seatings is not None and any(seatings.spare):
        needed: Iterable[tuple[Holder, Vector]] = (e for e in entries if any(e[1]))
    else:
        needed = _needed(start, total, entries, question)
    return Offer(
        free,
        total,
        tuple(needed),
        steps,
        sum(seats_in(free, request) for request in requests),
        next((priority for priority, _, most in steps if most > 0), SHUT),
        stays,
    )


def seats_in(room: Sequence[int], request: Sequence[int]) -> int:
    """Return how many such members fit, ENDLESS at most; a resource not asked for does
    not matter."""
    fits = (have // ask for have, ask in zip(room, request, strict=True) if ask > 0)
    return max(0, min((ENDLESS, *fits)))


def plus(one: Sequence[int], other: Sequence[int]) -> Vector:
    """Return the sum, resource by resource."""
    return tuple([a + b for a, b in zip(one, other, strict=True)])


def minus(one: Sequence[int], other: Sequence[int]) -> Vector:
    """Return the difference, resource by resource."""
    return tuple([a - b for a, b in zip(one, other, strict=True)])


def _vector(amounts: NumberedAmounts, resources: tuple[int, ...]) -> Vector:
    found = dict(amounts)
    return tuple([found.get(number, 0) for number in resources])


def _steps(
    start: Vector, entries: Sequence[tuple[Holder, Vector]], question: OffersQuestion
) -> tuple[tuple[tuple[int, int, int], ...], Vector]:
    requests = question.requests
    largest = tuple(map(max, zip(*requests, strict=True)))
    sure_room = room = start
    steps: list[tuple[int, int, int]] = []
    at = FREE

    def note() -> None:
        most = sum(seats_in(room, request) for request in requests)
        steps.append((at, min(most, seats_in(sure_room, largest)), most))

    for holder, amounts in entries:
        if holder.priority != at:
            note()
            at = holder.priority
        room = plus(room, amounts)
        if at == FREE or not holder.covered:
            sure_room = plus(sure_room, amounts)
    note()
    return tuple(steps), room


def _needed(
    free: Vector,
    total: Vector,
    entries: Sequence[tuple[Holder, Vector]],
    question: OffersQuestion,
) -> Sequence[tuple[Holder, Vector]]:
    """The entries that some way to gain members here may need. See the module's text."""
    asked = [r for r, ask in enumerate(map(max, zip(*question.requests, strict=True))) if ask > 0]
    holding = {r: [e for e in entries if e[1][r] > 0] for r in asked}
    any_asked = [entry for entry in entries if any(entry[1][r] for r in asked)]
    ways = _ways(free, total, question)
    if ways is None or not ways:
        return any_asked if ways is None else ()
    for m in sorted(asked, key=lambda r: len(holding[r])):
        if len(holding[m]) < len(entries) and all(
            free[r] + _least(holding[m], m, r, way[m] - free[m] if way[m] else 0) >= way[r]
            for way in ways
            for r in asked
            if r != m and way[r]
        ):
            return holding[m]
    return any_asked


def _ways(free: Vector, total: Vector, question: OffersQuestion) -> list[Vector] | None:
    """What those members ask for who fit in the whole room, and not before; None where there are
    too many ways to seat some of each class."""
    requests = question.requests
    most = [seats_in(total, request) for request in requests]
    least = [0] * len(requests)
    if len(requests) == 1:
        least = [seats_in(free, requests[0])]
        few = most[0] - least[0] <= MOST_STEPS
    else:
        most = [min(pair) for pair in zip(most, question.counts or most, strict=True)]
        few = prod(count + 1 for count in most) <= MOST_STEPS
    if not few:
        return None
    columns = list(zip(*requests, strict=True))
    every = product(*(range(low, high + 1) for low, high in zip(least, most, strict=True)))
    ways = [tuple([sum(map(mul, way, column)) for column in columns]) for way in every]
    return [way for way in ways if _holds(total, way) and not _holds(free, way)]


def _holds(room: Vector, way: Vector) -> bool:
    """Whether so much fits; a resource that is not asked for does not matter."""
    return all(have >= ask for have, ask in zip(room, way, strict=True) if ask)


def _least(holding: Sequence[tuple[Holder, Vector]], m: int, r: int, wanted: int) -> int:
    """A lower bound of what pods that hold ``wanted`` of ``m`` together hold of ``r``."""
    reach = accumulate(sorted((amounts[m] for _, amounts in holding), reverse=True))
    pods = sum(sums < wanted for sums in (0, *reach))
    by_number = sum(sorted(amounts[r] for _, amounts in holding)[:pods])
    least = 0
    # In whole numbers: a rounded ratio could put the bound one too high.
    cheaper = cmp_to_key(
        lambda a, b: a[1][r] * b[1][m] - b[1][r] * a[1][m]  # type: ignore[index]
    )
    for _, amounts in sorted(holding, key=cheaper):
        if wanted <= 0:
            break
        part = min(wanted, amounts[m])
        least += amounts[r] * part // amounts[m]
        wanted -= part
    return max(least, by_number)
