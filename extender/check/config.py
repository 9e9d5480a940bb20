"""Load Settings from YAML.

A file is either the plain settings or a Kubernetes manifest with a ConfigMap that carries them.
Unknown keys, wrong types and values out of range are InvalidInput that names file and key.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from extender.check import documents
from extender.check.documents import Document
from extender.groups.registry import chosen
from extender.model.errors import InvalidInput
from extender.model.texts import counted
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate

T = TypeVar("T", bound=Struct)

_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_CHOICE = re.compile(r"Invalid enum value (?P<value>.*)$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")


def load(path: Path | None) -> Settings:
    """The settings in a file; the defaults when there is no path or the file is empty."""
    if path is None:
        return Settings()
    return _pick(documents.opened(documents.read(path)), str(path))


def parse(text: str, source: str = "configuration") -> Settings:
    """The settings in a text; ``source`` is what errors call it."""
    return _pick(documents.opened(documents.parse(text, source)), source)


def _pick(found: list[Document], source: str) -> Settings:
    """The one document that is no Kubernetes object."""
    plain = [document for document in found if not documents.kind_of(document)]
    if len(plain) > 1:
        several = counted(len(plain), "document")
        raise InvalidInput(f"{source}: {several} with settings; one is expected")
    if not plain:
        if found:
            kinds = ", ".join(sorted({documents.kind_of(document) for document in found}))
            raise InvalidInput(
                f"{source}: has no settings, only {kinds} (a ConfigMap must carry them under a "
                "key that ends in .yaml)"
            )
        return Settings()
    return convert(plain[0])


def convert(document: Document) -> Settings:
    """One document as validated Settings."""
    settings = typed(document, Settings)
    try:
        validate(settings)
        chosen(settings.groups)
    except InvalidInput as problem:
        raise InvalidInput(f"{document.source}: {problem}") from problem
    return settings


def typed(document: Document, shape: type[T]) -> T:
    """A document as a struct; errors read ``file: path: what is wrong``."""
    try:
        return msgspec.convert(document.value, shape)
    except msgspec.ValidationError as problem:
        text = str(problem)
        place = _PLACE.search(text)
        path = place.group("path") if place else ""
        what = _PLACE.sub("", text)
        if unknown := _UNKNOWN.match(what):
            what = _describe_unknown(unknown.group("key"), path, shape)
        elif choice := _CHOICE.match(what):
            what = _describe_choice(choice.group("value"), path, shape)
        where = f"{document.source}: {path}" if path else document.source
        raise InvalidInput(f"{where}: {what}") from problem


def _describe_unknown(key: str, path: str, shape: type[Struct]) -> str:
    """Name the unknown key and the likeliest meant one."""
    known = _keys_at(shape, path)
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; known keys: {', '.join(known)}"
    return f"unknown key {key!r}" + (hint if known else "")


def _describe_choice(value: str, path: str, shape: type[Struct]) -> str:
    """Name what may be there instead."""
    known = getattr(_node_at(shape, path), "values", ())
    return f"{value} is none of {', '.join(sorted(map(str, known)))}"


def _keys_at(shape: type[Struct], path: str) -> list[str]:
    """The keys that the struct nested at ``a.b[0].c`` knows; none when there is no struct."""
    node = _node_at(shape, path)
    if isinstance(node, msgspec.inspect.StructType):
        return [field.encode_name for field in node.fields]
    return []


def _node_at(shape: type[Struct], path: str) -> Any:
    """What is known of the type at ``a.b[0].c``; None for nothing."""
    node: Any = msgspec.inspect.type_info(shape)
    for step in re.findall(r"[^.\[\]]+|\[", path):
        if step == "[":
            node = getattr(node, "item_type", None) or getattr(node, "value_type", None)
        elif isinstance(node, msgspec.inspect.StructType) and not step.isdigit():
            node = next((f.type for f in node.fields if f.encode_name == step), None)
        if isinstance(node, msgspec.inspect.UnionType):
            node = next((t for t in node.types if isinstance(t, msgspec.inspect.StructType)), None)
    return node
