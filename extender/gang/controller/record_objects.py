"""A plan record as ConfigMaps: how its parts are made, and what can be read of one."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any

from extender.gang.core.record import Record, pack
from extender.gang.runtime.signature import Signer, digest_of

LABEL = "podgroup-extender.io/plan"
PART_LABEL = "podgroup-extender.io/plan-part"
GANG_ANNOTATION = "podgroup-extender.io/gang"
EPOCH_ANNOTATION = "podgroup-extender.io/epoch"
PARTS_ANNOTATION = "podgroup-extender.io/parts"
SIGNATURE_ANNOTATION = "podgroup-extender.io/signature"


def documents_of(record: Record, signer: Signer | None = None) -> list[dict[str, Any]]:
    """Return the ConfigMaps that hold a record, the first part first."""
    parts = pack(record)
    signature = "" if signer is None else signer.sign(record.name, record.epoch, digest_of(parts))
    documents = []
    for number, data in enumerate(parts):
        name = record.name if number == 0 else f"{record.name}-{number}"
        state = "in-flight" if record.finishing is None else "finishing"
        annotations = {
            GANG_ANNOTATION: str(record.plan.gang),
            EPOCH_ANNOTATION: str(record.epoch),
            PARTS_ANNOTATION: str(len(parts)),
        }
        if signature and number == 0:
            annotations[SIGNATURE_ANNOTATION] = signature
        documents.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": name,
                    "labels": {LABEL: state} if number == 0 else {PART_LABEL: record.name},
                    "annotations": annotations,
                },
                "binaryData": {"plan": base64.b64encode(data).decode()},
            }
        )
    return documents


def name_of(item: dict[str, Any]) -> str:
    """Return the object's name."""
    return str(item.get("metadata", {}).get("name", ""))


def version_of(item: dict[str, Any]) -> str:
    """Return the object's resourceVersion."""
    return str(item.get("metadata", {}).get("resourceVersion", ""))


def created_at(item: dict[str, Any]) -> float:
    """When the object was made; 0.0: unknown."""
    stamp = item.get("metadata", {}).get("creationTimestamp")
    try:
        return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else 0.0
    except ValueError:
        return 0.0


def owner_of(item: dict[str, Any]) -> str:
    """The record that a further part says it belongs to."""
    return str((item.get("metadata", {}).get("labels") or {}).get(PART_LABEL, ""))


def further_parts(name: str, items: list[dict[str, Any]]) -> dict[int, bytes]:
    """Further parts of one record, by number."""
    found: dict[int, bytes] = {}
    for item in items:
        number = name_of(item).rpartition("-")[2]
        if owner_of(item) == name and name_of(item) == f"{name}-{number}" and number.isdecimal():
            found[int(number)] = data_of(item)
    return found


def signature_of(item: dict[str, Any]) -> str:
    """Return what the first part says that it was signed with."""
    return str((item.get("metadata", {}).get("annotations") or {}).get(SIGNATURE_ANNOTATION, ""))


def _annotation(item: dict[str, Any], name: str) -> int:
    text = str((item.get("metadata", {}).get("annotations") or {}).get(name, ""))
    return int(text) if text.isdecimal() and len(text) < 12 else 0


def epoch_of(item: dict[str, Any]) -> int:
    """Return the lease's epoch under which the part was written; 0: unknown."""
    return _annotation(item, EPOCH_ANNOTATION)


def part_count(item: dict[str, Any]) -> int:
    """Return of how many parts the record says to be."""
    return max(1, min(_annotation(item, PARTS_ANNOTATION), 1000))


def data_of(item: dict[str, Any]) -> bytes:
    """Return the part's bytes, b"" where they cannot be read."""
    text = str((item.get("binaryData") or {}).get("plan", ""))
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def readable(item: dict[str, Any]) -> bool:
    """Whether the first part looks like one of ours; what a person put there stays."""
    return bool(data_of(item)) and bool(_annotation(item, PARTS_ANNOTATION))
