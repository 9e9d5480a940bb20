"""Tests that cannot fail are found by their form.

What only a reader can judge (an ``or`` that is always true) is not looked for here: these forms
have no good use. A sleep right before an assertion is one of them, as what is asserted is then
either late on a busy machine or nothing that has happened: tests wait for what they mean
(``until``), and let time pass that nothing may happen in (tests/event_time.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
ASSERTING = {"raises", "warns", "fail"}
"""Calls that fail a test."""
FAULTS_ALONE = {"test_the_decoders_alone"}
"""Tests of which the point is that nothing is raised."""
REAL_TIME = {
    "test_scheduler_gates_are_switchable",  # kube-scheduler's own time
    "test_a_first_message_that_is_being_sent_arrives_before_the_end",  # gRPC's threads send it
}
"""Tests of what other processes and threads do in a time that nobody can let pass."""


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def called(node: ast.Call) -> str:
    """The last part of what is called, in a thread as well."""
    match node:
        case ast.Call(func=ast.Attribute(attr="to_thread"), args=[ast.Name(id=name), *_]):
            return name
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def may_fail(function: Function, asserting: set[str]) -> bool:
    """Whether anything in it is there to fail a test, itself or in a helper."""
    return any(
        isinstance(node, ast.Assert | ast.Raise)
        or (isinstance(node, ast.Call) and called(node) in asserting)
        for node in ast.walk(function)
    )


def helpers(trees: list[ast.Module]) -> set[str]:
    """Names of functions that fail a test, themselves or through others of these."""
    found = set(ASSERTING)
    calls: dict[str, set[str]] = {}
    for tree in trees:
        for one in functions(tree):
            if one.name.startswith("test_"):
                continue
            if may_fail(one, ASSERTING):
                found.add(one.name)
            inside = {called(node) for node in ast.walk(one) if isinstance(node, ast.Call)}
            calls[one.name] = calls.get(one.name, set()) | inside
    more = True
    while more:
        before = len(found)
        found |= {name for name, inside in calls.items() if inside & found}
        more = len(found) > before
    return found


def is_true(node: ast.expr) -> bool:
    """An expression that says True whatever the code does."""
    match node:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=[_, *_]):
            return True  # assert (a, "why")
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(is_true, values))
        case _:
            return False


def sleeps(statement: ast.AST) -> bool:
    """A statement that lets real time pass; a sleep of 0 seconds only lets others run."""
    match statement:
        case (
            ast.Expr(value=ast.Await(value=ast.Call() as call)) | ast.Expr(value=ast.Call() as call)
        ):
            none = call.args and isinstance(call.args[0], ast.Constant) and not call.args[0].value
            return called(call) == "sleep" and not none
        case _:
            return False


def hopes(node: ast.AST) -> Iterator[int]:
    """Lines of sleeps with an assertion right after them, or in a ``for`` that asserts each time.

    ``while`` waits for something. Functions inside may run in other time.
    """
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(node, name, None) or []
        again = block[:1] if isinstance(node, ast.For) and name == "body" else []
        for one, following in zip(block, [*block[1:], *again], strict=False):
            if sleeps(one) and isinstance(following, ast.Assert):
                yield one.lineno
        for inner in block:
            if not isinstance(inner, Function | ast.ClassDef | ast.While):
                yield from hopes(inner)


def faults(tree: ast.Module, asserting: set[str]) -> Iterator[tuple[int, str]]:
    """Line and fault of each form that cannot fail."""
    for function in functions(tree):
        if not function.name.startswith("test_") or function.name in FAULTS_ALONE:
            continue
        if not may_fail(function, asserting):
            yield function.lineno, f"{function.name} asserts nothing"
        if function.name not in REAL_TIME:
            for line in hopes(function):
                yield line, "a sleep, and then an assertion"
    for node in ast.walk(tree):
        match node:
            case ast.Assert(test=test) if is_true(test):
                yield node.lineno, "an assertion that is always true"
            case ast.Call(args=args) if "until" in called(node):
                if any(isinstance(each, ast.Lambda) and is_true(each.body) for each in args):
                    yield node.lineno, "waits for what is true already"
            case ast.Call(args=[ast.Name(id="Exception" | "BaseException")], keywords=[]):
                if called(node) == "raises":
                    yield node.lineno, "any error will do, one of the test's own as well"


def test_every_test_can_fail() -> None:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    trees = {path: ast.parse(path.read_text()) for path in paths}
    asserting = helpers(list(trees.values()))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path, tree in trees.items()
        for line, fault in faults(tree, asserting)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("run()", "test_it asserts nothing"),
        ("helper()", ""),
        ("with pytest.raises(ValueError): run()", ""),
        ("with pytest.raises(Exception): run()", "any error"),
        ("with pytest.raises(Exception, match='words'): run()", ""),
        ("assert run(), 'why'", ""),
        ("assert (run(), 'why')", "always true"),
        ("assert run() or True", "always true"),
        ("assert run() or other()", ""),
        ("assert rig.until(lambda: True)", "true already"),
        ("assert rig.until(lambda: run())", ""),
        ("await asyncio.sleep(0.1); assert run()", "a sleep"),
        ("time.sleep(0.1)\n    assert run()", "a sleep"),
        ("await asyncio.sleep(0)\n    assert run()", ""),
        ("await passes(60)\n    assert run()", ""),
        ("for _ in range(9):\n        assert run()\n        time.sleep(0.1)", "a sleep"),
        ("while run():\n        assert clock() < end\n        time.sleep(0.1)", ""),
    ],
)
def test_forms(body: str, fault: str) -> None:
    tree = ast.parse(f"def helper():\n    assert run()\ndef test_it():\n    {body}\n")
    found = [words for _, words in faults(tree, helpers([tree]))]
    assert [fault in words for words in found] == ([True] if fault else [])
