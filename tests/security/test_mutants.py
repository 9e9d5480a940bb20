"""Every rule can be taken out; ``python -m tests.security`` shows that its test fails then."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from tests.security.mutant import ROWS
from tests.security.mutants import MUTANTS
from tests.security.running import ROOT


@cache
def _text(path: str) -> str:
    return (ROOT / path).read_text()


def test_every_rule_is_where_it_is_taken_out_and_has_its_test() -> None:
    wrong = []
    for mutant in MUTANTS:
        path, *names = mutant.test.partition("[")[0].split("::")
        if any(f" {name}(" not in _text(path) and f" {name}:" not in _text(path) for name in names):
            wrong.append(f"{mutant.rule}: no test {mutant.test}")
        try:
            mutant.applied(_text(mutant.file))
        except ValueError as error:
            wrong.append(f"{mutant.rule}: {error}")
    assert wrong == []


def test_the_documentation_tells_the_last_run() -> None:
    """tests/security/README.md has a line for each, and says what became of it."""
    told = set(
        re.findall(
            r"(?m)^\| (\d+: .*?) \| (.*?): `(.*)` \| killed \|$", _text("tests/security/README.md")
        )
    )
    expected = {(f"{mutant.row}: {mutant.rule}", *mutant.test.split("::", 1)) for mutant in MUTANTS}
    assert told ^ expected == set()


def test_every_row_has_rules_and_every_rule_a_name_of_its_own() -> None:
    assert {mutant.row for mutant in MUTANTS} == set(ROWS)
    assert [rule for rule, times in Counter(m.rule for m in MUTANTS).items() if times > 1] == []
