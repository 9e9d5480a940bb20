"""Standard input, output and error, whatever the process was started with.

A shell may close any of them (``>&-``), or lead them to a full disk. Python leaves None for a
stream that is closed, and the error of a write comes where its buffer is full, or at the very end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from extender.cli.exit_statuses import BAD_INPUT, INTERRUPTED, OK
from extender.model.errors import InvalidInput

LARGEST_STANDARD = 2
"""Descriptors 0, 1 and 2 are the standard streams."""


class OutputLost(Exception):  # noqa: N818 - reads as what has happened
    """The answer could not be written.

    Neither an OSError nor an ExtenderError: what deals with those speaks of other files.
    """


def standard_input(most: int) -> bytes:
    """Return standard input, no more than ``most`` bytes and one, which tells that there are more.

    Raises InvalidInput when it is closed, and OSError.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise InvalidInput("is closed")
    return sys.stdin.buffer.read(most + 1)


def guarded(work: Callable[[], int]) -> int:
    """Return the exit status that ``work`` returns, or that of what became of its answer.

    A write that fails is one of two things, and never a traceback. On standard output it is told
    and bad input, but 0 where the reader has enough (head, less). On standard error it is nothing:
    nobody is left to be told.
    """
    _occupy()
    given = sys.stdout, sys.stderr
    output, messages = _Output(given[0]), _Messages(given[1])
    sys.stdout, sys.stderr = output, messages
    try:
        try:
            return work()
        finally:  # by --help, among others
            output.flush()
    except BrokenPipeError:
        return OK
    except OutputLost as problem:
        print(f"error: {problem}", file=messages)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        messages.flush()
        # What is left in a buffer would be tried once more when Python ends, and told.
        sys.stdout = _nowhere() if output.failed else given[0]
        sys.stderr = _nowhere() if messages.failed else given[1]


def _occupy() -> None:
    """Keep files that are opened from now on away from the numbers of closed streams.

    A library that writes to descriptor 2 would write into them.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= LARGEST_STANDARD:
        pass
    os.close(number)


def _nowhere() -> Any:
    return open(os.devnull, "w", encoding="utf-8")


class _GuardedStream:
    """A stream, or none, of which all but the writing is as it was."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return self._stream is not None and bool(self._stream.isatty())

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def write(self, text: str) -> int:
        """Write a text; a character that the stream's encoding does not have is escaped."""
        if self._stream is None:
            self._fail(None)
            return len(text)
        try:
            try:
                self._stream.write(text)
            except UnicodeEncodeError as problem:
                known = text.encode(problem.encoding, "backslashreplace")
                self._stream.write(known.decode(problem.encoding))
        except (OSError, ValueError) as problem:
            self._fail(problem)
        return len(text)

    def flush(self) -> None:
        """Write what is in the buffer."""
        try:
            if self._stream is not None and not self.failed:
                self._stream.flush()
        except (OSError, ValueError) as problem:
            self._fail(problem)

    def _fail(self, problem: OSError | ValueError | None) -> None:
        self.failed = True


class _Output(_GuardedStream):
    def _fail(self, problem: OSError | ValueError | None) -> None:
        super()._fail(problem)
        if isinstance(problem, BrokenPipeError):
            raise problem
        if problem is None:
            raise OutputLost("standard output is closed")
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise OutputLost(f"standard output cannot be written: {why}")


class _Messages(_GuardedStream):
    """Messages of a person who cannot be reached are lost."""
