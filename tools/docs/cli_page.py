"""The page of every command: read from the parsers that the program itself uses."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from extender.app.main import COMMANDS, parser_of
from extender.cli import exit_statuses

SHARED = 3
"""An option that so many commands have alike is listed once."""
STATUSES = (
    (exit_statuses.OK, "answered, or done"),
    (exit_statuses.NO, "understood, and the answer is no; each command says what that means"),
    (exit_statuses.BAD_INPUT, "bad input, which is named"),
    (exit_statuses.UNREACHED, "the server, or the API server, was not reached or gave no answer"),
    (exit_statuses.INTERRUPTED, "interrupted with Ctrl-C"),
)


class Row(NamedTuple):
    """One argument of a command."""

    written: str
    meaning: str
    group: str
    """Title and description of its group; empty for those that need none."""


def page() -> str:
    """Return the page."""
    found = parsers()
    rows = {name: list(_rows(parser)) for name, parser in found.items()}
    users: dict[Row, list[str]] = defaultdict(list)
    for name, own in rows.items():
        for row in own:
            users[row].append(name)
    shared = {row: names for row, names in users.items() if len(names) >= SHARED}
    lines = [
        "[From a shell](../cli.md) shows what the commands print, and how a server is found. Every",
        "command takes `--help`, and the program takes `--version`.",
        "",
        "| exit status | meaning |",
        "| --- | --- |",
        *(f"| {number} | {meaning} |" for number, meaning in STATUSES),
        "",
        *(line for name in found for line in _command(name, found[name], rows[name], shared)),
        "## Options of several commands",
        "",
    ]
    for group in dict.fromkeys(row.group for row in shared):
        lines += [*([group, ""] if group else [])]
        lines += ["| option | commands | meaning |", "| --- | --- | --- |"]
        lines += [
            f"| `{row.written}` | {', '.join(names)} | {row.meaning} |"
            for row, names in shared.items()
            if row.group == group
        ]
        lines.append("")
    return "\n".join(lines)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return command -> its parser."""
    whole = parser_of(COMMANDS)
    chosen = next(a for a in whole._actions if isinstance(a, argparse._SubParsersAction))
    return dict(chosen.choices)


def _command(
    name: str,
    parser: argparse.ArgumentParser,
    rows: list[Row],
    shared: dict[Row, list[str]],
) -> Iterator[str]:
    yield from (f"## {name}", "", _cell(parser.description or ""), "")
    own = [row for row in rows if row not in shared]
    if own:
        yield from ("| argument | meaning |", "| --- | --- |")
        yield from (f"| `{row.written}` | {row.meaning} |" for row in own)
        yield ""
    if len(own) < len(rows):
        yield from ("Also [options of several commands](#options-of-several-commands).", "")
    yield from (_cell(parser.epilog or ""), "")


def _rows(parser: argparse.ArgumentParser) -> Iterator[Row]:
    formatter = parser._get_formatter()
    groups = {
        id(action): f"{(group.title or '').capitalize()}: {_cell(group.description)}"
        for group in parser._action_groups
        if group.description
        for action in group._group_actions
    }
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        if not action.option_strings:
            written = formatter._format_args(
                action, formatter._get_default_metavar_for_positional(action)
            )
        else:
            written = ", ".join(action.option_strings) + (f" {value}" if value else "")
        meaning = formatter._expand_help(action) if action.help else ""
        yield Row(written.replace("|", "\\|"), _cell(meaning), groups.get(id(action), ""))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
