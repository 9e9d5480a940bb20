"""The speed benchmark runs in its short form and tells every dimension."""

from __future__ import annotations

import pytest

from bench.search import features, large, leaders, speed
from extender.gang.plan import answers
from extender.search import solver


def test_short_form_tells_every_dimension(capsys: pytest.CaptureFixture[str]) -> None:
    assert speed.main(["--short"]) == 0
    text = capsys.readouterr().out
    for head in ("### Nodes", "### Pods", "### Gang size", "### Share", "### No", "### Compiled"):
        assert head in text
    assert vars(answers)["solve"] is solver.solve


def test_the_gang_that_is_too_large_is_refused() -> None:
    times = speed.measure(20, 100, 21, 1)
    assert not hasattr(times.answer, "victims")
    assert len(times.wall) == 1


def test_large_asks_every_question_on_every_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert large.main(["--short"]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "of" in line]
    told = [(row[0].strip("| "), row[-1].strip("| ")) for row in rows if len(row) > 5]
    for question in ("again", "another kind", "no"):
        assert [proved for name, proved in told if name == question] == ["3 of 3"] * 4 + [
            "12 of 12"
        ]


def test_every_feature_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert features.main(["--short"]) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(table) == 2 + len(features.NAMES)


def test_a_leader_that_contests_nodes_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert leaders.main(["--print", "--nodes", "60", "--gangs", "6", "--rounds", "2"]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[-1]) for row in rows] == [
        ("6, workers alone", "3 of 3"),
        ("6, with a leader", "3 of 3"),
    ]
