from __future__ import annotations

import tracemalloc

import pytest

from extender.fit.selectors import (
    describe_selector,
    matches,
    node_term_matches,
    parse_int64,
    requirement_matches,
)
from extender.model.objects import LabelSelector, NodeSelectorTerm, Requirement
from tests.fit.builders import node, selector

LABELS = {"app": "web", "n": "5", "empty": "", "word": "x5"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("app", "In", ("web", "db"), True),
        ("app", "In", ("db",), False),
        ("app", "In", (), False),
        ("gone", "In", ("web",), False),
        ("gone", "In", ("",), False),
        ("empty", "In", ("",), True),
        ("app", "NotIn", ("db",), True),
        ("app", "NotIn", ("web",), False),
        ("gone", "NotIn", ("web",), True),
        ("gone", "NotIn", (), False),
        ("app", "Exists", (), True),
        ("empty", "Exists", (), True),
        ("gone", "Exists", (), False),
        ("app", "Exists", ("web",), False),
        ("gone", "DoesNotExist", (), True),
        ("app", "DoesNotExist", (), False),
        ("gone", "DoesNotExist", ("web",), False),
        ("n", "Gt", ("4",), True),
        ("n", "Gt", ("5",), False),
        ("n", "Gt", ("-1",), True),
        ("n", "Lt", ("6",), True),
        ("n", "Lt", ("5",), False),
        ("n", "Lt", ("6", "7"), False),
        ("n", "Lt", ("six",), False),
        ("n", "Lt", (), False),
        ("word", "Gt", ("4",), False),
        ("gone", "Gt", ("4",), False),
        ("n", "Gt", ("99999999999999999999",), False),
        ("n", "Lt", ("99999999999999999999",), False),
        ("app", "Like", ("web",), False),
    ],
)
def test_requirement(key: str, operator: str, values: tuple[str, ...], *, expected: bool) -> None:
    assert requirement_matches(Requirement(key, operator, values), LABELS) is expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+7", 7),
        ("-7", -7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("1_000", None),
        (" 1", None),
        ("1.0", None),
        ("٣", None),
        ("", None),
    ],
)
def test_numbers_are_read_as_go_reads_them(text: str, value: int | None) -> None:
    assert parse_int64(text) == value


def test_absent_selector_matches_nothing_and_empty_one_everything() -> None:
    assert not matches(None, {})
    assert matches(LabelSelector(), {})
    assert matches(LabelSelector(), LABELS)


def test_label_selector_needs_every_requirement() -> None:
    assert matches(selector(app="web", n="5"), LABELS)
    assert not matches(selector(app="web", n="6"), LABELS)


def test_label_selectors_know_no_numbers() -> None:
    assert not matches(LabelSelector((Requirement("n", "Gt", ("1",)),)), LABELS)


NODE = node("n1", labels={"zone": "a", "gen": "3"})


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ((), (), False),
        ((("zone", "In", ("a",)),), (), True),
        ((("zone", "In", ("a",)), ("gen", "Gt", ("3",))), (), False),
        ((), (("metadata.name", "In", ("n1",)),), True),
        ((), (("metadata.name", "In", ("n2",)),), False),
        ((), (("metadata.name", "NotIn", ("n2",)),), True),
        ((), (("metadata.name", "NotIn", ("n1",)),), False),
        ((), (("metadata.name", "In", ("n1", "n2")),), False),
        ((), (("metadata.name", "Exists", ()),), False),
        ((), (("metadata.uid", "In", ("n1",)),), False),
        ((("zone", "In", ("b",)),), (("metadata.name", "In", ("n1",)),), False),
        ((("zone", "NotIn", ("no label value!",)),), (), False),
        ((("zone", "NotIn", ("b" * 64,)),), (), False),
        ((("zone", "In", ("a", "no label value!")),), (), False),
        ((("gen", "Gt", ("-5",)),), (), False),
        ((("zone", "NotIn", ("b" * 63,)),), (), True),
    ],
)
def test_node_term(
    labels: tuple[tuple[str, str, tuple[str, ...]], ...],
    fields: tuple[tuple[str, str, tuple[str, ...]], ...],
    *,
    expected: bool,
) -> None:
    term = NodeSelectorTerm(
        tuple(Requirement(*each) for each in labels), tuple(Requirement(*each) for each in fields)
    )
    assert node_term_matches(term, NODE) is expected


@pytest.mark.parametrize(
    ("requirements", "text"),
    [
        ((("app", "In", ("web",)),), "app=web"),
        ((("app", "In", ("web", "db")), ("x", "NotIn", ("y",))), "app in (web, db),x notin (y)"),
        ((("app", "Exists", ()), ("x", "DoesNotExist", ())), "app,!x"),
        ((("n", "Gt", ("4",)), ("n", "Lt", ("9",))), "n > 4,n < 9"),
        ((), "every pod"),
    ],
)
def test_selectors_read_as_people_write_them(
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...], text: str
) -> None:
    assert describe_selector(LabelSelector(tuple(Requirement(*r) for r in requirements))) == text


def test_absent_selector_is_described() -> None:
    assert describe_selector(None) == "nothing"


def test_values_of_pods_that_are_gone_are_not_kept() -> None:
    """4,096 lists were: 10 GB, had a tenant's pods each ruled nodes out by a megabyte of names."""
    tracemalloc.start()
    try:
        for i in range(40):
            values = tuple(f"v-{i:05d}-{j:06d}-".ljust(63, "x") for j in range(4000))
            term = NodeSelectorTerm(labels=(Requirement("zone", "NotIn", values),))
            assert node_term_matches(term, NODE)
        del values, term
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4 * 2**20
