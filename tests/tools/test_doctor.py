"""``./run doctor`` names each thing that a machine lacks, what is lost by it, and how to get it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.doctor.__main__ import lines, status
from tools.doctor.checks import OLDEST_GO, OTHERS, findings
from tools.doctor.machine import CI_PROGRAMS, ROOT, Machine, asked, first_pin, last_line

GIB = 1 << 30
GOOD = Machine(
    system="linux",
    python=(3, 11, 7),
    python_path="/usr/bin/python3",
    makes_venvs=True,
    has_pip=True,
    installed=False,
    registry_fault="",
    compiler_fault="",
    git=True,
    bash=True,
    browser=True,
    lacking=(),
    go=OLDEST_GO,
    go_on_path=True,
    control_plane_built=False,
    checkout_free=50 * GIB,
    caches_free=50 * GIB,
)


def told(**changes: Any) -> tuple[str, int, int]:
    """The report, and the exit status without and with --ci, on a good machine but for these."""
    found = list(findings(GOOD._replace(**changes)))
    return "\n".join(lines(found)), status(found, ci=False), status(found, ci=True)


def test_a_machine_with_everything_lacks_nothing() -> None:
    report, plain, ci = told()
    assert (plain, ci) == (0, 0)
    assert report.endswith("\nnothing is missing")
    assert "missing  " not in report


def test_go_that_only_ci_finds_is_told() -> None:
    """Said to be there, and then ``./run test-real`` says to install it."""
    report, plain, ci = told(go_on_path=False)
    assert (plain, ci) == (0, 0)
    assert f"ok       Go {'.'.join(map(str, OLDEST_GO))} in /usr/local/go/bin, " in report
    assert "on PATH" not in told()[0]


@pytest.mark.parametrize(
    ("changes", "words", "needed"),
    [
        ({"python": (3, 9, 2)}, "Python 3.11 or newer: this is 3.9.2 (/usr/bin/python3)", True),
        ({"makes_venvs": False, "has_pip": False}, "ensurepip (or pip)", True),
        ({"registry_fault": "no such host"}, "a package registry that answers pip: no such", True),
        ({"checkout_free": GIB // 2}, "disk: 0.5 GiB free in this checkout, about 1 GiB", True),
        ({"compiler_fault": "no C++ compiler"}, "Python's headers: no C++ compiler", False),
        ({"git": False}, "missing  git\n", False),
        ({"bash": False, "git": False}, "missing  git and bash\n", False),
        ({"browser": False}, "missing  a Chromium (chromium, ", False),
        ({"lacking": ("fish",)}, "missing  fish\n", False),
        ({"lacking": CI_PROGRAMS[2:]}, "missing  socat, nc, rsync and ssh\n", False),
        ({"go": None}, "missing  Go 1.26 or newer\n", False),
        ({"go": (1, 9)}, "Go 1.26 or newer: this is 1.9", False),
        ({"system": "darwin"}, "missing  Linux", False),
        ({"caches_free": 2 * GIB}, "disk: 2.0 GiB free for Go's caches, about 10 GiB", False),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, Any], words: str, *, needed: bool) -> None:
    report, plain, ci = told(**changes)
    assert words in report
    assert report.count("missing  ") == report.count("repair: ") == 1
    assert re.search(r"without it: \S.*\n +repair: \S", report)
    assert (plain, ci) == (int(needed), 1)
    assert report.splitlines()[-1].startswith("1 missing that ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"makes_venvs": False}, "in place of the missing ensurepip"),
        ({"registry_fault": "no such host", "installed": True}, "not needed: .venv is installed"),
        ({"registry_fault": None}, "there is no pip to ask with"),
        ({"caches_free": 0, "control_plane_built": True}, "built before"),
        ({"python": (3, 14, 0)}, "Python 3.14.0"),
    ],
)
def test_what_there_is_a_way_round_is_no_fault(changes: dict[str, Any], words: str) -> None:
    report, plain, ci = told(**changes)
    assert words in report
    assert (plain, ci) == (0, 0)


def test_it_asks_for_every_program_that_ci_asks_for() -> None:
    """Each is a program of its own in the report, too."""
    text = (ROOT / ".ci" / "run").read_text()
    wanted = {
        name for found in re.findall(r"\bprograms ([\w ]+) -- ", text) for name in found.split()
    }
    assert wanted == {*CI_PROGRAMS, "chromium"}
    assert {name for names, _, _ in OTHERS for name in names} == set(CI_PROGRAMS)


def test_it_asks_for_the_go_that_the_control_plane_asks_for() -> None:
    modules = list((ROOT / "tests" / "controlplane").glob("*/go.mod"))
    asked_for = {re.findall(r"(?m)^go (\d+)\.(\d+)", path.read_text())[0] for path in modules}
    assert max((int(major), int(minor)) for major, minor in asked_for) == OLDEST_GO


def test_the_file_that_the_registry_is_asked_for_is_pinned_with_its_hashes() -> None:
    pin = first_pin((ROOT / "requirements" / "virtualenv.txt").read_text())
    assert re.fullmatch(r"[\w.-]+==[\w.]+ \\\n(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", pin)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nERROR: no route\nnotice: b\n", "ERROR: no route"),
        ("a\nb\n\n", "b"),
        ("", "silence"),
    ],
)
def test_of_what_a_program_says_one_line_is_told(text: str, line: str) -> None:
    assert last_line(text, "silence") == line


def test_a_program_that_is_not_there_is_no_crash() -> None:
    code, said = asked(["/nonexistent/program"])
    assert code == 127
    assert "No such file" in said


def test_it_runs_with_the_standard_library_alone(tmp_path: Path) -> None:
    """-S leaves site-packages out; no program is on PATH and the registry refuses connections."""
    shutil.copytree(ROOT / "tools" / "doctor", tmp_path / "tools" / "doctor")
    shutil.copy(ROOT / "tools" / "caches.py", tmp_path / "tools")
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "requirements" / "virtualenv.txt", tmp_path / "requirements")
    nobody = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "tools.doctor", "--ci"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": str(tmp_path), **nobody},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith(f"ok       Python {'.'.join(map(str, sys.version_info[:3]))}")
    assert "ok       a package registry that answers pip" not in done.stdout
    assert "no C++ compiler (c++, g++ or clang++) is on PATH" in done.stdout
    assert "missing  git and bash" in done.stdout
    assert "missing  a Chromium" in done.stdout
    assert "missing  zsh and fish" in done.stdout
    assert "missing  socat, nc, rsync and ssh" in done.stdout
