"""What the library logs as an error of calls whose caller had gone before it could be told the end.

Each is a line with a traceback that a caller can cause as often as it likes, and tells of no fault:
a status that cannot be sent any more is nobody's loss.
"""

from __future__ import annotations

import logging

import grpc

LIBRARY = "grpc._cython.cygrpc"


def leave_out_the_gone() -> None:
    """Leave such lines out, for the whole process."""
    library = logging.getLogger(LIBRARY)
    if _told not in library.filters:
        library.addFilter(_told)


def _told(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, grpc.aio.InternalError)
