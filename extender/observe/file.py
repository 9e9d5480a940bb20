"""The ledger over restarts: one JSON file, replaced as a whole.

It is written by observe mode only, to a path that the configuration names; with none what was seen
ends with the process. A file that cannot be read is moved aside, never overwritten.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct

from extender.decode.json_text import decoded
from extender.model.errors import InvalidInput
from extender.observe.sums import Ledger, WallTime, Week

log = structlog.get_logger("observe")
T = TypeVar("T", bound=Struct)

FORMAT = 1
MOST_BYTES = 256 * 1024 * 1024
"""A file beyond it is not ours: 53 weeks of 10,000 gangs are less."""
ASIDE = ".unreadable"


class Report(Struct, omit_defaults=False):
    """What is kept, and what ``podgroup-extender report`` reads."""

    format: int
    """Changes when an older reader would misunderstand the rest."""
    written: WallTime
    """When it was written, wall clock."""
    weeks: list[Week]
    """The last weeks, oldest first."""
    since: WallTime = 0.0
    """When it began to be kept; 0: not known."""


def decode(data: bytes) -> Report:
    """Return a report. Raises InvalidInput that says what is wrong with it."""
    report = decode_as(data, Report)
    if report.format != FORMAT:
        raise InvalidInput(f"has format {report.format}, and this program reads {FORMAT}", "format")
    if any(len(week.days) != 7 for week in report.weeks):
        raise InvalidInput("a week has seven days", "weeks[].days")
    return report


def decode_as(data: bytes, shape: type[T]) -> T:
    """Return what a report holds. Raises InvalidInput that says what is wrong with it."""
    try:
        return decoded(data, shape)
    except InvalidInput as error:
        raise InvalidInput(f"is no report of observe mode: {error}") from error


class LedgerFile:
    """Reads the file once, and writes it now and then. ``path`` "": neither."""

    def __init__(self, path: str, ledger: Ledger, wall: Callable[[], float]) -> None:
        self._path = Path(path) if path else None
        self._ledger = ledger
        self._wall = wall
        self.since = wall()
        self.failed = 0
        """Writes that did not work."""

    def read(self) -> None:
        """Go on with what is there; one that cannot be read is moved aside and told.

        Raises InvalidInput when there is no place for the file.
        """
        path = self._path
        if path is None:
            return
        if not path.parent.is_dir():
            raise InvalidInput(f"{path.parent} is no directory", "observe.file")
        if not path.exists():
            return
        if not path.is_file():  # a device or a pipe may have no end, and is not moved aside
            raise InvalidInput(f"{path} is no regular file", "observe.file")
        try:
            if path.stat().st_size > MOST_BYTES:
                raise InvalidInput(f"is larger than {MOST_BYTES} bytes")
            report = decode(path.read_bytes())
        except (InvalidInput, OSError) as error:
            aside = path.with_name(path.name + ASIDE)
            log.error("observe.file is not read", path=str(path), aside=str(aside), why=str(error))
            try:
                path.replace(aside)
            except OSError as refused:
                raise InvalidInput(
                    f"{path}: {error}; nor can it be moved aside: {refused}"
                ) from None
            return
        self._ledger.adopt(report.weeks)
        self.since = report.since or self.since

    def report(self) -> Report:
        """Return what is kept now."""
        return Report(FORMAT, self._wall(), self._ledger.weeks, self.since)

    async def keep(self, stop: asyncio.Event, seconds: float) -> None:
        """Write every so many seconds, and once more at the end."""
        if self._path is None:
            await stop.wait()
            return
        while not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), seconds)
            except TimeoutError:
                pass
            await self.write()

    async def write(self) -> None:
        """Replace the file; what does not work is told and tried again the next time."""
        if self._path is None:
            return
        data = msgspec.json.encode(self.report())
        try:
            await asyncio.to_thread(_replace, self._path, data)
        except OSError as error:
            self.failed += 1
            log.error("observe.file is not written", path=str(self._path), why=str(error))


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
