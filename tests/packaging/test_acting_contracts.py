"""The rooms that act: few collaborators, one writer, nothing that another file replaces.

What is not so yet is named below, with its numbers. The lists only become shorter: an entry that
is better than its numbers, or needed no more, fails too.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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

LARGER: dict[str, tuple[int, int]] = {
    "controller/Requeuing": (8, 0),
}
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

REPLACED: set[str] = {
    "controller/coordinator.py: recovered",
    "controller/coordinator.py: vacated",
}
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
