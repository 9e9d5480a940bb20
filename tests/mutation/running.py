"""Runs the narrow tests of a room in forked processes, each with one function's code exchanged.

The parent imports all tests once; a child puts the changed code in the function's place, wherever
that was imported to, and runs them until the first failure. Nothing is written into the sources.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase

from tests.fates import Fate, MutantOutcome, fate_of
from tests.mutation.operators import Mutant, changed
from tests.mutation.rooms import Room

ARGUMENTS = ("-x", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "tests.security.impatient")


def prepare(rooms: Iterable[Room]) -> None:
    """Import all tests of the rooms here, so that no child has to."""
    # The same examples for each mutant; none kept, and none made smaller: one failure is enough.
    hypothesis.settings.register_profile(
        "mutation",
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    hypothesis.settings.load_profile("mutation")
    tests = sorted({test for room in rooms for test in room.tests if Path(test).exists()})
    code = pytest.main(["--collect-only", "-qqq", *ARGUMENTS, *tests])
    if code != 0:
        raise SystemExit(f"the tests cannot be collected: pytest ended with {code}")
    for room in rooms:
        for module in room.modules:
            import_module(module)


def passes(room: Room, log: Path) -> float | None:
    """Run a room's tests with nothing changed; return their seconds, None when one failed."""
    began = time.monotonic()
    _, status = os.waitpid(_child(None, room, log), 0)
    return None if os.waitstatus_to_exitcode(status) else time.monotonic() - began


def outcomes(
    tried: Iterable[tuple[Mutant, Room, float]], place: Path, jobs: int
) -> Iterator[MutantOutcome[Mutant]]:
    """Try mutants, each with its room and how many seconds it may take; in the order they end."""
    waiting = iter(tried)
    running: dict[int, tuple[Mutant, float, float, Path]] = {}
    more, number = True, 0
    while more or running:
        while more and len(running) < jobs:
            entry = next(waiting, None)
            if entry is None:
                more = False
                break
            mutant, room, limit = entry
            number += 1
            log, began = place / f"{number}.log", time.monotonic()
            running[_child(mutant, room, log)] = (mutant, began, began + limit, log)
        for pid, (mutant, began, until, log) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and time.monotonic() > until:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            elif not ended:
                continue
            del running[pid]
            code = os.waitstatus_to_exitcode(status) if ended else None
            fate = Fate.INVALID if code == NOT_APPLIED else fate_of(code)
            yield MutantOutcome(mutant, fate, time.monotonic() - began, _said(log))
        time.sleep(0.05)


NOT_APPLIED = 99
"""Exit status of a child that could not put the change in; none of pytest's."""


def _child(mutant: Mutant | None, room: Room, log: Path) -> int:
    """Start a process that runs the tests; return its id, which is its group's too."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 98
    try:
        os.setsid()
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if mutant is not None and not exchange(mutant):
            os._exit(NOT_APPLIED)
        code = int(pytest.main([*ARGUMENTS, *filter(os.path.exists, room.tests)]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def exchange(mutant: Mutant) -> bool:
    """Put the changed code into the function; return False when that cannot be."""
    module = import_module(mutant.module)
    assert module.__file__ is not None
    try:
        code = changed(mutant, Path(module.__file__).read_text())
        function = _function(module, mutant.function)
        function.__code__ = code.replace(co_filename=module.__file__)
    except (ValueError, LookupError):
        return False
    return True


def _function(module: object, qualified: str) -> FunctionType:
    """Find a function behind its decorators. Raises LookupError."""
    found = module
    for name in qualified.split("."):
        inside = vars(found)
        found = inside[name] if name in inside else inside["_" + name]
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        for name in ("__wrapped__", "__func__", "fget", "func"):
            if hasattr(found, name):
                found = getattr(found, name)
                break
        else:
            raise LookupError(qualified)
    return found


def _said(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    told = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return told[0] if told else (lines[-1] if lines else "")
