"""Structured logs: one JSON object a line, also from the libraries."""

from __future__ import annotations

import logging
import sys
from typing import IO

import msgspec
import structlog
from structlog.typing import EventDict, WrappedLogger

from extender.gang.tell.decisions import Decision
from extender.server.log_writer import LogWriter

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
