"""Merge patch (RFC 7386) and as much of the strategic merge patch as clients here use.

Strategic: lists of objects are merged by the key Kubernetes gives the field
(``patchMergeKey`` in k8s.io/api), lists of finalizers are united, every other
list is replaced; ``$patch: delete`` removes a list entry.
"""

from __future__ import annotations

from typing import Any

from extender.sandbox.api_status import Obj, bad_request

MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "taints": "key",
    "schedulingGates": "name",
    "env": "name",
}
UNITED = ("finalizers",)


def merge(target: Any, patch: Any) -> Any:
    """Return target with an RFC 7386 merge patch applied; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    result: Obj = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, patch: Any) -> Any:
    """Return target with a strategic merge patch applied; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    result: Obj = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        elif key in MERGE_KEYS and isinstance(value, list):
            result[key] = _merge_list(result.get(key) or [], value, MERGE_KEYS[key])
        elif key in UNITED and isinstance(value, list):
            held = result.get(key) or []
            result[key] = held + [item for item in value if item not in held]
        else:
            result[key] = strategic(result.get(key), value)
    return result


def _merge_list(held: list[Obj], patch: list[Obj], key: str) -> list[Obj]:
    result = list(held)
    for entry in patch:
        if not isinstance(entry, dict) or key not in entry:
            raise bad_request(f"strategic merge patch: list entry without {key!r}")
        at = next((i for i, item in enumerate(result) if item.get(key) == entry[key]), None)
        if entry.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(entry)
        else:
            result[at] = strategic(result[at], entry)
    return result
