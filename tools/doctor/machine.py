"""Look at this machine: what is there, without a word on whether that is enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tools.caches import cache_folder

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
"""No program that is asked something gets longer."""
GO = "/usr/local/go/bin"
"""Where Go is unpacked by its own instructions; .ci/run looks there as well."""

CI_PROGRAMS = ("zsh", "fish", "socat", "nc", "rsync", "ssh")
"""What .ci/run looks for on PATH beside a browser; a test compares them."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Any of them will do; CHROMIUM names another."""


class Machine(NamedTuple):
    """What ``checks`` judges. Texts about a fault are empty where there is none."""

    system: str
    """sys.platform."""
    python: tuple[int, ...]
    """(major, minor, micro)."""
    python_path: str
    makes_venvs: bool
    """venv and ensurepip are there; Debian ships the first without the second."""
    has_pip: bool
    installed: bool
    """./run has installed into .venv before."""
    registry_fault: str | None
    """Why a pinned file could not be fetched; None: nothing is there to ask with."""
    compiler_fault: str
    """Why an extension module cannot be compiled."""
    git: bool
    bash: bool
    browser: bool
    lacking: tuple[str, ...]
    """Those of CI_PROGRAMS that are not on PATH."""
    go: tuple[int, ...] | None
    """(major, minor) of Go; None where there is none."""
    go_on_path: bool
    """./run takes it from PATH alone; .ci/run looks in GO as well."""
    control_plane_built: bool
    """Programs of a control plane are in the cache, of whatever version."""
    checkout_free: int
    """Bytes free where this checkout is."""
    caches_free: int
    """Bytes free where Go and the test bed keep what they build."""


def look() -> Machine:
    """Return what this machine has; fetches one small file and compiles one line."""
    return Machine(
        system=sys.platform,
        python=tuple(sys.version_info[:3]),
        python_path=sys.executable,
        makes_venvs=all(map(find_spec, ("venv", "ensurepip"))),
        has_pip=find_spec("pip") is not None,
        installed=(ROOT / ".venv" / ".installed-base").exists(),
        registry_fault=_registry_fault(),
        compiler_fault=_compiler_fault(),
        git=shutil.which("git") is not None,
        bash=shutil.which("bash") is not None,
        browser=bool(os.environ.get("CHROMIUM") or any(map(shutil.which, BROWSERS))),
        lacking=tuple(name for name in CI_PROGRAMS if shutil.which(name) is None),
        go=_go(),
        go_on_path=shutil.which("go") is not None,
        control_plane_built=_built(),
        checkout_free=_free(ROOT),
        caches_free=_free(cache_folder()),
    )


def asked(command: Sequence[str]) -> tuple[int, str]:
    """Run a program; return its exit status and all it wrote. 127: it could not be run."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {SECONDS:.0f} s"
    except OSError as problem:
        return 127, str(problem)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def first_pin(requirements: str) -> str:
    """Return the first package of a hashed requirements file with all its lines."""
    found = re.search(r"(?m)^[A-Za-z0-9][^\n]*(?:\n +--hash[^\n]*)+", requirements)
    return found.group() + "\n" if found else ""


def pip_command() -> list[str] | None:
    """Return how pip is run here: as a module, from .venv, or out of ensurepip's wheel."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    ours = ROOT / ".venv" / "bin" / "python"
    if ours.exists() and asked([str(ours), "-m", "pip", "--version"])[0] == 0:
        return [str(ours), "-m", "pip"]
    spec = find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec and spec.origin else []
    folders.append(Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or os.devnull))
    for folder in folders:
        for wheel in sorted(folder.glob("pip-*.whl")):
            return [sys.executable, str(wheel / "pip")]
    return None


def _registry_fault() -> str | None:
    """Fetch a pinned file as ./run would, with whatever registry pip is configured for."""
    pip = pip_command()
    if pip is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(first_pin((ROOT / "requirements" / "virtualenv.txt").read_text()))
        options = "--no-deps --require-hashes --only-binary=:all: --no-cache-dir --retries 0"
        options += " --timeout 15 --disable-pip-version-check --quiet"
        status, said = asked(
            [*pip, "download", *options.split(), "--dest", folder, "-r", str(wanted)]
        )
    return last_line(said, "pip said nothing") if status else ""


def _compiler_fault() -> str:
    """Compile one line that needs Python's headers and the C++ library."""
    named = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or ""
    found = next(
        (each for each in (*named.split()[:1], "c++", "g++", "clang++") if shutil.which(each)), None
    )
    if found is None:
        return "no C++ compiler (c++, g++ or clang++) is on PATH"
    headers = sysconfig.get_path("include")
    if not (Path(headers) / "Python.h").exists():
        return f"Python's headers are not there ({headers}/Python.h)"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "one.cpp"
        source.write_text("#include <Python.h>\n#include <vector>\nstd::vector<int> one;\n")
        status, said = asked([found, f"-I{headers}", "-c", str(source), "-o", f"{folder}/one.o"])
    return f"{found}: {last_line(said, 'it said nothing')}" if status else ""


def last_line(text: str, silent: str) -> str:
    """Return the last line that says an error, else the last one, else ``silent``."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [silent])[-1]


def _go() -> tuple[int, ...] | None:
    program = shutil.which("go") or shutil.which("go", path=GO)
    if program is None:
        return None
    found = re.search(r"go(\d+)\.(\d+)", asked([program, "version"])[1])
    return (int(found.group(1)), int(found.group(2))) if found else None


def _built() -> bool:
    named = os.environ.get("PODGROUP_EXTENDER_CONTROLPLANE_CACHE")
    folder = Path(named) if named else cache_folder("controlplane")
    return folder.is_dir() and any(folder.rglob("kube-scheduler"))


def _free(path: Path) -> int:
    """Bytes that an ordinary user may still write where the path is or would be made."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free
