"""The entry points: finds the file of a command, and runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from extender import __version__
from extender.cli.parser import CommandParser
from extender.cli.standard_streams import guarded

COMMANDS = (
    "serve",
    "sandbox",
    "plan",
    "check",
    "why",
    "gangs",
    "seats",
    "decisions",
    "what-if",
    "report",
    "replay",
    "completion",
)
"""Each in a module ``what_if_command`` of ``cli`` or this room: ``add_parser`` and ``run``."""
HERE = ("serve", "completion")
"""Those of this room: one is the program itself, one asks for all commands."""
PROGRAM = "podgroup-extender"


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run one command; return the exit status. ``program`` is what usage texts call it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: _run(given, program))


def _run(given: list[str], program: str) -> int:
    # A restart of ``serve`` does not wait for the sandbox's imports: a command that is named is
    # the only one that is loaded.
    wanted = given[:1] if given and given[0] in COMMANDS else COMMANDS
    args = parser_of(wanted, program).parse_args(given)
    status: int = _module(args.command).run(args)
    return status


def plugin(arguments: Sequence[str] | None = None) -> int:
    """Run as ``kubectl gang``: the same program under the name that kubectl calls."""
    return main(arguments, "kubectl gang")


def parser_of(
    commands: Sequence[str] = COMMANDS, program: str = PROGRAM
) -> argparse.ArgumentParser:
    """Return the parser that knows these commands."""
    parser = CommandParser(
        prog=program,
        description="All-or-nothing gang preemption beside an unmodified kube-scheduler.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in commands:
        _module(name).add_parser(subparsers)
    return parser


def _module(command: str) -> Any:
    room = "app" if command in HERE else "cli"
    return import_module(f"extender.{room}.{command.replace('-', '_')}_command")


if __name__ == "__main__":
    raise SystemExit(main())
