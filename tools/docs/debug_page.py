"""The page of the debug API: its paths, and the fields of their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_type_hints

from extender.app.debug_source import DebugView
from extender.cache.stats import DescribedWatch
from extender.gang.tell.decisions import Decision
from extender.observe.weekly import DebugObserveAnswer
from extender.server.diagnostics import INDEX
from tools.docs.types_in_words import Field, fields, in_words, is_object, objects

UNTYPED: dict[str, Any] = {
    "decisions": Sequence[Decision],
    "watches": Sequence[DescribedWatch],
    "observe": DebugObserveAnswer,
    "snapshot": None,
}
"""Answers whose type the source of the values does not state; None: it is no interface."""
METHODS = {"pods": "pods_named"}
"""Paths with another name than their method of the source."""
COMMON = {
    "gang": "Key of the gang, DIALECT:NAMESPACE/NAME.",
    "namespace": "Its namespace.",
    "name": "Its name.",
    "uid": "Its uid.",
    "node": "Its node.",
    "priority": "Its priority.",
    "since": "When it began.",
    "terminating": "Whether it terminates.",
}
"""Meanings of fields that need no docstring of their own."""


def page() -> str:
    """Return the page."""
    lines = [
        "Paths below `/debug`, answered with JSON.",
        "[Operations](../operations.md#tls-and-access) says who may read them. `/debug/` lists the",
        "paths. A bad parameter is answered with 400, an unknown path with 404.",
        "",
    ]
    named: dict[type, None] = {}
    for path, meaning in INDEX.items():
        answer = answer_of(path)
        lines += [f"## {path.partition('?')[0]}", "", f"`GET {path}`: {meaning}.", ""]
        if is_object(answer):
            lines += _table(answer)
            named |= dict.fromkeys(_within(answer))
        elif answer is None:
            lines += [
                "A document for `podgroup-extender plan`. Its `format` changes when an older",
                "reader would misunderstand it; its fields are no interface.",
                "",
            ]
        else:
            key = path.partition("?")[0].rpartition("/")[2]
            lines += [f"`{key}`: list of {in_words(get_args(answer)[0])}.", ""]
            named |= dict.fromkeys(objects(answer))
    lines += ["## Objects", ""]
    shown: set[type] = set()
    while left := [each for each in named if each not in shown]:
        for each in left:
            lines += [f"### {each.__name__}", "", *_table(each)]
            named |= dict.fromkeys(_within(each))
            shown.add(each)
    return "\n".join(lines)


def answer_of(path: str) -> Any:
    """Return the type of a path's answer."""
    name = path.partition("?")[0].rpartition("/")[2]
    if name in UNTYPED:
        return UNTYPED[name]
    return get_type_hints(getattr(DebugView, METHODS.get(name, name)))["return"]


def described(owner: type) -> Iterator[Field]:
    """Yield the fields of an object, each with a meaning where there is one."""
    for field in fields(owner):
        yield field._replace(meaning=field.meaning or COMMON.get(field.name, ""))


def _within(owner: type) -> list[type]:
    return [found for field in fields(owner) for found in objects(field.type)]


def _table(owner: type) -> list[str]:
    rows = [f"| `{f.name}` | {in_words(f.type)} | {f.meaning} |" for f in described(owner)]
    return ["| field | type | meaning |", "| --- | --- | --- |", *rows, ""]
