"""What CONTRIBUTING.md and docs/releasing.md rest on: versions, archives, wheels, Krew."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender import __version__
from tests.packaging.manifests import ROOT
from tools.krew_archive import MANIFEST, archive
from tools.lock import PLATFORMS, PYTHONS

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEELS: dict[str, Any] = PYPROJECT["tool"]["cibuildwheel"]
DOOR = (
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "bench/README.md",
    "docs/releasing.md",
)


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("pyproject.toml", r'^version = "(.*)"$'),
        ("Dockerfile", r"^ARG VERSION=(.*)$"),
        ("manifests/kustomization.yaml", r"newName: podgroup-extender\n(?:.*#.*\n)*.*newTag: (.*)"),
        ("charts/podgroup-extender/Chart.yaml", r"^(?:version|appVersion): (.*)$"),
        ("manifests/krew/gang.yaml", r"^  version: v(.*)$"),
        ("manifests/krew/gang.yaml", r"/v([^/]*)/kubectl-gang"),
        ("manifests/krew/kubectl-gang", r"podgroup-extender\[shell\]==([^']*)'"),
        ("README.md", r"podgroup-extender:(\d[^\s']*)"),
        ("docs/install.md", r"REGISTRY/podgroup-extender:(\d\S*) \.$"),
    ],
)
def test_the_version_is_the_same_everywhere(file: str, pattern: str) -> None:
    found = re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE)
    assert found == [__version__] * max(1, len(found))


def test_every_file_with_the_version_is_named_by_the_procedure() -> None:
    text = (ROOT / "docs" / "releasing.md").read_text()
    for file in (
        "pyproject.toml",
        "extender/__init__.py",
        "Dockerfile",
        "kubectl-gang",
        "install.md",
    ):
        assert file in text
    assert "manifests/kustomization.yaml" in text
    assert "charts/podgroup-extender/Chart.yaml" in text
    assert "manifests/krew/gang.yaml" in text


def test_wheels_are_built_for_what_the_locks_have() -> None:
    tags = {python.replace(".", "") for python in PYTHONS}
    assert set(WHEELS["build"].split()) == {f"cp{tag}-*" for tag in tags}
    machines = {
        "linux": {p.split("-")[0] for p in PLATFORMS if "manylinux" in p},
        "macos": {"arm64" for p in PLATFORMS if p == "aarch64-apple-darwin"},
    }
    for system, wanted in machines.items():
        assert set(WHEELS[system]["archs"].split()) == wanted
    glibc = {p.split("-")[1] for p in PLATFORMS if "manylinux" in p}
    images = {value for key, value in WHEELS.items() if key.startswith("manylinux-")}
    assert images == glibc


def test_a_wheel_without_the_compiled_search_does_not_pass() -> None:
    assert "BACKEND == 'compiled'" in WHEELS["test-command"]
    assert "--require-hashes" in WHEELS["before-test"]


def test_hooks_fetch_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in hooks["repos"]] == ["local"]
    lint = (ROOT / "run").read_text().partition("\nlint)")[2].partition(";;")[0]
    for hook in hooks["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        program, *words = hook["entry"].split()
        assert program.startswith(".venv/bin/")
        tool = words[1] if words else program.rpartition("/")[2]
        assert tool in lint, f"{hook['id']} is not what ./run lint runs"


@pytest.mark.parametrize("page", DOOR)
def test_files_that_a_page_names_are_there(page: str) -> None:
    """Links, and paths in backquotes from the root of the checkout."""
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\((?!https?://)([^)#\s]+)", text):
        assert ((ROOT / page).parent / link).exists(), link
    rooms = r"(?:extender|tests|bench|docs|tools|manifests)"
    for path in re.findall(rf"`({rooms}/[\w./-]+)`", text):
        placeholder = re.search(r"[A-Z]{4}", path)
        assert placeholder or (ROOT / path).exists(), path


def test_functions_that_a_recipe_names_are_in_their_file() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:extender|tests|bench)/[\w/]+\.py)` \(((?:`[\w.]+`,? ?)+)\)", text)
    assert len(named) > 8
    for path, names in named:
        source = (ROOT / path).read_text()
        for name in re.findall(r"`([\w.]+)`", names):
            assert re.search(rf"\b{name.rpartition('.')[2]}\b", source), f"{path}: {name}"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "bench/README.md", "docs/releasing.md"])
def test_commands_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / page).read_text()
    for module in re.findall(r"python -m ((?:bench|tests|tools)[\w.]*)", text):
        path = ROOT / Path(*module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    for line in re.findall(r"\./run test(?:-real)? [^\n`#]*", text):
        for path in re.findall(r"tests/[\w./]+", line):
            assert (ROOT / path).exists(), path
    usage = (ROOT / "run").read_text()
    for command in re.findall(r"\./run ([a-z-]+)", text):
        assert re.search(rf"^(?:[a-z-]+ \| )*{command}(?: \| [a-z-]+)*\)$", usage, re.M), command


def test_every_benchmark_has_its_question() -> None:
    text = (ROOT / "bench" / "README.md").read_text()
    programs = {
        path.stem
        for path in (ROOT / "bench").rglob("*.py")
        if '__name__ == "__main__"' in path.read_text()
    }
    missing = {name for name in programs if name not in text}
    assert programs
    assert not missing


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
