"""The table that says who answers which kind of problem, and the page that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.search.dispatcher import EXACT, TABLE, backend_for, exact, line_of
from extender.search.kinds.alike import MOST_KINDS
from extender.search.problem import Infeasible, Problem, Solution
from extender.search.seating.patterns import TooWide
from tests.search.build import COMPILED, WORK, cluster

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
