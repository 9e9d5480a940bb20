"""``completion``: scripts that complete this program's command line, made from its parser.

bash, zsh and fish read a script that shtab writes. kubectl completes a plugin by calling
``kubectl_complete-gang`` with the words so far and reads one candidate a line, then a directive:
https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/#shell-completion
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from extender.cli.exit_statuses import OK, statuses
from extender.cli.standard_streams import guarded

SHELLS = ("bash", "zsh", "fish")
FILES, NO_FILES = 0, 4
"""Directives of cobra: offer files too, or nothing else."""


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

    from extender.cli.main import parser_of

    parser = parser_of()
    for command in _commands(parser).values():
        for action in command._actions:
            if names := _names(action):
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


def kubectl_complete(arguments: Sequence[str] | None = None) -> int:
    """Print candidates for the last of the words, as kubectl asks for them."""
    from extender.cli.main import parser_of

    words = list(sys.argv[1:] if arguments is None else arguments) or [""]

    def answer() -> int:
        found, directive = candidates(parser_of(), words)
        print("\n".join([*found, f":{directive}"]))
        return OK

    return guarded(answer)


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[list[str], int]:
    """Return what may stand for the last word, and whether file names may as well."""
    *before, last = words
    for word in before:
        inner = _commands(parser).get(word)
        if inner is not None:
            parser = inner
    options = {text: action for action in parser._actions for text in action.option_strings}
    wanted = options.get(before[-1]) if before else None
    if wanted is not None and wanted.nargs != 0:
        # The value of an option; without choices any text, often a file.
        choices = [str(choice) for choice in wanted.choices or ()]
        return [c for c in choices if c.startswith(last)], NO_FILES if choices else FILES
    if last.startswith("-"):
        return sorted(text for text in options if text.startswith(last)), NO_FILES
    names = [*_commands(parser), *_positional_choices(parser)]
    offered = [name for action in parser._actions for name in _names(action)]
    found = sorted(name for name in (*names, *offered) if name.startswith(last))
    return found, NO_FILES if names else FILES


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _names(action: argparse.Action) -> list[str]:
    """Return the names that an argument may be beside a file."""
    if action.option_strings or action.dest != "scenario":
        return []
    from extender.sandbox.scenario_file import packaged

    return list(packaged())


def _positional_choices(parser: argparse.ArgumentParser) -> list[str]:
    return [
        str(choice)
        for action in parser._actions
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
        for choice in action.choices or ()
    ]
