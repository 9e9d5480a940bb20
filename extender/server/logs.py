"""Structured logs: one JSON object a line, also from the libraries."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Hashable
from threading import Condition, Thread
from typing import IO

import msgspec
import structlog
from cachetools import TTLCache
from structlog.typing import EventDict, WrappedLogger

from extender.gang.tell.decisions import Decision

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure_logs(level: str = "info", stream: IO[str] | None = None) -> None:
    """Send every log line of the process to ``stream`` (default: standard error) as JSON.

    No call waits for a stream that is a file or a pipe (see log_writer).
    Lines of one call share ``request_id`` and ``verb``. What libraries say at the level debug is
    never written: it may hold credentials (requests_oauthlib writes tokens).
    """
    shared = (
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = _handler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _library],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(serializer=_dumps),
            ],
        )
    )
    handler.addFilter(lambda record: record.levelno > logging.DEBUG or hasattr(record, "_logger"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    # Its start and stop are told by our own lines.
    logging.getLogger("uvicorn.error").setLevel(max(LEVELS[level], logging.WARNING))


def _handler(stream: IO[str]) -> logging.Handler:
    try:
        return LogWriter(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return logging.StreamHandler(stream)  # one in memory, or none at all


def log_decision(decision: Decision) -> None:
    """Write the one line of a decision; lists as counts (the debug API has them whole)."""
    structlog.get_logger().info(
        "decision",
        gang=decision.gang,
        asked_by=decision.verb,
        outcome=decision.outcome,
        code=decision.code,
        message=decision.message,
        victims=len(decision.victims),
        seats=len(decision.seats),
        proof=decision.proof,
        generation=decision.generation,
        seconds=round(decision.seconds, 6),
    )


def _library(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Name the library that wrote the line."""
    record: logging.LogRecord = event["_record"]
    event["logger"] = record.name
    return event


def _dumps(value: object, **_: object) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()


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


SECONDS = 60.0
MAX_KEPT = 1024
"""Beyond so many different things in a minute the oldest are told of again."""


class Seldom:
    """Says when something may be told again; ``timer`` gives seconds."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._told: TTLCache[Hashable, bool] = TTLCache(MAX_KEPT, SECONDS, timer)

    def due(self, what: Hashable) -> bool:
        """Whether it was not told for a minute; counts as told from now on."""
        if what in self._told:
            return False
        self._told[what] = True
        return True
