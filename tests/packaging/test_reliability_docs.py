"""docs/reliability.md names a test and a mistake of the simulation for each case, and there are."""

from __future__ import annotations

import re

from tests.packaging.manifests import ROOT
from tests.simulation.mutants import MUTANTS

TEXT = (ROOT / "docs" / "reliability.md").read_text()
ROWS = re.findall(r"(?m)^\| (\d+) \| [^|]+ \| ([^|]+) \| `([a-z-]+)` \|$", TEXT)
USUAL = "tests/gang/test_transaction.py"


def test_every_case_has_a_row_and_its_mistake() -> None:
    found = {(int(number), name) for number, _, name in ROWS}
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 15))
    assert found == {(mutant.case, mutant.name) for mutant in MUTANTS if mutant.case}


def test_every_named_test_exists() -> None:
    named = [name for _, cell, _ in ROWS for name in re.findall(r"`([^`]+)`", cell)]
    assert len(named) >= 14
    for name in named:
        path, _, test = name.rpartition("::")
        text = (ROOT / (path or USUAL)).read_text()
        assert re.search(rf"(?m)^(async )?def {test}\(", text), name
