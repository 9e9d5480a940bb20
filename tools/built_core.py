"""Keeps a compiled core, by all that its content depends on.

    python -m tools.built_core take|keep

A checkout that compiles what another one has compiled already takes the other's: minutes of the
compiler for each fresh clone with an unchanged core (`.ci/run`). tools.checked_core asks for the
builds of tests; `./run` by the command above for the one that is shipped, with exit status 1 where
there is none to take, or nothing whole to keep.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tools.caches import cache_folder

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = "shipped"
KEPT = 8
"""Builds that are kept, the last ones used."""
READ = ("*.pyx", "*.pxd", "*.pxi", "*.h")
"""What the compilers read, besides setup.py."""
MADE_IN = ("extender", "tests")
"""Where their sources are, and what they make."""
FLAGS = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")


def key_of(tree: Path, build: str, compiler: str) -> str:
    """Name all that decides what a build of ``tree`` contains, ``compiler``'s version included."""
    digest = hashlib.sha256()
    machine = f"{sys.version} {platform.machine()}"
    for said in (build, compiler, machine, version("cython"), *map(_variable, FLAGS)):
        digest.update(said.encode() + b"\0")
    tops = [tree / top for top in MADE_IN]
    read = {path for top in tops for name in READ for path in top.rglob(name)}
    for path in sorted(read | {tree / "setup.py"}):
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
        place = tree / path.relative_to(kept)
        fresh = place.with_suffix(".new")
        shutil.copyfile(path, fresh)
        fresh.replace(place)  # a process that has the old file loaded keeps it
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


def is_whole(tree: Path) -> bool:
    """Whether each module of the core is there, compiled: setup.py goes on where one fails."""
    core = tree / "extender" / "search" / "core"
    return all(any(each.parent.glob(f"{each.stem}.*.so")) for each in core.rglob("*.pyx"))


def main(arguments: list[str], tree: Path = ROOT) -> int:
    """Take or keep the shipped build of the checkout."""
    if arguments not in (["take"], ["keep"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        kept = cache_folder("core") / key_of(tree, SHIPPED, compiler_version())
        if arguments == ["take"]:
            return 0 if take(tree, kept) else 1
        if not is_whole(tree):
            return 1
        keep(tree, kept)
    except (OSError, subprocess.CalledProcessError, PackageNotFoundError):
        return 1  # no compiler, or nowhere to keep it: it is only a matter of time
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
