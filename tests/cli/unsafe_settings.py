"""Settings of the extender that let one tenant do what is another's, or that protect nothing."""

from __future__ import annotations

from tests.cli.installations import Object
from tests.cli.unsafe_changes import EVERY, case, on_settings, others_bound, signed

UNLABELLED = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
NAMED: Object = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
TENANTS = [
    *case(
        "everybody opts out",
        EVERY,
        on_settings("policy", optOut={"default": {"namespaces": {}}}),
        "warning opt-out-for-all",
    ),
    *case(
        "one pod shields its gang",
        EVERY,
        on_settings("policy", optOut={"podgroup-extender.io/protected": {"shields": "gang"}}),
        "warning opt-out-of-gangs",
    ),
    *case(
        "records beside others'",
        EVERY,
        on_settings("seats", recordNamespace="kube-system"),
        "error records-shared",
    ),
    *case(
        "a status where nothing may be written",
        EVERY,
        on_settings("status", namespace="kube-public"),
        "warning status-right",
    ),
    *case(
        "records where nothing may be written",
        EVERY,
        on_settings("seats", recordNamespace="gang-records"),
        "error record-right",
    ),
    *case(
        "a lease that nobody may hold",
        EVERY,
        on_settings("leadership", namespace="leases"),
        "error lease-right",
    ),
    *case(
        "a lease of another name than the Role's",
        EVERY,
        on_settings("leadership", name="another"),
        "error lease-right",
    ),
    *case(
        "all but some opt out",
        EVERY,
        on_settings("policy", optOut={"volcano.sh/preemptable": {"namespaces": UNLABELLED}}),
        "warning opt-out-for-all",
    ),
    *case(
        "all that have a name opt out",
        EVERY,
        on_settings("policy", optOut={"volcano.sh/preemptable": {"namespaces": NAMED}}),
        "warning opt-out-for-all",
    ),
    *case("editors beside the records", EVERY, others_bound("edit"), "error records-writable"),
    *case(
        "writers beside the records",
        EVERY,
        others_bound("writers", ("configmaps", "patch")),
        "error records-writable",
    ),
    *case(
        "writers everywhere",
        EVERY,
        others_bound("writers", ("configmaps", "create"), everywhere=True),
        "error records-writable",
    ),
    *case(
        "writers who read the key",
        EVERY,
        signed(others_bound("writers", ("configmaps", "update"), ("secrets", "get"))),
        "error records-writable",
    ),
    *case(
        "a key that is not there",
        EVERY,
        on_settings("seats", recordKeyFile="/run/elsewhere/key"),
        "error record-key-unmounted",
    ),
    *case(
        "a planner that is replaced too late",
        EVERY,
        on_settings("plan", overrunSeconds=120),
        "warning overrun-late",
    ),
    *case(
        "one tenant has all planning time",
        EVERY,
        on_settings("plan", namespaceShare=1),
        "hint share-whole",
    ),
    *case("no suspension", EVERY, on_settings("seats", giveUps=0), "warning never-suspended"),
    *case(
        "a grace of years",
        EVERY,
        on_settings("eviction", longestGraceSeconds=10**8),
        "warning grace-endless",
    ),
]
WIDE = {
    "server": {
        "maxConnections": 10**6,
        "maxBytesInFlight": 10**12,
        "headSeconds": 10**6,
        "bodySeconds": 10**6,
    },
    "seats": {
        "giveUps": 10**6,
        "bindSeconds": 10**7,
        "maxReplans": 10**6,
        "victimSlackSeconds": 10**7,
    },
    "plan": {"patienceSeconds": 10**7, "minRuntimeSeconds": 10**8},
    "cache": {"staleSeconds": 10**6, "stallSeconds": 10**6},
    "api": {"connections": 10**6, "requestsPerSecond": 10**9},
    "eviction": {"attempts": 10**6, "concurrency": 10**6},
    "grpc": {"maxCalls": 10**6, "maxStreams": 10**6},
}
TENANTS += [
    each
    for section, values in WIDE.items()
    for key, value in values.items()
    for each in case(
        f"{key} without end", EVERY, on_settings(section, **{key: value}), "warning limit-wide"
    )
]
SETTINGS = [
    *case(
        "no namespace protected",
        EVERY,
        on_settings("plan", protectedNamespaces=[]),
        "warning unprotected",
    ),
    *case(
        "the system's namespace not protected",
        EVERY,
        on_settings("plan", protectedNamespaces=["podgroup-extender"]),
        "warning unprotected",
    ),
    *case(
        "budgets count for nobody",
        EVERY,
        on_settings(
            "policy", optOut={"PodDisruptionBudget": {"namespaces": None, "shields": "gang"}}
        ),
        "warning budgets-ignored",
    ),
    *case(
        "budgets count against nobody",
        EVERY,
        on_settings(
            "policy", optOut={"PodDisruptionBudget": {"preemptorsBelow": -1, "shields": "gang"}}
        ),
        "warning budgets-ignored",
    ),
    *case(
        "DaemonSets' pods go",
        EVERY,
        on_settings("plan", evictDaemonSetPods=True),
        "warning daemon-sets-go",
    ),
    *case(
        "DaemonSets count for nobody",
        EVERY,
        on_settings("policy", optOut={"DaemonSet": {"namespaces": None}}),
        "warning daemon-sets-go",
    ),
    *case("no dialect", EVERY, on_settings("groups", dialects=[]), "warning no-gangs"),
    *case(
        "suspended for a moment",
        EVERY,
        on_settings("seats", suspendSeconds=1),
        "warning never-suspended",
    ),
    *case(
        "asked again at once", EVERY, on_settings("plan", retrySeconds=0), "warning retry-at-once"
    ),
]
