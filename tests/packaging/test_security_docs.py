"""docs/security.md names tests that there are, and check's texts headings that there are."""

from __future__ import annotations

import re

from extender.cli.catalogue import RULES
from tests.packaging.manifests import ROOT

TEXT = (ROOT / "docs" / "security.md").read_text()


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"tests/[\w/]+(?:\.py)?", TEXT))
    assert len(named) > 10
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


def test_every_row_of_the_attack_is_told() -> None:
    rows = re.findall(r"(?m)^\| (\d+) \|", TEXT)
    assert rows == [str(each) for each in range(1, 11)]


def test_headings_that_repairs_point_to_exist() -> None:
    pointed = {
        (heading, page)
        for rule in RULES.values()
        for heading, page in re.findall(r"'([^']+)' in\s+(docs/[\w.]+)", rule.repair)
    }
    assert pointed
    for heading, page in pointed:
        assert f"\n## {heading}\n" in (ROOT / page).read_text()
