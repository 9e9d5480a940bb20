"""Names as the API knows them: what a label key, a label value and an object name may be.

Annotation values are free text of up to 256 KiB that any tenant writes. Where one names a thing
(a node label, a queue), it is held to the rules of that thing before it is used or repeated.
Source: k8s.io/apimachinery/pkg/util/validation.
"""

from __future__ import annotations

import re

MOST_NAME = 63
MOST_SUBDOMAIN = 253
MOST_QUOTED = 40
"""Characters of a stranger's text that are repeated to others."""

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def quoted(text: str) -> str:
    """Return a stranger's text in quotes, cut, and with nothing in it that does not print."""
    if len(text) <= MOST_QUOTED:
        return ascii(text)
    return f"{text[:MOST_QUOTED]!a}... ({len(text)} characters)"


def label_value_problem(text: str) -> str:
    """Return why the text is no label value, "" when it is one."""
    if len(text) <= MOST_NAME and _LABEL_VALUE.fullmatch(text):
        return ""
    return (
        f"{quoted(text)} is no label value (at most {MOST_NAME} letters, digits, '-', '_' and '.')"
    )


def label_key_problem(text: str) -> str:
    """Return why the text is no qualified name, "" when it is one."""
    prefix, slash, name = text.rpartition("/")
    fine = (
        0 < len(name) <= MOST_NAME
        and _LABEL_VALUE.fullmatch(name) is not None
        and len(prefix) <= MOST_SUBDOMAIN
        and (not slash or _SUBDOMAIN.fullmatch(prefix) is not None)
    )
    return "" if fine else f"{quoted(text)} is no label key"


def is_name(text: str) -> bool:
    """Whether something could have this name: a label value or a DNS subdomain, not empty."""
    if not text or len(text) > MOST_SUBDOMAIN:
        return False
    return not label_value_problem(text) or is_subdomain(text)


def is_subdomain(text: str) -> bool:
    """Whether an object of most kinds could have this name: a DNS subdomain."""
    return len(text) <= MOST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None
