"""A broken promise, and what is remembered of a unit that has gone in part."""

from __future__ import annotations

from msgspec import Struct

from tests.simulation.objects import Work


class Violation(Exception):  # noqa: N818 - what it is
    """A promise is broken. The first word of the text names the invariant."""

    @property
    def rule(self) -> str:
        """Name of the invariant."""
        return str(self).split(":")[0]


class Unit(Struct):
    """A unit `all` of which our hand has taken pods."""

    work: Work
    since: float
    priority: int
    """Of the plan that began it."""
    preemptor: str
    """The work that plan was for."""
    left: set[str]
    """Uids that have to go as well."""
    had: set[str]
    """Uids of all that ran when it was begun."""
    denied: bool = False
    """The API server has refused one of them."""
