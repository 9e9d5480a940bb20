"""One rule taken out of one file, and the test that has to fail then."""

from __future__ import annotations

from msgspec import Struct

ROWS = range(1, 11)
"""Of the table of attacks in docs/security.md."""


class Mutant(Struct, frozen=True):
    """``old`` occurs exactly once in ``file``; ``new`` in its place takes the rule out."""

    row: int
    rule: str
    """What holds as long as nothing is taken out; unique."""
    file: str
    old: str
    new: str
    test: str
    """pytest's name of one test: file::function, perhaps with a class and a case."""

    def applied(self, text: str) -> str:
        """Return the file's text without the rule. Raises ValueError when it is not there once."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.file}: {found} times {self.old!r}")
        return text.replace(self.old, self.new)


def taken_out(row: int, *said: str | tuple[str, str, str, str]) -> tuple[Mutant, ...]:
    """Mutants of one row: a file, then (rule, old, new, test) of each in it, and the next file."""
    found, file = [], ""
    for each in said:
        if isinstance(each, str):
            file = each
        else:
            rule, old, new, test = each
            found.append(Mutant(row, rule, file, old, new, test))
    return tuple(found)
