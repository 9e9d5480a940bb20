"""The form of what ``check`` says whenever a rule is broken."""

from __future__ import annotations

from msgspec import Struct

from extender.cli.findings import Severity


class Rule(Struct, frozen=True):
    """How grave it is, why it matters and how to repair it.

    Braces in the two texts are filled in by ``catalogue.broken``.
    """

    severity: Severity
    why: str
    repair: str
