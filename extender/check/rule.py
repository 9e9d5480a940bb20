"""What ``check`` may find: of each rule how grave it is, why it matters and how to repair it.

When a rule is broken, and where, stands below its subject's table, in one of the files *_rules.py.
"""

from __future__ import annotations

from msgspec import Struct

from extender.check.findings import Finding, Severity

RULES: dict[str, Rule] = {}
"""All rules of the subjects that were imported, by name; catalogue.py has them all."""


class Rule(Struct, frozen=True):
    """How grave it is, why it matters and how to repair it.

    Braces in the two texts are filled in by ``broken``.
    """

    severity: Severity
    why: str
    repair: str


def declare(rules: dict[str, Rule]) -> None:
    """Let ``broken`` know one subject's rules; a name that is taken is an error."""
    taken = RULES.keys() & rules.keys()
    if taken:
        raise ValueError(f"declared twice: {sorted(taken)}")
    RULES.update(rules)


def broken(
    rule: str, place: str, problem: str, severity: Severity | None = None, **values: object
) -> Finding:
    """The finding that a rule is broken at a place (``file: path``).

    Values fill the braces of the rule's text. The severity is the rule's own unless given.
    """
    text = RULES[rule]
    return Finding(
        severity=severity or text.severity,
        rule=rule,
        place=place,
        problem=problem,
        why=text.why.format(**values),
        repair=text.repair.format(**values),
    )
