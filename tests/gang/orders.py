"""Small clusters with members of two kinds whose rules are unequal, and a model of them.

What the rules allow depends on who is bound first. The model knows nothing of the extender: it is
written from what kube-scheduler's filters promise, and it goes through every order of binding.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, combinations_with_replacement, product

CPUS = 4
URGENT = 100
HOST = "kubernetes.io/hostname"
ZONE = "zone"


@dataclass(frozen=True)
class Rules:
    """What a kind of members asks for."""

    spread: tuple[tuple[str, int, str], ...] = ()
    """Topology key, maxSkew, and the app that is counted."""
    affinity: tuple[tuple[str, str], ...] = ()
    """Topology key, and the app that is required beside."""
    anti_affinity: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Kind:
    """Members that are alike."""

    count: int
    least: int
    cpu: int
    app: str
    rules: Rules


@dataclass(frozen=True)
class Bound:
    """A pod on a node."""

    name: str
    node: int
    cpu: int
    priority: int
    app: str
    leaving: bool = False


@dataclass(frozen=True)
class World:
    """A cluster and a gang of kinds (parts) that wants seats."""

    zones: tuple[str, ...]
    """Of each node."""
    bound: tuple[Bound, ...]
    kinds: Mapping[str, Kind]
    quorum: int


Seat = tuple[str, int]
"""Kind and node."""
Pods = list[tuple[int, int, str, Rules, bool]]
"""Node, CPU, app, rules and whether it terminates."""


def world(seed: int) -> World:
    """Return a random cluster of two or three nodes, at most six pods and four members."""
    draw = random.Random(seed)
    zones = tuple(f"z{draw.randrange(2)}" for _ in range(draw.choice((2, 3, 3))))
    bound: list[Bound] = []
    for at in range(len(zones)):
        left = CPUS
        for i in range(draw.randint(0, 2)):
            cpu = draw.choice((0, 1, 2, 3))
            if cpu <= left:
                left -= cpu
                priority = draw.choice((0, 5, 200, 200))
                leaving = draw.random() < 0.1
                app = draw.choice(("job", "x", "y"))
                bound.append(Bound(f"p{at}-{i}", at, cpu, priority, app, leaving))
    kinds: dict[str, Kind] = {}
    for name in ("a", "b"):
        count = draw.randint(1, 2)
        while True:
            rules = _rules(draw)
            if rules not in (kind.rules for kind in kinds.values()):
                break
        kinds[name] = Kind(
            count,
            draw.randint(1, count),
            draw.choice((0, 1, 1, 2)),
            draw.choice(("job", "job", "job", "x")),
            rules,
        )
    least = sum(kind.least for kind in kinds.values())
    most = sum(kind.count for kind in kinds.values())
    return World(zones, tuple(bound), kinds, draw.randint(least, most))


def over_two_keys(seed: int) -> World:
    """Return a random cluster and members of one kind that are spread over nodes and zones."""
    draw = random.Random(seed)
    zones = tuple(f"z{at % 2}" for at in range(draw.choice((3, 3, 4))))
    bound = [
        Bound(f"p{at}-{i}", at, draw.choice((0, 0, 0, 1)), draw.choice((0, 5, 200)), "job")
        for at in range(len(zones))
        for i in range(draw.randint(0, 3))
    ]
    rules = Rules(spread=((HOST, draw.choice((1, 2)), "job"), (ZONE, 1, "job")))
    count = draw.randint(2, 4)
    kind = Kind(count, count, draw.choice((0, 1, 1, 2)), "job", rules)
    return World(zones, tuple(bound[:7]), {"a": kind}, count)


def _rules(draw: random.Random) -> Rules:
    key, other = draw.sample((HOST, ZONE), 2)
    spread: list[tuple[str, int, str]] = []
    if draw.random() < 0.6:
        spread.append((key, draw.choice((1, 1, 2)), draw.choice(("job", "job", "x"))))
        if draw.random() < 0.25:
            spread.append((other, draw.choice((1, 2)), "job"))
    affinity = ((draw.choice((HOST, ZONE)), draw.choice(("job", "job", "x"))),)
    anti_affinity = ((draw.choice((HOST, ZONE)), draw.choice(("job", "x", "y"))),)
    return Rules(
        tuple(spread),
        affinity if draw.random() < 0.5 else (),
        anti_affinity if draw.random() < 0.1 else (),
    )


# -- what is allowed ---------------------------------------------------------------------


def domain(here: World, key: str, at: int) -> str:
    return here.zones[at] if key == ZONE else str(at)


def fits(here: World, there: Pods, kind: Kind, at: int) -> bool:
    """Whether kube-scheduler lets a member onto the node beside these pods."""

    def close(key: str, other: int) -> bool:
        return domain(here, key, other) == domain(here, key, at)

    rules = kind.rules
    used = sum(cpu for node, cpu, _, _, _ in there if node == at)
    if kind.cpu and used + kind.cpu > CPUS:
        return False
    for node, _, app, theirs, _ in there:
        if any(app == other and close(key, node) for key, other in rules.anti_affinity):
            return False
        if any(kind.app == other and close(key, node) for key, other in theirs.anti_affinity):
            return False
    for key, wanted in rules.affinity:
        like = [node for node, _, app, _, _ in there if app == wanted]
        # The first pod of all that match is let in anywhere.
        if not any(close(key, node) for node in like) and (like or kind.app != wanted):
            return False
    for key, skew, counted in rules.spread:
        counts = Counter({domain(here, key, node): 0 for node in range(len(here.zones))})
        counts.update(
            domain(here, key, node)
            for node, _, app, _, leaving in there
            if app == counted and not leaving
        )
        mine = counts[domain(here, key, at)] + (kind.app == counted)
        if mine - min(counts.values()) > skew:
            return False
    return True


def every_order(here: World, there: Pods, seats: Sequence[Seat]) -> bool:
    """Whether all seats are taken in the end, whoever is bound when."""
    known: dict[tuple[Seat, ...], bool] = {}

    def holds(left: tuple[Seat, ...]) -> bool:
        if left not in known:
            gone = Counter(seats)
            gone.subtract(left)
            now = there + [
                (at, kind.cpu, kind.app, kind.rules, False)
                for name, at in gone.elements()
                for kind in (here.kinds[name],)
            ]
            next_ones = [
                seat
                for seat in dict.fromkeys(left)
                if fits(here, now, here.kinds[seat[0]], seat[1])
            ]
            known[left] = not left or bool(next_ones)
            for seat in next_ones if known[left] else ():
                rest = list(left)
                rest.remove(seat)
                if not holds(tuple(rest)):
                    known[left] = False
                    break
        return known[left]

    return holds(tuple(sorted(seats)))


def beside(here: World, gone: Collection[str]) -> Pods:
    """The pods that are there once these (names) are gone."""
    return [
        (each.node, each.cpu, each.app, Rules(), each.leaving)
        for each in here.bound
        if each.name not in gone
    ]


def leaving(here: World) -> set[str]:
    return {each.name for each in here.bound if each.leaving}


def layouts(here: World) -> Iterator[tuple[Seat, ...]]:
    """Every way to seat a quorum or more."""
    of_kind = [
        [
            tuple((name, at) for at in nodes)
            for size in range(kind.least, kind.count + 1)
            for nodes in combinations_with_replacement(range(len(here.zones)), size)
        ]
        for name, kind in here.kinds.items()
    ]
    for chosen in product(*of_kind):
        seats = tuple(chain.from_iterable(chosen))
        if len(seats) >= here.quorum:
            yield seats


# -- the least loss ------------------------------------------------------------------------


def loss(victims: Iterable[Bound]) -> tuple[int, ...]:
    """Work and pods lost by priority, the most urgent first: of pods that have run for 100 s, and
    take 300 s to start again."""
    counts: Counter[tuple[int, str]] = Counter()
    for each in victims:
        counts[each.priority, "work"] += each.cpu * 400 // CPUS
        counts[each.priority, "pods"] += 1
    return tuple(counts[priority, what] for priority in (5, 0) for what in ("work", "pods"))


def least_loss(here: World) -> tuple[int, ...] | None:
    """The least loss for seats that hold in every order of binding; None where there are none."""
    lower = [each for each in here.bound if each.priority < URGENT and not each.leaving]
    sets = [gone for size in range(len(lower) + 1) for gone in combinations(lower, size)]
    ways = list(layouts(here))
    if any(every_order(here, beside(here, ()), seats) for seats in ways):
        return loss(())
    for gone in sorted(sets, key=loss):
        there = beside(here, {each.name for each in gone} | leaving(here))
        if any(every_order(here, there, seats) for seats in ways):
            return loss(gone)
    return None
