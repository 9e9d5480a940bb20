"""What kube-scheduler sends, written as Go's encoder writes it."""

from __future__ import annotations

import json
from typing import Any

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "uid-p", "creationTimestamp": None},
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}],
        "priority": 7,
    },
    "status": {},
}


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"zone": "z"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "4"}},
    }


def filter_by_name(names: list[str]) -> dict[str, Any]:
    return {"Pod": POD, "Nodes": None, "NodeNames": names}


def filter_by_node(names: list[str]) -> dict[str, Any]:
    items = [node(name) for name in names]
    return {"Pod": POD, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


def preempt_meta(victims: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "Pod": POD,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {
            name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": len(uids) // 2}
            for name, uids in victims.items()
        },
    }


def preempt_whole(victims: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "Pod": POD,
        "NodeNameToVictims": {
            name: {
                "Pods": [{"metadata": {"name": u, "uid": u}, "spec": {}, "status": {}} for u in us],
                "NumPDBViolations": len(us) // 2,
            }
            for name, us in victims.items()
        },
        "NodeNameToMetaVictims": None,
    }


def dump(document: object) -> bytes:
    """Encode like Go's json.Encoder: no blanks, and a newline at the end."""
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
