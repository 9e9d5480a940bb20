"""Fixtures shared by all tests."""

from __future__ import annotations

import structlog

from extender.search import highs

# Else the first search does it in its thread, and Hypothesis asks a half imported numpy.
highs.available()

pytest_plugins = ["tests.controlplane.fixtures"]

# Tracebacks with the locals of each frame take seconds to render, and some tests raise many.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)
