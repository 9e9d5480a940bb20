"""``completion``: scripts that complete this program's command line, made from its parser.

bash, zsh and fish read a script that shtab writes; kubectl asks completion.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extender.app.completion import commands_of, names_beside_files
from extender.cli.exit_statuses import OK, statuses

SHELLS = ("bash", "zsh", "fish")


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that completes command lines in bash, zsh or fish",
        description="Print a completion script. bash: source <(podgroup-extender completion "
        "bash); zsh: save it as _podgroup-extender in a directory of $fpath; fish: save it as "
        "~/.config/fish/completions/podgroup-extender.fish. kubectl calls kubectl_complete-gang "
        "by itself.",
        epilog=statuses(ok="printed"),
    )
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> int:
    """Print the script and return the exit status."""
    import shtab

    from extender.app.main import parser_of

    parser = parser_of()
    for command in commands_of(parser).values():
        for action in command._actions:
            if names := names_beside_files(action):
                action.complete = names_or_files(names)  # type: ignore[attr-defined]
            elif action.type is Path or action.metavar == "FILE":
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=args.shell))
    return OK


def names_or_files(names: Sequence[str]) -> dict[str, Any]:
    """Return how each shell offers names as well as files, as shtab takes it."""
    words, offer = " ".join(names), "_podgroup_extender_names_or_files"
    return {
        "bash": offer,
        "zsh": offer,
        "fish": f"{words} (__fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'{offer}() {{ compgen -W "{words}" -- "$1"; compgen -f -- "$1"; }}',
            "zsh": f"{offer}() {{ _alternative 'names:name:({words})' 'files:file:_files'; }}",
        },
    }
