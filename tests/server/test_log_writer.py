"""A log that nobody reads stops nothing."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from extender.server import logs

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
