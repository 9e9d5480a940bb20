"""Count lines by room at one or two revisions: ``python -m tools.room_lines [BEFORE] AFTER``.

Lines of Python and Cython that are not blank, comments and docstrings included; generated code and
data aside. A room is a folder of ``extender/``, or one of ``gang`` and ``search``.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
ENDINGS = frozenset((".py", ".pyi", ".pyx", ".pxd"))
GENERATED = "pb"
CUT = frozenset(("gang", "search"))
"""Rooms whose folders are rooms of their own."""


def room_of(path: str) -> str:
    """Return the room of a file of the repository; "" for what is not counted."""
    parts = PurePosixPath(path).parts
    if parts[0] != "extender" or PurePosixPath(path).suffix not in ENDINGS:
        return ""
    folders = parts[1:-1]
    if not folders or folders[0] == GENERATED:
        return ""
    return "/".join(folders[:2] if folders[0] in CUT else folders[:1])


def counted(files: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Return room -> (files, lines that are not blank) of path -> text."""
    number: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path, text in files.items():
        room = room_of(path)
        if room:
            number[room] += 1
            lines[room] += sum(bool(line.strip()) for line in text.splitlines())
    return {room: (number[room], lines[room]) for room in number}


def files_of(revision: str) -> dict[str, str]:
    """Return path -> text of what is counted at a revision."""
    names = _git("ls-tree", "-r", "--name-only", revision, "extender").splitlines()
    return {name: _git("show", f"{revision}:{name}") for name in names if room_of(name)}


def table(columns: Mapping[str, Mapping[str, tuple[int, int]]]) -> str:
    """Return a Markdown table, a column of files and one of lines for each revision."""
    head = "".join(f" files, {name} | lines, {name} |" for name in columns)
    rows = [f"| room |{head}", "| --- |" + " ---: | ---: |" * len(columns)]
    rooms = sorted({room for column in columns.values() for room in column})
    for room in rooms:
        cells = [column.get(room, (0, 0)) for column in columns.values()]
        rows.append(f"| `{room}` |" + "".join(f" {n:,} | {lines:,} |" for n, lines in cells))
    sums = [tuple(map(sum, zip(*column.values(), strict=True))) for column in columns.values()]
    rows.append("| all |" + "".join(f" {n:,} | {lines:,} |" for n, lines in sums))
    return "\n".join(rows)


def _git(*args: str) -> str:
    command = ("git", "-C", str(ROOT), *args)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.room_lines", description=__doc__)
    parser.add_argument("revisions", nargs="*", default=["HEAD"])
    revisions = parser.parse_args().revisions
    print(table({revision: counted(files_of(revision)) for revision in revisions}))


if __name__ == "__main__":
    main()
