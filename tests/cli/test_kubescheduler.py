"""Reading kube-scheduler's flags and durations as kube-scheduler does."""

from __future__ import annotations

import pytest

from extender.check.kubescheduler import parse_gates, seconds
from extender.model.errors import InvalidInput


@pytest.mark.parametrize("text", ["A", "A=", "=true", "A=yes", "A=true=false"])
def test_malformed_gates_are_bad_input(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"g: .* is not NAME=true or NAME=false"):
        parse_gates(text, "g")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5s", 5.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        (".5s", 0.5),
        ("-1s", -1.0),
        ("0", 0.0),
        ("", None),
        ("5", None),
        ("5 s", None),
        ("s", None),
        ("5sx", None),
    ],
)
def test_go_durations(text: str, expected: float | None) -> None:
    assert seconds(text) == expected
