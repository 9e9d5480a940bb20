"""Findings on limits between tenants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args, get_origin

import pytest
from msgspec import Struct
from msgspec.structs import fields

from extender.check.catalogue import RULES
from extender.check.config import parse
from extender.check.tenant_rules import LIMIT_RULES, limit_findings
from extender.model.errors import InvalidInput
from extender.settings.settings import Settings

CASES = {
    "plan: {seconds: 20, overrunSeconds: 40}": "warning overrun-late f: plan.overrunSeconds",
    "plan: {namespaceShare: 1}": "hint share-whole f: plan.namespaceShare",
    "server: {headSeconds: 86400}": "warning limit-wide f: server.headSeconds",
    "plan: {retrySeconds: 0}": "warning retry-at-once f: plan.retrySeconds",
    "seats: {suspendSeconds: 1}": "warning never-suspended f: seats.suspendSeconds",
    "seats: {giveUps: 0}": "warning never-suspended f: seats.giveUps",
    "plan: {budgetsPerNamespace: 5000}": "warning limit-wide f: plan.budgetsPerNamespace",
    "seats: {giveUps: 101}": "warning limit-wide f: seats.giveUps",
    "eviction: {longestGraceSeconds: 604800}": "warning grace-endless "
    "f: eviction.longestGraceSeconds",
}


@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_a_limit_that_does_not_limit_is_found(text: str, expected: str) -> None:
    found = list(limit_findings(parse(text), "f"))
    assert [f"{one.severity} {one.rule} {one.place}" for one in found] == [expected]
    assert all(one.why and one.repair for one in found)


def test_every_rule_has_a_case_and_the_defaults_break_none() -> None:
    assert {line.split()[1] for line in CASES.values()} == LIMIT_RULES.keys()
    assert LIMIT_RULES.keys() <= RULES.keys()
    assert list(limit_findings(parse(""), "f")) == []


def floats(shape: type[Struct], path: str = "") -> Iterator[str]:
    """Yield the keys below that take a number with a fraction."""
    for row in fields(shape):
        name = f"{path}.{row.encode_name}".lstrip(".")
        if isinstance(row.type, type) and issubclass(row.type, Struct):
            yield from floats(row.type, name)
        elif row.type is float:
            yield name
        elif get_origin(row.type) is dict and get_args(row.type)[1] is float:
            yield f"{name}.kai"


@pytest.mark.parametrize("value", ["0.1e-320", "1.0e-300", "1.0e-9"])
@pytest.mark.parametrize("key", list(floats(Settings)))
def test_a_number_next_to_nothing_is_refused_by_name_with_its_bound(key: str, value: str) -> None:
    *sections, last = key.split(".")
    text = f"{last}: {value}"
    for section in reversed(sections):
        text = f"{section}: {{{text}}}"
    if key != "plan.namespaceShare" and last.endswith(("Share", "Ratio")):
        assert parse(text), "a share of almost nothing is none"
        return
    known = key.removesuffix(".kai")
    with pytest.raises(InvalidInput, match=rf"{re.escape(known)}\S* must (?!be positive)"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "plan: {namespaceShare: 0}",
        "plan: {retrySeconds: -1}",
        "seats: {victimSlackSeconds: -1}",
        "plan: {namespaceShare: 1.5}",
        "plan: {overrunSeconds: 0}",
        "plan: {budgetsPerNamespace: 0}",
        "plan: {budgetsPerNamespace: 100001}",
        "plan: {longestRetrySeconds: 1}",
        "seats: {giveUps: -1}",
        "seats: {suspendSeconds: 0}",
        "eviction: {longestGraceSeconds: 0}",
        "eviction: {perNamespaceHour: -1}",
    ],
)
def test_values_out_of_range_are_refused_by_name(text: str) -> None:
    key = text.split("{")[1].split(":")[0]
    with pytest.raises(InvalidInput, match=key):
        parse(text)
