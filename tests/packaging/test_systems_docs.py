"""docs/systems/README.md has every dialect that is read, and a page for what it links."""

from __future__ import annotations

import re

from extender.groups.registry import DIALECTS
from extender.model.owner_kinds import OTHER_KINDS
from tests.packaging.manifests import ROOT

PAGES = ROOT / "docs" / "systems"
ROWS = re.findall(r"(?m)^\| .* \| `([\w-]+)` \|$", (PAGES / "README.md").read_text())
"""The last column: by which name the configuration knows it."""


def test_every_dialect_has_its_line() -> None:
    assert sorted({dialect.name for dialect in DIALECTS} ^ set(ROWS)) == []


def test_every_page_is_led_to() -> None:
    text = (PAGES / "README.md").read_text()
    pages = {page.name for page in PAGES.glob("*.md")} - {"README.md"}
    assert sorted(page for page in pages if f"({page}" not in text) == []


def test_no_kind_that_is_read_is_said_not_to_be() -> None:
    """docs/migrate.md: the kind is what its line begins with."""
    text = (ROOT / "docs" / "migrate.md").read_text()
    lines = re.findall(r"(?m)^\| `?([A-Z]\w+)`? \| (.*) \|$", text)
    read = {kind.kind for kind in OTHER_KINDS.values()}
    assert "WorkloadPriorityClass" in {kind for kind, _ in lines} & read
    said = [kind for kind, here in lines if here.startswith("not read")]
    assert sorted(read & set(said) - {"Workload"}) == []  # the one of scheduling.k8s.io
