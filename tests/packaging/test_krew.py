"""The Krew plugin: the manifest names what is packed, and the launcher hands over."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender import __version__
from tests.packaging.manifests import ROOT
from tools.krew_archive import MANIFEST, archive

LAUNCHER = ROOT / "manifests" / "krew" / "kubectl-gang"


@pytest.fixture(scope="module")
def plugin() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
    return document


def test_the_sum_is_that_of_the_archive(plugin: dict[str, Any]) -> None:
    """After a change of the launcher: python -m tools.krew_archive."""
    for platform in plugin["spec"]["platforms"]:
        assert platform["sha256"] == hashlib.sha256(archive()).hexdigest()


def test_what_is_copied_and_run_is_in_the_archive(plugin: dict[str, Any]) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive())) as tar:
        packed = {entry.name: entry.mode for entry in tar.getmembers()}
    for platform in plugin["spec"]["platforms"]:
        assert {file["from"] for file in platform["files"]} == set(packed)
        assert packed[platform["bin"]] == 0o755


def test_name_and_version_are_the_programs(plugin: dict[str, Any]) -> None:
    assert plugin["spec"]["version"] == f"v{__version__}"
    assert f"[shell]=={__version__}'" in LAUNCHER.read_text()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    name = plugin["metadata"]["name"]
    assert f"kubectl-{name}" in scripts
    assert f"kubectl_complete-{name}" in scripts


@pytest.mark.parametrize(
    ("there", "called"),
    [
        ("podgroup-extender", "why a b"),
        ("pipx", f"run --spec podgroup-extender[shell]=={__version__} podgroup-extender why a b"),
        ("uvx", f"--from podgroup-extender[shell]=={__version__} podgroup-extender why a b"),
        ("", ""),
    ],
)
def test_the_launcher_hands_over(tmp_path: Path, there: str, called: str) -> None:
    if there:
        (tmp_path / there).write_text('#!/bin/sh\necho "$@"\n')
        (tmp_path / there).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(LAUNCHER), "why", "a b"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert os.access(LAUNCHER, os.X_OK)
    if there:
        assert (done.returncode, done.stdout.strip()) == (0, called)
    else:
        assert done.returncode == 127
        assert "install podgroup-extender[shell]" in done.stderr
