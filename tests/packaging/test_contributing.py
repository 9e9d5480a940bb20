"""CONTRIBUTING.md sends nobody to a file, a test or a name that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.packaging.manifests import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
FILES = {
    str(path.relative_to(ROOT))
    for folder in ("extender", "tests", "bench", "tools", "charts", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
}
MADE_UP = ("NAME", "PLUGIN", "SUBJECT", "*")
"""What stands for a name of the reader's own."""
FILE = r"`([\w./-]+\.(?:pyx?|md|yaml))`"
BEFORE = re.compile(rf"`([A-Za-z_][\w.]*)`\s+(?:in|of)\s+{FILE}")
BESIDE = re.compile(rf"{FILE}\s*\(((?:`[\w.]+`[^`)]*)+)\)")


def named_files() -> list[str]:
    return sorted({name for name in re.findall(FILE, TEXT) if not any(m in name for m in MADE_UP)})


def found(name: str) -> list[str]:
    """The files that a name may mean: a path, or the end of one."""
    return [path for path in FILES if path == name or path.endswith(f"/{name}")]


def names_beside_a_file() -> Iterator[tuple[str, str]]:
    """(file, name) where the text says which names of a file it means."""
    for name, names in BESIDE.findall(TEXT):
        if not any(made_up in name for made_up in MADE_UP):
            inside = re.findall(r"`([\w.]+)`", names)
            yield from ((name, each) for each in inside if not each.endswith(".py"))
    yield from ((name, each) for each, name in BEFORE.findall(TEXT))


@pytest.mark.parametrize("name", named_files())
def test_a_file_is_there(name: str) -> None:
    assert found(name) or (ROOT / name).is_file()


@pytest.mark.parametrize(("name", "inside"), list(names_beside_a_file()))
def test_a_name_is_in_its_file(name: str, inside: str) -> None:
    sources = [(ROOT / path).read_text() for path in found(name)]
    words = inside.split(".")
    assert any(all(re.search(rf"\b{word}\b", text) for word in words) for text in sources)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", TEXT))))
def test_a_test_is_there(name: str) -> None:
    tests = [path for path in FILES if path.startswith("tests/") and path.endswith(".py")]
    assert any(f"def {name}(" in (ROOT / path).read_text() for path in tests)


def test_what_is_looked_for_is_found() -> None:
    assert len(named_files()) > 80
    assert len(list(names_beside_a_file())) > 40
