"""What SkyPilot starts is found again, by its folder where it has hidden its environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.clients.sky import ROOT, processes_of

WAIT = "import sys; print('up', flush=True); sys.stdin.read()"


def test_processes_are_found_by_home_or_folder(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    ways = [(other, {"HOME": str(home)}), (home, {}), (other, {"HOME": str(other)})]
    started = [
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WAIT],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for folder, environment in ways
    ]
    try:
        for each in started:
            assert each.stdout is not None
            each.stdout.readline()
        assert set(processes_of(home)) == {each.pid for each in started[:2]}
    finally:
        for each in started:
            each.kill()
            each.communicate()


def test_they_go_when_whoever_started_them_has_gone(tmp_path: Path) -> None:
    left = subprocess.Popen([sys.executable, "-I", "-c", WAIT], cwd=tmp_path, stdin=subprocess.PIPE)
    sweeper = subprocess.Popen(
        [sys.executable, "-m", "tests.clients.sky", str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE
    )
    try:
        assert left.poll() is None
        sweeper.communicate(timeout=60)  # The pipe is closed, as it is when this process is killed.
        assert left.wait(60) == -9
    finally:
        left.kill()
        left.communicate()
