"""What a caller's query or form says, within bounds."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlencode

from extender.model.errors import InvalidInput

MOST_FIELDS = 32
MOST_TEXT = 600
"""Characters of one field; above any DIALECT:NAMESPACE/NAME."""
MOST_PAGE = 100_000
_WHOLE = re.compile("[+-]?[0-9]+")
"""Python's ``int`` takes 1_0 for ten as well."""


class Query:
    """Fields by name. Raises InvalidInput for what cannot be read."""

    def __init__(self, raw: bytes) -> None:
        try:
            self._fields = parse_qs(
                raw.decode("ascii"),
                keep_blank_values=False,
                encoding="utf-8",
                errors="strict",
                max_num_fields=MOST_FIELDS,
            )
        except ValueError as problem:  # UnicodeDecodeError and too many fields are among them
            raise InvalidInput(f"cannot be read: {problem}", "query") from problem

    def text(self, name: str, most: int = MOST_TEXT) -> str:
        """Return a field, "" when it is missing."""
        found = self._fields.get(name, [""])[0]
        if len(found) > most:
            raise InvalidInput(f"is longer than {most} characters", name)
        return found.strip() if most <= MOST_TEXT else found

    def number(self, name: str, least: int, most: int) -> int | None:
        """Return a whole number, None when it is missing."""
        found = self.text(name)
        if not found:
            return None
        if not _WHOLE.fullmatch(found):
            raise InvalidInput("must be a whole number", name)
        value = int(found) if len(found) <= 12 else most + 1
        if not least <= value <= most:
            raise InvalidInput(f"must be a whole number from {least} to {most}", name)
        return value

    def page(self) -> int:
        """Return the page asked for, 1 without one."""
        return self.number("page", 1, MOST_PAGE) or 1

    def all(self, name: str) -> frozenset[str]:
        """Return every value of a field."""
        return frozenset(self._fields.get(name, ()))

    def canonical(self) -> str:
        """Return the same fields in one spelling: what is kept under it is found again."""
        return urlencode(sorted((k, v) for k, values in self._fields.items() for v in values))

    def with_(self, **changed: object) -> str:
        """Return the query of a link that differs in some fields; None leaves one out."""
        fields = {name: list(values) for name, values in self._fields.items()}
        for name, value in changed.items():
            fields.pop(name, None)
            if value is not None:
                fields[name] = [str(value)]
        return urlencode([(k, v) for k, values in sorted(fields.items()) for v in values])
