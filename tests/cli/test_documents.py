"""YAML of people and of strangers: what is wrong is told with its place, and nothing takes long.

See docs/security.md, row 12.
"""

from __future__ import annotations

import pytest

from extender.check import documents
from extender.check.documents import MOST_DEPTH, parse
from extender.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: !!bool perhaps", "1:4: not valid YAML: is no bool"),
        ('a: !!int ""', "1:4: not valid YAML: is no int"),
        ('a: !!int "-"', "1:4: not valid YAML: is no int"),
        ('a: !!float ""', "1:4: not valid YAML: is no float"),
        ("a: !!timestamp soon", "1:4: not valid YAML: is no timestamp"),
        ("a: 2001-02-30", "1:4: not valid YAML: is no timestamp"),
        ("!!map a", "1:1: not valid YAML: is no mapping"),
        ("a: " + "9" * 5000, "1:4: not valid YAML: int of more than 128 characters"),
        ("a: 0x" + "f" * 5000, "1:4: not valid YAML: int of more than 128 characters"),
        ("a: 1" + ":1" * 100_000, "1:4: not valid YAML: int of more than 128 characters"),
        ("a: 1" + ":1" * 5000 + ".5", "1:4: not valid YAML: float of more than 128 characters"),
    ],
)
@pytest.mark.parametrize("aliases", [True, False])
def test_values_that_are_none_are_bad_input(text: str, why: str, *, aliases: bool) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text, "given", aliases=aliases)
    assert str(caught.value).startswith(f"given:{why}")


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * 1000 + "1]",
        "- 1\n" * 1001,
        "---\n" * 1001,
        "{" + ",".join(f"a{i}: " for i in range(501)) + "}",
    ],
    ids=["flow", "block", "documents", "mapping"],
)
def test_strangers_get_no_more_values_than_are_read_in_time(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MOST_VALUES", 1000)
    with pytest.raises(InvalidInput, match="more than 1000 values"):
        parse(text, "given", aliases=False)
    parse(text, "given")  # one's own files may have as many as they like


@pytest.mark.parametrize(
    "text", ["!" + "a" * 100_000 + " b", ("? " + "k" * 100_000 + "\n: 1\n") * 2]
)
def test_what_is_wrong_is_told_in_few_words(text: str) -> None:
    """It is shown on a page, in a log and in a gRPC status."""
    with pytest.raises(InvalidInput) as problem:
        parse(text, "f", aliases=False)
    assert len(str(problem.value)) < 400


def test_strangers_get_no_depth() -> None:
    with pytest.raises(InvalidInput, match=r"given:1:65: .*in one another"):
        parse("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1), "given", aliases=False)
    assert parse("[" * MOST_DEPTH + "]" * MOST_DEPTH, "given", aliases=False)


def test_what_people_write_stays_as_it_was() -> None:
    text = "a: 1\nb: 0x10\nc: 1.5\nd: yes\ne: 2001-02-03\nf: {g: [1, 2]}\n"
    for aliases in (True, False):
        (found,) = parse(text, "given", aliases=aliases)
        assert (found.value["a"], found.value["b"], found.value["c"]) == (1, 16, 1.5)
        assert found.value["d"] is True
        assert str(found.value["e"]) == "2001-02-03"
        assert found.value["f"] == {"g": [1, 2]}
