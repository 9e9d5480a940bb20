"""The quality benchmark runs in its short form, agrees with its oracles, and writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import report
from bench.inputs import hard
from bench.search import quality
from extender.search.problem.validate import validate


@pytest.mark.oracle
def test_short_form_agrees_with_every_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(report.DOCS.glob("*")) if report.DOCS.exists() else []
    assert quality.main(["--short"]) == 0
    text = capsys.readouterr().out
    for head in ("### Against oracles", "### Trace mix", "### Hard families"):
        assert head in text
    assert (sorted(report.DOCS.glob("*")) if report.DOCS.exists() else []) == before


@pytest.mark.parametrize("name", hard.FAMILIES)
def test_families_are_valid_and_seeded(name: str) -> None:
    family = hard.FAMILIES[name]
    for nodes in (2, 11):
        validate(family(nodes, 1))
        assert family(nodes, 1) == family(nodes, 1)


def test_percentile_and_slope_are_what_they_say() -> None:
    assert report.percentile([3, 1, 2, 4], 0.5) == 2
    assert report.percentile([3, 1, 2, 4], 0.99) == 4
    assert report.slope([(1, 5), (10, 500), (100, 50_000)]) == pytest.approx(2)


def test_a_section_is_replaced_and_its_neighbours_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    report.write_section("a", "one", page)
    report.write_section("b", "two", page)
    report.write_section("a", "three", page)
    text = page.read_text()
    assert "one" not in text
    assert text.index("three") < text.index("two")


def test_a_plot_has_every_line_and_stays_small() -> None:
    svg = report.log_plot("t", "x", "y", {"first": [(1, 1), (10, 7)], "second": [(3, 2)]})
    assert svg.count("<circle") == 3
    assert "first" in svg
    assert "second" in svg
    assert len(svg) < 8_000
