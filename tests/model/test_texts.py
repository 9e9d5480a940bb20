"""Numbers of things and costs in words, and characters that would not show."""

from __future__ import annotations

import json
import re
import sys
import unicodedata

import pytest

from extender.cli.output import as_json
from extender.model.texts import all_of, counted, escaped, noun, unseen, visible
from extender.settings.cost_order import cost_words

EVERY = [chr(code) for code in range(sys.maxunicode + 1)]
TURNING = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
"""Bidirectional classes of what changes the order of the characters beside it."""


def ignorable() -> set[str]:
    """Default_Ignorable_Code_Point as it is derived (UAX 44), but for what is in Cf already."""
    named = re.compile(
        "(VARIATION SELECTOR-|MONGOLIAN FREE VARIATION SELECTOR |.*HANGUL.* FILLER$)"
    )
    found = {each for each in EVERY if named.match(unicodedata.name(each, ""))}
    # Those that are reserved for it stand in PropList.txt.
    found |= {"\u034f", "\u17b4", "\u17b5", "\u2065"}
    return found | set(EVERY[0xFFF0:0xFFF9]) | set(EVERY[0xE0000:0xE1000])


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


def test_no_character_of_any_script_passes_that_would_not_show() -> None:
    ignored = ignorable()
    assert len(ignored) > 4096
    for each in EVERY:
        category = unicodedata.category(each)
        hidden = category in ("Cc", "Cf", "Cs", "Zl", "Zp") or each in ignored
        hidden = hidden or unicodedata.bidirectional(each) in TURNING
        hidden = hidden and each not in "\n\t"
        assert unseen(each) is hidden, f"U+{ord(each):04X} {unicodedata.name(each, '')}"
        assert visible(f"a{each}b", "?") == ("a?b" if hidden else f"a{each}b")
        if hidden and category != "Cs":
            text = escaped(json.dumps(f"a{each}b", ensure_ascii=False))
            assert text.isascii()
            assert json.loads(text) == f"a{each}b"


def test_a_tag_character_is_written_as_json_knows_it() -> None:
    text = as_json({"message": "a\U000e0041\u00adb"})
    assert "\\udb40\\udc41\\u00adb" in text
    assert json.loads(text) == {"message": "a\U000e0041\u00adb"}


@pytest.mark.parametrize(
    ("level", "value", "beside", "words"),
    [
        ("pods@1", 4, 3, "4"),
        ("gangs", 4000, 3999, "4000"),
        ("age", 4000, 3999, "4000"),
        ("work", 0, 0, "0 GPU-seconds"),
        ("work@1", 359, 1, "359 GPU-seconds"),
        ("work@1", 360, 360, "0.1 GPU-hours"),
        ("work@-7", 4_500_000, 0, "1,250.0 GPU-hours"),
        # As many digits as tell it from what stands beside it, and no more.
        ("work@1", 1_000_080, 1_000_000, "277.80 GPU-hours"),
        ("work@1", 1_000_000, 1_000_080, "277.78 GPU-hours"),
        ("work", 1_000_001, 1_000_000, "277.7781 GPU-hours"),
        ("work", 1_000_000, 1_000_001, "277.7778 GPU-hours"),
        ("work", 360, 359, "0.1 GPU-hours"),
        ("work", 359, 360, "359 GPU-seconds"),
        # Two that are equal are told as equal.
        ("work", 1_000_001, 1_000_001, "277.8 GPU-hours"),
    ],
)
def test_what_a_level_costs_in_words(level: str, value: int, beside: int, words: str) -> None:
    assert cost_words(level, value, beside) == words


def test_a_second_more_is_told_from_what_stands_beside_it() -> None:
    """Also where a node says that it has GPUs without number."""
    for value in (*range(355, 800), 10**6, 10**9, 10**20):
        assert cost_words("work", value + 1, value) != cost_words("work", value, value + 1)
