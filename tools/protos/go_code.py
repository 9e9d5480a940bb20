"""From proto/ to plugin/core/pb with the generators that plugin/tools pins.

``python -m tools.protos.go_code [--check]``. Apart from the Python code, because it needs Go.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.protos import generate

MODULE = generate.ROOT / "plugin" / "tools"
PACKAGE = generate.ROOT / "plugin" / "core" / "pb"
IMPORTED_AS = "podgroup-extender.io/plugin/core/pb"
GENERATORS = ("go", "go-grpc")


def write(folder: Path) -> None:
    """Generate the package into an empty folder. Raises SystemExit when a tool fails."""
    with tempfile.TemporaryDirectory() as scratch:
        programs = Path(scratch)
        done = subprocess.run(
            ["go", "build", "-o", f"{programs}{os.sep}", "tool"],
            cwd=MODULE,
            env={**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"go build of {MODULE} failed with {done.returncode}")
        options = [
            f"--plugin=protoc-gen-{name}={programs / f'protoc-gen-{name}'}" for name in GENERATORS
        ]
        for name in GENERATORS:
            options += [f"--{name}_out={folder}", f"--{name}_opt=module={IMPORTED_AS}"]
            # The files name no Go package: who compiles them for another program has its own.
            options += [f"--{name}_opt=M{each}={IMPORTED_AS}" for each in generate.sources()]
        generate.compiled(options)


def differences(fresh: Path) -> list[str]:
    """Return in words which files are not what proto/ gives."""
    names = {path.name for folder in (fresh, PACKAGE) for path in folder.glob("*.go")}
    return [
        f"plugin/core/pb/{name} is not what proto/ gives: run python -m tools.protos.go_code"
        for name in sorted(names)
        if generate.content(fresh / name) != generate.content(PACKAGE / name)
    ]


def main(arguments: list[str]) -> int:
    """Run from the command line; exit status 1 when something is not as it should be."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m tools.protos.go_code [--check]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write(folder)
        if not arguments:
            shutil.rmtree(PACKAGE, ignore_errors=True)
            shutil.copytree(folder, PACKAGE)
        wrong = differences(folder)
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
