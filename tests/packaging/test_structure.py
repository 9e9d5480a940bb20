"""What the pages on the structure rest on: files that are there, and names that tell them apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "extender"

CLASS = re.compile(
    r"^\s*(?:(?:cdef|cpdef|ctypedef) +)?(?:public +)?(?:packed +)?"
    r"(?:class|cppclass|enum|fused|struct|union) +(\w+) *(?:\"\w+\" *)?[(:\[]"
    r"|^\s*ctypedef +[\w* ]+?[ *](\w+)(?: *\"\w+\"| *\[\w+\])? *$"
    r"|^([A-Z]+[a-z]\w*)(?:: TypeAlias)? = (?!TypeVar|ParamSpec)",
    re.M,
)
"""Also other names of types, and what Cython declares: enums, records under the name that C++ has
for them. A TypeVar stands for any type, and is its own file's."""


def several(names: Iterable[tuple[str, Path]]) -> dict[str, set[Path]]:
    """Names of more than one file of a room -> these, without their endings. A room is a folder."""
    found: dict[tuple[Path, str], set[Path]] = defaultdict(set)
    for name, path in names:
        found[path.parent, name].add(path.relative_to(PACKAGE).with_suffix(""))
    return {name: files for (_, name), files in found.items() if len(files) > 1}


def class_names(source: str) -> list[str]:
    """Names of the types that a source declares; an enum without one is none."""
    return ["".join(found) for found in CLASS.findall(source)]


def package_files(*endings: str) -> list[Path]:
    """Return the files of the package with these endings, generated ones aside."""
    found = [path for ending in endings for path in PACKAGE.rglob(f"*.{ending}")]
    return [path for path in found if "pb" not in path.parts and not path.stem.startswith("__")]


def test_no_two_classes_of_a_room_have_one_name() -> None:
    """Private ones too: a reader searches a room for ``class X`` and finds what was meant."""
    named = [
        (name, path)
        for path in package_files("py", "pyx", "pxd", "pyi")
        for name in class_names(path.read_text())
    ]
    assert len(named) > 700
    assert several(named) == {}


def test_two_files_of_a_room_with_one_name_are_seen() -> None:
    room, other = PACKAGE / "verbs", PACKAGE / "wire"
    assert several(
        [("Claim", room / "a.py"), ("Claim", room / "b.py"), ("Spare", room / "a.py")]
    ) == {"Claim": {Path("verbs/a"), Path("verbs/b")}}
    assert several([("Claim", room / "a.py"), ("Claim", other / "b.py")]) == {}
    assert several([("A", room / "a.pxd"), ("A", room / "a.pyx")]) == {}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("class Offers:", ["Offers"]),
        ("class Unit(Struct, frozen=True):", ["Unit"]),
        ("    class _Inner:", ["_Inner"]),
        ("cdef class Census:", ["Census"]),
        ("cdef class Mask(Base):", ["Mask"]),
        ("cdef struct Clock:", ["Clock"]),
        ("ctypedef packed struct Pair:", ["Pair"]),
        ("cdef cppclass Mckp:", ["Mckp"]),
        ('    cppclass Who "PgxWho":', ["Who"]),
        ("class Outcome(StrEnum):", ["Outcome"]),
        ("cdef enum Outcome:", ["Outcome"]),
        ("cpdef enum Outcome:", ["Outcome"]),
        ("cdef enum:", []),
        ("cdef union Both:", ["Both"]),
        ("ctypedef int64_t i64", ["i64"]),
        ("ctypedef i64 PackedCost[MOST_LIMBS]", ["PackedCost"]),
        ('    ctypedef long long wide "pgx_wide"', ["wide"]),
        ("ctypedef const char* Text", ["Text"]),
        ("Counts = tuple[int, ...]", ["Counts"]),
        ("Counts: TypeAlias = tuple[int, ...]", ["Counts"]),
        ('Key = TypeVar("Key")', []),
        ("MOST_COUNTS = 3", []),
        ("A = 3", []),
        ("class of members that fit", []),
        ("cdef Asked asked", []),
    ],
)
def test_a_class_is_seen_however_it_is_declared(line: str, name: list[str]) -> None:
    assert class_names(line) == name


CORE = PACKAGE / "search" / "core"
GROWS = "assign|clear|insert|pop_back|push_back|resize|swap"


def foreign_writes(source: str, parts: str) -> list[str]:
    """Lines that change a field of one of these parts; ``parts``: names, joined by |."""
    field = rf"self\.(?:{parts})(?:\.\w+)+(?:\[.*\])?"
    changed = re.compile(
        rf"\s*(?:{field}(?:\s*(?:[-+*/%|&^]|//|<<|>>)?=(?!=)|\.(?:{GROWS})\()"
        rf"|(?:put|zero|never|plus|minus)\(&{field})"
    )
    return [line for line in source.splitlines() if changed.match(line)]


def test_a_part_of_the_core_changes_no_field_of_another() -> None:
    sources = sorted([*CORE.rglob("*.pyx"), *CORE.rglob("*.pxd")])
    declared = "".join(path.read_text() for path in sources)
    classes = "|".join(sorted(set(re.findall(r"^cdef class (\w+)", declared, re.M))))
    parts = "|".join(sorted(set(re.findall(rf"^    cdef (?:{classes}) (\w+)$", declared, re.M))))
    assert len(parts.split("|")) > 15
    written = {path.name: foreign_writes(path.read_text(), parts) for path in CORE.rglob("*.pyx")}
    assert {name: lines for name, lines in written.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "        self.effort.work += 4 * n",
        "        self.relations.dirty[self.touch_node[i]] = 1",
        "        self.elimination.pick.rows.push_back(row)",
        "            put(&self.incumbent.best_cost[0], cost, W)",
    ],
)
def test_a_change_of_anothers_field_is_seen(line: str) -> None:
    assert foreign_writes(line, "effort|elimination|incumbent|relations") == [line]


@pytest.mark.parametrize(
    "line",
    [
        "        if self.effort.work == 4:",
        "        self.effort = effort",
        "        self.weight[e] += self.relations.weight[e]",
        "            put(bound, &self.incumbent.best_cost[0], W)",
    ],
)
def test_what_reads_anothers_field_may(line: str) -> None:
    assert foreign_writes(line, "effort|elimination|incumbent|relations") == []


def walk() -> list[tuple[str, str]]:
    """(file, what to look for there) of the way of one call, in its order."""
    text = (ROOT / "docs" / "walkthrough.md").read_text()
    section = text.split("## One filter call, file by file")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.pyx?)` \| `(\w+)` \|", section, re.M)


def test_the_way_of_a_call_names_each_file_once() -> None:
    files = [file for file, _ in walk()]
    assert len(files) > 20
    assert len(files) == len(set(files))


@pytest.mark.parametrize(("file", "name"), walk())
def test_the_way_of_a_call_can_be_walked(file: str, name: str) -> None:
    source = (PACKAGE / file).read_text()
    made = rf"^\s*(?:async def|def|class|cdef \w+|cdef class) {name}\b|^{name}\b"
    assert re.search(made, source, re.M), f"{file}: {name}"


def test_the_map_of_the_search_names_every_file() -> None:
    """And none that is not there."""
    text = (ROOT / "docs" / "search-solvers.md").read_text()
    named = set(re.findall(r"`(?:[\w/]+/)?(\w+\.(?:pyx|pxd|py))`", text))
    here = {
        path.name
        for ending in ("py", "pyx", "pxd")
        for path in (PACKAGE / "search").rglob(f"*.{ending}")
        if path.stem != "__init__"
    }
    elsewhere = {
        path.name
        for folder in (
            *(PACKAGE / room for room in ("app", "decode", "gang", "model", "settings")),
            ROOT / "tests",
        )
        for path in folder.rglob("*.py*")
    }
    assert named - here - elsewhere == {"setup.py"}
    modules = {path.name for path in (PACKAGE / "search").rglob("*.py") if path.stem != "__init__"}
    assert modules - named == set()
