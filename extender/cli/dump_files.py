"""A dump of a cluster from files: JSON or YAML of kubectl, a directory, or standard input.

A directory is read with all below it (``kubectl cluster-info dump --output-directory`` makes
such trees). An object that stands in several files counts once: the one with the higher
resourceVersion, else the later one.
"""

from __future__ import annotations

import argparse
import codecs
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from extender.cli import kubectl_yaml
from extender.cli.live_http import MOST_BYTES
from extender.cli.standard_streams import standard_input
from extender.decode.from_json import decode_documents
from extender.decode.json_text import Shape, decoded
from extender.gang.plan.assemble import KIND, Dump
from extender.model.errors import InvalidInput
from extender.model.objects import GroupObject, Pod

STDIN = Path("-")
SUFFIXES = (".json", ".yaml", ".yml")


class Contents(Struct, frozen=True):
    """What the files hold: records of kubectl's dumps, or one downloaded snapshot."""

    records: tuple[object, ...]
    snapshot: Dump | None = None


def dump_path(text: str) -> Path:
    """Return a path of the command line, for argparse: "" is no directory, as ``Path`` has it."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: a variable that is not set?")
    return Path(text)


def read(paths: Iterable[Path], progress: Callable[[str], None] = lambda _: None) -> Contents:
    """Read every file; ``progress`` is told each one's name before it is read.

    Raises InvalidInput that names the file and what is wrong with it.
    """
    records: dict[object, object] = {}
    snapshot: Dump | None = None
    for path in (found for given in paths for found in _files(given)):
        name = "standard input" if path == STDIN else str(path)
        progress(name)
        try:
            dumped, found = _parse(_bytes(path), path.suffix)
            if dumped is not None:
                if snapshot is not None:
                    raise InvalidInput("is a second downloaded snapshot; give one")
                snapshot = dumped
            for record in found:
                key = _identity(record)
                before = records.get(key)
                if before is None or getattr(record, "version", 0) >= getattr(before, "version", 0):
                    records[key] = record
        except InvalidInput as problem:
            raise InvalidInput(f"{name}: {problem}") from problem
    if snapshot is not None and records:
        raise InvalidInput("give either a downloaded snapshot or dumps from kubectl, not both")
    return Contents(tuple(records.values()), snapshot)


def _files(path: Path) -> Iterator[Path]:
    if path == STDIN or not path.is_dir():
        yield path
        return
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix in SUFFIXES and file.is_file() and not file.name.startswith(".")
    )
    if not found:
        raise InvalidInput(f"{path}: no file that ends in {', '.join(SUFFIXES)}")
    yield from found


def _bytes(path: Path) -> bytes:
    try:
        if path == STDIN:
            data = standard_input(MOST_BYTES)
        else:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)  # a device has no end
    except OSError as problem:
        raise InvalidInput(f"cannot be read: {problem.strerror}") from problem
    if len(data) > MOST_BYTES:
        raise InvalidInput(f"has more than {MOST_BYTES} bytes")
    return _utf8(data)


def _utf8(data: bytes) -> bytes:
    """Return what follows a byte order mark, in UTF-8: PowerShell's ``>`` writes UTF-16."""
    if not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-16").encode()
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"not UTF-16 at byte {problem.start}") from problem


def _parse(data: bytes, suffix: str) -> tuple[Dump | None, list[object]]:
    """Return the snapshot or the records of one file's bytes."""
    if not data.strip():
        raise InvalidInput("is empty")
    if data.lstrip()[:1] == b"{" or suffix == ".json":
        if _kind(data) == KIND:
            return _decoded(data, Dump), []
        return None, list(_records(data))
    found: list[object] = []
    for document in kubectl_yaml.documents(data):
        if document is None:
            continue
        if not isinstance(document, dict):
            raise InvalidInput(f"not readable: a {type(document).__name__} is no object")
        if document.get("kind") == KIND:
            return _decoded(kubectl_yaml.as_json(document), Dump), []
        found += _records(document)
    return None, found


def _records(source: bytes | dict[str, Any]) -> Iterator[object]:
    for record in decode_documents(source):
        if isinstance(record, Pod) and not record.uid:
            raise InvalidInput(
                f"Pod {record.key}: metadata.uid is missing, and two pods may have one name: "
                "dump with -o json or -o yaml, or give what is to be added with --manifest"
            )
        yield record


def _identity(record: Any) -> object:
    """Return what two records of one object have in common."""
    if isinstance(record, Pod):
        return "Pod", record.uid
    source = record.source if isinstance(record, GroupObject) else ""
    return type(record), source, getattr(record, "namespace", ""), record.name


class _Kind(Struct):
    kind: Any = ""


def _kind(data: bytes) -> object:
    return _decoded(data, _Kind).kind


def _decoded(data: bytes, shape: type[Shape]) -> Shape:
    try:
        return decoded(data, shape)
    except InvalidInput as problem:
        raise InvalidInput(f"not readable: {problem}") from problem
