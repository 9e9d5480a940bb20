"""No record is made with a boolean that only its place tells: ruff's FBT sees functions' alone."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "extender"

BY_PLACE = {"extender/decode/from_api.py: Pod": "by keyword it takes a sixth of the decoding"}
"""Where and of which record, and why."""
RECORDS = ("NamedTuple", "Struct", "dataclass")

Fields = dict[str, list[list[bool]]]
"""Record's name -> for each of that name, whether a field is a boolean, in their order."""


def boolean_fields(trees: Iterable[ast.Module]) -> Fields:
    """Return those of records that may be made by position."""
    found: Fields = defaultdict(list)
    for tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            made_of = [ast.unparse(each) for each in (*node.bases, *node.decorator_list)]
            by_name = any(each.arg == "kw_only" for each in node.keywords)
            if by_name or not any(kind in each for kind in RECORDS for each in made_of):
                continue
            annotated = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            found[node.name].append([ast.unparse(each.annotation) == "bool" for each in annotated])
    return found


def by_place(tree: ast.Module, fields: Fields) -> list[str]:
    """Names of records that a module makes with a boolean by its place."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [(call.func.id, call.args) for call in calls if isinstance(call.func, ast.Name)]
    return [
        name
        for name, args in made
        for booleans in fields.get(name, ())
        if any(booleans[: len(_before_star(args))])
    ]


def _before_star(args: Sequence[ast.expr]) -> list[ast.expr]:
    stars = [at for at, each in enumerate(args) if isinstance(each, ast.Starred)]
    return list(args[: stars[0]] if stars else args)


def test_no_boolean_of_a_record_is_given_by_its_place() -> None:
    trees = {
        path: ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
        if "pb" not in path.parts
    }
    fields = boolean_fields(trees.values())
    assert sum(any(each) for records in fields.values() for each in records) > 40
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees.items()
        for name in by_place(tree, fields)
    }
    assert found == set(BY_PLACE)


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        ("Offer(1, True)", True),
        ("Offer(1, a > b)", True),
        ("Offer(1, known=True)", False),
        ("Offer(1)", False),
        ("Offer(*both)", False),
        ("Other(1, True)", False),
    ],
)
def test_a_boolean_by_its_place_is_seen(call: str, *, seen: bool) -> None:
    fields = boolean_fields([ast.parse("class Offer(Struct):\n    at: int\n    known: bool\n")])
    assert bool(by_place(ast.parse(call), fields)) is seen


def test_a_record_that_takes_names_alone_is_passed_over() -> None:
    source = "class Offer(Struct, kw_only=True):\n    known: bool\n"
    assert by_place(ast.parse("Offer(True)"), boolean_fields([ast.parse(source)])) == []
