"""One form for what programs read: a gang is told in the same way by every command.

The engine names a gang by its key, in memory as a tuple and elsewhere as text. Programs that read
an answer want its parts without taking the text to pieces, and field names as Kubernetes has them.
"""

from __future__ import annotations

import re
from typing import Any

from extender.model.objects import GangKey

GANGS = frozenset(("gang", "unit", "takesOver"))
"""Fields that name a gang, or several."""
_SNAKE = re.compile(r"_([a-z0-9])")


def identified(value: Any) -> Any:
    """Return a document of builtins with every gang's identity spelled out, and camelCase fields.

    A gang reads ``{"key": "pod-group:team/high", "dialect": "pod-group", "namespace": "team",
    "name": "high"}``; null where there is none (a pod of no gang).
    """
    if isinstance(value, dict):
        found = {}
        for name, inner in value.items():
            field = _SNAKE.sub(lambda match: match[1].upper(), name)
            found[field] = _gangs(inner) if field in GANGS else identified(inner)
        return found
    if isinstance(value, list | tuple):
        return [identified(inner) for inner in value]
    return value


def _gangs(value: Any) -> Any:
    if isinstance(value, str):
        return _identity(GangKey.read(value)) if value else None
    if not isinstance(value, list | tuple):
        return identified(value)
    parts = len(value) == len(GangKey._fields) and all(
        isinstance(part, str) and ":" not in part for part in value
    )
    return _identity(GangKey(*value)) if parts else [_gangs(one) for one in value]


def _identity(key: GangKey) -> dict[str, str]:
    return {"key": str(key), **key._asdict()}
