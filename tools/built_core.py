"""Keeps what tools.checked_core has compiled, by all that its content depends on.

A checkout that compiles what another one has compiled already takes the other's: three minutes of
the compiler for each fresh clone with an unchanged core (`.ci/run`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

KEPT = 6
"""Builds that are kept, the last ones used."""
READ = ("*.pyx", "*.pxd", "*.pxi", "*.h")
"""What the compilers read, besides setup.py."""
MADE_IN = ("extender", "tests")
FLAGS = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")


def key_of(tree: Path, build: str, compiler: str) -> str:
    """Name all that decides what a build of ``tree`` contains, ``compiler``'s version included."""
    digest = hashlib.sha256()
    for said in (build, compiler, sys.version, version("cython"), *map(_variable, FLAGS)):
        digest.update(said.encode() + b"\0")
    read = {path for name in READ for path in tree.rglob(name)} | {tree / "setup.py"}
    for path in sorted(read):
        digest.update(str(path.relative_to(tree)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{build}-{digest.hexdigest()[:32]}"


def _variable(name: str) -> str:
    return f"{name}={os.environ.get(name, '')}"


def compiler_version() -> str:
    """What the C++ compiler says of itself; raises OSError where there is none."""
    asked = [os.environ.get("CXX", "g++"), "--version"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


def take(tree: Path, kept: Path) -> bool:
    """Put a kept build into ``tree``; False where there is none."""
    if not kept.is_dir():
        return False
    for path in kept.rglob("*.so"):
        shutil.copyfile(path, tree / path.relative_to(kept))
    os.utime(kept)
    return True


def keep(tree: Path, kept: Path) -> None:
    """Keep what was built in ``tree``, whole or not at all; forget the oldest."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=kept.parent))
    for path in (each for top in MADE_IN for each in (tree / top).rglob("*.so")):
        (scratch / path.relative_to(tree)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, scratch / path.relative_to(tree))
    try:
        scratch.rename(kept)
    except OSError:  # another checkout was first
        shutil.rmtree(scratch)
    for old in sorted(kept.parent.iterdir(), key=lambda each: each.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
