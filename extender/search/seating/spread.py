"""Topology spread as bands: at least so many, at most so many members in each domain.

What a spread rule allows depends on the count of the emptiest domain. Say that no
domain is emptier than m: then each domain holds at least m, and a domain with a
bound member at most m + max_skew. Each of these statements is a pair of limits per
domain, and the placements that the rule allows are those allowed for some m. Few
values of m matter: none below the count that is there already, none that the
members cannot reach, and none above the first at which no limit binds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import islice, product

from msgspec import Struct
from msgspec.structs import replace

from extender.search.problem import Cap, Problem, Spread

MOST_CASES = 256
"""Combinations of levels, one of each rule, that are looked at,"""
MOST_BANDS = 200_000
"""and with many domains so many limits at most."""


class Band(Struct, frozen=True):
    """What one rule says about one domain."""

    bound: frozenset[int]
    counted: frozenset[int]
    low: int
    """At least this many members of the counted classes sit in the domain,"""
    high: int
    """and no bound member does while there are more than this."""

    def __contains__(self, vector: object) -> bool:
        """Whether (C,) members in the domain keep the upper limit."""
        assert isinstance(vector, tuple)
        return not any(vector[c] for c in self.bound) or self.count(vector) <= self.high

    def count(self, vector: Sequence[int]) -> int:
        """How many of the members count."""
        return sum(vector[c] for c in self.counted)


BandCase = Mapping[tuple[int, int], Band]
"""(spread, domain) -> its band."""


def reach(problem: Problem, rule: Spread, region: Sequence[int], classes: set[int]) -> list[int]:
    """(D,) members of these classes that could sit in each domain, were there room."""
    seen: list[set[int]] = [set() for _ in rule.most]
    for n in region:
        domain = rule.domain[n]
        if domain >= 0:
            seen[domain] |= {c for c in classes if problem.classes[c].allowed[n]}
    return [sum(problem.classes[c].count for c in inside) for inside in seen]


def levels(problem: Problem, rule: Spread, region: Sequence[int]) -> range:
    """The counts of the emptiest domain that may be assumed, before room is looked at."""
    if rule.from_zero or not rule.most:
        return range(1)
    counted = set(rule.counted)
    start = min(rule.fewest)
    within = reach(problem, rule, region, counted)
    top = min(a + b for a, b in zip(rule.fewest, within, strict=True))
    total = sum(problem.classes[c].count for c in counted)
    if top > start:  # the highest to which the members fill every domain
        asked = range(start, top + 1)
        fills = bisect_right(asked, total, key=lambda level: _lacking(rule, level))
        top = asked[max(0, fills - 1)]
    # Nothing binds from here on: a higher count only asks for more.
    loose = max(a + b for a, b in zip(rule.most, within, strict=True)) - rule.max_skew
    return range(start, max(start, min(top, loose)) + 1)


def _lacking(rule: Spread, level: int) -> int:
    """Members that the domains need until none has fewer than ``level``."""
    return sum(max(0, level - have) for have in rule.fewest)


def _promising(
    problem: Problem, rule: Spread, region: Sequence[int], steps: Sequence[int]
) -> list[int]:
    """The levels whose limits leave seats enough, were there room on every node."""
    both = set(rule.bound) & set(rule.counted)
    for n in region:
        if rule.domain[n] < 0 and any(problem.classes[c].allowed[n] for c in both):
            return list(steps)
    within = reach(problem, rule, region, both)
    others = sum(cls.count for c, cls in enumerate(problem.classes) if c not in both)
    wanted = max(problem.need, sum(cls.least for cls in problem.classes))

    def seats(level: int) -> int:
        return sum(
            min(members, max(0, level + rule.max_skew - have))
            for members, have in zip(within, rule.most, strict=True)
        )

    return [level for level in steps if seats(level) + others >= wanted]


def bands(rule: Spread, level: int) -> list[Band]:
    """(D,) the limits when no domain is emptier than ``level``."""
    bound, counted = frozenset(rule.bound), frozenset(rule.counted)
    return [
        Band(
            bound,
            counted,
            0 if rule.from_zero else max(0, level - few),
            level + rule.max_skew - many,
        )
        for few, many in zip(rule.fewest, rule.most, strict=True)
    ]


def cases(problem: Problem, region: Sequence[int]) -> list[BandCase]:
    """Combinations of limits under which members in the region keep all spread rules.

    The fullest level first: its upper limits leave most room. Every combination, unless
    they are more than ``most_cases``: then one more than that.
    """
    choices = [
        [
            bands(rule, level)
            for level in _promising(problem, rule, region, levels(problem, rule, region)[::-1])
        ]
        for rule in problem.spreads
    ]
    return [
        {
            (index, domain): band
            for index, limits in enumerate(combination)
            for domain, band in enumerate(limits)
        }
        for combination in islice(product(*choices), most_cases(problem) + 1)
    ]


def most_cases(problem: Problem) -> int:
    """How many combinations of limits are looked at."""
    domains = sum(len(rule.most) for rule in problem.spreads)
    return min(MOST_CASES, max(4, MOST_BANDS // max(1, domains)))


def splits(
    problem: Problem, index: int, cls: int, every: Sequence[BandCase]
) -> list[dict[int, tuple[int, int]]]:
    """What the bands of one rule say about one class, whatever the others do.

    One entry for each level: domain -> (least, most) members of the class.
    """
    rule = problem.spreads[index]
    count = problem.classes[cls].count
    others = sum(problem.classes[c].count for c in set(rule.counted) - {cls})
    found: list[dict[int, tuple[int, int]]] = []
    looked: set[int] = set()
    for case in every:
        # Cases of one level share its bands (``cases``): most say what another one said.
        if rule.most and id(case[index, 0]) in looked:
            continue
        looked.add(id(case.get((index, 0))))
        split = {}
        for domain in range(len(rule.most)):
            band = case[index, domain]
            low = max(0, band.low - others) if cls in band.counted else 0
            high = count
            if cls in band.bound:
                high = max(0, band.high) if cls in band.counted else count * (band.high >= 0)
            split[domain] = (low, high)
        if split not in found:
            found.append(split)
    return found


def settled(problem: Problem) -> Problem:
    """The same problem with every spread rule that is only an upper limit said as caps.

    That is so when no member can raise the emptiest domain's count (there are more
    domains than members, or minDomains makes it 0) and nobody is counted whom
    the rule does not bind.
    """
    if not problem.spreads:
        return problem
    every = range(len(problem.nodes))
    kept: list[Spread] = []
    caps = list(problem.caps)
    allowed = [bytearray(cls.allowed) for cls in problem.classes]
    for rule in problem.spreads:
        steps = levels(problem, rule, every)
        within = reach(problem, rule, every, set(rule.counted))
        highs = [band.high for band in bands(rule, steps[0])]
        tight = [d for d, high in enumerate(highs) if high < within[d] or high < 0]
        if not tight:
            continue
        if len(steps) > 1 or not set(rule.counted) <= set(rule.bound):
            kept.append(rule)
            continue
        for n, domain in enumerate(rule.domain):
            if domain >= 0 and highs[domain] < 0:
                for c in rule.bound:
                    allowed[c][n] = 0
        for limit in sorted({highs[d] for d in tight if highs[d] >= 0}):
            mine = (d if d >= 0 and highs[d] == limit else -1 for d in rule.domain)
            counted = tuple(sorted(set(rule.counted)))
            caps.append(Cap(counted, array("i", mine), limit, "topology spread"))
    return replace(
        problem,
        classes=tuple(
            replace(cls, allowed=bytes(mask))
            for cls, mask in zip(problem.classes, allowed, strict=True)
        ),
        caps=tuple(caps),
        spreads=tuple(kept),
    )
