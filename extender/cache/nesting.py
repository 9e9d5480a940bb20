"""JSON with more lists and mappings in one another than a decoder takes: read without them.

kube-apiserver keeps ten thousand levels where a custom resource's definition lets through what it
does not know. msgspec goes down level by level on the interpreter's stack, also through what it
only passes over, and gives the whole document up: a page of everybody's objects, or the watch of a
kind. No field that is read here is as deep as MOST_LEVELS.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Raw

MOST_LEVELS = 100
"""A pod template in a custom resource has some twenty."""

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)
Decoded = TypeVar("Decoded")


def shallow(data: bytes) -> bytes:
    """Return a document with null for each list and mapping that is deeper than MOST_LEVELS."""
    kept: list[bytes] = []
    level = 0
    start = cut = 0
    for token in _TOKENS.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            level += 1
            if level == MOST_LEVELS + 1:
                cut = token.start()
        elif first in b"]}":
            level -= 1
            if level == MOST_LEVELS:
                kept += (data[start:cut], b"null")
                start = token.end()
    return b"".join((*kept, data[start:])) if kept else data


def patient(decode: Callable[[Any], Decoded]) -> Callable[[bytes | Raw], Decoded]:
    """Return a decoder that does without what is too deep."""

    def decoded(data: bytes | Raw) -> Decoded:
        try:
            return decode(data)
        except RecursionError:
            return decode(shallow(bytes(data)))

    return decoded
