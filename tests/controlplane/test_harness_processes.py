"""Whatever ends a control plane, none of its processes is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.controlplane.harness import ControlPlane
from tests.controlplane.releases import RELEASES

pytestmark = pytest.mark.real

NEWEST = list(RELEASES)[-1]


def _alive(pids: list[int]) -> list[int]:
    """Which processes exist and are no zombies."""
    alive = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            continue
        if state not in "ZX":
            alive.append(pid)
    return alive


def _wait_dead(pids: list[int]) -> None:
    """Wait until none of the processes is alive."""
    deadline = time.monotonic() + 60
    while alive := _alive(pids):
        assert time.monotonic() < deadline, f"still alive: {alive}"
        time.sleep(0.05)


def test_stop_leaves_no_process(tmp_path: Path) -> None:
    with ControlPlane(NEWEST, tmp_path) as running:
        pids = list(running.pids.values())
        assert len(pids) == 5
        assert _alive(pids) == pids
    assert _alive(pids) == []


def test_failure_half_way_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    original = ControlPlane._start_servers

    def spied(self: ControlPlane) -> None:
        try:
            original(self)
        finally:
            started.extend(self.pids.values())

    monkeypatch.setattr(ControlPlane, "_start_servers", spied)
    wrong = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NoSuchKind"}
    with pytest.raises(RuntimeError, match="NoSuchKind"):
        ControlPlane(NEWEST, tmp_path, scheduler=wrong).start()
    assert len(started) >= 4
    assert _alive(started) == []


def test_children_die_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from tests.controlplane.harness import ControlPlane\n"
        f"running = ControlPlane({NEWEST!r}, Path(sys.argv[1])).start()\n"
        "print(*running.pids.values(), flush=True); time.sleep(600)\n"
    )
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 5
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    _wait_dead(pids)
