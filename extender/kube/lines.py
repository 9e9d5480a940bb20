"""Cutting a byte stream into lines, whatever the chunks."""

from __future__ import annotations

from extender.kube.api_errors import Unavailable

MAX_LINE = 64 << 20
"""No object in etcd is larger than a few MiB; a longer line is not a watch event."""


class LineSplitter:
    """Feed chunks, get whole lines. Linear in the bytes even for very long lines."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._max_line = max_line

    @property
    def pending(self) -> bool:
        """Whether the last line is still unfinished."""
        return self._size > 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that ``chunk`` completes, without their ends; empty ones are dropped.

        Raises Unavailable when a line outgrows the limit.
        """
        lines = chunk.split(b"\n")
        last = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        self._keep(last)
        return [line for line in lines if line]

    def _keep(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size > self._max_line:
            raise Unavailable(0, "LineTooLong", f"a line has more than {self._max_line} bytes")
        self._parts.append(part)
