"""Packages: pinned and agreed on, audited, and told in the SBOM."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distributions, requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.manifests import ROOT
from tools import audit
from tools.audit import Advisory, UnavailableError, is_affected, offline, reported
from tools.lock import CONSTRAINTS, Set, sets
from tools.sbom import IncompleteError, bill, canonical, locked, needs
from tools.sbom import lock as admitted

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


def advisory(directory: Path, package: str, **values: Any) -> None:
    """One entry of an advisory database."""
    events = [{"introduced": "0"}, {"fixed": "2.0"}]
    entry = {
        "id": "PYSEC-1",
        "affected": [{"ranges": [{"type": "ECOSYSTEM", "events": events}]}],
    }
    path = directory / "vulns" / package / "PYSEC-1.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(entry | values))


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "pins", lambda: {"web": "1.5", "base": "1.0"})


@pytest.mark.usefixtures("pinned")
def test_a_vulnerable_pin_is_found_in_a_checkout(tmp_path: Path) -> None:
    advisory(tmp_path, "web")
    found, source = offline(tmp_path)
    assert found == [Advisory("web", "1.5", "PYSEC-1", "2.0")]
    assert source.startswith("the advisory database at commit")


@pytest.mark.usefixtures("pinned")
def test_what_was_withdrawn_or_is_about_others_is_not(tmp_path: Path) -> None:
    advisory(tmp_path, "web", withdrawn="2024-01-01T00:00:00Z")
    advisory(tmp_path, "other")
    assert offline(tmp_path)[0] == []


def test_a_directory_that_is_no_database_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="has no directory vulns"):
        offline(tmp_path)


@pytest.mark.parametrize(
    ("events", "affected"),
    [
        ([{"introduced": "0"}], True),
        ([{"introduced": "0"}, {"fixed": "1.5"}], False),
        ([{"introduced": "0"}, {"fixed": "1.5.1"}], True),
        ([{"introduced": "1.6"}], False),
        ([{"introduced": "0"}, {"last_affected": "1.5"}], True),
        ([{"introduced": "0"}, {"last_affected": "1.4"}], False),
        ([{"fixed": "1.2"}, {"introduced": "0"}, {"introduced": "1.4"}], True),
        ([{"introduced": "0"}, {"fixed": "1.10"}], True),
    ],
)
def test_ranges_are_read_as_osv_means_them(events: list[dict[str, str]], *, affected: bool) -> None:
    entry = {"ranges": [{"type": "GIT", "events": []}, {"type": "ECOSYSTEM", "events": events}]}
    assert is_affected(entry, "1.5") is affected


def test_a_version_in_the_list_is_affected() -> None:
    assert is_affected({"versions": ["1.5"]}, "1.5")
    assert not is_affected({"versions": ["1.5"]}, "1.50")


def test_a_package_that_was_not_looked_up_is_not_called_fine() -> None:
    """pip-audit itself says "No known vulnerabilities found" then, with exit status 0."""
    vulns = [{"id": "PYSEC-1", "fix_versions": ["2.0", "1.9"]}]
    known = {"name": "Web", "version": "1.5", "vulns": vulns}
    assert list(reported({"dependencies": [known]})) == [
        Advisory("web", "1.5", "PYSEC-1", "2.0, 1.9")
    ]
    skipped = {"name": "base", "skip_reason": "not found on PyPI"}
    with pytest.raises(UnavailableError, match="base: not found on PyPI"):
        list(reported({"dependencies": [known, skipped]}))


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        ([], 0, "0 advisories"),
        ([Advisory("web", "1.5", "PYSEC-1", "")], 1, "web 1.5: PYSEC-1, no fix is known"),
        (None, 75, "COULD NOT BE MADE, nothing is known of 2 pins: away"),
    ],
)
@pytest.mark.usefixtures("pinned")
def test_three_ends(
    found: list[Advisory] | None,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def online() -> tuple[list[Advisory], str]:
        if found is None:
            raise UnavailableError("away")
        return found, "somewhere"

    monkeypatch.setattr(audit, "online", online)
    monkeypatch.setattr(sys, "argv", ["audit"])
    assert audit.main() == status
    assert said in capsys.readouterr().out


def test_no_answer_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, stdout="", stderr="a\nconnection refused\n")

    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(UnavailableError, match="connection refused"):
        audit.online()


SUM = "0123456789abcdef" * 4


def package(
    directory: Path, name: str, *requires: str, version: str = "1.0", licence: str = "MIT"
) -> Distribution:
    """An installed package, as far as its metadata goes."""
    path = directory / f"{name}-{version}.dist-info"
    path.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"License-Expression: {licence}"] if licence else []
    lines += [f"Requires-Dist: {each}" for each in requires]
    (path / "METADATA").write_text("\n".join(lines) + "\n")
    return Distribution.at(path)


def lock(*pins: str) -> str:
    """A requirements file with a hash for each pin."""
    return "".join(f"{pin} \\\n    --hash=sha256:{SUM}\n" for pin in pins)


def names(document: dict[str, Any]) -> list[str]:
    return [each["name"] for each in document["components"]]


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """Of the environment that the tests run in."""
    return bill(distributions(), admitted())


def test_every_runtime_dependency_has_version_licence_and_hash(real: dict[str, Any]) -> None:
    components = {canonical(each["name"]): each for each in real["components"]}
    todo, seen = list(RUNTIME), set[str]()
    installed = {canonical(each.metadata["Name"]): each for each in distributions()}
    while todo:
        current = todo.pop()
        name = canonical(current.name)
        if name in seen or (current.marker and not current.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        todo += [Requirement(each) for each in installed[name].requires or ()]
        found = components[name]
        assert found["version"] == installed[name].version
        assert found["licenses"]
        (files,) = found["externalReferences"]
        assert {each["alg"] for each in files["hashes"]} == {"SHA-256"}
    # What no runtime dependency asks for is not in it: pytest, for one.
    assert seen <= components.keys() <= locked(admitted()).keys()


def test_it_is_of_the_form_that_the_schema_demands(real: dict[str, Any]) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(real)) is None
    # That the validator can find something.
    assert validator.validate_str(json.dumps(real | {"components": [{}]})) is not None


def test_equal_installations_have_equal_documents(real: dict[str, Any]) -> None:
    assert bill(distributions(), admitted()) == real


def test_dependencies_are_followed_with_the_extras_that_are_asked_for(tmp_path: Path) -> None:
    packages = [
        package(tmp_path, "podgroup-extender", "Web[fast]>=1", 'lint; extra == "dev"'),
        package(tmp_path, "web", "base", 'quick; extra == "fast"', 'slow; extra == "full"'),
        package(tmp_path, "base", 'web; python_version < "3"'),
        package(tmp_path, "quick"),
        package(tmp_path, "slow"),
        package(tmp_path, "lint"),
    ]
    document = bill(packages, lock("web==1.0", "base==1.0", "quick==1.0"))
    assert names(document) == ["base", "quick", "web"]
    graph = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    assert graph["pkg:pypi/podgroup-extender@1.0"] == ["pkg:pypi/web@1.0"]
    assert graph["pkg:pypi/web@1.0"] == ["pkg:pypi/base@1.0", "pkg:pypi/quick@1.0"]
    by_name = {each.metadata["Name"]: each for each in packages}
    assert needs(by_name, "web", ["full"]) == {"base", "slow"}


@pytest.mark.parametrize(
    ("version", "licence", "text", "said"),
    [
        ("1.0", "MIT", "", "web 1.0 is installed, but not in the lock with hashes"),
        ("1.0", "MIT", "web==1.0\n", "not in the lock with hashes"),
        ("1.1", "MIT", lock("web==1.0"), "web 1.1 is installed, the lock says 1.0"),
        ("1.0", "", lock("web==1.0"), "web 1.0 does not say its licence"),
    ],
)
def test_what_cannot_be_accounted_for_is_an_error(
    tmp_path: Path, version: str, licence: str, text: str, said: str
) -> None:
    packages = [
        package(tmp_path, "podgroup-extender", "web"),
        package(tmp_path, "web", version=version, licence=licence),
    ]
    with pytest.raises(IncompleteError, match=said):
        bill(packages, text)


def test_nothing_is_said_of_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match="podgroup-extender is not installed"):
        bill([package(tmp_path, "web")], "")


def test_the_image_has_one_of_its_own() -> None:
    """tools/install-wheel writes it where the Dockerfile copies from."""
    script = (ROOT / "tools" / "install-wheel").read_text()
    assert 'tools/sbom.py" --output "$destination/sbom.cdx.json"' in script
