"""Read YAML from files that people write, strictly.

PyYAML silently keeps the last of two equal keys, and its errors do not name the file. Here a
repeated key is an error, every error says file and line, and a ConfigMap that carries a file is
opened, so that ``check`` can be pointed at manifests as well as at plain configuration.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from extender.model.errors import InvalidInput

MAX_BYTES = 4 * 1024 * 1024
"""Far above any configuration; keeps a mistaken path from being parsed for minutes."""
MOST_VALUES = 100_000
"""Of a stranger's text, keys among them: a megabyte of pods written out has fewer."""
MOST_DEPTH = 64
"""Of a stranger's text; a pod has some fifteen."""
MOST_WORDS = 300
"""Characters of what is wrong with a text: a tag or a key that is quoted may be a megabyte."""
MOST_SCALAR = 128
"""Characters of a number, a time or a truth value."""


_HALVES = re.compile("[\ud800-\udfff]")


class Document(Struct, frozen=True):
    """One YAML document and where it came from, as messages name it."""

    source: str
    value: Any


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice."""


class _PlainLoader(_StrictLoader):
    """Refuses aliases as well: a few lines of them can stand for gigabytes.

    And what takes long to read: a megabyte of commas is half a million values, which took 12 s of
    processor and 350 MiB.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._values += 1
        if self.check_event(yaml.AliasEvent):
            raise self._refused("aliases are not taken here")
        if self._values > MOST_VALUES:
            raise self._refused(f"more than {MOST_VALUES} values")
        if self._depth >= MOST_DEPTH:
            raise self._refused(f"more than {MOST_DEPTH} lists and mappings in one another")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def _refused(self, why: str) -> yaml.YAMLError:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        return yaml.composer.ComposerError(None, None, why, mark)


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(None, None, "is no mapping", node.start_mark)
    loader.flatten_mapping(node)
    seen: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(
                None, None, "a list or mapping cannot be a key", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is given twice", key_node.start_mark
            )
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


def _scalar(kind: str) -> None:
    """Make a wrong or endless value of a kind an error with a place.

    PyYAML's own constructors raise whatever comes of it, and 1:1:1 (a number to the base of 60 in
    YAML 1.1) took 70 s with a megabyte of digits.
    """
    tag = f"tag:yaml.org,2002:{kind}"
    construct = yaml.SafeLoader.yaml_constructors[tag]

    def constructed(loader: _StrictLoader, node: yaml.Node) -> Any:
        what = f"is no {kind}"
        if isinstance(node, yaml.ScalarNode) and len(node.value) > MOST_SCALAR:
            what = f"{kind} of more than {MOST_SCALAR} characters"
        else:
            try:
                return construct(loader, node)
            except (ValueError, LookupError, AttributeError, ArithmeticError):
                pass
        raise yaml.constructor.ConstructorError(None, None, what, node.start_mark)

    _StrictLoader.add_constructor(tag, constructed)


def _text(loader: _StrictLoader, node: yaml.ScalarNode) -> str:
    """Join what JSON writes as two halves of one character; a half alone is no text anywhere."""
    text = str(loader.construct_scalar(node))
    if not _HALVES.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        what = "half of a character (a surrogate)"
        raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from None


_StrictLoader.add_constructor("tag:yaml.org,2002:str", _text)
_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
for _kind in ("bool", "int", "float", "timestamp"):
    _scalar(_kind)


def read(path: Path) -> list[Document]:
    """Every non-empty document of a file, or InvalidInput that names the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # a device has no end
    except OSError as problem:
        raise InvalidInput(f"{path}: cannot be read: {problem.strerror}") from problem
    return parse(text_of(data, str(path)), str(path))


def text_of(data: bytes, source: str) -> str:
    """Bytes of a file as text. Raises InvalidInput for too many, and for what is no UTF-8."""
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"{source}: more than {MAX_BYTES} bytes are no configuration file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"{source}: not UTF-8 at byte {problem.start}") from problem


def parse(text: str, source: str, *, aliases: bool = True) -> list[Document]:
    """Every non-empty document of a text; ``source`` is what errors call it.

    Without ``aliases`` a text that uses them, or that would take long, is an error: for texts of
    strangers.
    """
    loader = _StrictLoader if aliases else _PlainLoader
    try:
        values = list(yaml.load_all(text, Loader=loader))
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        what = (problem.problem or problem.context or "")[:MOST_WORDS]
        raise InvalidInput(f"{place}: not valid YAML: {what}") from problem
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"{source}: not valid YAML: {_line(problem)}") from problem
    return [Document(source, value) for value in values if value is not None]


def _line(problem: Exception) -> str:
    """Return what is wrong; PyYAML's next line names no file that anybody knows."""
    return str(problem).partition("\n")[0][:MOST_WORDS]


def kind_of(document: Document) -> str:
    """The document's ``kind``, or "" when it is no Kubernetes object."""
    value = document.value
    kind = value.get("kind", "") if isinstance(value, dict) else ""
    return kind if isinstance(kind, str) else ""


def opened(documents: list[Document]) -> list[Document]:
    """The same documents with each ConfigMap replaced by the YAML files that it carries."""
    result: list[Document] = []
    for document in documents:
        if kind_of(document) != "ConfigMap":
            result.append(document)
            continue
        data = document.value.get("data") or {}
        if not isinstance(data, dict):
            raise InvalidInput(f"{document.source}: ConfigMap: data must be a mapping")
        metadata = document.value.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise InvalidInput(f"{document.source}: ConfigMap: metadata must be a mapping")
        name = metadata.get("name", "")
        for key, text in data.items():
            if isinstance(text, str) and str(key).endswith((".yaml", ".yml", ".json")):
                result += parse(text, f"{document.source} (ConfigMap {name}, {key})")
    return result


def file_names(documents: list[Document]) -> set[str]:
    """The names that files have which are among documents: those of ConfigMaps are their keys."""
    found: set[str] = set()
    for document in documents:
        if kind_of(document) == "ConfigMap":
            data = document.value.get("data")
            found |= set(map(str, data)) if isinstance(data, dict) else set()
        else:
            found.add(Path(document.source).name)
    return found
