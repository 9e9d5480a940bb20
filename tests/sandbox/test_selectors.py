"""Selectors of lists, and those inside objects."""

from __future__ import annotations

from typing import Any

import pytest

from extender.sandbox.api_status import StatusError
from extender.sandbox.list_selectors import parse, selects

LABELS = {"app": "x", "tier": "1"}


@pytest.mark.parametrize(
    ("selector", "hit"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "x"}}, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "nix", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Odd"}]}, False),
        # What the API server refuses to store, and its readers pass over:
        ({"matchExpressions": [{"key": "app", "operator": "NotIn"}]}, False),
        ({"matchExpressions": [{"key": "nix", "operator": "NotIn", "values": []}]}, False),
        ({"matchExpressions": [{"key": "nix", "operator": "In", "values": []}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "nix", "operator": "DoesNotExist", "values": [""]}]}, False),
        ({"matchExpressions": [{"operator": "Exists"}]}, False),
    ],
)
def test_a_selector_object(selector: dict[str, Any] | None, *, hit: bool) -> None:
    assert selects(selector, LABELS) is hit


@pytest.mark.parametrize(
    ("labels", "fields"),
    [("a b", ""), ("a=b=c", ""), ("", "status.phase"), ("", "spec.colour=red")],
)
def test_what_cannot_be_read_is_refused(labels: str, fields: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse(labels, fields)
    assert refused.value.code == 400


def test_fields_of_other_types_read_as_text() -> None:
    match = parse("", "spec.unschedulable=true,spec.nodeName=")
    assert match({"metadata": {}, "spec": {"unschedulable": True}})
    assert not match({"metadata": {}, "spec": {"unschedulable": False}})
