"""Where what is made once for all checkouts is kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str = "") -> Path:
    """Return the project's folder for ``name`` by the XDG Base Directory Specification; it need
    not be there."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "podgroup-extender" / name
