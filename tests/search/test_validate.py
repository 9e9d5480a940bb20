"""Malformed problems are refused with the place of the fault."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from extender.model.errors import InvalidInput
from extender.search.problem import (
    MOST_MEMBERS,
    Blocker,
    Budget,
    Cap,
    ElasticGang,
    Problem,
    Spread,
    Unit,
)
from extender.search.solver import solve
from tests.search.build import cluster, single

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
