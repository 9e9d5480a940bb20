"""docs/systems/README.md has every dialect that is read, and a page for what it links."""

from __future__ import annotations

import re

from extender.groups.registry import DIALECTS
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
