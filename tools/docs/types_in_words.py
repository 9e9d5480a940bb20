"""Types and the docstrings of their fields, in words, for the pages that are generated."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import Struct

PLAIN: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true, false",
    NoneType: "null",
}


class Field(NamedTuple):
    """One field of an answer."""

    name: str
    type: Any
    meaning: str


def meanings(owner: type) -> dict[str, str]:
    """Return field -> the docstring below it, in the bodies of a class and those it extends."""
    found: dict[str, str] = {}
    for base in getattr(owner, "__orig_bases__", owner.__bases__):
        if isinstance(base, type) and base.__module__.startswith("extender."):
            found |= meanings(base)
    tree = ast.parse(Path(sys.modules[owner.__module__].__file__ or "").read_text())
    body = next(
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == owner.__name__
    )
    for field, after in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(after.value.value).split())
    return found


def is_object(annotation: Any) -> bool:
    """Whether a type is an object with named fields."""
    return isinstance(annotation, type) and (
        issubclass(annotation, Struct) or is_typeddict(annotation)
    )


def fields(owner: type) -> Iterator[Field]:
    """Yield the fields of an object, as JSON has them."""
    told, hints = meanings(owner), get_type_hints(owner)
    names = {name: name for name in hints}
    if issubclass(owner, Struct):
        names = {each.name: each.encode_name for each in msgspec.structs.fields(owner)}
    for name, shown in names.items():
        yield Field(shown, hints[name], told.get(name, ""))


def in_words(annotation: Any) -> str:
    """Return a type in words; an object is a link to the heading of its name."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in PLAIN:
        return PLAIN[annotation]
    if origin in (Union, UnionType):
        return ", ".join(filter(None, map(in_words, inner)))
    if origin is Literal:
        return ", ".join(str(each) for each in inner if each != "")
    if isinstance(origin, type) and issubclass(origin, dict):
        return f"map to {in_words(inner[1])}"
    if origin is tuple and inner[-1] is not ...:
        return "list"
    if origin is not None:
        return f"list of {in_words(inner[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(str(each.value) for each in annotation if each.value != "")
    return f"[{annotation.__name__}](#{annotation.__name__.lower()})"


def objects(annotation: Any) -> Iterator[type]:
    """Yield the objects within a type."""
    if is_object(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from objects(inner)
