"""Every line is one JSON object."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.model.plan import Proof, Victim
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
