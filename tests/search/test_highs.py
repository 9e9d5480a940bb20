"""What HiGHS adds to the search: nothing that is not so, and nothing where it is missing.

Small problems are held against brute force, larger ones against a program written separately
(oracle_milp.py). HiGHS is asked without, with a poor and with a good answer of the own search.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from extender.gang.plan.planner import Planner
from extender.groups.resolver import Resolver
from extender.search import solver
from extender.search.highs import by_level as highs
from extender.search.highs import package as highs_package
from extender.search.highs.rows import covers
from extender.search.problem import Infeasible, Limits, MemberClass, Problem, Solution, Unit
from extender.search.problem.stop import Countdown, Stop
from extender.search.problem.verify import verify
from extender.settings.settings import Settings
from tests.search.build import COMPILED
from tests.search.gangs import leader_and_workers, three_kinds
from tests.search.generate import kinds, small
from tests.search.oracle_brute import brute, minimal
from tests.search.test_oracles import CASES

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not highs.available(), reason="highspy is not installed"),
]
UNKNOWN = Infeasible(proved=False, reasons=("nobody looked",))


def everyone(seed: int) -> Problem:
    """A small problem in which every member needs a seat, and no rule that HiGHS is not asked."""
    base = small(seed)
    need = sum(cls.count for cls in base.classes)
    return replace(base, need=need, spreads=(), domain=None, domain_required=True, fill=False)


def ask(problem: Problem, found: Solution | Infeasible) -> Solution | Infeasible:
    assert highs.takes(problem)
    return highs.improve(problem, found, time.monotonic() + 600)


def openly(found: Solution | Infeasible) -> Solution | Infeasible:
    """The same answer as if nothing had been proved of it."""
    if isinstance(found, Infeasible):
        return UNKNOWN
    nothing = (0,) * len(found.cost)
    return replace(found, bound=nothing, optimal=found.cost == nothing)


@pytest.mark.parametrize("part", range(4))
def test_claims_hold_by_brute_force(part: int) -> None:
    proved = 0
    for seed in range(part, max(200, CASES // 20), 4):
        problem = everyone(seed)
        least = brute(problem)
        poor = solver.search(problem, Limits(branch_nodes=0))
        for found in (UNKNOWN, openly(poor), openly(solver.search(problem))):
            answer = ask(problem, found)
            told = f"seed {seed}: {answer}, by brute force {least}"
            if isinstance(answer, Infeasible):
                assert least is None or not answer.proved, told
                proved += answer.proved
                continue
            assert verify(problem, answer) == (), told
            assert least is not None, told
            assert answer.bound <= least <= answer.cost, told
            assert not answer.optimal or minimal(problem, answer.chosen, answer.cost), told
            proved += answer.optimal
    assert proved


def contested(seed: int) -> Iterator[Problem]:
    yield leader_and_workers(seed, most_nodes=60)
    yield three_kinds(seed, 40)
    yield kinds(seed)


@pytest.mark.skipif(not COMPILED, reason="the plain search takes minutes")
def test_claims_hold_by_another_program() -> None:
    from tests.search.oracle_milp import milp

    proved = 0
    for seed in range(max(4, CASES // 500)):
        for problem in contested(seed):
            if not highs.takes(problem):
                continue
            least = milp(problem)
            poor = solver.search(problem, Limits(branch_nodes=1), deadline=time.monotonic() - 1)
            answer = ask(problem, openly(poor))
            told = f"seed {seed}: {answer}, by the other program {least}"
            if isinstance(answer, Infeasible):
                assert least is None or not answer.proved, told
                continue
            assert verify(problem, answer) == (), told
            assert least is not None, told
            assert answer.bound <= least <= answer.cost, told
            proved += answer.optimal
    assert proved


def two_nodes(scale: int = 1, cost: int = 1) -> Problem:
    """Two full nodes and a member that takes one of them: the first is cheaper to clear."""
    return Problem(
        resources=("cpu",),
        nodes=("a", "b"),
        free=(array("q", [0, 0]),),
        classes=(MemberClass("one", (2 * scale,), 1, b"\x01\x01"),),
        need=1,
        units=tuple(
            Unit(f"{n}-{i}", ((n, (scale,)),), (1, cost * (2 * n + i)))
            for n in range(2)
            for i in range(2)
        ),
        levels=("pods", "work"),
    )


def test_amounts_of_any_size_give_the_same_answer() -> None:
    for scale in (1, 1000, (1 << 40) + 7, 10**18 - 1):
        for found in (UNKNOWN, openly(solver.search(two_nodes(scale)))):
            answer = ask(two_nodes(scale), found)
            assert isinstance(answer, Solution), f"{scale}"
            assert answer.optimal, f"{scale}"
            assert answer.chosen == (0, 1), f"{scale}"


def test_amounts_that_no_float_tells_apart_prove_nothing_wrong() -> None:
    """The node is one byte short even with the smaller pod gone: rounded, it is not."""
    huge = 1 << 60
    problem = Problem(
        resources=("memory",),
        nodes=("a",),
        free=(array("q", [0]),),
        classes=(MemberClass("one", (huge + 1,), 1, b"\x01"),),
        need=1,
        units=(
            Unit("short", ((0, (huge,)),), (1,)),
            Unit("enough", ((0, (huge + 1,)),), (2,)),
        ),
        levels=("pods",),
    )
    answer = ask(problem, openly(solver.search(problem)))
    assert isinstance(answer, Solution)
    assert answer.cost == (2,)
    assert answer.bound <= (2,)


def test_a_level_beyond_what_floats_hold_is_asked_in_larger_units() -> None:
    """Here of 1,001: what is left between cost and bound is less than one of them."""
    problem = two_nodes(cost=10**9 + 7)
    answer = ask(problem, openly(solver.search(problem)))
    assert isinstance(answer, Solution)
    assert answer.cost == (2, 10**9 + 7)
    assert answer.bound == (2, 10**9 + 1)
    assert not answer.optimal
    assert answer.cut
    whole = ask(two_nodes(cost=10**9), openly(solver.search(two_nodes(cost=10**9))))
    assert isinstance(whole, Solution)
    assert whole.optimal


@pytest.mark.parametrize("word", ["kInfeasible", "kOptimal"])
def test_what_contradicts_an_answer_is_not_believed(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound above an answer that was verified, or "no answer" where there is one."""
    problem = two_nodes()
    found = openly(solver.search(problem))
    package = highs_package.loaded()

    class Liar(package.Highs):  # type: ignore[misc,name-defined]
        def getModelStatus(self) -> object:  # noqa: N802
            return getattr(package.HighsModelStatus, word)

        def getInfo(self) -> object:  # noqa: N802
            return SimpleNamespace(mip_dual_bound=3.0, mip_node_count=1)

    names = {**vars(package), "Highs": Liar}
    monkeypatch.setattr(highs_package, "loaded", lambda: SimpleNamespace(**names))
    assert highs.improve(problem, found, time.monotonic() + 60) == found


def test_without_the_package_the_own_search_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highs_package, "loaded", lambda: None)
    assert not highs.available()
    problem = two_nodes()
    assert not highs.takes(problem)
    answer = solver.solve(problem, deadline=time.monotonic() + 60)
    assert isinstance(answer, Solution)
    assert answer.optimal


@pytest.mark.skipif(not COMPILED, reason="the plain search takes minutes")
def test_it_is_loaded_before_the_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 70 ms, three times what a large plan takes."""
    loads: list[int] = []
    monkeypatch.setattr(highs_package, "loaded", lambda: loads.append(1))
    Planner(Settings(), Resolver(Settings().groups))
    assert loads


def test_a_version_that_calls_its_start_optimal_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = SimpleNamespace(HIGHS_VERSION_MAJOR=1, HIGHS_VERSION_MINOR=16)
    monkeypatch.setattr(highs_package, "import_module", lambda _: made)
    assert highs_package.loaded.__wrapped__() is None
    made.HIGHS_VERSION_MINOR = 15
    assert highs_package.loaded.__wrapped__() is made


def test_it_is_asked_what_the_own_search_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """This one the own search does not prove in minutes."""
    problem = leader_and_workers(15)
    # A share that only the first answers fit in, and time enough for a slow machine.
    monkeypatch.setattr(solver, "OWN_SECONDS", 0.1)
    answer = solver.solve(problem, deadline=time.monotonic() + 120)
    assert isinstance(answer, Solution)
    assert answer.cost == (0, 0, 0, 0, 51, 3229)
    assert answer.optimal


@pytest.mark.skipif(not COMPILED, reason="the plain search takes minutes")
@pytest.mark.parametrize("asks", [0, 3_000, 30_000])
def test_it_makes_no_answer_worse_however_little_was_searched_before(asks: int) -> None:
    """What the own search has, in whatever time, is what HiGHS begins with."""
    for problem in (three_kinds(501), leader_and_workers(3)):
        first = solver.search(problem, cancel=Countdown(asks))
        assert isinstance(first, Solution)
        better = highs.improve(problem, first, time.monotonic() + 0.3)
        assert isinstance(better, Solution)
        assert verify(problem, better) == ()
        assert better.cost <= first.cost
        assert first.bound <= better.bound <= better.cost


def test_the_flag_ends_it_and_what_was_known_stays() -> None:
    problem = leader_and_workers(14)
    found = openly(solver.search(problem, deadline=time.monotonic() - 1))
    flag = array("b", [1])
    answer = highs.improve(problem, found, time.monotonic() + 600, flag)
    assert isinstance(answer, Solution)
    assert isinstance(found, Solution)
    assert answer.cost == found.cost
    assert answer.cut


def test_rules_it_has_no_rows_for_are_not_asked() -> None:
    asked = 0
    for seed in range(300):
        problem = small(seed)
        if problem.spreads or problem.domain is not None:
            assert not covers(problem)
        asked += covers(problem)
    assert asked


def test_a_dearer_answer_takes_no_other_ones_place() -> None:
    dear = solver.search(everyone(0), Limits(branch_nodes=0))
    assert isinstance(dear, Solution)
    before = replace(dear, cost=(3, 1), bound=(0, 0), optimal=False)
    dearer = replace(before, cost=(4, 0))
    assert highs._joined(before, dearer, (4, 0), Stop(None, None, None)) == before
    assert highs._joined(dearer, before, (3, 1), Stop(None, None, None)).optimal
