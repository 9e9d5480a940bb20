"""What each node offers to a kind of preemptor: room, step by step of priority, and by whom.

A node's offer depends on the node, its pods and their gangs alone, so it is made
once and kept while these stay the same. Pods whose end cannot change how many
members fit on the node are left out of it. Why that is right:

Let ``m`` be one resource and H the pods there that hold some of it. To seat k
members, pods that hold at least D = k * request[m] - free[m] of ``m`` must go,
all of them from H. The least that any such pods hold of another resource r is
bounded from below by taking them in the order of r per m, the last one in part.
When free[r] plus that bound is enough for k members, for every r and every k that
can be gained, then whatever set of pods makes room for k members still does
without the pods outside H: they are never needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cmp_to_key
from math import inf

from msgspec import Struct

from extender.fit.selectors import matches
from extender.gang.gangs import Gangs
from extender.gang.nodesum import NodeSum
from extender.gang.verdicts import FREE, Verdicts
from extender.model.objects import GangKey, LabelSelector, Pod
from extender.model.settings import Settings
from extender.search.problem import Vector

SHUT = 1 << 40
"""Above every priority."""
MOST_STEPS = 64
"""Where more members than this could be gained on a node, no pod is left out."""


class Question(Struct, frozen=True):
    """All of a preemptor that offers depend on. R resources, C member classes."""

    resources: tuple[str, ...]
    requests: tuple[Vector, ...]
    """C times (R,)."""
    priority: int
    preempts: bool
    own: frozenset[str]
    """Uids of its bound members: they neither go nor stand in the way."""
    budgets: tuple[tuple[str, LabelSelector | None], ...]
    """Namespace and selector of every disruption budget."""

    def covered(self, pod: Pod) -> bool:
        """Whether a disruption budget may speak for the pod."""
        return any(
            pod.namespace == namespace and matches(selector, pod.labels)
            for namespace, selector in self.budgets
        )


class Entry(Struct, frozen=True):
    """A pod that may go, and what its node gains."""

    priority: int
    pod: Pod
    key: GangKey | None
    amounts: Vector
    """(R,)"""


class Offer(Struct, frozen=True):
    """One node's offer."""

    node: NodeSum
    since: float
    until: float
    """Holds for since <= now < until."""
    free: Vector
    """(R,) room now, less the seats of others."""
    total: Vector
    """(R,) room with everybody gone who may go."""
    entries: tuple[Entry, ...]
    """By priority, then uid; without pods that are never needed."""
    steps: tuple[tuple[int, int, int], ...]
    """(priority, sure, most), priorities rising from FREE: seats once all up to that
    priority are gone. ``sure`` counts members as large as the largest of every resource
    and leaves pods under a budget where they are; ``most`` adds up the classes, each as
    if alone."""
    now: int
    """Seats with nobody gone, counted as ``most``."""
    opens: int
    """The least priority at which ``most`` is above 0; SHUT where there is none."""
    stays: tuple[tuple[Pod, str], ...]
    """Pods that do not go, and why."""

    def most_at(self, priority: int | None) -> int:
        """Return ``most`` when all up to ``priority`` (None: all) are gone."""
        found = 0
        for step, _, most in self.steps:
            if priority is not None and step > priority:
                break
            found = most
        return found


class Offers:
    """The offers of all nodes to one kind of preemptor."""

    def __init__(self, question: Question, settings: Settings) -> None:
        self.question = question
        self.verdicts = Verdicts(question.priority, question.preempts, settings)
        self.by_node: dict[str, Offer] = {}
        """Every node's offer, by name. Replaced, never changed."""
        self.gains: dict[int, int] = {}
        """Priority -> seats that become sure there, all nodes together."""

        self._timed: set[str] = set()
        """Nodes whose offer holds for a while only."""
        self._now = 0.0

    def renew(
        self, sums: dict[str, NodeSum], changed: set[str] | None, gangs: Gangs, now: float
    ) -> None:
        """Bring the offers up to these nodes and gangs.

        ``changed`` names the nodes that differ from the last call's; None: unknown.
        """
        dirty = self.verdicts.renew(gangs, now)
        old = self.by_node
        if changed is None or now < self._now:
            changed = {name for name, node in sums.items() if _other(old.get(name), node)}
            changed |= old.keys() - sums.keys()
            dirty |= {name for name, offer in old.items() if now < offer.since}
        dirty |= changed
        dirty |= {name for name in self._timed if now >= old[name].until}
        new = dict(old)
        for name in dirty:
            if name in old:
                count_gains(self.gains, old[name], -1)
                self._timed.discard(name)
                del new[name]
            if name in sums:
                offer = new[name] = offer_of(sums[name], self.question, self.verdicts, now)
                count_gains(self.gains, offer, 1)
                if offer.until < inf:
                    self._timed.add(name)
        self.by_node, self._now = new, now


def _other(offer: Offer | None, node: NodeSum) -> bool:
    return offer is None or offer.node is not node


def count_gains(gains: dict[int, int], offer: Offer, sign: int) -> None:
    """Count the node's sure seats, by the priority at which they come, in or out."""
    before = 0
    for priority, sure, _ in offer.steps:
        if sure > before:
            gains[priority] = gains.get(priority, 0) + sign * (sure - before)
            before = sure


def offer_of(
    node: NodeSum,
    question: Question,
    verdicts: Verdicts,
    now: float,
    held: Vector = (),
    spare: Vector = (),
) -> Offer:
    """Return the node's offer.

    ``held`` (R,) is taken by other gangs' seats there, and ``spare`` (R,) the part
    of it that the preemptor may take over.
    """
    resources = question.resources
    free = tuple([node.free(resource) for resource in resources])
    if held:
        free = tuple(have - taken for have, taken in zip(free, held, strict=True))
    whole = tuple([node.allocatable.get(resource, 0) for resource in resources])
    if not any(seats_in(whole, request) for request in question.requests):
        # No member could ever be here, so nobody need go.
        return Offer(node, now, inf, free, free, (), (), 0, SHUT, ())
    until = inf
    entries: list[Entry] = []
    stays: list[tuple[Pod, str]] = []
    for pod, key in node.pods:
        if pod.uid in question.own:
            continue
        verdict, change = verdicts.of_pod(pod, key, now)
        until = min(until, change)
        if isinstance(verdict, str):
            stays.append((pod, verdict))
            continue
        amounts = dict(pod.requests)
        entries.append(
            Entry(verdict, pod, key, tuple([amounts.get(name, 0) for name in resources]))
        )
    entries.sort(key=lambda entry: (entry.priority, entry.pod.uid))
    start = plus(free, spare) if spare else free
    steps, total = _steps(start, entries, question)
    if spare or len(question.requests) > 1:
        needed: Iterable[Entry] = (entry for entry in entries if any(entry.amounts))
    else:
        needed = _needed(start, total, entries, question.requests[0])
    return Offer(
        node,
        now,
        until,
        free,
        total,
        tuple(needed),
        steps,
        sum(seats_in(free, request) for request in question.requests),
        next((priority for priority, _, most in steps if most > 0), SHUT),
        tuple(stays),
    )


def seats_in(room: Sequence[int], request: Sequence[int]) -> int:
    """Return how many such members fit; a resource not asked for does not matter."""
    return max(
        0,
        min(
            (have // ask for have, ask in zip(room, request, strict=True) if ask > 0),
            default=1 << 30,
        ),
    )


def plus(one: Sequence[int], other: Sequence[int]) -> Vector:
    """Return the sum, resource by resource."""
    return tuple([a + b for a, b in zip(one, other, strict=True)])


def _steps(
    start: Vector, entries: Sequence[Entry], question: Question
) -> tuple[tuple[tuple[int, int, int], ...], Vector]:
    requests = question.requests
    largest = tuple(map(max, zip(*requests, strict=True)))
    sure_room = room = start
    steps: list[tuple[int, int, int]] = []
    at = FREE

    def note() -> None:
        most = sum(seats_in(room, request) for request in requests)
        steps.append((at, min(most, seats_in(sure_room, largest)), most))

    for entry in entries:
        if entry.priority != at:
            note()
            at = entry.priority
        room = plus(room, entry.amounts)
        if at == FREE or not question.budgets or not question.covered(entry.pod):
            sure_room = plus(sure_room, entry.amounts)
    note()
    return tuple(steps), room


def _needed(
    free: Vector, total: Vector, entries: Sequence[Entry], request: Vector
) -> Sequence[Entry]:
    """The entries that some way to gain members here may need. See the module's text."""
    now, most = seats_in(free, request), seats_in(total, request)
    if now == most:
        return ()
    asked = [r for r, ask in enumerate(request) if ask > 0]
    if most - now <= MOST_STEPS:
        holders = {r: [e for e in entries if e.amounts[r] > 0] for r in asked}
        for m in sorted(asked, key=lambda r: len(holders[r])):
            if len(holders[m]) < len(entries) and all(
                free[r] + _least(holders[m], m, r, request[m] * k - free[m]) >= request[r] * k
                for r in asked
                if r != m
                for k in range(now + 1, most + 1)
            ):
                return holders[m]
    return [entry for entry in entries if any(entry.amounts[r] for r in asked)]


def _least(holders: Sequence[Entry], m: int, r: int, wanted: int) -> int:
    """A lower bound of what pods that hold ``wanted`` of ``m`` together hold of ``r``."""
    least = 0
    # In whole numbers: a rounded ratio could put the bound one too high.
    cheaper = cmp_to_key(
        lambda a, b: a.amounts[r] * b.amounts[m] - b.amounts[r] * a.amounts[m]  # type: ignore[attr-defined]
    )
    for entry in sorted(holders, key=cheaper):
        if wanted <= 0:
            break
        part = min(wanted, entry.amounts[m])
        least += entry.amounts[r] * part // entry.amounts[m]
        wanted -= part
    return least
