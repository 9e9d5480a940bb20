"""The two kinds of patch."""

from __future__ import annotations

from typing import Any

import pytest

from extender.sandbox.api_status import StatusError
from extender.sandbox.patches import merge, strategic


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_as_rfc_7386_lists_it(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


def test_strategic_merge() -> None:
    target = {
        "conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}],
        "finalizers": ["one"],
        "tolerations": [{"key": "x"}],
    }
    patch = {
        "conditions": [
            {"type": "A", "$patch": "delete"},
            {"type": "B", "reason": "R"},
            {"type": "C", "$patch": "delete"},
        ],
        "finalizers": ["two", "one"],
        "tolerations": [{"key": "y"}],
        "$setElementOrder/conditions": [],
    }
    assert strategic(target, patch) == {
        "conditions": [{"type": "B", "status": "True", "reason": "R"}],
        "finalizers": ["one", "two"],
        "tolerations": [{"key": "y"}],
    }
    assert target["finalizers"] == ["one"]
    with pytest.raises(StatusError):
        strategic(target, {"conditions": [{"status": "True"}]})
