"""The linter of the pages finds what it is for."""

from __future__ import annotations

import pytest

from tools.docs import prose

LONG = " ".join(["word"] * 26)


@pytest.mark.parametrize(
    "text",
    [f"{LONG}.", f"Short. {LONG}", f"- {LONG}\n- short", f"| a | {LONG} |", f"[{LONG}](x.md)"],
)
def test_a_long_sentence_is_found(text: str) -> None:
    assert [each.split(":")[1].strip() for each in prose.problems("p.md", text)] == [
        "26 words, 25 at most"
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{LONG}\n```",
        f"`{LONG}`",
        " ".join(["word"] * 25) + ".",
        "Thirteen words are here and they end with a colon as you see: "
        "and thirteen more words follow it in the same line of the text.",
        "- " + " ".join(["word"] * 20) + "\n- " + " ".join(["word"] * 20),
    ],
)
def test_what_is_no_long_sentence(text: str) -> None:
    assert not list(prose.problems("p.md", text))


@pytest.mark.parametrize("text", ["It says who goes.", "Nobody waits.", "A plan is in flight."])
def test_a_banned_phrasing_is_found(text: str) -> None:
    assert len(list(prose.problems("p.md", text))) == 1


def test_the_pages_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main() == 0, capsys.readouterr().out
