"""Style sheet, script and sign: read once, served from memory, addressed by their content."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from extender.console.templating import FOLDER

TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".mjs": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}


class File(Struct, frozen=True):
    """One file."""

    body: bytes
    kind: bytes
    mark: str
    """Stands for its content."""


def files() -> dict[str, File]:
    """Return every file by name."""
    found = {}
    for path in sorted((FOLDER / "static").iterdir()):
        kind = TYPES.get(path.suffix)
        if kind is not None:
            body = path.read_bytes()
            found[path.name] = File(body, kind, hashlib.sha256(body).hexdigest()[:12])
    return found
