"""Log lines are written by a thread of their own: who does not read them stops nobody.

A write to a pipe that nobody reads (a log collector that hangs, a terminal that is held) does not
return, and the event loop writes from where it answers verbs. Lines wait in memory up to a bound;
beyond it the newest are dropped, and how many is told once writing goes on.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from threading import Condition, Thread

import msgspec

MOST_BYTES = 8 * 1024 * 1024
"""Of lines that wait: minutes of a busy log."""
FLUSH_SECONDS = 2.0
"""How long the end of the process waits for lines to be written."""


class LogWriter(logging.Handler):
    """Writes whole lines to a descriptor. One that cannot be written to takes nothing any more."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        """Of lines that wait, and of the one that is being written."""
        self._lost = 0
        self._changed = Condition()
        Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take one line."""
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._bytes + len(line) > MOST_BYTES:
                self._lost += 1
                return
            self._add(line)

    def flush(self) -> None:
        """Wait until what was taken is written, FLUSH_SECONDS at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes, FLUSH_SECONDS)

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)
        self._changed.notify_all()

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines.popleft()
            _write_whole(self._descriptor, line)
            with self._changed:
                self._bytes -= len(line)
                if self._lost and not self._lines:
                    told = {"event": "log lines were lost", "level": "warning", "lost": self._lost}
                    self._lost = 0
                    self._add(msgspec.json.encode(told) + b"\n")
                self._changed.notify_all()


def _write_whole(descriptor: int, line: bytes) -> None:
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    except OSError:
        return  # a pipe whose other end is closed, a full disk: nobody can be told
