"""The command line: one file a command, found here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from extender import __version__
from extender.cli import check, plan, sandbox, serve

COMMANDS = {"serve": serve, "sandbox": sandbox, "plan": plan, "check": check}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="podgroup-extender",
        description="All-or-nothing gang preemption beside an unmodified kube-scheduler.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        command.add_parser(subparsers)
    args = parser.parse_args(arguments)
    status: int = COMMANDS[args.command].run(args)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
