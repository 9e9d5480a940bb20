"""The manifest that a command is given: a file or standard input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from extender.check import documents
from extender.check.documents import Document
from extender.cli.dump_files import STDIN
from extender.cli.standard_streams import standard_input
from extender.gang.plan import manifest
from extender.gang.plan.manifest import Manifest
from extender.model.errors import InvalidInput
from extender.model.objects import PriorityClass


def read(path: Path, known: Mapping[str, PriorityClass]) -> Manifest:
    """Return what a YAML or JSON file adds to a cluster with these classes, by name.

    The path - is standard input. Raises InvalidInput that names the file, the object and the field.
    """
    return added_by(path, written(path), known)


def written(path: Path) -> list[Document]:
    """Return the documents of a file, or of standard input for -. Raises InvalidInput."""
    if path != STDIN:
        return documents.read(path)
    try:
        data = standard_input(documents.MAX_BYTES)
    except (InvalidInput, OSError) as problem:
        raise InvalidInput(f"{_name(path)}: {problem}") from problem
    return documents.parse(documents.text_of(data, _name(path)), _name(path))


def added_by(path: Path, found: Sequence[Document], known: Mapping[str, PriorityClass]) -> Manifest:
    """Return what the documents of a file add, as ``read`` does."""
    try:
        return manifest.read((document.value for document in found), known)
    except InvalidInput as problem:
        raise InvalidInput(f"{_name(path)}: {problem}") from problem


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)
