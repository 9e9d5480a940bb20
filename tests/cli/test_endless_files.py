"""A file without an end is refused, wherever one is read at the start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from extender.sandbox.process import write_kubeconfig

ENDLESS = "/dev/zero"
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
from extender.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""Reading for ever ends after 30 s of processor time, by a signal."""


def ended(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--config", ENDLESS],
        ["check", "--config", ENDLESS],
        ["check", "--manifest", ENDLESS],
        ["check", "--scheduler-config", ENDLESS],
        ["plan", "x", "--gang", "g", "--config", ENDLESS],
        ["gangs", "--url", "http://127.0.0.1:1", "--token-file", ENDLESS],
        ["serve", "--kubeconfig", ENDLESS],
    ],
    ids=" ".join,
)
def test_a_file_of_the_command_line(words: list[str]) -> None:
    found = ended(*words)
    assert found.returncode == 2, found.stderr
    assert found.stderr.startswith("error: "), found.stderr
    assert len(found.stderr) < 1000


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("seats: {recordKeyFile: /dev/zero}", "seats.recordKeyFile: /dev/zero holds more than"),
        (
            "{server: {tlsCertFile: /dev/zero, tlsKeyFile: /dev/zero, port: 0}}",
            "/dev/zero",
        ),
        ("tracing: {endpoint: 'https://x', headersFile: /dev/zero}", "headersFile"),
    ],
)
def test_a_file_that_the_configuration_names(key: str, said: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(key)
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    found = ended("serve", "--config", str(config), "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert found.returncode == 2, found.stderr
    assert said in found.stderr
