"""Label selectors and node selectors.

Source: k8s.io/apimachinery/pkg/labels and
k8s.io/component-helpers/scheduling/corev1/nodeaffinity. A requirement that
upstream cannot parse (In without values, Gt without exactly one integer)
makes its whole selector or term match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from extender.model.objects import LabelSelector, Node, NodeSelectorTerm, Requirement
from extender.model.texts import some

Labels = Mapping[str, str]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INT64 = range(-(2**63), 2**63)
_MOST_DIGITS = 19
_MOST_VALUE = 63
"""Letters of a label's value."""
_NAME_FIELD = "metadata.name"
_SHORT = 64
"""Values of a requirement up to which it is remembered for long whether they are well-formed."""


def parse_int64(text: str) -> int | None:
    """Return ``text`` as Go's ParseInt(text, 10, 64) does, None where that fails."""
    if _INTEGER.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _MOST_DIGITS:
        return None  # nor does Python read thousands of them
    value = -int(digits or "0") if text[0] == "-" else int(digits or "0")
    return value if value in _INT64 else None


def _compare(requirement: Requirement, labels: Labels) -> bool:
    """Gt and Lt: the label's number against the requirement's only value."""
    text = labels.get(requirement.key)
    if text is None or len(requirement.values) != 1:
        return False
    have, limit = parse_int64(text), parse_int64(requirement.values[0])
    if have is None or limit is None:
        return False
    return have > limit if requirement.operator == "Gt" else have < limit


def requirement_matches(requirement: Requirement, labels: Labels) -> bool:
    """Tell whether ``labels`` meet one requirement; False for one that is malformed."""
    operator = requirement.operator
    if operator == "In":
        return labels.get(requirement.key) in requirement.values
    if operator == "NotIn":
        values = requirement.values
        return bool(values) and labels.get(requirement.key) not in values
    if operator == "Exists":
        return not requirement.values and requirement.key in labels
    if operator == "DoesNotExist":
        return not requirement.values and requirement.key not in labels
    if operator in ("Gt", "Lt"):
        return _compare(requirement, labels)
    return False


def matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """Tell whether a label selector picks ``labels``.

    None matches nothing, a selector without requirements matches everything.
    Gt and Lt do not exist in label selectors, so they match nothing here.
    """
    if selector is None:
        return False
    for requirement in selector.requirements:
        if requirement.operator in ("Gt", "Lt") or not requirement_matches(requirement, labels):
            return False
    return True


def _field_matches(requirement: Requirement, node: Node) -> bool:
    if requirement.key != _NAME_FIELD or len(requirement.values) != 1:
        return False
    if requirement.operator == "In":
        return node.name == requirement.values[0]
    return requirement.operator == "NotIn" and node.name != requirement.values[0]


def _parsable(values: tuple[str, ...]) -> bool:
    """Tell whether all values could be label values; upstream drops the term otherwise.

    API validation refuses such values in new pods, pods from before keep them.
    """
    if any(len(value) > _MOST_VALUE for value in values):
        return False
    return _short_parsable(values) if len(values) <= _SHORT else _long_parsable(values)


def _all_parsable(values: tuple[str, ...]) -> bool:
    return all(_LABEL_VALUE.fullmatch(value) for value in values)


_short_parsable = lru_cache(maxsize=4096)(_all_parsable)
_long_parsable = lru_cache(maxsize=2)(_all_parsable)
"""It is asked for node after node, but a list may take megabytes, and its pod may be gone."""


def node_term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Tell whether a node meets one term (its parts are ANDed); an empty term never matches."""
    if not term.labels and not term.fields:
        return False
    for requirement in term.labels:
        if not requirement_matches(requirement, node.labels) or not _parsable(requirement.values):
            return False
    return all(_field_matches(requirement, node) for requirement in term.fields)


def describe_requirement(requirement: Requirement) -> str:
    """Return a requirement as a person writes it: "app=web", "zone in (a, b)", "!gpu"."""
    key, values = requirement.key, requirement.values
    if requirement.operator == "In" and len(values) == 1:
        return f"{key}={values[0]}"
    if requirement.operator == "Exists":
        return key
    if requirement.operator == "DoesNotExist":
        return f"!{key}"
    if requirement.operator in ("Gt", "Lt"):
        return f"{key} {'>' if requirement.operator == 'Gt' else '<'} {some(values)}"
    word = {"In": "in", "NotIn": "notin"}.get(requirement.operator, requirement.operator)
    return f"{key} {word} ({some(values)})"


def describe_selector(selector: LabelSelector | None) -> str:
    """Return a label selector as a person writes it."""
    if selector is None:
        return "nothing"
    if not selector.requirements:
        return "every pod"
    shown = [describe_requirement(r) for r in selector.requirements[:4]]
    return some(shown, of=len(selector.requirements), by=",")
