"""What the pages on the structure rest on, and what the import contracts cannot see."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
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


GANG = ROOT / "extender" / "gang"
ROOMS = (
    "bind_barrier",
    "booking",
    "controller",
    "core",
    "fairness",
    "leader_election",
    "runtime",
    "scheduler_view",
    "status",
)
MOST_PARAMETERS = 7
MOST_CALLABLES = 1
CALLS = ("Callable", "Resolves")
"""How the annotation of a function is written."""
LARGER: dict[str, tuple[int, int]] = {}
"""Class of a room -> parameters of its constructor, callables among them."""
WRITTEN_ELSEWHERE: dict[str, int] = {
    "bind_barrier/bindings.py": 1,
    "controller/scheduling_cycle.py": 2,
    "verbs/allowances.py": 2,
    "verbs/filter.py": 1,
    "verbs/preempt.py": 4,
    "verbs/sampled_node_lists.py": 1,
}
"""room/file.py -> how often it assigns fields of a record of another room."""
REPLACED: set[str] = set()
"""room/file.py: what it replaces in an object that it did not make."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def files(*rooms: str) -> Iterator[Path]:
    for room in rooms:
        yield from sorted((GANG / room).glob("*.py"))


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in files(*ROOMS):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                yield path, node


def method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    found = (each for each in node.body if isinstance(each, ast.FunctionDef))
    return next((each for each in found if each.name == name), None)


def parameters(node: ast.ClassDef) -> list[tuple[str, str]]:
    """(name, annotation) of what the constructor takes; records are made of their fields."""
    init = method(node, "__init__")
    if init is None:
        return []
    taken = [*init.args.args[1:], *init.args.kwonlyargs]
    return [(each.arg, ast.unparse(each.annotation) if each.annotation else "") for each in taken]


def is_record(node: ast.ClassDef) -> bool:
    """Whether it is data that may change: a Struct that is not frozen."""
    names = [ast.unparse(base) for base in node.bases]
    frozen = any(word.arg == "frozen" for word in node.keywords)
    return "Struct" in names and not frozen


def assigned(path: Path) -> Iterator[tuple[ast.Attribute, int]]:
    """Attributes of anything but ``self`` that a file assigns, with the line."""
    for node in ast.walk(tree(path)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Attribute) and ast.unparse(each.value) != "self":
                    yield each, each.lineno


def test_a_constructor_takes_seven_things_at_most_and_one_function() -> None:
    found = {}
    for path, node in classes():
        taken = parameters(node)
        callables = sum(any(word in kind for word in CALLS) for _, kind in taken)
        if len(taken) > MOST_PARAMETERS or callables > MOST_CALLABLES:
            found[f"{path.parent.name}/{node.name}"] = (len(taken), callables)
    assert found == LARGER


def test_a_records_fields_are_assigned_in_its_own_room() -> None:
    fields: dict[str, str] = {}
    """Field -> the room whose record has it; a name of two rooms tells nothing, and is left out."""
    for path, node in classes():
        if is_record(node):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    room = fields.setdefault(each.target.id, path.parent.name)
                    if room != path.parent.name:
                        fields[each.target.id] = ""
    assert "state" in fields
    users = [*files(*ROOMS), *sorted((ROOT / "extender" / "verbs").glob("*.py"))]
    found = Counter(
        f"{path.parent.name}/{path.name}"
        for path in users
        for target, _ in assigned(path)
        if fields.get(target.attr) and fields[target.attr] != path.parent.name
    )
    assert dict(found) == WRITTEN_ELSEWHERE


def test_no_file_replaces_what_another_one_made() -> None:
    """An attribute that a constructor sets, and that is no record's field."""
    made = set()
    for _, node in classes():
        init = method(node, "__init__")
        for each in ast.walk(init) if init else ():
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                made.add(each.attr)
    data = {
        each.target.id
        for _, node in classes()
        if is_record(node)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    found = {
        f"{path.parent.name}/{path.name}: {target.attr}"
        for path in files(*ROOMS)
        for target, _ in assigned(path)
        if target.attr in made - data
    }
    assert found == REPLACED


CONTRACT = "the pure core does no I/O, reads no clock, writes no log"
PURE_CALLS = frozenset({"open", "input", "print", "exec", "eval", "breakpoint", "__import__"})
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
        if isinstance(called, ast.Name) and called.id in PURE_CALLS:
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
