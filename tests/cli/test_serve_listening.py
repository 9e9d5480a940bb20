"""``serve`` that cannot listen says so, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from extender.sandbox.process import write_kubeconfig
from tests.cli.live_bed import free_port


@pytest.mark.parametrize("leadership", [False, True])
def test_a_socket_in_no_directory(tmp_path: Path, *, leadership: bool) -> None:
    """What was about to act is not told of as a coroutine that nobody awaited."""
    write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{free_port()}")
    settings = {
        "grpc": {"listen": f"unix:{tmp_path}/missing/x.sock"},
        "server": {"port": free_port(), "host": "127.0.0.1"},
        "leadership": {"enabled": leadership, "namespace": "default"},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "extender.app.main", "serve"]
    files = ["--config", str(tmp_path / "config.yaml"), "--kubeconfig", f"{tmp_path}/kubeconfig"]
    found = subprocess.run(
        [*command, *files], capture_output=True, text=True, timeout=240, check=False
    )
    lines = found.stderr.splitlines()
    told = [line for line in lines if not line.startswith("{") and "add_port.cc" not in line]
    assert found.returncode == 2, found.stderr
    assert len(told) == 1, told
    assert told[0].startswith("error: grpc.listen: cannot listen on unix:"), told
