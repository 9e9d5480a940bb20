"""How answers are shown: tables for people, JSON and YAML for programs.

On a terminal tables are drawn by rich, if it is installed (extra ``shell``). In a pipe they are
plain: columns set apart by two blanks, no name cut off, no colour, so that awk and grep work. A
reason in the last column is cut to a line, ``-o wide`` has all of it.
What is not part of the answer (notes, progress) goes to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from extender.cli.identity import identified
from extender.model.texts import clean, escaped, unseen

PROGRAMS = ("json", "yaml")
FORMATS = ("table", "wide", *PROGRAMS)
MOST_PROSE = 80
"""Characters of a reason in a table; names are never cut."""
LEAST_LAST = 20
"""Columns that a terminal leaves for the last one."""


class Table(Struct, frozen=True):
    """Rows of text under column names, as kubectl prints them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    indent: str = ""
    prose: bool = False
    """The last column holds sentences."""


OutputPart = str | Table
"""What an answer is made of: a line, or a table."""


def add_output(parser: argparse.ArgumentParser) -> None:
    """Register ``-o``."""
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="table (for people; wide: reasons in full), json or yaml (for programs); default: "
        "table",
    )


def show(parts: Sequence[OutputPart], document: object, output: str) -> None:
    """Print an answer: its parts, or the document they were made of."""
    if output == "table":
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        _show_parts([cut(part, width) if isinstance(part, Table) else part for part in parts])
    elif output == "wide":
        _show_parts(parts)
    else:
        print(encoded(document, output))


def encoded(document: object, output: str) -> str:
    """Return a document as JSON or YAML; the key order is the document's own.

    A gang reads the same wherever it is named (cli.identity).
    """
    built: Any = identified(msgspec.to_builtins(document, str_keys=True))
    if output == "json":
        return as_json(built)
    text: str = yaml.dump(built, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return escaped(text.rstrip("\n"))


def as_json(document: object) -> str:
    """Return a document as indented JSON in which every character shows."""
    return escaped(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


class _Dumper(yaml.SafeDumper):
    """Quotes texts in which a character would not show, so that an escape may stand for it."""


def _quoted(dumper: _Dumper, text: str) -> Any:
    style = '"' if unseen(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _quoted)


def note(text: str) -> None:
    """Tell what is no part of the answer."""
    print(f"note: {clean(text)}", file=sys.stderr)


def error(problem: object) -> None:
    """Tell why there is no answer; what it quotes may be anybody's."""
    print(f"error: {clean(str(problem))}", file=sys.stderr)


def cut(table: Table, width: int | None = None) -> Table:
    """Return a table whose last column is cut to a line where it holds sentences.

    The line is that of a terminal of ``width`` columns where the other columns leave room for it.
    """
    if not table.prose:
        return table
    left = MOST_PROSE if width is None else width - len(table.indent) - sum(_names(table))
    most = min(MOST_PROSE, left) if left >= LEAST_LAST else MOST_PROSE
    return replace(table, rows=tuple((*row[:-1], _cut(row[-1], most)) for row in table.rows))


def _names(table: Table) -> list[int]:
    """Return how wide all columns but the last are, with what sets them apart."""
    lines = (table.columns, *table.rows)
    return [2 + max(len(clean(line[i])) for line in lines) for i in range(len(table.columns) - 1)]


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    short = text[: most - 3]
    return f"{short[: short.rfind(' ')] if ' ' in short else short}...".replace(":...", "...")


def plain(table: Table) -> Iterator[str]:
    """Yield a table's lines; the last column is not padded."""
    if table.title:
        yield table.indent + table.title
    lines = [[clean(cell) for cell in line] for line in (table.columns, *table.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        yield (table.indent + "  ".join(padded)).rstrip()


def _show_parts(parts: Sequence[OutputPart]) -> None:
    rich = _rich(sys.stdout)
    if rich is None:
        for part in parts:
            print("\n".join(plain(part)) if isinstance(part, Table) else clean(part))
        return
    from rich.table import Table as RichTable
    from rich.text import Text

    for part in parts:
        if isinstance(part, str):
            rich.print(Text(clean(part), overflow="fold"))
            continue
        if _width(part) > rich.width:
            # Drawn, some of it would be lost at the edge.
            rich.print("\n".join(plain(part)), markup=False, soft_wrap=True)
            continue
        table = RichTable(
            title=part.title or None,
            title_justify="left",
            title_style="bold",
            header_style="bold cyan",
            box=None,
            pad_edge=False,
        )
        for name in part.columns:
            # What is cut off could be what is looked for.
            table.add_column(name, overflow="fold")
        for row in part.rows:
            table.add_row(*(Text(clean(cell)) for cell in row))
        rich.print(table)


def _width(table: Table) -> int:
    """Return the columns that a table needs at least: names whole, the last one folded."""
    *names, last = (
        max(len(clean(cell)) for cell in cells)
        for cells in zip(table.columns, *table.rows, strict=True)
    )
    return sum(names) + 2 * len(names) + min(last, LEAST_LAST)


def _rich(stream: Any) -> Any:
    """Return a console of rich on a terminal, None in a pipe or without the package."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, highlight=False, soft_wrap=False)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal's standard error that something goes on, for the length of a block.

    Yields a function that replaces the text. Silent in a pipe and without rich.
    """
    console = _rich(sys.stderr)
    if console is None:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield status.update
