"""The archive of sources has what a checkout has, and its tests run from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.manifests import ROOT

MADE = re.compile(r"PKG-INFO|setup\.cfg|podgroup_extender\.egg-info/.*")
"""What setuptools adds."""


def called(*words: str, at: Path) -> str:
    done = subprocess.run(
        words,
        cwd=at,
        env={**os.environ, "PODGROUP_BUILD": "plain"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout: this is such an archive")
def test_the_archive_is_the_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    files = [
        name
        for name in called("git", "ls-files", "-co", "--exclude-standard", at=ROOT).splitlines()
        if (ROOT / name).exists()
    ]
    for name in files:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    called(sys.executable, "setup.py", "sdist", "--dist-dir", str(tmp_path), at=checkout)
    (archive,) = tmp_path.glob("podgroup_extender-*.tar.gz")
    called("tar", "-xzf", str(archive), "-C", str(tmp_path), at=tmp_path)
    tree = archive.with_suffix("").with_suffix("")
    found = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert {name for name in found if not MADE.fullmatch(name)} == set(files)
    assert os.access(tree / "run", os.X_OK)
    told = called(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/wire", at=tree
    )
    assert " passed" in told
