"""The simulation finds each mistake that is put back on purpose."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    played = subprocess.run(
        [
            *(sys.executable, "-m", "tests.simulation", "--jobs", "2"),
            *("--mutant", mutant.name, "--until", ",".join(mutant.rules)),
            *("--seeds", str(mutant.seeds)),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert played.returncode == 1, played.stdout[-2000:] + played.stderr[-2000:]
