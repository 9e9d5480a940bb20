"""Every line is one JSON object, and a log that nobody reads stops nothing."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.model.plan import Proof, Victim
from extender.server import logs
from extender.server.logs import configure_logs, log_decision


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    before = structlog.get_config()
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()


def written(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line(stream: io.StringIO) -> None:
    configure_logs("info", stream)
    structlog.contextvars.bind_contextvars(request_id="r1", verb=Verb.FILTER)
    structlog.get_logger().warning("told\ntwice", nodes=3, odd=object())
    (line,) = written(stream)
    assert (line["event"], line["level"], line["nodes"]) == ("told\ntwice", "warning", 3)
    assert (line["request_id"], line["verb"]) == ("r1", "filter")
    assert line["timestamp"].endswith("Z")


def test_traceback_is_in_the_line(stream: io.StringIO) -> None:
    configure_logs("info", stream)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        structlog.get_logger().exception("internal error")
    (line,) = written(stream)
    assert "ZeroDivisionError" in line["exception"]


def test_libraries_write_the_same_lines(stream: io.StringIO) -> None:
    configure_logs("warning", stream)
    logging.getLogger("uvicorn.error").warning("odd %s", "request")
    logging.getLogger("uvicorn.error").info("not told")
    (line,) = written(stream)
    assert (line["event"], line["logger"], line["level"]) == (
        "odd request",
        "uvicorn.error",
        "warning",
    )


@pytest.mark.parametrize(
    ("level", "told"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)],
)
def test_levels(stream: io.StringIO, level: str, told: int) -> None:
    configure_logs(level, stream)
    log = structlog.get_logger()
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert len(written(stream)) == told


def test_one_line_a_decision(stream: io.StringIO) -> None:
    configure_logs("info", stream)
    victim = Victim(uid="u", namespace="ns", name="p", node="n", priority=1)
    log_decision(
        Decision(
            time=1.0,
            gang="pod-group:ns/g",
            verb=Verb.PREEMPT,
            outcome=Outcome.PLAN,
            message="4 seats",
            victims=(victim, victim),
            explanation=("long", "text"),
            proof=Proof.OPTIMAL,
        )
    )
    (line,) = written(stream)
    assert line["event"] == "decision"
    assert (line["gang"], line["asked_by"], line["outcome"]) == (
        "pod-group:ns/g",
        "preempt",
        "plan",
    )
    assert (line["victims"], line["seats"], line["proof"]) == (2, 0, "optimal")
    assert "explanation" not in line


def test_libraries_tell_nothing_at_the_level_debug_which_may_hold_a_token(
    stream: io.StringIO,
) -> None:
    configure_logs("debug", stream)
    logging.getLogger("requests_oauthlib.oauth2_session").debug("Adding token %s", "hunter2")
    structlog.get_logger("gang").debug("ours")
    assert [line["event"] for line in written(stream)] == ["ours"]


LINES = 40_000
"""Of a kilobyte each: more than a pipe and memory take."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, Any]]:
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = list(root.handlers), root.level
    near, far = os.pipe()
    with os.fdopen(far, "w", encoding="utf-8") as stream:
        yield near, stream
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**before)
        # Whatever still writes gets an error instead of waiting.
        os.close(near)


def _wrote(lines: int) -> None:
    for number in range(lines):
        structlog.get_logger("gang").info("decision", number=number, text="x" * 1000)


def _read(near: int, until: str) -> list[dict[str, Any]]:
    """Return the lines up to the first whose event is ``until``."""
    found: list[dict[str, Any]] = []
    with os.fdopen(os.dup(near), encoding="utf-8") as reader:
        for line in reader:
            found.append(json.loads(line))
            if found[-1]["event"] == until:
                return found
    raise AssertionError("the log ended")


def test_a_pipe_that_nobody_reads_holds_up_no_line(pipe: tuple[int, Any]) -> None:
    near, stream = pipe
    logs.configure_logs("info", stream)
    writing = threading.Thread(target=_wrote, args=(LINES,), daemon=True)
    writing.start()
    writing.join(60)
    assert not writing.is_alive()
    found = _read(near, "log lines were lost")
    kept = [line["number"] for line in found[:-1]]
    assert kept == list(range(len(kept)))
    assert 4000 < len(kept) < LINES
    assert found[-1]["lost"] == LINES - len(kept)
    structlog.get_logger("gang").info("on again")
    assert _read(near, "on again")[-1]["level"] == "info"


def test_what_was_said_before_the_end_is_written(pipe: tuple[int, Any]) -> None:
    near, stream = pipe
    logs.configure_logs("info", stream)
    _wrote(20)
    logging.getLogger().handlers[0].flush()
    os.set_blocking(near, False)
    assert os.read(near, 1 << 20).count(b"\n") == 20


def test_a_pipe_whose_reader_has_gone_is_no_trouble(pipe: tuple[int, Any]) -> None:
    _, stream = pipe
    near, far = os.pipe()
    os.close(near)
    with os.fdopen(far, "w", encoding="utf-8") as broken:
        logs.configure_logs("info", broken)
        _wrote(20)
        logging.getLogger().handlers[0].flush()
    logs.configure_logs("info", stream)
