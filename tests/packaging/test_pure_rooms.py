"""The rooms that decide do so by what they are handed: what the import contracts cannot see.

The contracts of pyproject.toml forbid modules there. This forbids what takes no import, or comes
with a module that is of use otherwise (datetime).
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = "the pure core does no I/O, reads no clock, writes no log"
CALLS = frozenset({"open", "input", "print", "exec", "eval", "breakpoint", "__import__"})
CLOCKS = frozenset({"now", "utcnow", "today"})
DEADLINES = {"clock.pxd"}
"""Compiled files that read the clock: for a search with a deadline."""


def contract() -> dict[str, list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    found: dict[str, list[str]] = next(
        each for each in contracts["contracts"] if each["name"] == CONTRACT
    )
    return found


def rooms() -> list[Path]:
    return [ROOT / module.replace(".", "/") for module in contract()["source_modules"]]


def impure(source: str) -> list[str]:
    """What a module's text does that depends on more than its arguments, line by line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in CALLS:
            found.append(f"{node.lineno}: {called.id}")
        if isinstance(called, ast.Attribute) and called.attr in CLOCKS:
            found.append(f"{node.lineno}: {called.attr}")
    return found


def test_the_pure_rooms_call_nothing_that_depends_on_the_moment() -> None:
    files = [room.with_suffix(".py") for room in rooms() if not room.is_dir()]
    modules = [*files, *(path for room in rooms() for path in room.rglob("*.py"))]
    assert "victim_group.py" in {path.name for path in files}
    assert len(modules) > 150
    found = {str(path.relative_to(ROOT)): impure(path.read_text()) for path in modules}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    ["datetime.now(UTC)", "date.today()", "datetime.datetime.utcnow()", "open(name)", "print(1)"],
)
def test_such_a_call_is_seen(line: str) -> None:
    assert len(impure(f"def f(name):\n    return {line}\n")) == 1


def test_the_contract_forbids_the_clocks_and_the_dice() -> None:
    """Only a search with a deadline asks the time, and who does is named."""
    terms = contract()
    assert {"time", "random", "secrets", "uuid", "os", "io"} <= set(terms["forbidden_modules"])
    assert sorted(terms["ignore_imports"]) == [
        "extender.search.highs.by_level -> time",
        "extender.search.problem.stop -> time",
    ]


def test_compiled_code_reads_the_clock_in_one_file() -> None:
    """Which the contracts do not see at all."""
    sources = [
        path
        for room in rooms()
        for path in room.rglob("*.p[yx]*")
        if path.suffix in (".pyx", ".pxd")
    ]
    assert len(sources) > 50
    clocks = re.compile(r"clock_gettime|gettimeofday|\brand\(|<chrono>|\bc?import +(time|random)\b")
    assert {path.name for path in sources if clocks.search(path.read_text())} == DEADLINES
