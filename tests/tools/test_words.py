"""The documentation stays within its budget of words, group by group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs import links, words


def test_the_pages_are_within_the_budget() -> None:
    assert list(words.problems(words.counted(words.grouped()))) == []


def test_every_page_is_in_one_group() -> None:
    pages = [page for group in words.grouped().values() for page in group]
    assert len(pages) == len(set(pages))
    there = {str(path.relative_to(links.ROOT).with_suffix("")) for path in docs()}
    assert there - set(pages) == set()


def docs() -> list[Path]:
    return list((links.ROOT / "docs").rglob("*.md"))


def told(use: int, change: int = 0, reference: int = 0, first: int = 0) -> list[str]:
    pages = {"README": first, "docs/a": use, "docs/reference/b": reference}
    return list(
        words.problems({"Use": pages, "Operate": {}, "Understand": {}, "Change": {"c": change}})
    )


def test_too_many_words_are_an_error() -> None:
    assert told(words.BUDGET) == []
    assert told(words.BUDGET + 1) == [
        "45,001 words in Use, Operate, Understand; 45,000 at most",
    ]
    assert told(1, first=1_201) == ["README.md: 1,201 words; 1,200 at most"]


@pytest.mark.parametrize("kind", ["change", "reference"])
def test_pages_of_contributors_and_generated_ones_have_no_limit(kind: str) -> None:
    assert told(1, **{kind: 10 * words.BUDGET}) == []
