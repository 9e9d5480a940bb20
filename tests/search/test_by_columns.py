"""HiGHS over the nodes' sets of units: what is told holds, by brute force and by other programs."""

from __future__ import annotations

import random
import time
from array import array
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from extender.search import solver
from extender.search.highs import (
    available,
    by_columns,
    by_level,
    column_relaxation,
    column_rows,
    package,
)
from extender.search.highs.column_relaxation import proved
from extender.search.problem import (
    Budget,
    ElasticGang,
    Infeasible,
    Limits,
    MemberClass,
    Problem,
    Solution,
    Unit,
    Vector,
)
from extender.search.problem.stop import Countdown, Stop
from extender.search.problem.verify import verify
from tests.search.build import COMPILED
from tests.search.gangs import leader_and_workers, three_kinds
from tests.search.oracle_brute import brute, minimal
from tests.search.test_highs import contested, everyone, openly, two_nodes
from tests.search.test_oracles import CASES

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not available() or not COMPILED, reason="needs highspy and the core"),
]


def ask(problem: Problem, found: Solution, seconds: float = 600.0) -> Solution | None:
    """The answer with what is told of it; None where nothing is."""
    assert column_rows.covers(problem)
    sets = solver._node_sets(problem)
    assert sets is not None
    stop = Stop(None, time.monotonic() + seconds, None)
    told = by_columns.improve(problem, found, (), sets, stop)
    if told is None:
        return None
    answer, bound = told
    return replace(answer, bound=bound, optimal=bound == answer.cost)


@pytest.mark.parametrize("part", range(4))
def test_claims_hold_by_brute_force(part: int) -> None:
    closed = reached = 0
    for seed in range(part, max(200, CASES // 10), 4):
        problem = everyone(seed)
        if not column_rows.covers(problem):
            continue
        least = brute(problem)
        poor = solver.search(problem, Limits(branch_nodes=0))
        for found in (openly(poor), openly(solver.search(problem))):
            if isinstance(found, Infeasible):
                continue
            answer = ask(problem, found)
            told = f"seed {seed}: {answer}, by brute force {least}"
            assert least is not None, told
            if answer is None:  # nobody to seat
                assert not found.seats, told
                continue
            assert verify(problem, answer) == (), told
            assert answer.bound <= least <= answer.cost <= found.cost, told
            assert not answer.optimal or minimal(problem, answer.chosen, answer.cost), told
            closed += answer.optimal
            reached += 1
    assert closed == reached > 20


def test_claims_hold_by_another_program() -> None:
    from tests.search.oracle_milp import milp

    closed = 0
    for seed in range(max(3, CASES // 500)):
        for problem in contested(seed):
            if not highs_takes(problem):
                continue
            least = milp(problem)
            poor = solver.search(problem, Limits(branch_nodes=1), deadline=time.monotonic() - 1)
            if isinstance(poor, Infeasible):
                continue
            answer = ask(problem, openly(poor))  # type: ignore[arg-type]
            told = f"seed {seed}: {answer}, by the other program {least}"
            assert answer is not None, told
            assert least is not None, told
            assert verify(problem, answer) == (), told
            assert answer.bound <= least <= answer.cost, told
            closed += answer.optimal
    assert closed


def highs_takes(problem: Problem) -> bool:
    return by_level.takes(problem) and column_rows.covers(problem)


def program_of(problem: Problem) -> column_rows.ColumnProgram:
    """With nothing left out."""
    sets = solver._node_sets(problem)
    assert sets is not None
    dear = (1 << 40,) * len(problem.levels)
    program = column_rows.ColumnProgram(problem, sets, dear, (), lambda: False)
    assert program.complete
    return program


def test_any_prices_give_a_bound_and_fix_no_better_answer() -> None:
    """Of each point of a small program: it costs the floor, and the rise of all that it moves."""
    import numpy as np

    looked = 0
    for seed in range(300):
        problem = everyone(seed)
        if not column_rows.covers(problem) or not problem.units:
            continue
        program = program_of(problem)
        if not 2 <= program.variables <= 10 or (program.high > 1).any():
            continue
        rng = random.Random(seed)
        cost = program.cost[0]
        held = [(program.cost[-1], 2)]
        for scale in (0.0, 1.0, 1e3, 1e9):
            prices = np.array([rng.uniform(-scale, scale) for _ in range(len(program.row_low) + 1)])
            floor = proved(program, held, cost, prices)
            if floor is None:
                continue
            ends = np.where(floor.rise < 0, program.high, program.low)
            for values in map(np.array, product((0, 1), repeat=program.variables)):
                sums = np.zeros(len(program.row_low), dtype=np.int64)
                np.add.at(
                    sums, program.entry_row, program.entry_value * values[program.entry_column]
                )
                if (sums < program.row_low).any() or (sums > program.row_high).any():
                    continue
                if int(held[0][0] @ values) > held[0][1]:
                    continue
                moved = floor.least + int((np.abs(floor.rise) * (values != ends)).sum())
                assert moved <= int(cost @ values) << floor.bits, f"seed {seed}"
                looked += 1
    assert looked > 1000


@pytest.mark.parametrize("word", ["kInfeasible", "kOptimal"])
def test_what_highs_says_wrongly_is_not_believed(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound above the optimum, or "no answer" where there is one."""
    problem = leader_and_workers(3, most_nodes=60)
    poor = openly(solver.search(problem, Limits(branch_nodes=0)))
    assert isinstance(poor, Solution)
    true = ask(problem, poor)
    assert true is not None
    assert true.optimal
    highspy = package.loaded()

    class Liar(highspy.Highs):  # type: ignore[misc,name-defined]
        def getModelStatus(self) -> object:  # noqa: N802
            return getattr(highspy.HighsModelStatus, word)

        def getInfo(self) -> object:  # noqa: N802
            return SimpleNamespace(mip_dual_bound=1e7, mip_node_count=1)

    names = {**vars(highspy), "Highs": Liar}
    monkeypatch.setattr(package, "loaded", lambda: SimpleNamespace(**names))
    answer = ask(problem, poor)
    assert answer is None or answer.bound <= true.cost <= answer.cost


def test_one_class_and_amounts_of_any_size_are_asked_too() -> None:
    for scale in (1, 1000, (1 << 40) + 7):
        answer = ask(two_nodes(scale), openly(solver.search(two_nodes(scale))))  # type: ignore[arg-type]
        assert answer is not None
        assert answer.optimal
        assert answer.chosen == (0, 1)


@pytest.mark.parametrize(
    ("seed", "cost"),
    [
        (54, (0, 0, 0, 0, 65, 2907)),
        (152, (0, 0, 151, 23, 429, 27525)),
        (700056, (0, 0, 0, 0, 301, 18007)),
        (900017, (0, 0, 0, 0, 161, 9107)),
        (900323, (0, 0, 0, 0, 134, 7746)),
        (900004, (0, 0, 0, 0, 35, 1153)),
        (900310, (0, 0, 0, 0, 71, 3376)),
    ],
)
def test_hard_gangs_are_proved_in_a_few_programs(
    seed: int, cost: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a second did not suffice for; the last costs are HiGHS' own, without end. Asked
    for whole numbers a few times, of few variables each."""
    problem = leader_and_workers(seed)
    first = solver.search(problem, cancel=Countdown(0))
    assert isinstance(first, Solution)
    asked: list[int] = []
    among = by_columns.ByColumns._among

    def counted(self: by_columns.ByColumns, inside: Any, *other: Any, **more: Any) -> int | None:
        asked.append(int(inside.sum()))
        return among(self, inside, *other, **more)

    monkeypatch.setattr(by_columns.ByColumns, "_among", counted)
    answer = ask(problem, openly(first))  # type: ignore[arg-type]
    assert answer is not None
    assert answer.cost == cost
    assert answer.optimal
    assert len(asked) <= 16
    assert max(asked) <= by_columns.MOST_WHOLE


def test_an_answer_that_a_program_has_not_is_no_point_of_it() -> None:
    """One that loses something at levels where a program's answers lose nothing: units of its own
    may be left, and more of them than the program lets a gang lose."""
    import numpy as np

    points = others = 0
    for problem in [leader_and_workers(seed, most_nodes=60) for seed in range(40)]:
        poor = solver.search(problem, Limits(branch_nodes=0), cancel=Countdown(0))
        sets = solver._node_sets(problem)
        assert sets is not None
        if isinstance(poor, Infeasible) or not column_rows.covers(problem):
            continue
        for end in range(1, len(problem.levels)):
            nothing = list(range(end))
            program = column_rows.ColumnProgram(problem, sets, poor.cost, nothing, lambda: False)
            assert program.complete
            point = program.point(poor) if program.columns else None
            if point is None:
                others += 1
                continue
            sums = np.zeros(len(program.row_low), dtype=np.int64)
            np.add.at(sums, program.entry_row, program.entry_value * point[program.entry_column])
            assert (sums >= program.row_low).all()
            assert (sums <= program.row_high).all()
            points += 1
    assert points > 10
    assert others > 10


def test_an_answer_before_that_becomes_dearer_with_nothing_lost_is_no_point() -> None:
    """Its first level is proved and costs something; without loss at the second one the same
    seats cost more there. The dearer one was told, as proved."""
    units = (
        Unit("whole", ((0, (2,)),), (3, 1, 0)),
        Unit("half", ((0, (1,)),), (2, 0, 0)),
        Unit("other half", ((0, (1,)),), (2, 0, 0)),
    )
    worker = MemberClass("worker", (1,), 2, b"\1", 2)
    problem = Problem(
        ("cpu",), ("n",), (array("q", [0]),), (worker,), 2, units, ("first", "second", "third")
    )
    before = Solution(((0, 0, 2),), (0,), (3, 1, 0), (3, 0, 0), optimal=False)
    assert verify(problem, before) == ()
    sets = solver._node_sets(problem)
    assert sets is not None
    told = by_columns.improve(problem, before, (3,), sets, Stop())
    assert told is not None
    assert told[0].cost == brute(problem) == (3, 1, 0)
    assert told[1] <= (3, 1, 0)


def test_a_budget_of_pods_that_no_better_answer_takes_is_an_empty_row() -> None:
    """Of a gang that may not be broken; the solver raised an IndexError."""
    units = (
        Unit("pod", ((0, (1,)),), (0, 1, 0), gang=0, budgets=((0, 2),)),
        Unit("dear", ((1, (1,)),), (0, 2, 0)),
        Unit("cheap", ((2, (1,)),), (0, 1, 0)),
    )
    problem = Problem(
        ("cpu",),
        tuple("abc"),
        (array("q", [0] * 3),),
        (MemberClass("worker", (1,), 1, b"\1\1\1", 1),),
        1,
        units,
        ("gangs", "pods", "work"),
        gangs=(ElasticGang(0, (1, 0, 0)),),
        budgets=(Budget("guard", 1, hard=True),),
    )
    before = Solution(((0, 1, 1),), (1,), (0, 2, 0), (0, 0, 0), optimal=False)
    answer = ask(problem, before)
    assert answer is not None
    assert answer.optimal
    assert answer.cost == brute(problem) == (0, 1, 0)


def test_a_better_point_takes_no_better_answer_away() -> None:
    """Of a point that takes more than its seats need the rest is put back; one that costs less as
    a point may be the dearer answer then."""
    import numpy as np

    units = tuple(Unit(str(n), ((n, (1,)),), (cost,)) for n, cost in enumerate((4, 5, 1, 9)))
    worker = MemberClass("worker", (1,), 1, b"\1" * 4, 1)
    free = array("q", [0] * 4)
    problem = Problem(("cpu",), tuple("abcd"), (free,), (worker,), 1, units, ("level",))
    before = Solution(((0, 3, 1),), (3,), (9,), (0,), optimal=False)
    sets = solver._node_sets(problem)
    assert sets is not None
    program = column_rows.ColumnProgram(problem, sets, (9,), (), lambda: False, range(4))
    assert program.node.tolist() == [0, 1, 2, 3]
    search = by_columns.ByColumns(program, before, (), Stop())
    search._take(np.array([1, 0, 1, 0]))
    assert search.best.cost == (4,)
    search._take(np.array([0, 1, 0, 0]))
    assert search.best.cost == (4,)
    assert search.point.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("problem", "cost"),
    [
        (three_kinds(4, 60), (0, 0, 0, 2, 39, 2188)),
        (three_kinds(31, 60), (0, 0, 0, 0, 44, 1972)),
        (three_kinds(43, 60), (0, 0, 0, 0, 68, 2569)),
        (leader_and_workers(50, most_nodes=60), (0, 0, 3, 8, 99, 3579)),
    ],
)
def test_few_columns_that_hold_no_point_bring_in_those_that_do(
    problem: Problem, cost: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an answer is looked for that loses nothing at levels where the one before does."""
    monkeypatch.setattr(column_relaxation, "MANY", 2)
    found: list[bool] = []
    begin = by_columns.ByColumns.begin

    def told(self: by_columns.ByColumns) -> bool:
        without = self.point is None
        begun = begin(self)
        if without:
            found.append(begun)
        return begun

    monkeypatch.setattr(by_columns.ByColumns, "begin", told)
    poor = solver.search(problem, cancel=Countdown(0))
    assert poor.cost > cost  # type: ignore[union-attr]
    answer = ask(problem, openly(poor))  # type: ignore[arg-type]
    assert answer is not None
    assert answer.cost == cost
    assert answer.optimal
    assert found[-1], "the program of the answer before had to do"


def test_a_level_beyond_what_floats_hold_is_asked_in_larger_units() -> None:
    """Work first, as the default order has it, and 10^7 of it for each one of before."""
    base = leader_and_workers(50, most_nodes=60)

    def dear(cost: Vector) -> Vector:
        return (cost[-1] * 10**7, *cost[:-1])

    problem = replace(
        base,
        levels=("work", *base.levels[:-1]),
        units=tuple(replace(unit, cost=dear(unit.cost)) for unit in base.units),
        gangs=tuple(replace(gang, break_cost=dear(gang.break_cost)) for gang in base.gangs),
    )
    answer = ask(problem, openly(solver.search(problem)))  # type: ignore[arg-type]
    assert answer is not None
    assert answer.cost[0] > 10**9
    assert 0.9999 * answer.cost[0] < answer.bound[0] <= answer.cost[0]


@pytest.mark.parametrize(
    ("seed", "cost"),
    [
        (5, (0, 0, 0, 0, 52, 2970)),
        # 4.1, 2.3 and more than 8 s of CPU time before nothing was lost to gangs from the start.
        (900011, (0, 0, 0, 0, 25, 2368)),
        (900000, (0, 0, 0, 0, 13, 768)),
        (900005, (0, 0, 0, 0, 53, 2096)),
        # HiGHS' presolve forgot its time.
        (1, (0, 0, 0, 0, 74, 4552)),
    ],
)
def test_three_kinds_on_3000_nodes_are_asked_and_proved(seed: int, cost: tuple[int, ...]) -> None:
    problem = three_kinds(seed, 3000)
    assert by_level.takes(problem)
    answer = solver.solve(problem, deadline=time.monotonic() + 300)
    assert isinstance(answer, Solution)
    assert answer.cost == cost
    assert answer.optimal
