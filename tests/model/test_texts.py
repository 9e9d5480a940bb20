"""Numbers of things in words."""

from __future__ import annotations

import pytest

from extender.model.texts import all_of, counted, noun


@pytest.mark.parametrize(
    ("count", "what", "text"),
    [
        (0, "pod", "0 pods"),
        (1, "pod", "1 pod"),
        (2, "pod", "2 pods"),
        (1, "entry", "1 entry"),
        (2, "entry", "2 entries"),
        (3, "try", "3 tries"),
    ],
)
def test_a_number_and_its_noun(count: int, what: str, text: str) -> None:
    assert counted(count, what) == text
    assert f"{count} {noun(count, what)}" == text


def test_with_a_verb() -> None:
    assert [counted(count, "pod", "goes", "go") for count in (0, 1, 2)] == [
        "0 pods go",
        "1 pod goes",
        "2 pods go",
    ]
    assert all_of(1, "member", "has", "have") == "the 1 member has"
    assert all_of(4, "member", "has", "have") == "all 4 members have"
