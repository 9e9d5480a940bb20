"""Child processes of the test bed: start, watch, stop, and never outlive the parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parent / "launch.py"

# The kernel sends the death signal when the *thread* that forked ends, not the process. Forking
# from one thread that lives as long as the interpreter lets tests start servers from any thread.
_FORKER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="forker")


class ProcessError(RuntimeError):
    """A child ended or did not become ready; the message ends with the tail of its log."""


class Process:
    """One server, its log file and its life."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        """Start the command; both output streams are appended to the log."""
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._popen = _FORKER.submit(self._fork).result()

    def _fork(self) -> subprocess.Popen[bytes]:
        """Start the child through the launcher, in a session of its own (no stray SIGINT)."""
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            return subprocess.Popen(
                [*launcher, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, the same before and after the launcher's exec."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether the child has not ended yet."""
        return self._popen.poll() is None

    def tail(self, lines: int = 25) -> str:
        """The end of the log, for messages."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def wait_ready(self, ready: Callable[[], bool], timeout: float) -> None:
        """Wait until ``ready`` answers true; fail at once when the child ends before that."""
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running:
                raise ProcessError(
                    f"{self.name} ended with status {self._popen.returncode}:\n{self.tail()}"
                )
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} not ready in {timeout:.0f} s:\n{self.tail()}")
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the child still runs (SIGSTOP and SIGCONT make it hang on demand)."""
        if self.running:
            self._popen.send_signal(number)

    def stop(self, grace: float = 5.0) -> None:
        """Ask the child to end and kill it when it does not; with no grace, kill at once."""
        if grace > 0:
            self.signal(signal.SIGTERM)
            try:
                self._popen.wait(grace)
            except subprocess.TimeoutExpired:
                pass
            else:
                return
        self.signal(signal.SIGKILL)
        self._popen.wait()
