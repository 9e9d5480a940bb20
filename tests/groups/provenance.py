"""Where a fixture comes from: whose pods they are, of which version, and how it is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Fixture = TypeVar("Fixture", bound=Callable[..., Any])
NAME = "provenance"


class Provenance(NamedTuple):
    """Of one fixture."""

    system: str
    version: str
    """A release, never a commit between two."""
    how: str
    """Begins with a word of WAYS."""


WAYS = {
    "read": "from that version's source, key by key, in the files named",
    "recorded": "of what that version made on a real API server, by the test named",
    "documented": "users write these keys themselves: from that version's documentation and API",
}


def made_by(system: str, version: str, how: str) -> Callable[[Fixture], Fixture]:
    """Say it of a function that makes a fixture."""

    def mark(fixture: Fixture) -> Fixture:
        setattr(fixture, NAME, Provenance(system, version, how))
        return fixture

    return mark


def provenance(fixture: Callable[..., Any]) -> Provenance | None:
    """What is said of it; None for nothing."""
    found: Provenance | None = getattr(fixture, NAME, None)
    return found
