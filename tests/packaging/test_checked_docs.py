"""docs/checked.md names every field of a pod and a node, once, with who checks it."""

from __future__ import annotations

from pathlib import Path

import kubernetes.client
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "checked.md"
KINDS = ("PodSpec", "NodeSpec", "NodeStatus")


def rows(heading: str) -> list[tuple[str, str]]:
    """First and second column of the table under a heading."""
    part = PAGE.read_text().split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [line.split("|") for line in part.splitlines() if line.startswith("|")]
    return [(line[1].strip(), line[2].strip()) for line in lines[2:]]


def fields() -> list[str]:
    """Every field that is named."""
    return [name for names, _ in rows("Fields of a pod") for name in names.split(", ")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_api_is_in_the_table_once(kind: str) -> None:
    """A new field of the API may be one that a filter reads: it must be looked at."""
    known = getattr(kubernetes.client, f"V1{kind}").attribute_map.values()
    table = [name for name in fields() if name.startswith(f"{kind}.")]
    assert sorted(table) == sorted(f"{kind}.{field}" for field in known)


def test_every_row_says_who_checks_it() -> None:
    words = {"compared", "lists", "no filter"}
    assert {word for _, word in rows("Fields of a pod")} == words
    assert {word for _, word in rows("Filters of kube-scheduler")} == words | {"none"}
