"""A wheel is tagged by what is in it: one without the compiled search is for any platform."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.manifests import ROOT

CORE = Path("extender/search/core")


def built(tree: Path, *, compiler: bool, broken: bool = False) -> subprocess.CompletedProcess[str]:
    """Build a wheel of two small modules with the project's own setup.py."""
    text = (ROOT / "setup.py").read_text()
    few = re.sub(r"(?s)MODULES = \(.*?\n\)", 'MODULES = ("cover", "mckp")', text, count=1)
    assert few != text
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    (tree / CORE).mkdir(parents=True)
    (tree / "setup.py").write_text(few)
    (tree / CORE / "cover.pyx").write_text("one = 1\n")
    header = 'cdef extern from "there_is_no_such_header.h":\n    pass\n' if broken else ""
    (tree / CORE / "mckp.pyx").write_text(header + "two = 2\n")
    none = {} if compiler else {"CC": "/bin/false", "CXX": "/bin/false"}
    return subprocess.run(
        [sys.executable, "setup.py", "bdist_wheel"],
        cwd=tree,
        env={**os.environ, "PODGROUP_BUILD": "", **none},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def page(tree: Path) -> str:
    """The METADATA of the one wheel, which ends with the page that a registry shows."""
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        return archive.read(name).decode()


def contents(tree: Path) -> tuple[str, list[str], str]:
    """Name of the one wheel, its compiled modules, and its file WHEEL."""
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (told,) = [name for name in names if name.endswith(".dist-info/WHEEL")]
        compiled = [name for name in names if name.endswith((".so", ".pyd"))]
        return wheel.name, compiled, archive.read(told).decode()


def test_without_a_compiler_it_is_for_any_platform(tmp_path: Path) -> None:
    done = built(tmp_path, compiler=False)
    assert done.returncode == 0, done.stderr
    name, compiled, told = contents(tmp_path)
    assert name.endswith("-py3-none-any.whl")
    assert not compiled
    assert "Root-Is-Purelib: true" in told
    assert "nothing could be compiled" in done.stdout + done.stderr
    head, _, text = page(tmp_path).partition("\n\n")
    for word in ("Author", "Classifier", "Project-URL: Repository", "License-Expression"):
        assert f"\n{word}" in head
    links = re.findall(r"\]\(([^)\s]+)", text)
    assert len(links) > 30
    assert [link for link in links if not link.startswith("https://")] == []
    (picture,) = re.findall(r"!\[[^\]]*\]\((\S+)\)", text)
    assert re.search(r"/raw/v[\d.]+/docs/images/", picture)


@pytest.mark.skipif(not any(map(os.path.exists, ("/usr/bin/c++", "/usr/bin/g++"))), reason="no C++")
def test_with_a_compiler_it_is_for_this_one(tmp_path: Path) -> None:
    done = built(tmp_path, compiler=True)
    assert done.returncode == 0, done.stderr
    name, compiled, told = contents(tmp_path)
    assert not name.endswith("any.whl")
    assert len(compiled) == 2
    assert "Root-Is-Purelib: false" in told


@pytest.mark.skipif(not any(map(os.path.exists, ("/usr/bin/c++", "/usr/bin/g++"))), reason="no C++")
def test_one_that_is_compiled_in_part_is_none(tmp_path: Path) -> None:
    done = built(tmp_path, compiler=True, broken=True)
    assert done.returncode != 0
    assert "1 of 2 modules could be compiled" in done.stderr
    assert not list((tmp_path / "dist").glob("*.whl"))
