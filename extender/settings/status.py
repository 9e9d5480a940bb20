"""The ConfigMap that says how the whole stands: its section of the settings."""

from __future__ import annotations

from extender.model.names import is_subdomain
from extender.settings.policy import Section

MARK_LABEL = "podgroup-extender.io/status"
"""On the ConfigMap that is ours: one without it, and with content, is somebody else's."""
RESERVED = ("podgroup-extender-suspended", "podgroup-extender-evicted", "podgroup-plan-")
"""How the names of ConfigMaps begin that hold what the next life reads."""


class StatusSettings(Section, frozen=True, kw_only=True):
    """What the leader writes for people who have kubectl and nothing else."""

    name: str = "podgroup-extender-status"
    """Name of the ConfigMap. Empty: none is written."""
    namespace: str = ""
    """Namespace of the ConfigMap. Empty: that of the plan records."""
    seconds: float = 30.0
    """Least pause between two writes."""
    heartbeat_seconds: float = 300.0
    """It is written at least this often, also when nothing has changed."""


def problems_of(status: StatusSettings) -> list[str]:
    """Return what is wrong with the section, in words."""
    reserved = status.name.startswith(RESERVED)
    rules = (
        (
            not status.name or is_subdomain(status.name),
            "status.name must be a DNS subdomain (lower case letters, digits, '-' and '.')",
        ),
        (
            not status.namespace or is_subdomain(status.namespace),
            "status.namespace must be a DNS subdomain",
        ),
        (not reserved, f"status.name must not begin with {' or '.join(RESERVED)}"),
        (status.seconds >= 1, "status.seconds must be at least 1"),
        (
            status.heartbeat_seconds >= status.seconds,
            "status.heartbeatSeconds must not be below status.seconds",
        ),
    )
    return [text for fine, text in rules if not fine]
