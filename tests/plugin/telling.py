"""What kube-scheduler with the plugin says."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import Client

ENDED = "The stream of seats ended"
"""In kube-scheduler's log when the mirror is cut."""


def told(client: Client, name: str) -> str:
    """What kube-scheduler says of a pod; "" when it has a node."""
    pod: dict[str, Any] = client.get("Pod", name)
    conditions = pod["status"].get("conditions", ())
    found = [each for each in conditions if each["type"] == "PodScheduled"]
    return str(found[0].get("message", "")) if found else ""
