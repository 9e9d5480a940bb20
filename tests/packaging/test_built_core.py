"""A kept build of the checked core is taken only where all that it depends on is the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools import built_core, checked_core


def sources(tree: Path) -> Path:
    """A tree as tools.checked_core makes it, small."""
    for name, text in {
        "setup.py": "flags",
        "extender/search/core/cover.pyx": "code",
        "extender/search/core/cover.pxd": "declarations",
        "extender/search/solver.py": "not compiled",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return sources(tmp_path / "tree")


@pytest.mark.parametrize(
    "name", ["setup.py", "extender/search/core/cover.pyx", "extender/search/core/cover.pxd"]
)
def test_what_is_compiled_names_the_build(tree: Path, name: str) -> None:
    before = built_core.key_of(tree, "checked", "g++ 12")
    (tree / name).write_text("something else")
    assert built_core.key_of(tree, "checked", "g++ 12") != before


def test_so_do_its_kind_and_what_compiles_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        built_core.key_of(tree, build, compiler)
        for build in ("checked", "sanitized")
        for compiler in ("g++ 12", "g++ 13")
    }
    monkeypatch.setenv("CXXFLAGS", "-O1")
    keys.add(built_core.key_of(tree, "checked", "g++ 12"))
    assert len(keys) == 5


def test_a_file_that_is_there_twice_is_told_from_one_that_moved(tree: Path) -> None:
    before = built_core.key_of(tree, "checked", "g++ 12")
    core = tree / "extender/search/core"
    (core / "cover.pyx").rename(core / "other.pyx")
    assert built_core.key_of(tree, "checked", "g++ 12") != before


def test_plain_python_does_not_and_neither_does_the_place(tree: Path, tmp_path: Path) -> None:
    before = built_core.key_of(tree, "checked", "g++ 12")
    (tree / "extender/search/solver.py").write_text("another")
    assert built_core.key_of(tree, "checked", "g++ 12") == before
    assert built_core.key_of(sources(tmp_path / "clone"), "checked", "g++ 12") == before


def test_what_was_kept_is_taken(tree: Path, tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "checked-1"
    assert not built_core.take(tree, kept)
    (tree / "extender/search/core/cover.so").write_bytes(b"compiled")
    built_core.keep(tree, kept)
    built_core.keep(tree, kept)  # another checkout may have been as far
    clone = sources(tmp_path / "clone")
    assert built_core.take(clone, kept)
    assert (clone / "extender/search/core/cover.so").read_bytes() == b"compiled"
    assert [each.name for each in kept.parent.iterdir()] == ["checked-1"]


def test_the_oldest_is_forgotten(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for number in range(built_core.KEPT + 2):
        built_core.keep(tree, cache / f"checked-{number}")
        os.utime(cache / f"checked-{number}", (number, number))
    built_core.keep(tree, cache / "checked-new")
    found = {each.name for each in cache.iterdir()}
    assert len(found) == built_core.KEPT
    assert "checked-new" in found
    assert "checked-0" not in found


def test_the_compiler_is_asked_once_for_the_same_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def compile_in(tree: Path, build: str) -> None:
        compiled.append(build)
        (tree / "extender/search/core/cover.so").write_bytes(b"compiled")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checked_core, "compile_in", compile_in)
    monkeypatch.setattr("tools.checked_core.subprocess.run", _pytest_ran)
    monkeypatch.setattr(built_core, "compiler_version", lambda: "g++ 12")
    for name in ("one", "other"):
        root = sources(tmp_path / name)
        monkeypatch.setattr(checked_core, "ROOT", root)
        assert checked_core.main(["checked"]) == 0
        assert (root / "build/checked/extender/search/core/cover.so").exists()
    assert compiled == ["checked"]


TESTS = ["core/test_a.py", "test_magnitudes.py", "test_oracles.py", "test_other.py"]


@pytest.mark.parametrize(
    ("arguments", "collected"),
    [
        ([], TESTS[:3]),
        (["-k", "test_oracles", "-x"], ["test_oracles.py"]),
        (["-k", "tests", "--maxfail", "1"], TESTS[:3]),
        (["tests/search/test_other.py"], ["test_other.py"]),
        (["tests/search/test_other.py::test_one", "-x"], ["test_other.py"]),
    ],
)
def test_the_usual_tests_are_run_where_no_argument_is_a_path(
    tmp_path: Path, arguments: list[str], collected: list[str]
) -> None:
    """``./run test-sanitized -k something`` ran the whole suite on the core that takes so long."""
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntestpaths = ['tests']\n")
    for name in TESTS:
        path = tmp_path / "tests/search" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("def test_one(): pass\n")
    done = subprocess.run(
        [*checked_core.command(arguments), "--collect-only", "-qq", "-p", "no:xdist"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = sorted(line.split(":")[0] for line in done.stdout.splitlines() if ".py" in line)
    assert found == [f"tests/search/{name}" for name in collected]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The commands with a cache and a compiler of the test's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(built_core, "compiler_version", lambda: "g++ 12")


@pytest.mark.usefixtures("commands")
def test_a_checkout_takes_the_shipped_build_of_another(tree: Path, tmp_path: Path) -> None:
    assert built_core.main(["take"], tree) == 1
    (tree / "extender/search/core/cover.cpython-311.so").write_bytes(b"compiled")
    assert built_core.main(["keep"], tree) == 0
    clone = sources(tmp_path / "clone")
    loaded = clone / "extender/search/core/cover.cpython-311.so"
    loaded.write_bytes(b"old")
    with loaded.open("rb") as process:
        assert built_core.main(["take"], clone) == 0
        assert process.read() == b"old"
    assert loaded.read_bytes() == b"compiled"
    assert not list(clone.rglob("*.new"))
    (clone / "extender/search/core/cover.pyx").write_text("something else")
    assert built_core.main(["take"], clone) == 1


@pytest.mark.usefixtures("commands")
def test_nothing_is_kept_of_a_build_that_lacks_a_module(tree: Path) -> None:
    (tree / "extender/search/core/cover.cpython-311.so").write_bytes(b"compiled")
    (tree / "extender/search/core/mckp.pyx").write_text("not compiled")
    assert built_core.main(["keep"], tree) == 1
    assert built_core.main(["take"], tree) == 1


def test_without_a_compiler_nothing_is_taken_or_kept(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(tmp_path / "nothing"))
    (tree / "extender/search/core/cover.cpython-311.so").write_bytes(b"compiled")
    assert [built_core.main([word], tree) for word in ("keep", "take")] == [1, 1]
    assert not (tmp_path / "cache").exists()


def test_anything_else_is_told_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert built_core.main(["give"]) == 2
    assert "take|keep" in capsys.readouterr().err


class _Done:
    returncode = 0


def _pytest_ran(*_: object, **__: object) -> _Done:
    return _Done()
