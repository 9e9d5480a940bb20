"""Run tests on a core that notices what C++ leaves undefined (setup.py says what each build sees).

    python -m tools.checked_core checked|sanitized [arguments for pytest]

The core is built in a copy of the sources, ``build/checked`` or ``build/sanitized``, and pytest
runs there: what the checkout and an installation have compiled stays as it is. A fault ends the
process with a line that names the file and line of the generated C++, and faulthandler adds the
test. A build of the same sources by the same compilers is not made twice (tools/built_core.py).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools import built_core
from tools.caches import cache_folder

ROOT = Path(__file__).resolve().parent.parent
COPIED = (
    *("extender", "tests", "bench", "tools"),
    *("setup.py", "pyproject.toml", "README.md", "LICENSE"),
)
# Neither belongs to the sources; the first two are made in the copy.
MADE = {".so", ".cpp", ".pyc"}
# What is run where no argument is a path.
USUAL = ("tests/search/core", "tests/search/test_oracles.py", "tests/search/test_magnitudes.py")
# A process may not load these later than Python itself.
PRELOADED = ("libasan.so", "libubsan.so", "libstdc++.so")


def main(arguments: list[str]) -> int:
    """Build, then run pytest with what is left of the arguments; its exit status."""
    if not arguments or arguments[0] not in ("checked", "sanitized"):
        print(__doc__, file=sys.stderr)
        return 2
    build, *rest = arguments
    tree = ROOT / "build" / build
    renew(tree)
    key = built_core.key_of(tree, build, built_core.compiler_version())
    made = cache_folder("core") / key
    if not built_core.take(tree, made):
        compile_in(tree, build)
        built_core.keep(tree, made)
    return subprocess.run(command(rest), cwd=tree, env=environment(build)).returncode


def command(arguments: list[str]) -> list[str]:
    """Return what runs pytest in a copy of the sources.

    Which of the arguments are paths, and whether any is, only pytest can tell: it takes its
    testpaths where there is none.
    """
    usual = f"testpaths={' '.join(USUAL)}"
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", usual, *arguments]


def renew(tree: Path) -> None:
    """Make ``tree`` what the checkout is; what was built there from the same files stays."""
    stamp = tree / ".built-by"
    maker = hashlib.sha256((ROOT / "setup.py").read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != maker:
        shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True, exist_ok=True)
    stamp.write_text(maker)
    wanted = set(sources(ROOT))
    for path in set(sources(tree)) - wanted:
        (tree / path).unlink()
        for made in (tree / path).parent.glob(f"{path.stem}.*"):
            if made.suffix in MADE:
                made.unlink()
    for path in wanted:
        source, copy = ROOT / path, tree / path
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def sources(root: Path) -> Iterator[Path]:
    """Every file that is copied, relative to ``root``."""
    for name in COPIED:
        top = root / name
        for path in [top] if top.is_file() else top.rglob("*"):
            if path.is_file() and path.suffix not in MADE and "out" not in path.parts:
                yield path.relative_to(root)


def compile_in(tree: Path, build: str) -> None:
    """Compile the core and the tests' doors in ``tree``; their output only if that fails."""
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=tree,
        env={**os.environ, "PODGROUP_BUILD": build},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        raise SystemExit(f"the {build} build failed; its whole output is above")


def environment(build: str) -> dict[str, str]:
    """What pytest runs with."""
    found = {
        **os.environ,
        "PODGROUP_BUILD": build,
        "PYTHONDONTWRITEBYTECODE": "1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    if build == "sanitized":
        found |= {
            # The interpreter does not free everything at its end, and has an allocator of its own.
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
            "PYTHONMALLOC": "malloc",
            "LD_PRELOAD": ":".join(library(name) for name in PRELOADED),
        }
    return found


def library(name: str) -> str:
    """Where the compiler has the library."""
    asked = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
    path = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"{asked[0]} has no {name} (Debian: it comes with g++)")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
