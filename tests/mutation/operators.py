"""Small changes to a function's code that a test of the function should notice.

One mutant is one change: a bound moved by one, a comparison turned, a side of ``and`` dropped, a
statement left out. What only words a message (strings, f-strings) stays, and so do defaults,
decorators, annotations and asserts: none of them runs anew when a function's code is exchanged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType
from typing import Any

from msgspec import Struct

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
LEFT_OUT = (ast.Expr, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)
"""Statements that are taken out as a whole."""
Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutant(Struct, frozen=True):
    """One change in one function or method of a module."""

    module: str
    function: str
    """Qualified name of the function that is exchanged, however deep inside it the change is."""
    number: int
    """Which of the function's changes it is."""
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """Where it is and what it does, on one line."""
        return f"{self.module}:{self.line} {self.function}: {self.before} -> {self.after}"


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Yield every change of every function and method, in the order of the lines."""
    for qualified, function in functions(ast.parse(source)):
        changer = _Changer(None)
        changer.generic_visit(function)
        for number, (line, before, after) in enumerate(changer.found):
            yield Mutant(module, qualified, number, line, before, after)


def changed(mutant: Mutant, source: str) -> CodeType:
    """Return the code of the mutant's function with its change. Raises ValueError when it has
    none that can be compiled."""
    tree = ast.parse(source)
    function = next(node for name, node in functions(tree) if name == mutant.function)
    _Changer(mutant.number).generic_visit(function)
    try:
        code = compile(ast.fix_missing_locations(tree), f"<{mutant.module}>", "exec")
    except SyntaxError as error:
        raise ValueError(str(error)) from error
    return next(each for each in _codes(code) if each.co_qualname == mutant.function)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Functions of a module and methods of its classes, with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Functions):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


class _Changer(ast.NodeTransformer):
    """Makes one change (``number``), or none and notes what there would be (None)."""

    def __init__(self, number: int | None) -> None:
        self._number = number
        self.found: list[tuple[int, str, str]] = []

    def visit(self, node: ast.AST) -> Any:
        """Change the node itself, else what is inside."""
        if _worded(node):
            return node
        for after in _changes(node):
            at = len(self.found)
            place = node.iter if isinstance(node, ast.comprehension) else node
            self.found.append((getattr(place, "lineno", 0), _text(node), _text(after)))
            if at == self._number:
                return ast.copy_location(after, node)
        if isinstance(node, Functions):
            node.body = [self.visit(statement) for statement in node.body]
            return node
        if isinstance(node, ast.arguments):
            return node
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node.value = self.visit(node.value)
            return node
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Go through a function's statements, and not through what it is declared with."""
        if isinstance(node, Functions):
            node.body = [self.visit(statement) for statement in node.body]
            return node
        return super().generic_visit(node)


def _worded(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # a docstring
    return isinstance(node, ast.JoinedStr | ast.Assert)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in a node's place."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=others):
            yield ast.Compare(left, [COMPARED[type(op)]()], others)
        case ast.BoolOp(op=op, values=values):
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(op=op, left=left, right=right) if type(op) in COUNTED:
            if not any(map(_text_made, (left, right))):
                yield ast.BinOp(left, COUNTED[type(op)](), right)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=(int() | float()) as value):
            yield ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in CALLED:
            kept = [] if name == "sorted" else keywords
            yield ast.Call(ast.Name(CALLED[name], ast.Load()), args, kept)
        case ast.If(test=test, body=body, orelse=orelse):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test=test, body=one, orelse=other):
            yield ast.IfExp(test, other, one)
        case ast.comprehension(target=target, iter=source, ifs=[_, *_], is_async=is_async):
            yield ast.comprehension(target, source, [], is_async)
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and not value.value):
                yield ast.Return(ast.Constant(None))
        case _ if isinstance(node, LEFT_OUT):
            yield ast.Pass()


def _text_made(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _text(node: ast.AST) -> str:
    """One line of a node's code: of statements with a body only the head."""
    if isinstance(node, ast.comprehension):
        return f"for {ast.unparse(node.target)} ..." + "".join(
            f" if {ast.unparse(test)}" for test in node.ifs
        )
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}:"
    text = ast.unparse(ast.fix_missing_locations(node)).split("\n")[0]
    return text if len(text) <= 90 else text[:87] + "..."
