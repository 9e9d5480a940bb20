"""What may stand for the last word of a command line, by its parser, for kubectl.

kubectl completes a plugin by calling ``kubectl_complete-gang`` with the words so far and reads one
candidate a line, then a directive:
https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/#shell-completion
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from extender.cli.exit_statuses import OK
from extender.cli.standard_streams import guarded

FILES, NO_FILES = 0, 4
"""Directives of cobra: offer files too, or nothing else."""


def kubectl_complete(arguments: Sequence[str] | None = None) -> int:
    """Print candidates for the last of the words, as kubectl asks for them."""
    from extender.app.main import parser_of

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
        inner = commands_of(parser).get(word)
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
    names = [*commands_of(parser), *_positional_choices(parser)]
    offered = [name for action in parser._actions for name in names_beside_files(action)]
    found = sorted(name for name in (*names, *offered) if name.startswith(last))
    return found, NO_FILES if names else FILES


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return a parser's commands by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def names_beside_files(action: argparse.Action) -> list[str]:
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
