"""Seeds of the simulation: all promises hold, and a seed always plays the same.

PODGROUP_SIMULATION_SEEDS is how many seeds are played (default 150),
PODGROUP_SIMULATION_FIRST the first of them, PODGROUP_SIMULATION_JOBS how many processes play.
``python -m tests.simulation --seed N --shrink --story`` tells what happens in one.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation import command
from tests.simulation.simulation import SimulationOutcome

TOGETHER = 24
"""Seeds that are played twice."""


def _command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *args],
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )


def test_every_promise_holds_whatever_happens() -> None:
    seeds = os.environ.get("PODGROUP_SIMULATION_SEEDS", "150")
    first = os.environ.get("PODGROUP_SIMULATION_FIRST", "1")
    jobs = os.environ.get("PODGROUP_SIMULATION_JOBS", str(min(2, os.cpu_count() or 1)))
    played = _command("--seeds", seeds, "--first", first, "--jobs", jobs, "--each")
    assert played.returncode == 0, played.stdout[-4000:] + played.stderr[-2000:]


@pytest.mark.parametrize("more", ["edits", "flaky", "samples"])
def test_what_people_and_machines_do_besides_happens(more: str) -> None:
    """What the world does at a later moment is no promise of ours: it has to run at all."""
    played = _command("--seeds", str(TOGETHER), "--more", more, "--each")
    assert played.returncode == 0, played.stdout[-4000:] + played.stderr[-2000:]
    assert "Traceback" not in played.stdout + played.stderr


def test_a_seed_plays_the_same_again() -> None:
    """In another process, and after other seeds were played in it."""
    args = ("--seeds", str(TOGETHER), "--digests")
    one = _command(*args)
    other = _command(*args, "--backwards")
    assert one.stdout.splitlines(), one.stderr
    assert sorted(one.stdout.splitlines()) == sorted(other.stdout.splitlines())


def test_a_failing_seed_tells_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrunk, and without being asked: where CI has failed nobody is there to ask."""

    def play(seed: int, more: tuple[str, ...], size: str) -> SimulationOutcome:
        problem = "half-gone: so it is" if seed > 7 else ""
        return SimulationOutcome(seed, problem, "", 0.0, 0, 0, 0.0, [])

    def tell(seed: int, more: tuple[str, ...], size: str, *, story: bool, smaller: bool) -> int:
        told.append((seed, story, smaller))
        return 0  # a seed that plays well the second time has failed all the same

    told: list[tuple[int, bool, bool]] = []
    monkeypatch.setattr(command, "play", play)
    monkeypatch.setattr(command, "_tell", tell)
    monkeypatch.setattr(sys, "argv", ["simulation", "--seeds", "3", "--first", "7"])
    assert command.main() == 1
    assert told == [(8, True, True)]
