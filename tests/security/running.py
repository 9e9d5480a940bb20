"""Takes one rule after the other out of a copy of the tree, and runs the test that should mind."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

from tests.fates import MutantOutcome, fate_of
from tests.security.mutant import Mutant

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".git", ".venv", ".hypothesis", ".*_cache", "__pycache__", "build", "*.egg-info")
"""What no test needs, or what would be another tree's."""
TEST_SECONDS = 60.0
"""A test that takes longer is stopped."""
FAILED_ONE = re.compile(r"[.sx]*F")
"""How pytest's progress begins once a test has failed, whatever its end then waits for."""
FAILED = 1
"""pytest's exit code when tests ran and some failed."""


class Tree:
    """A copy of the whole tree, in which one file at a time is changed."""

    def __init__(self, place: Path) -> None:
        self.root = place / "tree"
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        self._stamp = 1_000_000_000.0

    def test(self, *names: str, seconds: float = TEST_SECONDS) -> tuple[int | None, str]:
        """Run tests; return pytest's exit code, None when it was stopped, and what it wrote."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--tb=line",
            "-p",
            "no:cacheprovider",
        ]
        command += ["-p", "tests.security.impatient"]
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        kept["PYTHONUNBUFFERED"] = "1"
        with subprocess.Popen(
            [*command, *names],
            cwd=self.root,
            env=kept,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                said, _ = running.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                said, _ = running.communicate()
                # A thread without end keeps the process, not the verdict.
                return FAILED if FAILED_ONE.match(said) else None, said
        return running.returncode, said

    def try_one(self, mutant: Mutant) -> MutantOutcome[Mutant]:
        """Take a rule out, run its test and put the rule back."""
        path = self.root / mutant.file
        before, times = path.read_text(), path.stat()
        began, without = monotonic(), mutant.applied(before)
        if path.suffix == ".py":
            ast.parse(without)  # a file that cannot be read would fail any test
        try:
            path.write_text(without)
            # Compiled modules are known by seconds and size, which both may be the same.
            self._stamp += 1
            os.utime(path, (self._stamp, self._stamp))
            code, said = self.test(mutant.test)
        finally:
            path.write_text(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return MutantOutcome(mutant, fate_of(code), monotonic() - began, said[-1000:])


def outcomes(tree: Tree, mutants: Iterable[Mutant]) -> Iterator[MutantOutcome[Mutant]]:
    """Try one after the other."""
    for mutant in mutants:
        yield tree.try_one(mutant)


def without_any(tree: Tree, mutants: Iterable[Mutant]) -> str:
    """Run all their tests with nothing taken out; return what failed, "" when nothing did."""
    names = sorted({mutant.test for mutant in mutants})
    code, said = tree.test(*names, seconds=TEST_SECONDS * len(names))
    return "" if code == 0 else said or f"pytest ended with {code}"
