"""The checked builds are what runs, and end the process for what they are there to notice."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from extender.search import solver
from extender.search.core import branch_and_bound
from tests.search.core.doors import faults

BUILD = os.environ["PODGROUP_BUILD"]
CORE = Path(branch_and_bound.__file__).parent
TREE = CORE.parents[2]


def test_every_part_that_runs_is_instrumented() -> None:
    assert solver.BACKEND == "compiled"
    assert TREE.parts[-2:] == ("build", BUILD)
    parts = sorted(path.relative_to(CORE).with_suffix("") for path in CORE.rglob("*.pyx"))
    assert len(parts) > 20
    for part in parts:
        module = importlib.import_module(".".join(("extender.search.core", *part.parts)))
        assert module.__file__ is not None
        library = Path(module.__file__)
        assert library.parent == (CORE / part).parent, part
        assert b"__ubsan_handle" in library.read_bytes(), part
        assert (b"__asan_report" in library.read_bytes()) == (BUILD == "sanitized"), part


FAULTS = {
    "faults.overflow(2**63 - 1, 1)": "signed integer overflow",
    "faults.divide(1, 0)": "division by zero",
    "faults.shift(1, 64)": "shift exponent 64",
    "faults.beyond_vector(3, 3)": "__n < this->size()",
}
if BUILD == "sanitized":
    FAULTS["faults.beyond_pointer(3, 3)"] = "heap-buffer-overflow"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_the_process(fault: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.search.core.doors import faults; {fault}"],
        cwd=TREE,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert FAULTS[fault] in done.stderr


def test_what_is_no_fault_passes() -> None:
    assert faults.overflow(2**63 - 2, 1) == 2**63 - 1
    assert faults.divide(-7, 2) == -3  # as C has it
    assert faults.shift(1, 62) == 2**62
    assert faults.beyond_vector(3, 2) == 0


def test_a_place_outside_a_memory_view_is_an_error() -> None:
    assert faults.beyond_view(b"abc", 2) == ord("c")
    with pytest.raises(IndexError):
        faults.beyond_view(b"abc", 3)


def test_none_is_no_problem_to_solve() -> None:
    with pytest.raises(TypeError):
        branch_and_bound.BranchAndBound(None, b"")  # type: ignore[arg-type]
