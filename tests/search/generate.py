"""Seeded small problems that reach every feature of the waist.

Each feature is switched on with its own probability, amounts are drawn from few
values (so that ties and symmetric nodes are frequent) and now and then scaled
like bytes, and the need lies anywhere from trivial to impossible.
"""

from __future__ import annotations

import random
from array import array

from msgspec.structs import replace

from extender.search.problem import (
    Blocker,
    Budget,
    Cap,
    ElasticGang,
    MemberClass,
    Problem,
    Spread,
    Unit,
    Vector,
)

SCALE = (1, 1000, 1 << 30)
"""Counts, milli-CPU, bytes."""


def small(seed: int, *, most_nodes: int = 5, most_units: int = 8) -> Problem:
    """A random problem that brute force can decide."""
    rng = random.Random(seed)
    resources = rng.choice((1, 1, 2, 3))
    nodes = rng.randint(1, most_nodes)
    levels = rng.choice((1, 2, 3))
    scale = [rng.choice(SCALE) for _ in range(resources)]
    gangs = _gangs(rng, levels) if rng.random() < 0.35 else ()
    budgets = _budgets(rng, levels) if rng.random() < 0.3 else ()
    units = tuple(
        _unit(rng, index, nodes, scale, levels, len(gangs), len(budgets))
        for index in range(rng.randint(0, most_units))
    )
    classes = _classes(rng, nodes, scale)
    free = tuple(
        array("q", [rng.choice((-1, 0, 0, 1, 2, 3)) * scale[r] for _ in range(nodes)])
        for r in range(resources)
    )
    domain = None
    required = True
    if rng.random() < 0.3:
        domain = array("i", [rng.choice((-1, 0, 0, 1, 1, 2)) for _ in range(nodes)])
        required = rng.random() < 0.5
    return Problem(
        resources=tuple(f"r{r}" for r in range(resources)),
        nodes=tuple(f"n{n}" for n in range(nodes)),
        free=free,
        classes=classes,
        need=rng.randint(0, sum(cls.count for cls in classes)),
        units=units,
        levels=tuple(f"level{level}" for level in range(levels)),
        gangs=gangs,
        budgets=budgets,
        blockers=_blockers(rng, len(classes), nodes, len(units)),
        caps=_caps(rng, len(classes), nodes),
        spreads=_spreads(random.Random(-1 - seed), len(classes), nodes),
        domain=domain,
        domain_required=required,
        domain_level=-1 if required else rng.randrange(levels),
    )


def _vector(rng: random.Random, scale: list[int], values: tuple[int, ...]) -> Vector:
    return tuple(rng.choice(values) * unit for unit in scale)


def _gangs(rng: random.Random, levels: int) -> tuple[ElasticGang, ...]:
    return tuple(
        ElasticGang(
            surplus=rng.choice((0, 1, 1, 2)),
            break_cost=tuple(rng.choice((0, 1, 3)) for _ in range(levels)),
        )
        for _ in range(rng.choice((1, 2)))
    )


def _budgets(rng: random.Random, levels: int) -> tuple[Budget, ...]:
    return tuple(
        Budget(
            name=f"budget{index}",
            allowed=rng.choice((0, 1, 2)),
            hard=rng.random() < 0.5,
            level=rng.randrange(levels),
        )
        for index in range(rng.choice((1, 2)))
    )


def _unit(
    rng: random.Random,
    index: int,
    nodes: int,
    scale: list[int],
    levels: int,
    gangs: int,
    budgets: int,
) -> Unit:
    seats = rng.choice((1, 1, 1, 2, 3)) if rng.random() < 0.6 else rng.randint(0, nodes)
    where = rng.sample(range(nodes), min(seats, nodes))
    free = rng.random() < 0.1
    cost = (0,) * levels if free else tuple(rng.choice((0, 1, 1, 2)) for _ in range(levels))
    taken: tuple[tuple[int, int], ...] = ()
    if budgets and rng.random() < 0.5:
        taken = tuple(
            (b, rng.choice((1, 1, 2)))
            for b in sorted(rng.sample(range(budgets), rng.randint(1, budgets)))
        )
    return Unit(
        uid=f"u{(index * 7) % 11}-{index}",
        releases=tuple((n, _vector(rng, scale, (0, 1, 1, 2))) for n in where),
        cost=cost,
        pods=max(1, len(where)),
        gang=rng.randrange(gangs) if gangs and rng.random() < 0.5 else -1,
        budgets=taken,
    )


def _classes(rng: random.Random, nodes: int, scale: list[int]) -> tuple[MemberClass, ...]:
    classes = []
    for index in range(rng.choice((1, 1, 1, 2, 2, 3))):
        count = rng.choice((1, 2, 3, 4))
        allowed = bytes(nodes * [1])
        if rng.random() < 0.4:
            allowed = bytes(rng.choice((0, 1, 1)) for _ in range(nodes))
        classes.append(
            MemberClass(
                name=f"class{index}",
                request=_vector(rng, scale, (0, 1, 1, 2, 3)),
                count=count,
                allowed=allowed,
                least=rng.randint(0, count) if rng.random() < 0.3 else 0,
            )
        )
    return tuple(classes)


def _blockers(rng: random.Random, classes: int, nodes: int, units: int) -> tuple[Blocker, ...]:
    if not units or rng.random() < 0.7:
        return ()
    return tuple(
        Blocker(
            cls=rng.randrange(classes),
            node=rng.randrange(nodes),
            units=tuple(rng.sample(range(units), min(units, rng.choice((1, 2))))),
        )
        for _ in range(rng.choice((1, 2)))
    )


def _caps(rng: random.Random, classes: int, nodes: int) -> tuple[Cap, ...]:
    if rng.random() < 0.65:
        return ()
    return tuple(
        Cap(
            classes=tuple(sorted(rng.sample(range(classes), rng.randint(1, classes)))),
            domain=array("i", [rng.choice((-1, 0, 0, 1, 2)) for _ in range(nodes)])
            if rng.random() < 0.7
            else array("i", range(nodes)),
            limit=rng.choice((0, 1, 1, 2, 3)),
        )
        for _ in range(rng.choice((1, 1, 2)))
    )


def _spreads(rng: random.Random, classes: int, nodes: int) -> tuple[Spread, ...]:
    """Rules over few domains or over nodes; some count others, or classes they do not bind."""
    if rng.random() < 0.6:
        return ()
    found = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        domains = rng.choice((1, 2, 2, 3))
        domain = array("i", [rng.randrange(-1, domains) for _ in range(nodes)])
        if rng.random() < 0.25:
            domains, domain = nodes, array("i", range(nodes))
        most = tuple(rng.choice((0, 0, 1, 2)) for _ in range(domains))
        every = tuple(range(classes))
        part = tuple(sorted(rng.sample(every, rng.randint(0, classes))))
        found.append(
            Spread(
                bound=every if rng.random() < 0.6 else part,
                counted=every if rng.random() < 0.6 else part[:1],
                domain=domain,
                most=most,
                fewest=most if rng.random() < 0.8 else tuple(m + rng.choice((0, 1)) for m in most),
                max_skew=rng.choice((1, 1, 2)),
                from_zero=rng.random() < 0.15,
            )
        )
    return tuple(found)


def medium(seed: int) -> Problem:
    """A cluster of 10 to 40 nodes of 8 seats: singles, whole gangs, elastic gangs, budgets.

    One class, so that the compiled core takes it. Levels: budget violations,
    then gangs and pods for each of two priorities, then work.
    """
    rng = random.Random(seed)
    nodes = rng.randint(10, 40)
    levels = ("budget", "gangs@2", "pods@2", "gangs@1", "pods@1", "work")
    free = [8] * nodes
    units: list[Unit] = []
    gangs: list[ElasticGang] = []
    budgets = tuple(
        Budget(f"b{i}", rng.randint(0, 3), hard=rng.random() < 0.3)
        for i in range(rng.randint(0, 2))
    )

    def cost(priority: int, pods: int, broken: int, work: int) -> Vector:
        at = 1 if priority == 2 else 3
        vector = [0] * len(levels)
        vector[at], vector[at + 1], vector[5] = broken, pods, work
        return tuple(vector)

    for number in range(rng.randint(2, nodes // 2)):
        priority, size = rng.choice((1, 1, 2)), rng.choice((2, 3, 4, 6))
        seats = rng.choice((1, 2, 4, 8))
        where = [n for n in rng.sample(range(nodes), min(size, nodes)) if free[n] >= seats]
        for n in where:
            free[n] -= seats
        if not where:
            continue
        if rng.random() < 0.7:
            units.append(
                Unit(
                    f"gang-{number}",
                    tuple((n, (seats, seats * 4000)) for n in where),
                    cost(priority, len(where), 1, rng.randint(1, 50) * seats),
                    pods=len(where),
                )
            )
        else:
            surplus = rng.choice((0, 0, 1, 2))
            gangs.append(ElasticGang(surplus, cost(priority, 0, 1, 0)))
            units += [
                Unit(
                    f"elastic-{number}-{n}",
                    ((n, (seats, seats * 4000)),),
                    cost(priority, 1, 0, rng.randint(1, 50) * seats),
                    gang=len(gangs) - 1,
                )
                for n in where
            ]
    for n in range(nodes):
        while free[n] > 0 and rng.random() < 0.85:
            seats = min(free[n], rng.choice((1, 1, 2, 4)))
            free[n] -= seats
            taken: tuple[tuple[int, int], ...] = ()
            if budgets and rng.random() < 0.3:
                taken = ((rng.randrange(len(budgets)), 1),)
            units.append(
                Unit(
                    f"single-{n}-{free[n]}",
                    ((n, (seats, seats * rng.choice((2000, 4000)))),),
                    cost(rng.choice((1, 1, 2)), 1, 0, rng.randint(1, 50) * seats),
                    budgets=taken,
                )
            )
    seats = rng.choice((1, 2, 4, 8))
    count = rng.randint(2, nodes * 8 // seats // 2)
    return Problem(
        resources=("gpu", "cpu"),
        nodes=tuple(f"n{n}" for n in range(nodes)),
        free=(array("q", free), array("q", [f * 4000 for f in free])),
        classes=(
            MemberClass(
                "worker",
                (seats, seats * 4000),
                count,
                bytes(1 if rng.random() < 0.95 else 0 for _ in range(nodes)),
            ),
        ),
        need=count,
        units=tuple(units),
        levels=levels,
        gangs=tuple(gangs),
        budgets=budgets,
    )


def medium_mixed(seed: int) -> Problem:
    """A medium cluster for a leader and workers, or for workers capped or spread over zones."""
    base = medium(seed)
    rng = random.Random(seed)
    nodes = len(base.nodes)
    worker = base.classes[0]
    if seed % 2:
        leader = MemberClass("leader", (0, rng.choice((1000, 4000, 9000))), 1, worker.allowed, 1)
        return replace(base, classes=(leader, worker), need=base.need + 1)
    zones = rng.choice((2, 3, 4))
    domain = array("i", [n % zones for n in range(nodes)])
    if seed % 4 == 2:
        there = tuple(rng.choice((0, 0, 1, 3)) for _ in range(zones))
        skew = rng.choice((1, 1, 2))
        return replace(base, spreads=(Spread((0,), (0,), domain, there, there, skew),))
    limit = worker.count // zones + rng.choice((1, 2))
    return replace(base, caps=(Cap((0,), domain, limit),))


def kinds(seed: int) -> Problem:
    """A medium cluster for members of two or three kinds, all needed: a few that ask for much
    CPU, and several that ask for nearly the same; sometimes one of them on a node."""
    base = medium(seed)
    rng = random.Random(seed)
    worker = base.classes[0]
    gpu, cpu = worker.request
    first = rng.randint(1, 3)
    others = [MemberClass("server", (0, rng.choice((2000, 6000, 12000))), first, worker.allowed)]
    half = 0
    if seed % 2:
        # The exact packing of many members of three kinds takes plain Python seconds.
        half = max(1, min(worker.count // 2, 6 if seed % 4 == 3 else 16))
        others = [MemberClass("other", (gpu, max(500, cpu - 500)), half, worker.allowed)]
        if seed % 4 == 3:
            others.append(MemberClass("more", (gpu, cpu + 500), half, worker.allowed))
    count = half if seed % 4 == 3 else max(1, worker.count // 2)
    classes = (replace(worker, count=count, least=0), *others)
    caps: tuple[Cap, ...] = ()
    if rng.random() < 0.2:
        everyone = tuple(range(len(classes)))
        caps = (Cap(everyone, array("i", range(len(base.nodes))), 1),)
    need = sum(cls.count for cls in classes)
    return replace(base, classes=classes, need=need, caps=caps, fill=False)


def parts(seed: int) -> Problem:
    """A medium cluster for a gang of two or three parts, each with a least of its own, and a quorum
    of fewer than all; pods that hold no room stand in the way of some seats."""
    base = medium(seed)
    rng = random.Random(seed)
    nodes, worker = len(base.nodes), base.classes[0]
    gpu, cpu = worker.request
    classes = []
    for at in range(rng.choice((2, 2, 3))):
        count = rng.randint(1, max(2, worker.count // 3))
        allowed = bytes(1 if rng.random() < 0.8 else 0 for _ in range(nodes))
        request = rng.choice(((0, rng.choice((2000, 9000))), (gpu, cpu), (gpu, cpu + 500 * at)))
        classes.append(MemberClass(f"part-{at}", request, count, allowed, rng.randint(0, count)))
    need = rng.randint(max(1, sum(c.least for c in classes)), sum(c.count for c in classes))
    helpers, blockers = [], []
    for number in range(rng.randint(0, 6)):
        at, level = rng.randrange(nodes), rng.choice((2, 4))
        cost = tuple(int(place == level) for place in range(len(base.levels)))
        blockers.append(Blocker(rng.randrange(len(classes)), at, (len(base.units) + number,)))
        helpers.append(Unit(f"helper-{number}", (), cost))
    return replace(
        base,
        classes=tuple(classes),
        need=need,
        units=(*base.units, *helpers),
        blockers=tuple(blockers),
        fill=False,
    )


def tied(seed: int) -> Problem:
    """4 to 24 nodes whose pods count in many small budgets and in gangs with surplus.

    What is cheap on a node is seldom allowed everywhere: the rules that tie nodes
    together decide. A few whole gangs span nodes; budgets are firm, or counted at
    the first or at the last level but one.
    """
    rng = random.Random(seed)
    nodes = rng.randint(4, 24)
    levels = ("budget", "gangs", "pods", "late", "work")
    budgets = tuple(
        Budget(f"b{i}", rng.randint(0, 3), rng.random() < 0.4, rng.choice((0, 0, 3)))
        for i in range(rng.randint(1, max(2, nodes // 2)))
    )
    gangs = tuple(
        ElasticGang(rng.randint(0, 3), rng.choice(((0, 1, 0, 0, 0), (0, 2, 1, 0, 7))))
        for _ in range(rng.randint(0, 4))
    )
    units: list[Unit] = []
    for n in range(nodes):
        for i in range(rng.randint(2, 6)):
            cpu = rng.choice((1, 1, 2, 3))
            units.append(
                Unit(
                    f"pod-{n}-{i}",
                    ((n, (cpu, rng.choice((1, 2)))),),
                    (0, 0, 1, 0, rng.randint(1, 60)),
                    gang=rng.randrange(len(gangs)) if gangs and rng.random() < 0.3 else -1,
                    budgets=tuple(
                        (b, rng.choice((1, 1, 2)))
                        for b in sorted(rng.sample(range(len(budgets)), rng.choice((0, 1, 1, 2))))
                        if b < len(budgets)
                    )
                    if len(budgets) > 1
                    else ((0, 1),),
                )
            )
    for number in range(rng.choice((0, 0, 1, 3))):
        where = sorted(rng.sample(range(nodes), rng.randint(2, 4)))
        units.append(
            Unit(
                f"gang-{number}",
                tuple((n, (2, 2)) for n in where),
                (0, 1, len(where), 0, rng.randint(1, 90)),
                pods=len(where),
                budgets=((rng.randrange(len(budgets)), len(where)),),
            )
        )
    return Problem(
        resources=("cpu", "memory"),
        nodes=tuple(f"n{n:02}" for n in range(nodes)),
        free=tuple(array("q", [rng.choice((0, 0, 1)) for _ in range(nodes)]) for _ in range(2)),
        classes=(MemberClass("worker", (3, 2), (count := rng.randint(2, nodes)), b"\x01" * nodes),),
        need=count,
        units=tuple(units),
        levels=levels,
        gangs=gangs,
        budgets=budgets,
    )
