"""The simulation finds each mistake that is put back on purpose, and only because of it.

``python -m tests.simulation --mutant NAME --worth search --seeds 2000`` finds seeds for one.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS


def test_every_case_is_there() -> None:
    assert {mutant.case for mutant in MUTANTS} >= set(range(1, 15))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    """A seed fails with it, by a rule that is about it, and passes without it.

    Its own seeds come first and others after them, so that a change of the flow, which moves what
    each seed meets, costs seconds and does not fail.
    """
    played = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--mutant", mutant.name, "--worth", "named"],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert played.returncode == 0, played.stdout[-2000:] + played.stderr[-2000:]
