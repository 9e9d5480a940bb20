"""The process: its streams, signals, descriptors, listening and end."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path

import pytest

from extender.app import descriptors
from extender.app.main import main
from extender.cli.exit_statuses import BAD_INPUT, INTERRUPTED, OK
from extender.cli.interruptible import interruptible
from extender.cli.standard_streams import OutputLost, guarded
from extender.sandbox.process import write_kubeconfig
from tests.cli.live_bed import free_port
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


def until(flag: array[int]) -> str:
    """A question that ends only when it is asked to."""
    give_up = time.monotonic() + 20
    while not flag[0] and time.monotonic() < give_up:
        time.sleep(0.001)
    return "best so far" if flag[0] else "never asked"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_flag_and_the_answer_is_returned(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    sender = threading.Timer(0.1, os.kill, (os.getpid(), number))
    sender.start()
    try:
        assert interruptible(until) == "best so far"
    finally:
        sender.join()
    assert signal.getsignal(number) is before


def test_what_the_question_raises_comes_through() -> None:
    def fails(_: array[int]) -> None:
        raise LookupError("no gang")

    with pytest.raises(LookupError, match="no gang"):
        interruptible(fails)


SCRIPT = """
import threading
from extender.app import process_end
process_end.WAIT_SECONDS = 0.2
threading.Thread(target=threading.Event().wait, name="{name}").start()
process_end.leave_behind(3)
print("left alone", flush=True)
import os; os._exit(0)
"""


def ended(name: str) -> tuple[int, str]:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(name=name)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return found.returncode, found.stdout


def test_a_search_that_does_not_end_is_left_behind() -> None:
    assert ended("search_0") == (3, "")


def test_other_threads_are_python_s_own_matter() -> None:
    assert ended("another") == (0, "left alone\n")


NONE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "held", "expected"),
    [
        ((1024, 524288), 4096, [(6144, 524288)]),
        ((1024, 4096), 4096, [(4096, 4096)]),
        ((65536, 524288), 4096, []),
        ((NONE, NONE), 4096, []),
        ((1024, NONE), 4096, [(6144, NONE)]),
    ],
)
def test_limits(
    limits: tuple[int, int],
    held: int,
    expected: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda which, wanted: asked.append(wanted))
    descriptors.allow(held)
    assert asked == expected


@pytest.mark.parametrize("leadership", [False, True])
def test_a_socket_in_no_directory(tmp_path: Path, *, leadership: bool) -> None:
    """What was about to act is not told of as a coroutine that nobody awaited."""
    write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{free_port()}")
    settings = {
        "grpc": {"listen": f"unix:{tmp_path}/missing/x.sock"},
        "server": {"port": free_port(), "host": "127.0.0.1"},
        "leadership": {"enabled": leadership, "namespace": "default"},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "extender.app.main", "serve"]
    files = ["--config", str(tmp_path / "config.yaml"), "--kubeconfig", f"{tmp_path}/kubeconfig"]
    found = subprocess.run(
        [*command, *files], capture_output=True, text=True, timeout=240, check=False
    )
    lines = found.stderr.splitlines()
    told = [line for line in lines if not line.startswith("{") and "add_port.cc" not in line]
    assert found.returncode == 2, found.stderr
    assert len(told) == 1, told
    assert told[0].startswith("error: grpc.listen: cannot listen on unix:"), told
