"""Write requirements/*.txt: the pins of constraints.txt with the hashes of their files.

``./run lock`` resolves each set with uv for every platform and Python at once, and then asks
whether all of it comes as wheels where that is promised. Each file holds what its base does not.
SkyPilot, which asks for versions of its own, has constraints and an environment of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "requirements"

CONSTRAINTS = "constraints.txt"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (
    "x86_64-manylinux_2_28",
    "aarch64-manylinux_2_28",
    "aarch64-apple-darwin",
)


class Set(Struct, frozen=True):
    """One file: extras of pyproject.toml or requirements, and the files it is installed with."""

    name: str
    what: str
    extras: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    base: tuple[str, ...] = ()
    constraints: str = CONSTRAINTS
    """Where its versions are chosen; sets with the same file fit into one environment."""


def sets() -> tuple[Set, ...]:
    """Every file, bases first."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build = tuple(project["build-system"]["requires"])
    return (
        Set("build", "What compiles the program", requirements=build),
        Set("runtime", "What the program runs with", extras=("",), base=("build",)),
        Set("highs", "HiGHS for more proofs", extras=("highs",), base=("build", "runtime")),
        Set("otel", "Traces over OTLP", extras=("otel",), base=("build", "runtime")),
        Set(
            "test",
            "The tests",
            extras=("test", "oracle", "shell", "otel"),
            base=("build", "runtime"),
        ),
        Set(
            "browser",
            "The tests in a browser",
            extras=("browser",),
            base=("build", "runtime", "test"),
        ),
        Set("lint", "The static checks", extras=("lint",), base=("build", "runtime", "test")),
        Set("audit", "./run audit", extras=("audit",), base=("build", "runtime", "test", "lint")),
        Set("docs", "The site", extras=("docs",), base=("build", "runtime", "test")),
        Set("virtualenv", "For a Python without ensurepip", requirements=("virtualenv",)),
        Set("uv", "./run lock itself", requirements=("uv",)),
        Set(
            "skypilot",
            "SkyPilot for ./run test-clients",
            requirements=("skypilot[kubernetes]",),
            constraints="constraints-skypilot.txt",
        ),
    )


HEADER = """\
# {what}: every file that may be installed, by its SHA-256 sum.
# Made by ./run lock from pyproject.toml and {constraints}; do not edit.
"""


def blocks(text: str) -> dict[str, str]:
    """A hashed requirements file as name -> its lines."""
    found: dict[str, str] = {}
    for block in re.split(r"(?m)^(?=[A-Za-z0-9])", text):
        if pin := re.match(r"([A-Za-z0-9._-]+)==", block):
            found[re.sub(r"[-_.]+", "-", pin[1]).lower()] = block.rstrip() + "\n"
    return found


def compiled(part: Set) -> dict[str, str]:
    """What uv resolves a set to, for all platforms, within its constraints."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config"]
    command += ["--universal", "--python-version", PYTHONS[0], "--generate-hashes"]
    command += ["--no-header", "--no-annotate", "--constraint", part.constraints]
    given = None
    if part.requirements:
        command.append("-")
        given = "\n".join(part.requirements)
    else:
        command.append("pyproject.toml")
        for extra in filter(None, part.extras):
            command += ["--extra", extra]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"lock: uv could not resolve {part.name}")
    return blocks(done.stdout)


def check_wheels(names: list[str]) -> None:
    """Stop unless the files of these sets suffice, as wheels, wherever the program is promised."""
    for platform in PLATFORMS:
        for python in PYTHONS:
            command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config"]
            command += ["--python-platform", platform, "--python-version", python]
            command += ["--only-binary", ":all:", *(f"requirements/{name}.txt" for name in names)]
            if subprocess.run(command, stdout=subprocess.DEVNULL, cwd=ROOT).returncode:
                raise SystemExit(f"lock: no wheels for Python {python} on {platform}")


def pins(constraints: str) -> set[str]:
    """The packages whose version a file of constraints chooses."""
    found = re.findall(r"(?m)^([A-Za-z0-9._-]+)==", (ROOT / constraints).read_text())
    return {re.sub(r"[-_.]+", "-", name).lower() for name in found}


def main() -> int:
    """Write all files."""
    TARGET.mkdir(exist_ok=True)
    written: dict[str, dict[str, str]] = {}
    for part in sets():
        found = compiled(part)
        if loose := sorted(found.keys() - pins(part.constraints)):
            versions = "\n".join(found[name].split(" ")[0] for name in loose)
            raise SystemExit(f"lock: {part.constraints} does not pin\n{versions}")
        for base in part.base:
            found = {k: v for k, v in found.items() if k not in written[base]}
        written[part.name] = found
        header = HEADER.format(what=part.what, constraints=part.constraints)
        text = header + "".join(found[name] for name in sorted(found))
        (TARGET / f"{part.name}.txt").write_text(text)
        print(f"lock: requirements/{part.name}.txt, {len(found)} packages")
    for constraints in dict.fromkeys(part.constraints for part in sets()):
        check_wheels([part.name for part in sets() if part.constraints == constraints])
    print(f"lock: wheels for Python {', '.join(PYTHONS)} on {', '.join(PLATFORMS)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
