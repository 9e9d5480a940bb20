"""Why a rival evicted more than it had to: its placement, or victims it could have kept.

A scheduler that takes a placement first and prunes the victims for it afterwards can
lose in two ways. Either its placement needs more victims than the best one does, or
more went than its own placement needs. ``least_there`` tells the two apart: the fewest
pods that have to go when the members may sit on no other nodes than those it chose.
``at_random`` says what a placement costs that does not look at victims at all.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from bench.inputs.state import Amounts, State
from bench.rival.outcome import ContenderOutcome, optimum

ORDER = "fewest-pods"
DRAWS = 20


class Anatomy(Struct, frozen=True):
    """One case's loss, taken apart. Counts of pods, but for the seats."""

    evicted: int
    least_there: int
    """Fewest pods for a gang on the rival's own nodes, proved."""
    least: int
    """Fewest pods over all placements, proved."""
    free_seats: int
    """Seats for members without any eviction, at most as many as the gang has members."""
    free_used: int
    """Members that the rival put on such seats."""
    at_random: float
    """Fewest pods for a gang on nodes drawn at random, mean of DRAWS draws (``at_random``)."""


def anatomy(state: State, outcome: ContenderOutcome) -> Anatomy | None:
    """Take a rival's outcome apart; None where its gang does not run, or cannot by our rules."""
    if not outcome.ran:
        return None
    there = optimum(state, ORDER, only=outcome.seats)
    if not there.possible:
        return None
    free = free_seats(state)
    used = Counter(outcome.seats)
    return Anatomy(
        evicted=outcome.damage.pods,
        least_there=there.damage.pods,
        least=optimum(state, ORDER).damage.pods,
        free_seats=min(len(state.members), sum(free.values())),
        free_used=sum(min(count, free[node]) for node, count in used.items()),
        at_random=at_random(state),
    )


def at_random(state: State) -> float:
    """Fewest pods when each member has a node to itself, drawn evenly, mean of DRAWS draws.

    From the nodes that take a member once everybody less urgent has gone. Where these are
    fewer than the members, all of them are taken.
    """
    rng = random.Random(state.name)
    nodes = [name for name, seats in free_seats(state, least=state.gang.priority).items() if seats]
    size = min(len(nodes), len(state.members))
    drawn = (rng.sample(nodes, size) for _ in range(DRAWS))
    return statistics.mean(optimum(state, ORDER, only=only).damage.pods for only in drawn)


def free_seats(state: State, least: int = 0) -> Counter[str]:
    """How many members each node takes beside pods of priority ``least`` and more.

    The members are all alike.
    """
    room = {node.name: node.size for node in state.nodes}
    places = {node.name: node.pods for node in state.nodes}
    for pod in state.pods:
        if pod.priority < least:
            continue
        room[pod.node] = room[pod.node].minus(pod.wants)
        places[pod.node] -= 1
    wants = state.members[0].wants
    return Counter({name: min(places[name], _times(wants, left)) for name, left in room.items()})


def _times(wants: Amounts, room: Amounts) -> int:
    pairs = ((wants.cpu, room.cpu), (wants.memory, room.memory), (wants.gpu, room.gpu))
    return min((left // asked for asked, left in pairs if asked), default=0)


class Losses(Struct, frozen=True):
    """Several cases' losses added up."""

    cases: int
    evicted: int
    least_there: int
    least: int
    free_seats: int
    free_used: int
    at_random: float

    @classmethod
    def of(cls, found: Iterable[Anatomy]) -> Losses:
        """Add up."""
        parts = list(found)
        return cls(
            cases=len(parts),
            evicted=sum(part.evicted for part in parts),
            least_there=sum(part.least_there for part in parts),
            least=sum(part.least for part in parts),
            free_seats=sum(part.free_seats for part in parts),
            free_used=sum(part.free_used for part in parts),
            at_random=sum(part.at_random for part in parts),
        )

    @property
    def by_placement(self) -> float:
        """Times more pods that the chosen nodes need than the best ones."""
        return self.least_there / self.least if self.least else float("nan")

    @property
    def by_pruning(self) -> float:
        """Times more pods that went than the chosen nodes need."""
        return self.evicted / self.least_there if self.least_there else float("nan")
