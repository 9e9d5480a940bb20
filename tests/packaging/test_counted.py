"""No text says "1 pods": what stands behind a number is made by extender.model.texts.

Read off the sources: an f-string, or a template, that puts a plural right behind a value. It sees
no number behind which other words come first ("1 of its pods" is right), and no verb.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "extender"
PLURALS = (
    "binds|calls|claims|classes|columns|containers|days|decisions|documents|domains|"
    "entries|evictions|gangs|groups|Jobs|kinds|levels|lines|members|nodes|pages|"
    "parts|plans|pods|questions|reasons|records|refusals|replicas|requests|"
    "resources|roles|rows|seats|starts|streams|taints|times|tries|types|units|"
    "values|victims|ways|weeks|workers"
)
"""What this program counts. Bytes and characters are limits, and what is beyond them."""
BEHIND = re.compile(rf"^(</b>)? (?:[a-z]+ )?(?:{PLURALS})\b")
IN_TEMPLATE = re.compile(rf"\}}\}}(?:</b>)? (?:[a-z]+ )?(?:{PLURALS})\b")
NO_NOUN = re.compile(
    r"^ (?:and|as|at|by|for|from|has|have|holds?|in|is|are|its|keeps|makes?|may|names?|needs|no|of|"
    r"on|or|others|takes|tells?|that|the|their|to|uses|wants|with|write) "
)
"""What comes behind a name rather than a number."""
ANYWAY = {
    # kube-scheduler's and the API server's own words.
    ("sandbox/scheduler.py", " nodes are available: "),
    ("sandbox/eviction.py", " healthy pods"),
    # Not behind a number: an address with its verb, a dialect.
    ("check/plugin_rules.py", " binds"),
    ("groups/registry.py", " groups state their own unit, leave it out"),
    # Behind a number that cannot be 1, or that was made into words before.
    ("gang/plan/evicted_before.py", " times"),
    ("groups/composite_gang.py", " pods, "),
    ("search/problem/validate.py", " members, more than "),
}


def plural_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each plural that stands right behind a value."""
    for found in ast.walk(ast.parse(source)):
        if not isinstance(found, ast.JoinedStr):
            continue
        for value, text in zip(found.values, found.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            constant = isinstance(value.value, ast.Name) and value.value.id.isupper()
            measured = value.format_spec is not None
            worded = ast.unparse(value.value).startswith(("counted(", "all_of("))
            words = str(text.value)
            if BEHIND.match(words) and not (constant or measured or worded or NO_NOUN.match(words)):
                yield value.lineno, words


def test_no_f_string_puts_a_plural_behind_a_number() -> None:
    found, met = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("pb/"):
            continue
        for line, text in plural_texts(path.read_text("utf-8")):
            if (name, text) in ANYWAY:
                met.add((name, text))
            else:
                found.append(f"{name}:{line}: {text!r}")
    assert not found
    assert met == ANYWAY, "nothing is let pass that is not there"


def test_no_template_puts_a_plural_behind_a_number() -> None:
    templates = sorted(PACKAGE.rglob("*.html"))
    assert len(templates) > 5
    found = [
        f"{path.name}: {match[0]!r}"
        for path in templates
        for match in IN_TEMPLATE.finditer(path.read_text("utf-8"))
        if not NO_NOUN.match(match[0].removeprefix("}}").removeprefix("</b>"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('f"{len(pods)} pods are gone"', [" pods are gone"]),
        ('f"{n} more pods"', [" more pods"]),
        ('f"{n} entries" f" of {m} tries"', [" entries of ", " tries"]),
        ("f\"{counted(n, 'pod')} gone\"", []),
        ('f"{name} has pods"', []),
        ('f"{MOST} pods at most"', []),
        ('f"{hours:.1f} pods"', []),
    ],
)
def test_what_is_seen(source: str, found: list[str]) -> None:
    assert [text for _, text in plural_texts(source)] == found
