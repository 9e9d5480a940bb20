"""The manifest that a command is given: a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from extender.cli import documents
from extender.cli.dump_files import STDIN
from extender.gang.plan import manifest
from extender.gang.plan.manifest import Manifest
from extender.model.errors import InvalidInput
from extender.model.objects import PriorityClass


def read(path: Path, known: Mapping[str, PriorityClass]) -> Manifest:
    """Return what a YAML or JSON file adds to a cluster with these classes, by name.

    The path - is standard input. Raises InvalidInput that names the file, the object and the field.
    """
    source = "standard input" if path == STDIN else str(path)
    found = documents.parse(sys.stdin.read(), source) if path == STDIN else documents.read(path)
    try:
        return manifest.read((document.value for document in found), known)
    except InvalidInput as problem:
        raise InvalidInput(f"{source}: {problem}") from problem
