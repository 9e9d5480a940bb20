"""A file without an end is refused, wherever one is read at the start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from extender.cli import dump_files
from extender.model.errors import InvalidInput
from extender.observe.file import LedgerFile
from extender.observe.sums import Ledger
from extender.sandbox.process import write_kubeconfig

ENDLESS = "/dev/zero"
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from extender.app.main import main
sys.exit(main(sys.argv[1:]))
"""
"""Reading for ever ends after 30 s of processor time, by a signal, or where 3 GiB are taken."""


def ended(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED, *words]
    with open(ENDLESS, encoding="utf-8") as given:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, stdin=given
        )


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
        ["sandbox", ENDLESS],
        ["report", "--from", ENDLESS],
        ["what-if", "-f", "-"],
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


@pytest.mark.parametrize("path", [ENDLESS, "-"])
def test_a_dump(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_files, "MOST_BYTES", 1000)
    with open(ENDLESS, encoding="utf-8") as given:
        monkeypatch.setattr(sys, "stdin", given)
        with pytest.raises(InvalidInput, match="has more than 1000 bytes"):
            dump_files.read([Path(path)])


def test_what_is_no_regular_file_is_no_ledger_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InvalidInput, match="is no regular file"):
        LedgerFile(str(path), Ledger(1, 1), time.time).read()
    assert list(tmp_path.iterdir()) == [path]
