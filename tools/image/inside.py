"""What a container of the image can see of itself; ``tools/image/start`` runs it inside.

Prints one line of facts. Whatever is not as docs/security.md has it ends it with a traceback.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import sys
from pathlib import Path

from extender.search.solver import BACKEND

USER = 65532
PROGRAM = Path("/opt/podgroup-extender")


def unprivileged() -> None:
    """The user is the image's, and nothing could make it another."""
    assert (os.getuid(), os.getgid(), set(os.getgroups()) - {USER}) == (USER, USER, set())
    pairs = (line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    status = {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0, (kind, status[kind])
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2", "no seccomp filter"


def nothing_to_write() -> None:
    """The root is read-only, and its files would not be the user's to change if it were not."""
    assert os.statvfs("/").f_flag & os.ST_RDONLY
    for path in (PROGRAM, *PROGRAM.rglob("*")):
        found = path.lstat()
        assert found.st_uid != USER, path
        assert path.is_symlink() or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH), path
    Path("/tmp/written").write_text("what a kubeconfig's certificates need\n")


def nothing_to_build_with() -> None:
    """No compiler, no installer; the shells are covered by the caller and not missed."""
    left = [name for name in ("cc", "gcc", "g++", "c++", "sh", "bash") if shutil.which(name)]
    # Where python:3.11-slim has it. The stand-in's own pip is Debian's, which pip leaves alone.
    left += [name for name in ("pip", "pip3") if shutil.which(name, path="/usr/local/bin")]
    assert not left, left
    assert not list(PROGRAM.glob("lib/python3*/site-packages/pip"))
    # Of ours: numpy has one among its tests.
    assert not list(PROGRAM.glob("lib/python3*/site-packages/extender/**/*.cpp"))
    first = (PROGRAM / "bin" / "podgroup-extender").read_bytes().splitlines()[0]
    assert first.startswith(b"#!/opt/podgroup-extender/bin/python"), first


def complete() -> tuple[int, int]:
    """Compiled search, bytecode of every module and a bill of materials: packages, bytes."""
    assert BACKEND == "compiled"
    (packages,) = PROGRAM.glob("lib/python3*/site-packages")
    tag = sys.implementation.cache_tag
    for source in (packages / "extender").rglob("*.py"):
        assert (source.parent / "__pycache__" / f"{source.stem}.{tag}.pyc").exists(), source
    listed = json.loads((PROGRAM / "sbom.cdx.json").read_text())["components"]
    files = (each.lstat() for each in PROGRAM.rglob("*"))
    return len(listed), sum(each.st_size for each in files if stat.S_ISREG(each.st_mode))


def main() -> None:
    """All of it."""
    unprivileged()
    nothing_to_write()
    nothing_to_build_with()
    listed, size = complete()
    print(
        f"user {USER}, no capabilities, seccomp filter, read-only root, no shell; "
        f"Python {platform.python_version()} on {platform.machine()}, search: {BACKEND}, "
        f"{listed} packages, {size >> 20} MiB"
    )


main()
