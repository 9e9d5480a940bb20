"""What ``check`` may find: of each rule how grave it is, why it matters and how to repair it.

The rules themselves, that is when one is broken and where, stand in entry_rules.py,
scheduler_rules.py, replica_rules.py and check_command.py. Here are those on our own settings and on
replicas; each other subject has a catalogue of its own.
"""

from __future__ import annotations

from extender.cli.bind_catalogue import BIND_RULES
from extender.cli.entry_catalogue import ENTRY_RULES
from extender.cli.findings import Finding, Severity
from extender.cli.flag_catalogue import FLAG_RULES
from extender.cli.manifest_catalogue import MANIFEST_RULES
from extender.cli.mode_catalogue import MODE_RULES
from extender.cli.plugin_catalogue import PLUGIN_RULES
from extender.cli.rule import Rule
from extender.cli.scheduler_catalogue import SCHEDULER_RULES
from extender.cli.tenant_catalogue import LIMIT_RULES, POLICY_RULES


def broken(
    rule: str, place: str, problem: str, severity: Severity | None = None, **values: object
) -> Finding:
    """The finding that a rule is broken at a place (``file: path``).

    The rule is a key of RULES, and values fill the braces of its text. The severity is the
    rule's own unless given.
    """
    text = RULES[rule]
    return Finding(
        severity=severity or text.severity,
        rule=rule,
        place=place,
        problem=problem,
        why=text.why.format(**values),
        repair=text.repair.format(**values),
    )


SETTINGS_RULES = {
    "pdb-policy": Rule(
        "hint",
        "a plan may then exceed a PodDisruptionBudget when nothing else makes room",
        "write pdbPolicy: respect unless that is meant",
    ),
    "open-port": Rule(
        "error",
        "every caller that reaches the port could have pods evicted, so serve does not start",
        "listen on 127.0.0.1, with server.healthPort for probes and metrics; or set "
        "server.tlsCertFile, tlsKeyFile, clientCaFile and allowedNames",
    ),
    "any-certificate": Rule(
        "warning",
        "every certificate of that authority can call the verbs",
        "name kube-scheduler's certificate in server.allowedNames (over gRPC: grpc.allowedNames)",
    ),
    "open-metrics": Rule(
        "hint",
        "every caller that reaches the port can read names of namespaces and gangs",
        "leave server.openMetrics out, or keep others away with a NetworkPolicy",
    ),
    "plain-tokens": Rule(
        "warning",
        "a token would cross the network unencrypted, so none is accepted and the pages are closed",
        "set server.tlsCertFile and tlsKeyFile, or server.openMetrics behind a NetworkPolicy",
    ),
}
"""On this program's own configuration."""


REPLICA_RULES = {
    "two-planners": Rule(
        "error",
        "two extenders at the same time promise the same room twice",
        "set leadership.enabled: true, or run one replica with strategy Recreate",
    ),
    "shared-identity": Rule(
        "error",
        "each of them takes the lease that it reads for its own, so several act",
        "leave leadership.identity out: each process then makes a name of its own",
    ),
    "static-pods": Rule(
        "warning",
        "a static pod on several control plane nodes is several extenders, and all of them plan",
        "set leadership.enabled: true, unless there is one control plane node only",
    ),
    "standby-not-ready": Rule(
        "error",
        "/readyz is false on a standby for as long as another replica leads: a kube-scheduler "
        "beside it never starts, a roll-out never ends and no node with the leader can be drained",
        "ask for /readyz/caches, which says that the replica could lead",
    ),
    "no-leader-label": Rule(
        "error",
        "no pod ever gets the label, so the Service has no endpoint",
        "set leadership.labelPod: true",
    ),
    "service-standby": Rule(
        "error",
        "calls also go to standbys, which refuse them",
        'add podgroup-extender.io/leader: "true" to the selector and set leadership.labelPod: true',
    ),
}
"""On several replicas."""

RULES = (
    ENTRY_RULES
    | SCHEDULER_RULES
    | BIND_RULES
    | PLUGIN_RULES
    | SETTINGS_RULES
    | POLICY_RULES
    | LIMIT_RULES
    | REPLICA_RULES
    | MANIFEST_RULES
    | MODE_RULES
    | FLAG_RULES
)
