"""Standard streams that are closed, full or of another encoding: a line, and no traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from extender.app.main import main
from extender.cli.exit_statuses import BAD_INPUT, INTERRUPTED, OK
from extender.cli.standard_streams import OutputLost, guarded
from tests.cli.test_plan import kubectl

PROGRAM = f"exec {sys.executable} -m extender.app.main"
CLOSED, FULL = "standard output is closed", "standard output cannot be written: No space left"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "base.json"
    path.write_text(json.dumps(kubectl()))
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plan - --gang x <&-", "standard input: is closed"),
        ("plan {dump} -f - <&-", "standard input: is closed"),
        ("what-if -f - <&-", "standard input: is closed"),
        ("plan {dump} --gang high >&-", CLOSED),
        ("plan {dump} --gang high >/dev/full", FULL),
        ("plan {dump} --gang high -o json >/dev/full", FULL),
        ("completion bash >/dev/full", FULL),
        ("--help >/dev/full", FULL),
        ("plan {dump} --gang nobody 2>/dev/full", ""),
        ("plan {dump} --gang nobody 2>&-", ""),
        ("check <&- >&- 2>&-", ""),
    ],
)
def test_streams_of_a_shell(words: str, said: str, dump: Path) -> None:
    command = f"{PROGRAM} {words.format(dump=dump)}"
    found = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=240, check=False
    )
    lines = [line for line in found.stderr.splitlines() if not line.startswith("note: ")]
    assert found.returncode == BAD_INPUT, found
    assert len(lines) == (1 if said else 0), found
    assert all(line.startswith(f"error: {said}") for line in lines), found


def test_standard_input_that_is_no_text(
    dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: \xff")))
    assert main(["plan", str(dump), "-f", "-"]) == BAD_INPUT
    assert "error: standard input: not UTF-8 at byte 3" in capsys.readouterr().err


class Broken(io.TextIOWrapper):
    """A stream of another encoding, whose writes may fail."""

    def __init__(self, problem: OSError | None = None) -> None:
        super().__init__(io.BytesIO(), "ascii")
        self.problem = problem

    def write(self, text: str) -> int:
        if self.problem is not None:
            raise self.problem
        return super().write(text)


def test_what_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream := Broken())

    def tell() -> int:
        print("caf\u00e9 \udc80")
        return OK

    assert guarded(tell) == OK
    assert stream.buffer.getvalue() == b"caf\\xe9 \\udc80\n"  # type: ignore[attr-defined]


def test_statuses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def tell() -> int:
        print("an answer")
        return OK

    monkeypatch.setattr(sys, "stdout", Broken(BrokenPipeError()))
    assert guarded(tell) == OK
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stdout", Broken(OSError(5, "Input/output error")))
    assert guarded(tell) == BAD_INPUT
    said = "error: standard output cannot be written: Input/output error\n"
    assert capsys.readouterr().err == said
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    def interrupted() -> int:
        raise KeyboardInterrupt

    assert guarded(interrupted) == INTERRUPTED

    def failing() -> int:
        raise OSError("of another file")

    # What is no matter of the standard streams stays what it is.
    with pytest.raises(OSError, match="of another file"):
        guarded(failing)
    assert not issubclass(OutputLost, OSError)


def test_files_get_no_number_of_a_closed_stream() -> None:
    """A library that writes to descriptor 2 would write into them."""
    program = (
        "import os; from extender.cli.standard_streams import guarded\n"
        "raise SystemExit(guarded(lambda: os.open('/dev/null', os.O_RDONLY)))"
    )
    command = f'exec {sys.executable} -c "$PROGRAM" <&- >&- 2>&-'
    env = os.environ | {"PROGRAM": program}
    found = subprocess.run(["sh", "-c", command], timeout=240, check=False, env=env)
    assert found.returncode > 2
