"""Members of many kinds: an answer and a bound in bounded work, whatever sets them apart.

See docs/security.md, row 2.
"""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from extender.search import dispatcher, solver
from extender.search.kinds import alike
from extender.search.problem import (
    Blocker,
    Budget,
    Cap,
    Infeasible,
    MemberClass,
    Problem,
    Solution,
    Spread,
    Unit,
    Vector,
)
from extender.search.problem.stop import Countdown
from extender.search.problem.verify import verify
from extender.search.seating.patterns import TooWide, Ways, maximal, node_pattern
from extender.search.seating.room import Room
from tests.search.build import COMPILED
from tests.search.gangs import three_kinds
from tests.search.generate import small

needs_core = pytest.mark.skipif(not COMPILED, reason="the plain search answers small ones only")
CPU, SEATS = 4000, 110


def cluster(nodes: int, classes: list[Vector], cpu: int = CPU) -> Problem:
    """Full nodes, one pod of 1000m to a core; members of these requests, one of each."""
    every = b"\x01" * nodes
    return Problem(
        resources=("cpu", "pods"),
        nodes=tuple(f"n{n:04}" for n in range(nodes)),
        free=(array("q", [0] * nodes), array("q", [SEATS] * nodes)),
        classes=tuple(
            MemberClass(f"kind{i}", request, 1, every) for i, request in enumerate(classes)
        ),
        need=len(classes),
        units=tuple(
            Unit(f"u{n:04}-{k}", ((n, (1000, 1)),), (1, (7 * n + 3 * k) % 50))
            for n in range(nodes)
            for k in range(cpu // 1000)
        ),
        levels=("pods", "work"),
    )


def distinct(kinds: int = 20) -> list[Vector]:
    """1000m, 1001m and so on: the case that hung the planner for ever."""
    return [(1000 + i, 1) for i in range(kinds)]


def asked_for() -> Problem:
    return cluster(20, distinct(), cpu=32_000)


def two_dimensions() -> Problem:
    base = cluster(30, [(1000 + i, 1 + (i * 7) % 20) for i in range(20)], cpu=32_000)
    return replace(base, free=(base.free[0], array("q", [400] * 30)))


def two_hundred() -> Problem:
    return cluster(120, distinct(200))


def own_nodes() -> Problem:
    """Each kind has nodes of its own, two that overlap with its neighbours'."""
    base = cluster(25, distinct(20))
    masks = [bytes(n in (i, i + 1, i + 5) for n in range(25)) for i in range(20)]
    classes = [replace(cls, allowed=mask) for cls, mask in zip(base.classes, masks, strict=True)]
    return replace(base, classes=tuple(classes))


def own_spreads() -> Problem:
    """Each kind is spread by a rule of its own over three zones."""
    base = cluster(21, [(1000, 1)] * 14)
    zone = array("i", [n % 3 for n in range(21)])
    rules = [
        Spread((i,), tuple(range(i % 3, 14, 3)) or (i,), zone, (0, 1, 0), (0, 1, 0), 1 + i % 3)
        for i in range(14)
    ]
    return replace(base, spreads=tuple(rules))


def many_rules() -> Problem:
    """One kind under twelve spread rules: combinations of levels grow without end."""
    base = cluster(24, [(1000, 1)])
    cls = replace(base.classes[0], count=24)
    rules = [
        Spread(
            (0,), (0,), array("i", [(n // (r + 1)) % 4 for n in range(24)]), (0,) * 4, (0,) * 4, 16
        )
        for r in range(12)
    ]
    return replace(base, classes=(cls,), need=24, spreads=tuple(rules))


def many_ports() -> Problem:
    """Each pair of kinds takes a port of their own: one of them a node."""
    base = cluster(40, distinct(24))
    each = array("i", range(40))
    caps = [Cap((i, j), each, 1) for i in range(24) for j in range(i + 1, 24)]
    return replace(base, caps=tuple(caps))


def many_budgets() -> Problem:
    base = cluster(30, distinct(20))
    budgets = [Budget(f"b{b}", b % 2, hard=b % 3 == 0, level=0) for b in range(200)]
    units = [
        replace(unit, budgets=((i % 200, 1),), cost=(1, *unit.cost[1:]))
        for i, unit in enumerate(base.units)
    ]
    return replace(base, budgets=tuple(budgets), units=tuple(units))


def many_zones() -> Problem:
    """All seats in one of 300 domains that no rule tells apart."""
    base = cluster(600, distinct(6))
    return replace(base, domain=array("i", [n // 2 for n in range(600)]))


def tiny_members() -> Problem:
    """Three kinds of which a node seats dozens: patterns in the thousands on every node."""
    base = cluster(60, [(10, 1), (11, 1), (12, 1)], cpu=32_000)
    classes = [replace(cls, count=90) for cls in base.classes]
    free = (array("q", [n % 7 for n in range(60)]), array("q", [100 + n % 10 for n in range(60)]))
    return replace(base, classes=tuple(classes), need=270, free=free)


CASES: list[Callable[[], Problem]] = [
    asked_for,
    two_dimensions,
    two_hundred,
    own_nodes,
    own_spreads,
    many_rules,
    many_ports,
    many_budgets,
    many_zones,
    tiny_members,
]


@needs_core
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_an_answer_that_holds_with_a_bound(case: Callable[[], Problem]) -> None:
    problem = case()
    answer = solver.solve(problem, deadline=time.monotonic() + 1.0)
    assert isinstance(answer, Solution), answer
    assert verify(problem, answer) == ()
    assert answer.bound <= answer.cost
    assert answer.optimal or answer.cut


@needs_core
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_stopped_at_once_it_comes_back(case: Callable[[], Problem]) -> None:
    """With the flag at 2 not even a first answer is worked for to its end."""
    problem = case()
    answer = solver.solve(problem, deadline=time.monotonic() - 1.0, cancel=array("b", [2]))
    assert isinstance(answer, Solution) or not answer.proved
    if isinstance(answer, Solution):
        assert verify(problem, answer) == ()


@needs_core
def test_without_a_clock_the_work_is_bounded_and_the_answer_the_same() -> None:
    problem = cluster(10, distinct(12))
    first, second = solver.solve(problem), solver.solve(problem)
    assert isinstance(first, Solution)
    assert first == second
    assert verify(problem, first) == ()
    assert 12 < first.cost[0] <= 17
    assert first.bound[0] >= 12
    assert "12 kinds" in first.cut


def test_the_exact_search_is_asked_about_few_kinds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the members are: of many kinds it has no end that anybody would see."""
    asked: list[int] = []
    exact = dispatcher.exact

    def counted(problem: Problem, *more: Any, **others: Any) -> Solution | Infeasible:
        asked.append(len(problem.classes))
        assert asked[-1] <= alike.MOST_KINDS
        return exact(problem, *more, **others)

    monkeypatch.setattr(dispatcher, "exact", counted)
    solver.solve(cluster(10, distinct(12)), cancel=Countdown(20_000))
    assert asked


def test_numbers_too_wide_for_the_core_do_not_make_first_answers_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any tenant may ask for such amounts; the plain search packed three kinds for 23 s beyond
    its second. Work is counted here, not time: how often packing is asked once time is up."""
    problem = three_kinds(0)
    wide = replace(
        problem,
        units=tuple(
            replace(unit, cost=(*unit.cost[:-1], unit.cost[-1] << 62)) for unit in problem.units
        ),
    )
    asked: list[int] = []
    fits = Room.fits

    def counted(room: Room) -> bool:
        if len(room.problem.classes) > 1:
            asked.append(1)
            assert len(asked) < 100
        return fits(room)

    monkeypatch.setattr(Room, "fits", counted)
    answer = solver.solve(wide, deadline=time.monotonic() - 1.0)
    assert isinstance(answer, Solution)
    assert verify(wide, answer) == ()


def test_what_cannot_fit_is_refused_with_proof() -> None:
    answer = solver.solve(cluster(5, distinct(21)))
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert "21 kinds" in answer.reasons[0]


def test_where_nobody_has_to_go_nobody_goes() -> None:
    base = cluster(20, distinct())
    free = (array("q", [CPU] * 20), base.free[1])
    answer = solver.solve(replace(base, free=free))
    assert isinstance(answer, Solution)
    assert answer.optimal
    assert answer.chosen == ()


def test_kinds_taken_together_bound_the_exact_answer() -> None:
    """On problems that the exact search settles: the bound holds, and so does the answer."""
    answered = 0
    for seed in range(80):
        problem = small(seed)
        if len(problem.classes) < 2:
            continue
        exact = solver.solve(problem)
        about = alike.solve(problem, dispatcher.exact)
        if isinstance(exact, Infeasible):
            assert not isinstance(about, Solution) or not exact.proved, f"seed {seed}"
            continue
        if isinstance(about, Infeasible):
            assert not about.proved, f"seed {seed}: {about.reasons}"
            continue
        answered += 1
        assert verify(problem, about) == (), f"seed {seed}"
        if exact.optimal:
            assert about.bound <= exact.cost <= about.cost, f"seed {seed}"
    assert answered > 10


# -- patterns ------------------------------------------------------------------------------


def test_patterns_are_the_maximal_vectors() -> None:
    rng = random.Random(1)
    for _ in range(200):
        classes, resources = rng.randint(1, 4), rng.randint(1, 3)
        room = [rng.randint(-2, 9) for _ in range(resources)]
        requests = [[rng.randint(0, 3) for _ in range(resources)] for _ in range(classes)]
        most = [rng.randint(0, 3) for _ in range(classes)]
        limits = [
            (frozenset(rng.sample(range(classes), rng.randint(1, classes))), rng.randint(0, 3))
        ]
        limits = limits[: rng.randint(0, 1)]
        assert node_pattern(room, requests, most, limits) == _every(room, requests, most, limits)


def _every(
    room: list[int],
    requests: list[list[int]],
    most: list[int],
    limits: list[tuple[frozenset[int], int]],
) -> tuple[tuple[int, ...], ...]:
    vectors: list[tuple[int, ...]] = [()]
    for members in most:
        vectors = [(*v, k) for v in vectors for k in range(members + 1)]
    fit = [
        v
        for v in vectors
        if all(sum(v[c] for c in some) <= limit for some, limit in limits)
        and all(
            not any(k and ask[r] for k, ask in zip(v, requests, strict=True))
            or sum(k * ask[r] for k, ask in zip(v, requests, strict=True)) <= have
            for r, have in enumerate(room)
        )
    ]
    return maximal(fit)


def test_patterns_without_end_are_given_up_after_so_much_work() -> None:
    ways = Ways(total=10_000, most=500)
    with pytest.raises(TooWide):
        node_pattern([32_000], [[1000 + i] for i in range(40)], [1] * 40, [], ways)


def test_groups_of_the_nearest() -> None:
    problem = cluster(3, [(1000, 1), (1001, 1), (2000, 1), (2001, 1), (4000, 1)])
    assert alike.grouped(problem, 1) == [(0, 1, 2, 3, 4)]
    assert alike.grouped(problem, 3) == [(0, 1), (2, 3), (4,)]
    assert alike.grouped(problem, 9) == [(0,), (1,), (2,), (3,), (4,)]


def test_blockers_of_a_group_are_those_of_all_or_of_each() -> None:
    base = cluster(3, [(1000, 1), (1001, 1)])
    problem = replace(base, blockers=(Blocker(0, 1, (4, 5)), Blocker(1, 1, (5, 6))))
    assert alike.relaxed(problem, [(0, 1)]).blockers == (Blocker(0, 1, (5,)),)
    assert alike.tightened(problem, [(0, 1)]).blockers == (Blocker(0, 1, (4, 5, 6)),)
