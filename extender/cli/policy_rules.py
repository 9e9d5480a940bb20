"""Rules on what tenants are allowed: who may opt out of preemption, and who may write records."""

from __future__ import annotations

from collections.abc import Iterator

from extender.cli.catalogue import broken
from extender.cli.findings import Finding
from extender.model.policy import BUDGET, DAEMON_SET
from extender.model.settings import Settings

SHARED_NAMESPACES = ("default", "kube-public", "kube-system")
"""Where others than this program write ConfigMaps."""


def policy_findings(settings: Settings, source: str) -> Iterator[Finding]:
    """Findings on ``policy`` and on where plan records are kept."""
    for key, rule in settings.policy.opt_out.items():
        place = f"{source}: policy.optOut[{key}]"
        chosen = rule.namespaces
        everybody = chosen is not None and not (chosen.match_labels or chosen.match_expressions)
        # A budget and a DaemonSet count everywhere unless the configuration says otherwise.
        if everybody and key not in (BUDGET, DAEMON_SET):
            yield broken("opt-out-for-all", f"{place}.namespaces", "selects every namespace")
        if rule.shields == "gang" and key != BUDGET:
            yield broken("opt-out-of-gangs", f"{place}.shields", "is gang")
    seats = settings.seats
    if seats.record_namespace in SHARED_NAMESPACES and not seats.record_key_file:
        problem = f"is {seats.record_namespace}, and seats.recordKeyFile is not set"
        yield broken("records-shared", f"{source}: seats.recordNamespace", problem)
