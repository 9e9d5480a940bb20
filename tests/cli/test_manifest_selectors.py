"""What a manifest's selector picks: as kube-scheduler and the API server read one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from extender.check.documents import Document
from extender.check.network_rules import budget_findings
from extender.check.workloads import selects
from extender.fit.selectors import matches
from extender.model.objects import LabelSelector, Requirement

LABELS: tuple[dict[str, str], ...] = ({}, {"app": "web"}, {"app": "db"}, {"team": "a"})


def expression(operator: str, values: list[str] | None) -> dict[str, Any]:
    term: dict[str, Any] = {"key": "app", "operator": operator}
    if values is not None:
        term["values"] = values
    return {"matchExpressions": [term]}


@pytest.mark.parametrize(
    ("operator", "values", "picked"),
    [
        ("In", ["web", "api"], [False, True, False, False]),
        ("NotIn", ["web", "api"], [True, False, True, True]),
        ("Exists", None, [False, True, True, False]),
        ("DoesNotExist", None, [True, False, False, True]),
        # The API server refuses these (ValidateLabelSelector): no such object selects anything.
        ("In", [], [False] * 4),
        ("In", None, [False] * 4),
        ("NotIn", [], [False] * 4),
        ("NotIn", None, [False] * 4),
        ("Exists", ["web"], [False] * 4),
        ("DoesNotExist", ["web"], [False] * 4),
        ("Gt", ["1"], [False] * 4),
        ("in", ["web"], [False] * 4),
    ],
)
def test_an_operator(operator: str, values: list[str] | None, picked: list[bool]) -> None:
    found = [selects(expression(operator, values), labels) for labels in LABELS]
    assert found == picked


def test_it_is_what_the_rules_of_kube_scheduler_say() -> None:
    choices = [("In", ("web",)), ("NotIn", ("web",)), ("Exists", ()), ("DoesNotExist", ())]
    for (operator, values), labels in product(choices, LABELS):
        known = LabelSelector((Requirement("app", operator, values),))
        assert selects(expression(operator, list(values)), labels) == matches(known, labels)


def test_labels_and_expressions_are_both_asked() -> None:
    both = {"matchLabels": {"team": "a"}, **expression("Exists", None)}
    assert selects(both, {"team": "a", "app": "web"})
    assert not selects(both, {"app": "web"})
    assert not selects(both, {"team": "a"})


def test_the_empty_one_selects_all_and_none_nothing() -> None:
    assert selects({}, {})
    assert selects({}, {"app": "web"})
    assert not selects(None, {"app": "web"})


def test_labels_that_are_no_text_are_no_labels_of_a_pod() -> None:
    assert not selects({"matchLabels": {"version": "1"}}, {"version": 1})
    assert not selects({"matchLabels": {"version": 1}}, {"version": "1"})


@pytest.mark.parametrize(("selector", "rules"), [({}, []), (None, ["no-budget"])])
def test_a_budget_without_a_selector_is_nobodys(
    selector: dict[str, Any] | None, rules: list[str]
) -> None:
    """policy/v1: "A null selector will match no pods, while an empty ({}) selector will select
    all pods within the namespace."."""
    container = {"name": "extender", "image": "podgroup-extender"}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "ours"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
    }
    spec: dict[str, Any] = {"maxUnavailable": 1}
    if selector is not None:
        spec["selector"] = selector
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    documents = [Document("a.yaml", deployment), Document("a.yaml", budget)]
    assert [each.rule for each in budget_findings(documents)] == rules
