"""The cluster as a map of nodes, and one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from extender.console import words
from extender.console.bars import columns_for, crosses, rings, squares
from extender.console.missing import Missing
from extender.console.month import month
from extender.console.node_uses import NodeUse, grouped
from extender.console.paging import page_of
from extender.console.picture import Picture
from extender.console.query import Query
from extender.groups.resolver import Resolver
from extender.model.extended_resources import counted
from extender.model.objects import GangKey, Pod

PAGE = 50
PODS_PAGE = 100
LARGEST_CARDS = 72
"""Up to so many nodes each has a card with its bars; more are cells of a map."""
MOST_ZONES = 40
LEVELS = ("empty", "low", "half", "high", "full")
CLOSED = "closed"
ABSENT = "absent"
LEGEND = {
    "empty": "nothing used",
    "low": "up to half",
    "half": "up to 9 tenths",
    "high": "above 9 tenths",
    "full": "all of it",
    CLOSED: "cordoned",
    ABSENT: "has none",
}


class Zone(Struct, frozen=True):
    """Nodes with one value of the label, as drawn."""

    value: str
    count: int
    columns: int
    rows: int
    paths: Mapping[str, str]
    """Level -> path of its cells."""
    seats: str
    leaving: str
    cards: Sequence[NodeCard]
    used: int
    total: int
    counts: Mapping[str, int]
    seat_count: int
    leaving_count: int


class NodeCard(Struct, frozen=True):
    """A node of a small cluster."""

    use: NodeUse
    bars: Sequence[tuple[str, int, int, int]]
    """(resource, used, total, per cent): the chosen one, and others that a pod asks for."""
    seats: int
    leaving: int
    level: str
    gangs: str


def cluster(picture: Picture, query: Query) -> dict[str, Any]:
    """Return what the page shows."""
    resource = query.text("by")
    if resource not in picture.resources:
        resource = picture.resources[0] if picture.resources else "cpu"
    label = query.text("group")
    if label not in picture.groupings:
        label = picture.groupings[0] if picture.groupings else ""
    groups = grouped(picture.nodes, label) if label else {"": picture.nodes}
    zones = sorted(groups.items(), key=lambda item: (not item[0], item[0]))
    small = len(picture.nodes) <= LARGEST_CARDS
    return {
        "resource": resource,
        "label": label,
        "small": small,
        "zones": [
            _zone(v, nodes, picture, resource, small=small) for v, nodes in zones[:MOST_ZONES]
        ],
        "zone_count": len(zones),
        "legend": LEGEND,
        "nodes": len(picture.nodes),
        "page": _table(picture, query),
        "table": lambda use: _card(use, picture, resource),
        "text": query.text("q"),
        "only": query.text("only"),
        "seat_nodes": len(picture.seats),
        "leaving_nodes": len(picture.leaving),
        "month": month(picture.capture),
        "counted_since": picture.capture.counted_since,
    }


def cells(picture: Picture, query: Query) -> list[list[str | int]]:
    """Return per node of one zone, in the order of its cells: name, per cent, seats, leaving."""
    label, value, resource = query.text("group"), query.text("zone"), query.text("by")
    nodes = grouped(picture.nodes, label).get(value, ()) if label else picture.nodes
    return [
        [
            use.name,
            -1 if (share := use.share(resource)) is None else round(100 * share),
            len(picture.seats.get(use.name, ())),
            _leaving(use, picture),
        ]
        for use in nodes
    ]


def _table(picture: Picture, query: Query) -> Any:
    text, only = query.text("q").lower(), query.text("only")
    found = [
        use
        for use in picture.nodes
        if (not text or text in use.name.lower())
        and (only != "seats" or use.name in picture.seats)
        and (only != "leaving" or _leaving(use, picture))
    ]
    if not text and not only:
        # What moves comes first; the rest is in the map.
        found.sort(key=lambda use: not (use.name in picture.seats or use.name in picture.leaving))
    return page_of(found, query.page(), PAGE)


def _zone(
    value: str, nodes: tuple[NodeUse, ...], picture: Picture, resource: str, *, small: bool
) -> Zone:
    columns = columns_for(len(nodes))
    places: dict[str, list[int]] = {}
    held: list[int] = []
    leaving: list[int] = []
    used = total = seats = going = 0
    for place, use in enumerate(nodes):
        places.setdefault(_level(use, resource), []).append(place)
        used += use.used.get(resource, 0)
        total += next((amount for name, amount in use.total if name == resource), 0)
        if use.name in picture.seats:
            held.append(place)
            seats += len(picture.seats[use.name])
        if gone := _leaving(use, picture):
            leaving.append(place)
            going += gone
    return Zone(
        value=value,
        count=len(nodes),
        columns=columns,
        rows=-(-len(nodes) // columns),
        paths={} if small else {name: squares(found, columns) for name, found in places.items()},
        seats="" if small else rings(held, columns),
        leaving="" if small else crosses(leaving, columns),
        cards=[_card(use, picture, resource) for use in nodes] if small else [],
        used=used,
        total=total,
        counts={name: len(places[name]) for name in LEGEND if name in places},
        seat_count=seats,
        leaving_count=going,
    )


def _leaving(use: NodeUse, picture: Picture) -> int:
    return max(use.leaving, len(picture.leaving.get(use.name, ())))


def _level(use: NodeUse, resource: str) -> str:
    if use.closed:
        return CLOSED
    share = use.share(resource)
    if share is None:
        return ABSENT
    if share <= 0:
        return "empty"
    if share <= 0.5:
        return "low"
    return "half" if share <= 0.9 else "high" if share < 1 else "full"


def _card(use: NodeUse, picture: Picture, resource: str) -> NodeCard:
    bars = []
    for name, amount in use.total:
        shown = name in picture.resources and name != "ephemeral-storage"
        if amount > 0 and shown and (name == resource or use.used.get(name)):
            share = round(100 * use.used.get(name, 0) / amount)
            bars.append((name, use.used.get(name, 0), amount, share))
    order = {name: at for at, name in enumerate(picture.resources)}
    bars.sort(key=lambda bar: (bar[0] != resource, order[bar[0]]))
    held = picture.seats.get(use.name, ())
    return NodeCard(
        use=use,
        bars=bars[:3],
        seats=len(held),
        leaving=_leaving(use, picture),
        level=_level(use, resource),
        gangs=", ".join(sorted({seat.gang for seat in held})[:2]),
    )


def node(picture: Picture, resolver: Resolver, query: Query) -> dict[str, Any]:
    """Return what the page of one node shows. Raises Missing."""
    name = query.text("name")
    found = picture.capture.snapshot.nodes.get(name)
    if found is None:
        raise Missing(f"no node {name!r}")
    use = next(use for use in picture.nodes if use.name == name)
    pods = sorted(
        picture.capture.snapshot.bound.get(name, ()),
        key=lambda pod: (-pod.priority, pod.namespace, pod.name),
    )
    page = page_of(pods, query.page(), PODS_PAGE)
    leaving = {victim.uid: gang for victim, gang in picture.leaving.get(name, ())}

    def described(pod: Pod) -> tuple[Pod, GangKey | None, str]:
        return pod, resolver.member_key(pod), leaving.get(pod.uid, "")

    return {
        "node": found,
        "card": _card(use, picture, picture.resources[0] if picture.resources else "cpu"),
        "resources": [
            (resource, use.used.get(resource, 0), total)
            for resource, total in counted(found.allocatable)
            if total > 0
        ],
        "seats": picture.seats.get(name, ()),
        "page": page,
        "pods": [described(pod) for pod in page.items],
        "labels": sorted(found.labels.items())[:40],
        "short": words.short,
    }
