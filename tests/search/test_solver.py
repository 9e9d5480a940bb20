"""What is asked is checked, by field and by answer, and goes to the right search."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from extender.model.errors import InvalidInput
from extender.search.core import one_class
from extender.search.dispatcher import EXACT, TABLE, backend_for, exact, line_of
from extender.search.highs import rows
from extender.search.kinds import alike
from extender.search.kinds.alike import MOST_KINDS
from extender.search.problem import (
    MOST_MEMBERS,
    Blocker,
    Budget,
    Cap,
    ElasticGang,
    Infeasible,
    MemberClass,
    Problem,
    Solution,
    Spread,
    Unit,
)
from extender.search.problem.types import RULES
from extender.search.seating.patterns import TooWide
from extender.search.several import leading_class, reductions
from extender.search.solver import solve
from tests.search.build import COMPILED, WORK, cluster, single

GATES: dict[str, tuple[Callable[[Problem], bool], frozenset[str]]] = {
    "core": (one_class.takes, one_class.KEPT),
    "highs": (rows.covers, rows.WRITTEN),
    "leading": (leading_class.leads, leading_class.KEPT),
}


def plain(classes: int) -> Problem:
    return Problem(
        resources=("cpu",),
        nodes=("n0", "n1"),
        free=(array("q", [0, 0]),),
        classes=tuple(MemberClass(f"c{i}", (1,), 1, b"\1\1") for i in range(classes)),
        need=classes,
        units=(Unit("u", ((0, (2,)),), (1,)),),
        levels=("pods",),
    )


@pytest.mark.parametrize("gate", GATES)
def test_what_is_listed_is_there(gate: str) -> None:
    _, known = GATES[gate]
    assert known < RULES.keys()


@pytest.mark.parametrize("gate", GATES)
def test_a_rule_that_a_solver_does_not_list_is_not_its(
    gate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played with a field that all of them know, taken from the list."""
    takes, known = GATES[gate]
    problem = plain(1 if gate == "core" else 2)
    ruled = replace(problem, blockers=(Blocker(0, 0, (0,)),))
    assert takes(problem)
    assert takes(ruled)
    module = {"core": one_class, "highs": rows, "leading": leading_class}[gate]
    name = "WRITTEN" if gate == "highs" else "KEPT"
    monkeypatch.setattr(module, name, known - {"blockers"})
    assert takes(problem)
    assert not takes(ruled)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("rule", ["spreads", "domain"])
def test_what_ties_nodes_together(gate: str, rule: str) -> None:
    takes, known = GATES[gate]
    value: object = array("i", [0, 0]) if rule == "domain" else ("a spread",)
    ruled = replace(plain(1 if gate == "core" else 2), **{rule: value})
    assert takes(ruled) is (rule in known)


class Ruled(Problem, frozen=True):
    """A problem with a rule that is new."""

    pairs: tuple[tuple[int, int], ...] = ()


OF_OTHER_CLASSES: dict[str, Callable[[Problem], Problem]] = {
    "alone": lambda problem: reductions.alone(problem, 0, 1),
    "joint": reductions.joint,
    "relaxed": lambda problem: alike.relaxed(problem, [(0, 1), (2,)]),
    "tightened": lambda problem: alike.tightened(problem, [(0, 1), (2,)]),
}


@pytest.mark.parametrize("reduced", OF_OTHER_CLASSES)
def test_a_rule_that_nobody_thought_of_is_not_asked_of_other_classes(reduced: str) -> None:
    """Its indices are of the classes before: it would forbid what it should not, and a bound that
    is too high makes a false proof. What is known is kept."""
    known = {
        "gangs": (ElasticGang(0, (1,)),),
        "budgets": (Budget("b", 1, hard=True),),
        "blockers": (Blocker(0, 0, (0,)), Blocker(1, 0, (0,))),
        "caps": (Cap((0, 1, 2), array("i", [0, 1]), 1),),
    }
    fields = {name: getattr(plain(3), name) for name in Problem.__struct_fields__}
    found = OF_OTHER_CLASSES[reduced](Ruled(**{**fields, **known, "pairs": ((1, 2),)}))
    assert isinstance(found, Ruled)
    assert found.pairs == ()
    assert len(found.classes) < 3
    assert (found.gangs, found.budgets) == (known["gangs"], known["budgets"])
    assert len(found.caps) == 1
    assert found.blockers or reduced == "joint"


READ: dict[type[Struct], str] = {
    MemberClass: "name request count allowed least",
    Unit: "uid releases cost pods gang budgets",
    ElasticGang: "surplus break_cost",
    Budget: "name allowed hard level",
    Blocker: "cls node units",
    Cap: "classes domain limit rule",
}
"""What ``highs/rows.py``, ``core/columns.pyx`` and ``several/reductions.py`` were written for."""


@pytest.mark.parametrize("part", READ)
def test_a_part_of_a_rule_is_known_to_those_who_copy_it(part: type[Struct]) -> None:
    """One more field: say in each of the three what becomes of it, then here."""
    assert set(part.__struct_fields__) == set(READ[part].split())


GOOD = cluster([1, 1], [single("a", 0, 3), single("b", 1, 3)], need=1, cpu=3)
UNIT = GOOD.units[0]
CLASS = GOOD.classes[0]
SPREAD = Spread((0,), (0,), array("i", [0, 1]), (0, 0), (0, 0), 1)


def spread(**changes: object) -> Problem:
    return replace(GOOD, spreads=(replace(SPREAD, **changes),))


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (replace(GOOD, free=()), "free has 0 columns"),
        (replace(GOOD, free=(array("i", [1, 1]),)), "array('q')"),
        (replace(GOOD, free=(array("q", [1]),)), "free[0]"),
        (replace(GOOD, classes=()), "classes is empty"),
        (replace(GOOD, classes=(replace(CLASS, request=()),)), "request"),
        (replace(GOOD, classes=(replace(CLASS, request=(-1,)),)), "negative"),
        (replace(GOOD, classes=(replace(CLASS, allowed=b"\1"),)), "allowed"),
        (replace(GOOD, classes=(replace(CLASS, count=-1),)), "count"),
        (replace(GOOD, classes=(replace(CLASS, least=2),)), "least"),
        (replace(GOOD, need=2), "need is 2"),
        (replace(GOOD, need=-1), "need is -1"),
        (replace(GOOD, units=(UNIT, UNIT)), "occurs twice"),
        (replace(GOOD, units=(replace(UNIT, cost=(1,)),)), "cost"),
        (replace(GOOD, units=(replace(UNIT, cost=(0, 0, -1, 0, 0)),)), "negative"),
        (replace(GOOD, units=(replace(UNIT, gang=0),)), "gang 0"),
        (replace(GOOD, units=(Unit("a", ((5, (1,)),), UNIT.cost),)), "node 5"),
        (replace(GOOD, units=(Unit("a", ((0, (1,)), (0, (1,))), UNIT.cost),)), "twice"),
        (replace(GOOD, units=(Unit("a", ((0, (1, 1)),), UNIT.cost),)), "on node 0"),
        (replace(GOOD, units=(Unit("a", ((0, (-1,)),), UNIT.cost),)), "negative"),
        (replace(GOOD, units=(replace(UNIT, budgets=((0, 1),)),)), "budget 0"),
        (
            replace(
                GOOD,
                units=(replace(UNIT, budgets=((0, 0),)),),
                budgets=(Budget("b", 1, hard=True),),
            ),
            "takes 0 pods",
        ),
        (
            replace(
                GOOD,
                units=(replace(UNIT, budgets=((0, 1), (0, 1))),),
                budgets=(Budget("b", 1, hard=True),),
            ),
            "twice",
        ),
        (replace(GOOD, gangs=(ElasticGang(0, (1,)),)), "break_cost"),
        (spread(bound=(1,)), "class 1"),
        (spread(counted=(-1,)), "class -1"),
        (spread(domain=array("i", [0])), "spreads[0].domain"),
        (spread(domain=array("i", [0, 2])), "domain 2 of 2"),
        (spread(fewest=(0,)), "spreads[0].fewest"),
        (spread(most=(0, -1)), "negative"),
        (spread(max_skew=0), "max_skew"),
        (replace(GOOD, gangs=(ElasticGang(-1, (0,) * 5),)), "surplus"),
        (replace(GOOD, budgets=(Budget("b", 1, hard=False, level=9),)), "level 9"),
        (replace(GOOD, budgets=(Budget("b", -1, hard=True),)), "allowed"),
        (replace(GOOD, blockers=(Blocker(1, 0, ()),)), "no class"),
        (replace(GOOD, blockers=(Blocker(0, 9, ()),)), "no node"),
        (replace(GOOD, blockers=(Blocker(0, 0, (7,)),)), "unit 7"),
        (replace(GOOD, caps=(Cap((3,), array("i", [0, 0]), 1),)), "class 3"),
        (replace(GOOD, caps=(Cap((0,), array("i", [0]), 1),)), "domain"),
        (replace(GOOD, caps=(Cap((0,), array("i", [0, 0]), -1),)), "limit"),
        (replace(GOOD, domain=array("i", [0])), "domain"),
        (replace(GOOD, domain=array("i", [0, 0]), domain_required=False), "domain_level"),
        (replace(GOOD, classes=(replace(CLASS, count=1 + MOST_MEMBERS),)), "members"),
    ],
)
def test_the_message_names_the_place(problem: Problem, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        solve(problem)
    assert words in str(caught.value)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "search-solvers.md"


def with_classes(count: int) -> Problem:
    """A gang of so many classes, one member each, on as many empty nodes."""
    one = cluster([4] * count, [], need=1, cpu=3)
    classes = tuple(replace(one.classes[0], name=f"class{c}", count=1) for c in range(count))
    return replace(one, classes=classes, need=count)


def test_whom_the_table_names_is_in_it() -> None:
    names = [line.name for line in TABLE]
    assert len(names) == len(set(names))
    for line in TABLE:
        assert {*line.otherwise.values(), line.in_doubt} <= {*names, ""}


@pytest.mark.skipif(not COMPILED, reason="the core is not built")
def test_a_kind_of_problem_goes_to_its_solver() -> None:
    assert line_of(with_classes(1)).name == "compiled"
    assert line_of(with_classes(2)).name == "mixed"
    assert line_of(with_classes(MOST_KINDS + 1)).name == "alike"
    assert backend_for(with_classes(MOST_KINDS + 1)) == "mixed"


@pytest.mark.skipif(not COMPILED, reason="the core is not built")
def test_the_page_shows_the_table() -> None:
    section = PAGE.read_text().split("### Who answers what")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", section, re.M)
    assert rows == [(line.name, line.why) for line in TABLE]


def test_what_is_too_wide_goes_on_as_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the line that the table names, or to the caller where that line is not asked."""
    problem = with_classes(2)
    asked: list[str] = []

    def wide(*_: object, **__: object) -> Solution | Infeasible:
        asked.append("wide")
        raise TooWide

    lines = tuple(replace(line, solve=wide) for line in EXACT)
    monkeypatch.setattr("extender.search.dispatcher.EXACT", lines)
    with pytest.raises(TooWide):
        exact(problem, WORK)
    assert asked == ["wide"]
