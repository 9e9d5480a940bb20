"""What one checkout has made is found by the next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import installation
from tools.caches import cache_folder


def test_the_folder_is_where_the_specification_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("core") == tmp_path / "podgroup-extender/core"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("core") == tmp_path / ".cache/podgroup-extender/core"


def test_checkouts_with_one_python_share_skypilot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PODGROUP_EXTENDER_CONTROLPLANE_CACHE", str(tmp_path / "controlplane"))
    made = []

    def install(folder: Path) -> None:
        folder.mkdir()
        made.append(folder)

    monkeypatch.setattr(installation, "_install", install)
    for name in ("one", "other"):
        venv = tmp_path / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        monkeypatch.setattr(sys, "executable", str(venv / "bin/python"))
        installation.ensure()
    assert len(made) == 1
