"""All rules of ``check``: whoever imports this has those of every subject."""

from __future__ import annotations

from extender.check import (
    bind_rules,
    extender_entry_rules,
    flag_rules,
    listener_rules,
    mode_rules,
    network_rules,
    plugin_rules,
    pod_rules,
    replica_rules,
    rights_rules,
    scheduler_rules,
    tenant_rules,
)
from extender.check.rule import RULES

SUBJECTS = (
    bind_rules,
    extender_entry_rules,
    flag_rules,
    listener_rules,
    mode_rules,
    network_rules,
    plugin_rules,
    pod_rules,
    replica_rules,
    rights_rules,
    scheduler_rules,
    tenant_rules,
)

__all__ = ("RULES", "SUBJECTS")
