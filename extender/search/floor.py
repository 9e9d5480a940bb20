"""What an answer costs at least, seen in one pass over the nodes: two cheap bounds, level by level.

For a search that ends before it has a bound of its own. A unit that spans nodes pays for its share
of the seats that it opens with others, and units that open seats only together have to meet there.

With g(n) the seats of node n without victims, every answer's units U open ``need - sum g`` seats:

- *Shares.* On node n, j more seats need ``room[j]`` more of one resource, raised to the least sum
  of releases that reaches it. A unit that releases x there has a share of x / min_j(room[j] / j)
  seats, and whichever units open j seats there have shares of j at least. So the answer's shares
  cover the seats: a knapsack, whose linear bound is taken at one price (Lagrange), in integers.
- *Meetings.* Where at least k paying units have to go before a node has another seat, each of them
  accounts for a k-th of its seats, and meets k - 1 others of the answer there. So m units open no
  more than the m best can with the m - 1 others that each meets most.

Each level's bound holds whatever the other levels are, so that together they are a bound of the
cost vector, and what a search has proved of the levels before is kept (``joined``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import accumulate, combinations
from typing import NamedTuple

from msgspec.structs import replace

from extender.search.census import plus, seats_in
from extender.search.problem import Problem, Solution, Vector
from extender.search.problem.stop import Stop

SECONDS = 6e-6
"""For a node, or for what a unit releases on one; half of it more for each level."""
MOST_SECONDS = 0.2
"""What is left out after that are meetings, but for the first level that has a cost."""
SCALE = 1 << 20
"""Shares are whole numbers of this part of a seat, rounded up."""
MOST_SUMS = 64
"""Sums of releases of one node that are looked at."""
MOST_STEPS = 32
"""Seats of one node that are looked at one by one."""
MOST_MEETINGS = 100_000
"""Pairs of units that meet on some node."""


def seconds(problem: Problem) -> float:
    """Return about how long ``floor`` takes, measured with a margin, or how long it may."""
    size = len(problem.nodes) + sum(len(unit.releases) for unit in problem.units)
    return min(MOST_SECONDS, SECONDS * size * (1 + len(problem.levels) / 2))


def raised(problem: Problem, answer: Solution, stop: Stop) -> Solution:
    """Return the answer with the higher bound; as it was where the two contradict each other."""
    bound = joined(answer.bound, floor(problem, stop))
    if bound > answer.cost:
        return answer
    optimal = bound == answer.cost
    return replace(answer, bound=bound, optimal=optimal, cut="" if optimal else answer.cut)


def joined(bound: Vector, least: Vector) -> Vector:
    """Return the higher bound of a lexicographic one and one that holds level by level."""
    found: list[int] = []
    for at, (one, other) in enumerate(zip(bound, least, strict=True)):
        if other > one:
            return (*found, *least[at:])
        found.append(one)
    return tuple(found)


def floor(problem: Problem, stop: Stop) -> Vector:
    """Return (L,) what every answer costs at least at each level. Meetings are left out once
    ``stop`` is over, but for the first level that has a cost."""
    none = (0,) * len(problem.levels)
    if any(amount < 0 for unit in problem.units for amount in unit.cost):
        return none
    request, everywhere = _nodes(problem)
    if problem.domain is None or not problem.domain_required:
        return _least(problem, request, everywhere, stop)
    domains: dict[int, list[_Node]] = {}
    for node in everywhere:
        if problem.domain[node.at] >= 0:
            domains.setdefault(problem.domain[node.at], []).append(node)
    found = [_least(problem, request, nodes, stop) for nodes in domains.values()]
    return tuple(map(min, *found)) if len(found) > 1 else next(iter(found), none)


class _Node(NamedTuple):
    """A node that may seat members; what it has of resources that members ask for."""

    at: int
    seats: int
    """Members that fit without victims, or more."""
    more: int
    """Members that fit besides with all units gone, or more."""
    units: tuple[int, ...]
    """Those that release something there, or that all have to go before anybody may sit there."""
    shares: tuple[int, ...]
    """Of each unit, in SCALE of a seat."""
    free: Vector
    releases: tuple[Vector, ...]
    """Of each unit; () where all of them have to go."""
    most: int


def _nodes(problem: Problem) -> tuple[Vector, list[_Node]]:
    """Return what the least demanding member asks of the resources that all ask for, and the
    nodes."""
    classes = problem.classes
    least = tuple(map(min, zip(*(cls.request for cls in classes), strict=True)))
    asked = [r for r, amount in enumerate(least) if amount > 0]
    request = tuple([least[r] for r in asked])
    most = [_wanted(problem)] * len(problem.nodes)
    for cap in problem.caps:
        if len(set(cap.classes)) == len(classes):
            for n, domain in enumerate(cap.domain):
                if domain >= 0:
                    most[n] = min(most[n], cap.limit)
    units: list[list[int]] = [[] for _ in problem.nodes]
    releases: list[list[Vector]] = [[] for _ in problem.nodes]
    for at, unit in enumerate(problem.units):
        for n, amounts in unit.releases:
            units[n].append(at)
            releases[n].append(tuple([amounts[r] for r in asked]))
    blocked = _blocked(problem)
    known: dict[object, tuple[int, int, tuple[int, ...]]] = {}
    nodes = []
    for n in range(len(problem.nodes)):
        if not any(cls.allowed[n] for cls in classes):
            continue
        free = tuple([problem.free[r][n] for r in asked])
        key = (free, tuple(releases[n]), most[n])
        if key not in known:
            known[key] = _opened(request, *key)
        seats, more, shares = known[key]
        node = _Node(n, seats, more, tuple(units[n]), shares, free, tuple(releases[n]), most[n])
        if n in blocked:
            each = -(-(seats + more) * SCALE // len(blocked[n]))
            shares = (each,) * len(blocked[n])
            node = _Node(n, 0, seats + more, blocked[n], shares, free, (), most[n])
        nodes.append(node)
    return request, nodes


def _wanted(problem: Problem) -> int:
    return max(problem.need, sum(cls.least for cls in problem.classes))


def _blocked(problem: Problem) -> dict[int, tuple[int, ...]]:
    """Node -> units that all have to go before a member of any class may sit there."""
    by_class: dict[int, dict[int, set[int]]] = {}
    for blocker in problem.blockers:
        sets = by_class.setdefault(blocker.node, {})
        sets.setdefault(blocker.cls, set()).update(blocker.units)
    found = {}
    for n, sets in by_class.items():
        able = [cls for cls, rule in enumerate(problem.classes) if rule.allowed[n]]
        common = set.intersection(*(sets.get(cls, set()) for cls in able)) if able else set()
        if common:
            found[n] = tuple(sorted(common))
    return found


def _opened(
    request: Vector, free: Vector, releases: tuple[Vector, ...], most: int
) -> tuple[int, int, tuple[int, ...]]:
    """Return the seats of one node without victims, how many more with all, and the shares."""
    seats = min(most, seats_in(free, request))
    more = max(0, min(most, seats_in(reduce(plus, releases, free), request)) - seats)
    best = (more * SCALE,) * len(releases)
    for r, ask in enumerate(request if more else ()):
        if ask * (seats + 1) <= free[r]:
            continue  # not what the next seat lacks
        amounts = [each[r] for each in releases]
        sums = _sums(amounts) if more <= MOST_STEPS else None
        steps = range(1, more + 1) if sums else (1, more)
        rooms = [ask * (seats + j) - free[r] for j in steps]
        if sums:
            rooms = [sums[bisect_left(sums, room)] for room in rooms]
        # The least room for a seat: that for the first, or that for all of them.
        room, count = min(zip(rooms, steps, strict=True), key=lambda step: step[0] / step[1])
        shares = tuple(
            [min(more * SCALE, -(-amount * count * SCALE // room)) for amount in amounts]
        )
        if sum(shares) < sum(best):
            best = shares
    return seats, more, best


def _sums(amounts: Iterable[int]) -> list[int] | None:
    """Return the sums of some of the amounts, ascending; None where they are too many."""
    found = {0}
    for amount in amounts:
        found |= {each + amount for each in found}
        if len(found) > MOST_SUMS:
            return None
    return sorted(found)


def _least(problem: Problem, request: Vector, nodes: Sequence[_Node], stop: Stop) -> Vector:
    """Return (L,) what seats for all on these nodes cost at least."""
    wanted = _wanted(problem) - sum(node.seats for node in nodes)
    if wanted <= 0:
        return (0,) * len(problem.levels)
    shares: dict[int, int] = {}
    for node in nodes:
        for unit, share in zip(node.units, node.shares, strict=True):
            shares[unit] = shares.get(unit, 0) + share
    known: dict[frozenset[int], int] = {frozenset(): 0}
    found = []
    for level in range(len(problem.levels)):
        costs = {unit: problem.units[unit].cost[level] for unit in shares}
        paying = frozenset(unit for unit, cost in costs.items() if cost)
        if paying not in known:
            late = len(known) > 1 and stop.over()  # the first that has a cost matters most
            known[paying] = 0 if late else _fewest(_wanted(problem), request, nodes, paying)
        cheapest = sorted(costs[unit] for unit in paying)[: known[paying]]
        found.append(max(_by_shares(wanted, costs, shares), sum(cheapest)))
    return tuple(found)


def _by_shares(wanted: int, costs: Mapping[int, int], shares: Mapping[int, int]) -> int:
    """Return the least cost of units with shares of so many seats, in parts or less."""
    left = wanted * SCALE - sum(share for unit, share in shares.items() if not costs[unit])
    items = [(costs[unit], share) for unit, share in shares.items() if costs[unit] and share]
    items.sort(key=lambda item: item[0] / item[1])
    reach = list(accumulate(share for _, share in items))
    if left <= 0 or not items or reach[-1] < left:
        return 0
    # Any price gives a bound: this one is that of the last part that is needed.
    cost, share = items[bisect_left(reach, left)]
    value = cost * left + sum(min(0, each * share - cost * part) for each, part in items)
    return max(0, -(-value // share))


def _fewest(wanted: int, request: Vector, nodes: Sequence[_Node], paying: frozenset[int]) -> int:
    """Return how many of the paying units an answer has at least."""
    alone = dict.fromkeys(paying, 0)
    """Unit -> seats that need no other paying one."""
    joint = dict.fromkeys(paying, 0)
    """Unit -> its part of the seats that need others as well."""
    meetings: dict[int, dict[int, int]] = {unit: {} for unit in paying}
    """Unit -> other unit -> its part of what both are needed for."""
    pairs = 0
    known: dict[object, tuple[int, int, int, list[int]]] = {}
    for node in nodes:
        pays = tuple([unit in paying for unit in node.units])
        key = (node.free, node.releases, node.most, node.seats, node.more, pays)
        if key not in known:
            known[key] = _needed(request, node, pays)
        seats, more, least, places = known[key]
        units = [node.units[at] for at in places]
        wanted -= seats
        if least == 1:
            for unit in units:
                alone[unit] += more * SCALE
        elif more:
            part = -(-more * SCALE // least)
            each = -(-part // (least - 1))
            for unit in units:
                joint[unit] += part
            pairs += len(units) * (len(units) - 1) // 2
            if pairs <= MOST_MEETINGS:
                for one, other in combinations(units, 2):
                    meetings[one][other] = meetings[one].get(other, 0) + each
                    meetings[other][one] = meetings[other].get(one, 0) + each
    if wanted <= 0:
        return 0
    with_others = {
        unit: [0, *accumulate(sorted(meetings[unit].values(), reverse=True))] for unit in paying
    }

    def opens(members: int) -> int:
        """At most so much, with this many paying units."""
        parts = []
        for unit in paying:
            met = with_others[unit]
            most = joint[unit] if pairs > MOST_MEETINGS else met[min(members, len(met)) - 1]
            parts.append(alone[unit] + min(joint[unit], most))
        return sum(sorted(parts, reverse=True)[:members])

    if opens(len(paying)) < wanted * SCALE:
        return 0
    return 1 + bisect_left(range(1, len(paying)), wanted * SCALE, key=opens)


def _needed(
    request: Vector, node: _Node, pays: tuple[bool, ...]
) -> tuple[int, int, int, list[int]]:
    """Return a node's seats with all gone that cost nothing, how many more with all, and of how
    many of which paying units (places among the node's) at least one more seat needs."""
    payers = [at for at, each in enumerate(pays) if each]
    if not node.releases:
        count = node.more if payers else 0
        return node.seats + node.more - count, count, len(payers), payers
    freed = [x for x, each in zip(node.releases, pays, strict=True) if not each]
    free = reduce(plus, freed, node.free)
    seats = min(node.most, seats_in(free, request))
    more = max(0, node.seats + node.more - seats)
    least, places = 0, payers
    for r, ask in enumerate(request if more else ()):
        lacks = ask * (seats + 1) - free[r]
        reach = accumulate(sorted((node.releases[at][r] for at in payers), reverse=True))
        count = 1 + bisect_left(list(reach), lacks)
        if lacks > 0 and count > least:
            least, places = count, [at for at in payers if node.releases[at][r] > 0]
    return seats, more, least, places
