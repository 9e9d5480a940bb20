"""The command line: one file a command, found here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from extender import __version__

COMMANDS = ("serve", "sandbox", "plan", "check")
"""Modules beside this one, each with ``add_parser`` and ``run``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="podgroup-extender",
        description="All-or-nothing gang preemption beside an unmodified kube-scheduler.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # A restart of ``serve`` does not wait for the sandbox's imports: a command that is named is
    # the only one that is loaded.
    wanted = given[:1] if given and given[0] in COMMANDS else COMMANDS
    modules = {name: import_module(f"extender.cli.{name}") for name in wanted}
    for module in modules.values():
        module.add_parser(subparsers)
    args = parser.parse_args(given)
    status: int = modules[args.command].run(args)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
