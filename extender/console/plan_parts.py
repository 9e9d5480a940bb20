"""A plan as a page shows it: seats by node, victims by unit, cost levels with their bound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from extender.console import words
from extender.model.plan import Cost, Seat, Victim

MOST_NODES = 60
MOST_ON_NODE = 12
MOST_UNITS = 40
MOST_VICTIMS = 12


class NodePlan(Struct, frozen=True):
    """What a plan does on one node; lists are cut, counts are not."""

    node: str
    seats: Sequence[tuple[str, bool]]
    """(member, taken already)."""
    seat_count: int
    victims: Sequence[tuple[str, str]]
    """(pod, left, sent or gone)."""
    victim_count: int


class UnitPlan(Struct, frozen=True):
    """Pods that go together."""

    name: str
    """The gang's key, "" for a pod of its own."""
    whole: bool
    priority: int
    victims: Sequence[tuple[Victim, str]]
    """(victim, left, sent or gone), the first few."""
    count: int
    nodes: int
    gone: int


class Level(Struct, frozen=True):
    """One level of the cost vector."""

    name: str
    words: str
    value: int
    bound: int

    @property
    def proved(self) -> bool:
        """Whether no plan costs less here."""
        return self.value <= self.bound


class PlanParts(Struct, frozen=True):
    """All of it."""

    nodes: Sequence[NodePlan]
    node_count: int
    units: Sequence[UnitPlan]
    unit_count: int
    seat_count: int
    victim_count: int
    waits: Sequence[Victim]
    wait_count: int
    levels: Sequence[Level]
    cheaper: str
    """What is not proved, in words."""
    spared: str
    """What a cheaper plan would need, in words."""


def plan_parts(
    seats: Sequence[Seat],
    victims: Sequence[Victim],
    waits: Sequence[Victim],
    costs: Iterable[Cost],
    spared: str,
    *,
    untaken: Collection[str] = (),
    left: Collection[str] | None = None,
    sent: Collection[str] = (),
) -> PlanParts:
    """Return the parts; ``spared``: as of Plan. ``left`` None: nothing is known of what has
    gone."""

    def fate(victim: Victim) -> str:
        if left is None:
            return ""
        if victim.uid not in left:
            return "gone"
        return "leaving" if victim.uid in sent else "not evicted yet"

    nodes = _by_node(seats, victims, untaken, known=left is not None, fate=fate)
    units = _by_unit(victims, fate)
    levels = [Level(c.level, words.level_words(c.level), c.value, c.bound) for c in costs]
    return PlanParts(
        nodes=nodes[:MOST_NODES],
        node_count=len(nodes),
        units=units[:MOST_UNITS],
        unit_count=len(units),
        seat_count=len(seats),
        victim_count=len(victims),
        waits=waits[:MOST_VICTIMS],
        wait_count=len(waits),
        levels=[level for level in levels if level.value or level.bound],
        cheaper=_cheaper(levels),
        spared=spared,
    )


def _by_node(
    seats: Sequence[Seat],
    victims: Sequence[Victim],
    untaken: Collection[str],
    *,
    known: bool,
    fate: Callable[[Victim], str],
) -> list[NodePlan]:
    taken: dict[str, list[tuple[str, bool]]] = {}
    for seat in seats:
        entry = (seat.name, known and seat.uid not in untaken)
        taken.setdefault(seat.node, []).append(entry)
    going: dict[str, list[tuple[str, str]]] = {}
    for victim in victims:
        going.setdefault(victim.node, []).append((victim.name, fate(victim)))
    return [
        NodePlan(
            node,
            sorted(taken.get(node, ()))[:MOST_ON_NODE],
            len(taken.get(node, ())),
            sorted(going.get(node, ()))[:MOST_ON_NODE],
            len(going.get(node, ())),
        )
        for node in (*sorted(taken), *sorted(going.keys() - taken.keys()))
    ]


def _by_unit(victims: Sequence[Victim], fate: Callable[[Victim], str]) -> list[UnitPlan]:
    units: dict[str, list[Victim]] = {}
    for victim in victims:
        units.setdefault(victim.unit or f" {victim.uid}", []).append(victim)
    found = [
        UnitPlan(
            name=members[0].unit or members[0].gang,
            whole=bool(members[0].unit),
            priority=max(victim.priority for victim in members),
            victims=[(victim, fate(victim)) for victim in members[:MOST_VICTIMS]],
            count=len(members),
            nodes=len({victim.node for victim in members}),
            gone=sum(fate(victim) == "gone" for victim in members),
        )
        for members in units.values()
    ]
    return sorted(found, key=lambda unit: (-unit.priority, -unit.count, unit.name))


def _cheaper(levels: Sequence[Level]) -> str:
    open_ = next((level for level in levels if not level.proved), None)
    if open_ is None:
        return ""
    value = words.cost(open_.value, open_.name, open_.bound)
    bound = words.cost(open_.bound, open_.name, open_.value)
    return (
        f"a cheaper plan would have to get below {value} at “{open_.words}”; "
        f"that none gets below {bound} is proved"
    )
