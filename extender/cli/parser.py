"""The parser of every command: no abbreviations, and what is wrong first."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from extender.cli.exit_statuses import BAD_INPUT
from extender.cli.output import error


class CommandParser(argparse.ArgumentParser):
    """argparse's, of which subcommands are made too.

    A beginning of an option is none (``--server`` was taken for ``--server-name``), and a mistake
    is one line that stands alone: argparse puts all options before it.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})

    def error(self, message: str) -> NoReturn:
        """Tell what is wrong and where help is, and end with the status of bad input."""
        error(f"{message} (see {self.prog} --help)")
        sys.exit(BAD_INPUT)
