"""The SBOM: whole, of the form that CycloneDX demands, and the same when it is made twice."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

from tests.packaging.manifests import ROOT
from tests.packaging.test_requirements import RUNTIME
from tools.sbom import IncompleteError, bill, canonical, locked, needs
from tools.sbom import lock as admitted

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
