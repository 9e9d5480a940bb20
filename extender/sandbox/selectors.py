"""Label and field selectors of list and watch.

Label grammar as in k8s.io/apimachinery/pkg/labels: ``a=b``, ``a==b``, ``a!=b``,
``a in (b,c)``, ``a notin (b,c)``, ``a``, ``!a``. Fields are ``path=value`` and
``path!=value`` over the few paths that the real API server offers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from extender.sandbox.status import Obj, bad_request

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
    "type",
)
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


def selects(selector: Obj | None, labels: Mapping[str, str]) -> bool:
    """Whether a metav1.LabelSelector selects these labels; an absent one selects nothing."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for item in selector.get("matchExpressions") or ():
        key, values = item["key"], item.get("values") or ()
        fine = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not fine.get(item["operator"], False):
            return False
    return True


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _labels_of(obj: Obj) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


def _label_rule(text: str) -> Match:
    if found := _SET.match(text):
        key, wanted = found["key"], {v.strip() for v in found["values"].split(",")}
        if found["op"] == "in":
            return lambda obj: _labels_of(obj).get(key) in wanted
        return lambda obj: _labels_of(obj).get(key) not in wanted
    if found := _EQUAL.match(text):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda obj: _labels_of(obj).get(key) != value
        return lambda obj: _labels_of(obj).get(key) == value
    if found := _EXISTS.match(text):
        key = found["key"]
        if found["op"]:
            return lambda obj: key not in _labels_of(obj)
        return lambda obj: key in _labels_of(obj)
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
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
