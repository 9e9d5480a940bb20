"""pyproject.toml, constraints.txt and docs/dependencies.md speak of the same packages."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.manifests import ROOT

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]

RUNTIME = [Requirement(each) for each in PROJECT["dependencies"]]
DECLARED = RUNTIME + [
    Requirement(each) for extra in PROJECT["optional-dependencies"].values() for each in extra
]


def pins() -> dict[str, str]:
    """Canonical name -> version in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs), "every line pins one version and nothing else"
    return {str(canonicalize_name(name)): version for name, version in pairs}


@pytest.mark.parametrize("requirement", DECLARED, ids=str)
def test_pin_is_within_the_declared_range(requirement: Requirement) -> None:
    version = pins()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


@pytest.mark.parametrize("requirement", DECLARED, ids=str)
def test_what_a_package_brings_along_is_pinned_too(requirement: Requirement) -> None:
    todo, seen = [requirement], set()
    while todo:
        current = todo.pop()
        name = canonicalize_name(current.name)
        if name in seen or (current.marker and not current.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        try:
            todo += [Requirement(each) for each in requires(current.name) or ()]
        except PackageNotFoundError:
            pass  # Of an extra that is not installed here.
    assert seen <= set(pins())


def test_every_dependency_is_accounted_for() -> None:
    """Each has a row with its reason and licence, and each row is a dependency."""
    text = (ROOT / "docs" / "dependencies.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")]
    named = {
        str(canonicalize_name(name))
        for row in rows
        if row[0].strip() != "package"
        for name in re.split(r",\s*", row[0].strip())
    }
    build = [Requirement(each) for each in PYPROJECT["build-system"]["requires"]]
    assert named == {str(canonicalize_name(each.name)) for each in DECLARED + build}
    assert all(cell.strip() for row in rows for cell in row)


def test_compiler_range_holds_the_pinned_cython() -> None:
    (cython,) = [
        requirement
        for each in PYPROJECT["build-system"]["requires"]
        if (requirement := Requirement(each)).name == "cython"
    ]
    assert cython.specifier.contains(pins()["cython"])
