"""What is asked of the compiled core's sources: calls that say what they want, sizes with a name.

No literal True or False is passed without a name, which is what ruff's FBT asks of Python.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "extender" / "search" / "core"
MADE = re.compile(r"^\s*(?:cdef|cpdef|def)\b[^=(\n]*?(\w+)\(", re.M)
STRINGS = re.compile(r'"""(?s:.)*?"""|"(?:\\.|[^"\\\n])*"|#[^\n]*')
LITERAL = re.compile(r"\b(?:True|False)\b")


def own_functions(sources: list[str]) -> set[str]:
    """Names of the functions and methods that these sources define."""
    return {name for source in sources for name in MADE.findall(source)}


def bare_booleans(source: str, functions: set[str]) -> list[str]:
    """``function: line`` of each literal True or False that such a call passes without a name."""
    code = STRINGS.sub(lambda hit: "\n" * hit[0].count("\n"), source)
    found = []
    for literal in LITERAL.finditer(code):
        before, after = code[: literal.start()].rstrip(), code[literal.end() :].lstrip()
        if before[-1:] not in ("(", ",") or after[:1] not in ("", ")", ","):
            continue
        called = _called(before)
        if called in functions:
            found.append(f"{called}: {code.count(chr(10), 0, literal.start()) + 1}")
    return found


def _called(before: str) -> str:
    """The name before the bracket that is open at the end of this text."""
    depth = 0
    for at in range(len(before) - 1, -1, -1):
        if before[at] in ")]}":
            depth += 1
        elif before[at] in "([{":
            if depth == 0:
                name = re.search(r"(\w+)$", before[:at])
                return name[1] if name and before[at] == "(" else ""
            depth -= 1
    return ""


def test_no_call_in_the_core_passes_a_bare_boolean() -> None:
    sources = {path: path.read_text() for path in sorted(CORE.rglob("*.p[yx][xd]"))}
    functions = own_functions(list(sources.values()))
    assert len(functions) > 200
    found = {path.name: bare_booleans(source, functions) for path, source in sources.items()}
    assert {name: calls for name, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("self.explore(bound, False)", ["explore: 1"]),
        ("x\n    y = self.weigh(True)", ["weigh: 2"]),
        ("fill(\n    at(True), (n, [1, 2]), False\n)", ["fill: 2"]),
        ("if not self.fill(n, bits, True) > 0:", ["fill: 1"]),
        ("self.fill(n, most=True)", []),
        ("fill(n == False)", []),
        ("seen.assign(R, False)", []),
        ("fill((True, False))", []),
        ("x = True\ny = (True)", []),
        ('"""fill(n, True)"""  # fill(n, True)\ntell("fill(True)")', []),
    ],
)
def test_what_is_found_is_a_bare_boolean_of_a_call_of_ours(source: str, found: list[str]) -> None:
    assert bare_booleans(source, {"explore", "weigh", "fill", "tell"}) == found


def test_what_is_ours_is_read_from_its_definition() -> None:
    source = """
cdef inline bint late(Clock* clock) noexcept nogil:
cdef class Packing:
    cdef vector[int] counts, least
    def seat(self, groups, bint most):
    cdef Fit weigh(self, Wanted wanted) noexcept nogil:
        cdef int n = len(groups)
cdef const i64* rows_of(int n) noexcept nogil
"""
    assert own_functions([source]) == {"late", "seat", "weigh", "rows_of"}


LIMBS = re.compile(r"^\s*cdef i64 \w+\[[^]]+\]", re.M)


def test_only_its_own_type_says_how_long_a_packed_cost_is() -> None:
    assert LIMBS.search("    cdef i64 bound[6]")
    assert LIMBS.search("cdef i64 bound[MOST_LIMBS]")
    found = [path.name for path in CORE.rglob("*.p[yx][xd]") if LIMBS.search(path.read_text())]
    assert found == []
