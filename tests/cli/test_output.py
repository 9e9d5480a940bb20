"""Plain in a pipe, drawn on a terminal, and the same facts in both."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from extender.cli.output import Table, encoded, plain, progress, show

TABLE = Table(("NAME", "WHY"), (("a", "short"), ("longer", "x" * 200)), title="Gangs")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_columns_and_nothing_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show(["line", TABLE], {}, "table")
    assert capsys.readouterr().out.splitlines() == [
        "line",
        "Gangs",
        "NAME    WHY",
        "a       short",
        "longer  " + "x" * 200,
    ]
    assert list(plain(Table(("A",), ()))) == ["A"]


def test_a_terminal_gets_a_drawn_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    show(["[bold]no markup[/bold]", TABLE], {}, "table")
    text = screen.getvalue()
    assert "\x1b[" in text
    assert "[bold]no markup[/bold]" in text
    assert text.count("x") >= 200


def test_without_rich_a_terminal_gets_what_a_pipe_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    show([TABLE], {}, "table")
    assert "\x1b[" not in screen.getvalue()
    assert "longer  " in screen.getvalue()


def test_progress_is_on_standard_error_of_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("working") as update:
        update("more")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with progress("working"):
        pass
    assert "working" in screen.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_no_text_moves_the_cursor(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
    monkeypatch.setattr(sys, "stdout", screen := Terminal() if terminal else io.StringIO())
    nasty = "a\x1b[2J\x07b\nc\x9b1m"
    show([nasty, Table(("X",), ((nasty,),))], {}, "table")
    assert screen.getvalue().count("a?[2J?b c?1m") == 2


def test_documents_keep_their_order() -> None:
    assert encoded({"b": 1, "a": ("x",)}, "yaml") == "b: 1\na:\n- x"
    assert encoded({"b": 1, "a": ()}, "json").split() == ["{", '"b":', "1,", '"a":', "[]", "}"]


def test_a_reader_that_has_enough_makes_no_traceback() -> None:
    command = f"{sys.executable} -m extender.cli.main completion bash | head -1"
    found = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=240, check=False
    )
    assert "Traceback" not in found.stderr
    assert found.stdout.count("\n") == 1
