"""What CONTRIBUTING.md and docs/releasing.md rest on: versions, wheels, hooks, links, commands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender import __version__
from tests.packaging.manifests import ROOT
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
