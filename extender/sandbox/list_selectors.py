"""Label and field selectors of list and watch.

Label grammar as in k8s.io/apimachinery/pkg/labels: ``a=b``, ``a==b``, ``a!=b``,
``a in (b,c)``, ``a notin (b,c)``, ``a``, ``!a``. Fields are ``path=value`` and
``path!=value`` over the few paths that the real API server offers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from extender.decode.api_placement import RawSelector
from extender.decode.pod_placement import selector
from extender.fit.selectors import matches, requirement_matches
from extender.model.errors import InvalidInput
from extender.model.objects import LabelSelector, Requirement
from extender.sandbox.api_status import Obj, bad_request

Match = Callable[[Obj], bool]

FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.schedulerName",
    "status.phase",
    "status.nominatedNodeName",
    "spec.unschedulable",
    "involvedObject.uid",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.kind",
    "reason",
    "reportingComponent",
    "source",
    "type",
    "status.successful",
)
_PLACES = {"status.successful": "status.succeeded", "source": "source.component"}
"""Field -> where the object has it. The former is a number, "0" where there is none."""
_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=,()]*)$")
_EXISTS = re.compile(r"^(?P<op>!?)\s*(?P<key>[^\s!=,()]+)$")


def parse(labels: str, fields: str) -> Match:
    """Return a predicate for both selectors; 400 when one cannot be read."""
    rules = [_label_rule(text) for text in _split(labels)] + [
        _field_rule(text) for text in _split(fields)
    ]
    if not rules:
        return lambda obj: True
    if len(rules) == 1:
        return rules[0]
    return lambda obj: all(rule(obj) for rule in rules)


def selector_of(raw: Obj | None) -> LabelSelector | None:
    """Return a metav1.LabelSelector of a stored object; None for an absent one.

    Raises InvalidInput for one that the API server refuses to store (ValidateLabelSelector in
    apimachinery's pkg/apis/meta/v1/validation): In and NotIn need values, Exists and
    DoesNotExist may have none, and there is no other operator.
    """
    try:
        return selector(msgspec.convert(raw, RawSelector | None))
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from error


def selects(raw: Obj | None, labels: Mapping[str, str]) -> bool:
    """Whether a metav1.LabelSelector selects these labels.

    An absent one selects nothing; nor does one that is malformed, as for the Eviction API and
    the disruption controller, which pass over a budget with a selector they cannot read.
    """
    try:
        return matches(selector_of(raw), labels)
    except InvalidInput:
        return False


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _labels_of(obj: Obj) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


def _label_rule(text: str) -> Match:
    requirement = _requirement(text)
    return lambda obj: requirement_matches(requirement, _labels_of(obj))


def _requirement(text: str) -> Requirement:
    if found := _SET.match(text):
        values = tuple(value.strip() for value in found["values"].split(","))
        return Requirement(found["key"], "In" if found["op"] == "in" else "NotIn", values)
    if found := _EQUAL.match(text):
        return Requirement(
            found["key"], "NotIn" if found["op"] == "!=" else "In", (found["value"],)
        )
    if found := _EXISTS.match(text):
        return Requirement(found["key"], "DoesNotExist" if found["op"] else "Exists", ())
    raise bad_request(f"unable to parse label selector part {text!r}")


def _field_rule(text: str) -> Match:
    found = _EQUAL.match(text)
    if found is None:
        raise bad_request(f"invalid field selector part {text!r}")
    path, value = found["key"], found["value"]
    if path not in FIELDS:
        raise bad_request(f"field label not supported: {path}")
    if found["op"] == "!=":
        return lambda obj: _field(obj, path) != value
    return lambda obj: _field(obj, path) == value


def _field(obj: Obj, path: str) -> str:
    value: Any = obj
    for part in _PLACES.get(path, path).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "status.successful":
        return str(value or 0)
    if path == "source":
        value = value or obj.get("reportingComponent")
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
