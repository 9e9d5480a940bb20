"""Small clusters of every shape that a rule counts, and a model of them that tries everything.

The model knows nothing of the extender: it is written from what kube-scheduler's filters, the
Eviction API and Volcano's PodGroup promise. One rule a cluster; parts, budgets, terminating pods,
a gang that goes whole and pods that ask for nothing in all of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, permutations, product
from math import ceil
from typing import Literal, get_args

CPUS = 4
URGENT = 100
PRIORITIES = (0, 5, 50, 200)
Rule = Literal[
    "",
    "spread",
    "affinity",
    "self-affinity",
    "head-affinity",
    "helper-affinity",
    "anti-affinity",
    "shy",
    "host-port",
    "gpu",
]
RULES: tuple[Rule, ...] = get_args(Rule)
"""Of members: spread evenly over nodes, by pods with label app=job; beside a pod app=target; beside
a pod app=job, as they are themselves, or as those of part a are, or as all are and those of part a
require it; beside none app=noisy; kept away by pods that are shy of app=job; each with a port of
its node; those of part a each with the one GPU of a node, which pods app=gpu hold."""
GANG_PRIORITY = 5


@dataclass(frozen=True)
class Bound:
    """A pod on a node."""

    name: str
    node: int
    cpu: int
    priority: int
    app: str
    leaving: bool = False
    budget: int = -1
    pending: bool = False
    unready: bool = False
    gang: bool = False
    """It is of a gang that goes whole."""
    age: int = 100
    """Seconds since it started."""


@dataclass(frozen=True)
class World:
    """A cluster and a gang of parts that wants seats."""

    rule: Rule
    nodes: int
    bound: tuple[Bound, ...]
    parts: Mapping[str, tuple[int, int, int]]
    """Name -> members, how many it needs, CPU of each."""
    quorum: int
    allowed: tuple[int, ...]
    """Of each budget: status.disruptionsAllowed."""
    healthy: tuple[bool, ...]
    """Of each budget: pods that are not ready may go (IfHealthyBudget with enough healthy ones)."""
    urgent: int = URGENT
    """The gang's priority."""
    cpus: int = CPUS
    """Of each node."""


def world(seed: int) -> World:
    """Return a random cluster of two or three nodes, at most seven pods and four members."""
    draw = random.Random(seed)
    rule = draw.choice(RULES)
    nodes = draw.randint(2, 3)
    budgets = draw.randint(0, 2)
    gang = draw.random() < 0.4
    apps = {
        "affinity": "target",
        "anti-affinity": "noisy",
        "shy": "shy",
        "host-port": "port",
        "gpu": "gpu",
    }
    bound: list[Bound] = []
    ages = random.Random(f"ages {seed}")
    for at in range(nodes):
        left = CPUS
        for i in range(draw.randint(0, 3)):
            cpu = draw.choice((0, 0, 1, 2, 4))
            if cpu > left or len(bound) == 7:
                continue
            left -= cpu
            whole = gang and draw.random() < 0.5
            bound.append(
                Bound(
                    f"p{at}-{i}",
                    at,
                    cpu,
                    GANG_PRIORITY if whole else draw.choice(PRIORITIES),
                    draw.choice(("job", "other", apps.get(rule, "job"))),
                    leaving=not whole and draw.random() < 0.15,
                    budget=draw.randrange(-1, budgets) if budgets else -1,
                    pending=draw.random() < 0.15,
                    unready=draw.random() < 0.3,
                    gang=whole,
                    age=ages.choice((60, 100, 600, 6000)),
                )
            )
    parts = {}
    for name in ("a", "b")[: draw.choice((1, 2, 2))]:
        count = draw.randint(1, 2)
        parts[name] = (count, draw.randint(1, count), draw.choice((0, 1, 2, 3, 4)))
    least, most = sum(p[1] for p in parts.values()), sum(p[0] for p in parts.values())
    return World(
        rule,
        nodes,
        tuple(bound),
        parts,
        draw.randint(least, most),
        tuple(draw.randint(0, 1) for _ in range(budgets)),
        tuple(draw.random() < 0.5 for _ in range(budgets)),
    )


# -- what is allowed ---------------------------------------------------------------------


def may_go(here: World, each: Bound) -> bool:
    """Whether the gang may evict the pod: of lower priority, and not on its way out."""
    return each.priority < here.urgent and not each.leaving


def within_budgets(here: World, victims: Iterable[Bound]) -> bool:
    """Whether the Eviction API lets all of them go: it asks a budget about pods that run only, and
    about those that are not ready only where the budget is not healthy."""
    counts = Counter(
        each.budget
        for each in victims
        if each.budget >= 0
        and not each.pending
        and not (each.unready and here.healthy[each.budget])
    )
    return all(count <= here.allowed[budget] for budget, count in counts.items())


def seats_hold(
    here: World, gone: Iterable[Bound], seats: Sequence[tuple[str, int]], *, at_once: bool = False
) -> bool:
    """Whether members (part, node) can sit there, one after the other, with these pods gone.

    Terminating pods are gone too, or, where the seats are taken ``at_once``, still there: as room,
    for affinity and anti-affinity, and not for spread (PodTopologySpread passes them over).
    """
    out = set(gone)
    there = [each for each in here.bound if each not in out and (at_once or not each.leaving)]
    used = Counter(dict.fromkeys(range(here.nodes), 0))
    for each in there:
        used[each.node] += each.cpu
    for part, at in seats:
        cpu = here.parts[part][2]
        used[at] += cpu
        if cpu and used[at] > here.cpus:
            return False
    if any(
        used[at] > here.cpus and any(here.parts[part][2] for part, seat in seats if seat == at)
        for at in used
    ):
        return False
    places = [at for _, at in seats]
    apps = {at: {each.app for each in there if each.node == at} for at in range(here.nodes)}
    if here.rule == "affinity":
        return all("target" in apps[at] for at in places)
    if here.rule in ("self-affinity", "head-affinity"):
        beside = {at for at in apps if "job" in apps[at]}
        # The first pod of all that match is let in anywhere; where there is one, it is not.
        first = here.rule == "self-affinity" or any(part == "a" for part, _ in seats)
        return beside >= set(places) if beside else first and len(set(places)) == 1
    if here.rule == "helper-affinity":
        beside = {at for at in apps if "job" in apps[at]}
        helpers = {at for part, at in seats if part == "b"}
        workers = {at for part, at in seats if part == "a"}
        if workers <= beside | helpers or beside:
            return workers <= beside | helpers
        # The first of the workers is let in anywhere, unless a helper comes before: no pod goes for
        # that order.
        chance = at_once or not out
        return len(workers - helpers) <= 1 if chance else not helpers and len(workers) == 1
    if here.rule == "gpu":
        holders = Counter(each.node for each in there if each.app == "gpu")
        taken = Counter(at for part, at in seats if part == "a")
        return all(holders[at] + taken[at] <= 1 for at in taken)
    if here.rule == "anti-affinity":
        return all("noisy" not in apps[at] for at in places)
    if here.rule == "shy":
        return all("shy" not in apps[at] for at in places)
    if here.rule == "host-port":
        return len(set(places)) == len(places) and all("port" not in apps[at] for at in places)
    if here.rule == "spread":
        start = Counter(dict.fromkeys(range(here.nodes), 0))
        start.update(each.node for each in there if each.app == "job" and not each.leaving)
        return any(_even(start, order) for order in set(permutations(places)))
    return True


def _even(start: Counter[int], order: Iterable[int]) -> bool:
    """Whether no seat in this order is more than one above the emptiest node."""
    now = Counter(start)
    for at in order:
        if now[at] + 1 - min(now[each] for each in start) > 1:
            return False
        now[at] += 1
    return True


def is_quorum(here: World, seats: Iterable[tuple[str, int]]) -> bool:
    """Whether enough members sit: of each part, and in all."""
    counts = Counter(part for part, _ in seats)
    return sum(counts.values()) >= here.quorum and all(
        counts[part] >= least for part, (_, least, _) in here.parts.items()
    )


def seats_without(here: World, gone: Iterable[Bound], without: int) -> bool:
    """Whether all but so many members of a quorum can sit with these pods gone."""
    parts = {part: (count, 0, cpu) for part, (count, _, cpu) in here.parts.items()}
    fewer = replace(here, parts=parts, quorum=here.quorum - without)
    out = list(gone)
    return fewer.quorum < 1 or any(seats_hold(fewer, out, seats) for seats in layouts(fewer))


# -- the least loss ------------------------------------------------------------------------


def loss(here: World, victims: Iterable[Bound]) -> tuple[int, ...]:
    """Work, gangs and pods lost by priority, the most urgent first.

    Work: the share of its node that a pod holds, in millionths, times the seconds that it has run,
    0 while it is pending, and 300 for its restart; 300 more where its gang starts again. Rounded
    up for each pod that goes alone, and for a gang that goes whole.
    """
    gone = list(victims)
    counts = Counter((each.priority, "pods") for each in gone)
    whole = 0
    for each in gone:
        share = 10**6 if each.app == "gpu" else each.cpu * 10**6 // here.cpus
        age = 0 if each.pending else each.age
        whole += share * (age + 600) if each.gang else 0
        alone = 0 if each.gang else share * (age + 300)
        counts[each.priority, "work"] += ceil(alone / 10**6)
    counts[GANG_PRIORITY, "work"] += ceil(whole / 10**6)
    counts[GANG_PRIORITY, "gangs"] = int(any(each.gang for each in gone))
    return tuple(
        counts[priority, what] for priority in (200, 50, 5, 0) for what in ("work", "gangs", "pods")
    )


def layouts(here: World) -> Iterator[tuple[tuple[str, int], ...]]:
    """Every way to seat a quorum or more, members of a part being alike: one member more may even
    a spread out for the others."""
    of_part = []
    for part, (count, least, _) in here.parts.items():
        of_part.append(
            [
                tuple((part, at) for at in seats)
                for size in range(least, count + 1)
                for seats in _bags(here.nodes, size)
            ]
        )
    for chosen in product(*of_part):
        seats = tuple(seat for each in chosen for seat in each)
        if len(seats) >= here.quorum:
            yield seats


def _bags(nodes: int, size: int) -> list[tuple[int, ...]]:
    return sorted({tuple(sorted(each)) for each in product(range(nodes), repeat=size)})


def least_loss(here: World) -> tuple[int, ...] | None:
    """The least loss of all sets of victims, None where no set will do."""
    lower: list[tuple[Bound, ...]] = [
        (each,) for each in here.bound if may_go(here, each) and not each.gang
    ]
    if gang := tuple(each for each in here.bound if each.gang):
        lower.append(gang)
    sets = [
        tuple(chain.from_iterable(units))
        for size in range(len(lower) + 1)
        for units in combinations(lower, size)
    ]
    ways = list(layouts(here))
    if any(seats_hold(here, (), seats, at_once=True) for seats in ways):
        return loss(here, ())
    for gone in sorted(sets, key=partial(loss, here)):
        if within_budgets(here, gone) and any(seats_hold(here, gone, seats) for seats in ways):
            return loss(here, gone)
    return None
