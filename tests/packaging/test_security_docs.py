"""docs/security.md names tests that there are, and check's texts headings that there are."""

from __future__ import annotations

import re

from extender.check.catalogue import RULES
from tests.packaging.manifests import ROOT

TEXT = (ROOT / "docs" / "security.md").read_text()


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"tests/[\w/]+(?:\.py|\.md)?", TEXT))
    assert len(named) > 10
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


def test_every_row_of_the_attack_is_told() -> None:
    rows = re.findall(r"(?m)^\| (\d+) \|", TEXT)
    assert rows == [str(each) for each in range(1, 14)]


def test_every_test_of_a_row_names_it() -> None:
    """So that who changes one sees what it is there for."""
    missing = [
        f"{path}: row {row}"
        for row, line in re.findall(r"(?m)^\| (\d+) \|(.*)$", TEXT)
        for path in re.findall(r"tests/[\w/]+\.py", line)
        if not re.search(rf"docs/security\.md, rows? [\d, and]*\b{row}\b", _head(path))
    ]
    assert missing == []


def _head(path: str) -> str:
    """The docstring of a module, its lines joined."""
    text = (ROOT / path).read_text().split('"""', 2)[1]
    return " ".join(text.split())


def test_headings_that_repairs_point_to_exist() -> None:
    pointed = {
        (heading, page)
        for rule in RULES.values()
        for heading, page in re.findall(r"'([^']+)' in\s+(docs/[\w.]+)", rule.repair)
    }
    assert pointed
    for heading, page in pointed:
        assert f"\n## {heading}\n" in (ROOT / page).read_text()
