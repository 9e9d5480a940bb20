"""What is typed wrong is told in a line, and what is typed in part is not guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from extender import __version__
from extender.app.main import COMMANDS, main
from extender.check import documents
from extender.cli import dump_files
from extender.model.errors import InvalidInput
from extender.sandbox import scenario_file
from tests.cli.live_bed import free_port

Capture = pytest.CaptureFixture[str]


def _said(capsys: Capture, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["gangs", "--server", "x"],
        ["serve", "--conf", "x"],
        ["plan", "x", "--gan", "x"],
        ["check", "--conf", "x"],
    ],
)
def test_a_beginning_of_an_option_is_none(words: list[str], capsys: Capture) -> None:
    assert "unrecognized arguments" in _said(capsys, *words)


@pytest.mark.parametrize("words", [["gangs", "-o", "xml"], ["nothing"], ["serve", "--port", "x"]])
def test_a_mistake_is_one_line(words: list[str], capsys: Capture) -> None:
    (line,) = _said(capsys, *words).splitlines()
    assert line.startswith("error: argument ")
    assert "--help)" in line


def test_every_command_has_this_parser(capsys: Capture) -> None:
    for command in COMMANDS:
        (line,) = _said(capsys, command, "--no-such-option").splitlines()
        assert line.startswith("error: ")


def test_the_version_has_a_name(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"podgroup-extender {__version__}\n"


def test_who_is_not_reached_is_told_in_words(capsys: Capture) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert main(["gangs", "--url", url]) == 3
    assert capsys.readouterr().err == f"error: {url}: connection refused\n"


@pytest.mark.parametrize("text", [b"a: [1\n", b"a: b: c\n", b"kind: List\n\titems: []\n"])
def test_yaml_that_is_none_has_a_place_and_no_word_of_the_reader(
    text: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "dump.yaml"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match=r"not valid YAML at line \d+, column \d+: ") as refused:
        dump_files.read([path])
    assert "unicode string" not in str(refused.value)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: documents.read(path),
        lambda path: dump_files.read([path]),
        lambda path: scenario_file.load(path),
    ],
    ids=["settings", "dump", "scenario"],
)
@pytest.mark.parametrize("text", [b"a: [1\n", b"a: \x01\n", b"a: !!bool x\n"])
def test_no_word_of_the_reader_of_yaml_is_told(
    read: Callable[[Path], object], text: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "some.yaml"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match=r"not (valid )?YAML") as refused:
        read(path)
    assert str(path) in str(refused.value)
    assert "unicode string" not in str(refused.value)
    assert "\n" not in str(refused.value)
