"""A rule that is new in Problem is asked of no solver that has not been told of it."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest
from msgspec import Struct
from msgspec.structs import replace

from extender.search.core import one_class
from extender.search.highs import rows
from extender.search.kinds import alike
from extender.search.problem import (
    Blocker,
    Budget,
    Cap,
    ElasticGang,
    MemberClass,
    Problem,
    Unit,
)
from extender.search.problem.types import RULES
from extender.search.several import leading_class, reductions

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
