"""pyproject.toml, constraints.txt, requirements/ and docs/dependencies.md agree on the packages."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.manifests import ROOT
from tools.lock import CONSTRAINTS, Set, sets
from tools.sbom import locked

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]

RUNTIME = [Requirement(each) for each in PROJECT["dependencies"]]
DECLARED = RUNTIME + [
    Requirement(each) for extra in PROJECT["optional-dependencies"].values() for each in extra
]


def pins(constraints: str = CONSTRAINTS) -> dict[str, str]:
    """Canonical name -> version in a file of constraints."""
    lines = (ROOT / constraints).read_text().splitlines()
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
    """Each has a row with its reason and licence, and each row of such a table is a dependency."""
    text = (ROOT / "docs" / "dependencies.md").read_text()
    tables = [part for part in text.split("\n\n") if part.startswith("| package |")]
    lines = "\n".join(tables).splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| ")]
    named = {
        str(canonicalize_name(name))
        for row in rows
        if row[0].strip() != "package"
        for name in re.split(r",\s*", row[0].strip())
    }
    build = [Requirement(each) for each in PYPROJECT["build-system"]["requires"]]
    assert named == {str(canonicalize_name(each.name)) for each in DECLARED + build}
    assert all(cell.strip() for row in rows for cell in row)


# requirements/ ---------------------------------------------------------------------------------


def locks() -> dict[str, dict[str, tuple[str, tuple[str, ...]]]]:
    """File of requirements/ -> canonical name -> version and hashes."""
    return {path.stem: locked(path.read_text()) for path in (ROOT / "requirements").glob("*.txt")}


def test_every_file_that_may_be_installed_has_a_hash() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        named = re.findall(r"(?m)^[A-Za-z0-9]\S*", text)
        found = locked(text)
        assert len(named) == len(found) > 0, path
        for name, (_, sums) in found.items():
            assert sums, f"{path}: {name} has no hash"
        assert text.count("--hash=") == sum(len(sums) for _, sums in found.values())


@pytest.mark.parametrize("constraints", sorted({part.constraints for part in sets()}))
def test_lock_has_the_chosen_versions(constraints: str) -> None:
    """After a change of constraints.txt or pyproject.toml: ./run lock."""
    files = [part.name for part in sets() if part.constraints == constraints]
    found = locks()
    versions = {name: version for each in files for name, (version, _) in found[each].items()}
    assert versions == pins(constraints)


@pytest.mark.parametrize("part", sets(), ids=lambda part: str(part.name))
def test_lock_holds_what_is_declared(part: Set) -> None:
    project = PROJECT["optional-dependencies"]
    wanted = [
        *part.requirements,
        *(each for extra in part.extras for each in project.get(extra, ())),
    ]
    if "" in part.extras:
        wanted += PROJECT["dependencies"]
    held = {name for other in (*part.base, part.name) for name in locks()[other]}
    assert {str(canonicalize_name(Requirement(each).name)) for each in wanted} <= held
    assert wanted


def test_every_lock_is_made_by_the_tool() -> None:
    assert locks().keys() == {part.name for part in sets()}
    extras = {extra for part in sets() for extra in part.extras}
    assert extras == {"", *PROJECT["optional-dependencies"]}


def test_build_requirements_are_the_pinned_ones() -> None:
    """Also for who builds in isolation, where no hash is compared."""
    declared = [Requirement(each) for each in PYPROJECT["build-system"]["requires"]]
    assert {f"{each.name}{each.specifier}" for each in declared} == {
        f"{name}=={version}" for name, (version, _) in locks()["build"].items()
    }


@pytest.mark.parametrize("name", ["run", "tools/install-wheel"])
def test_nothing_is_installed_without_hashes(name: str) -> None:
    """Every pip call compares hashes, or installs what was built here and nothing beside it."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    calls = re.findall(r"(?m)^[^#\n]*(?:pip install --|^install \"\$).*$", text)
    assert calls
    for call in calls:
        assert "--require-hashes" in call or "--no-deps" in call, call
    for call in re.findall(r"(?m)^[^#\n]*-m pip .*?install --.*$", text):
        # An sdist would run what no hash stands for.
        assert "--only-binary=:all:" in call or "--no-deps" in call, call
