"""Rules of ``check`` on what tenants are allowed, and on limits between them."""

from __future__ import annotations

from extender.cli.rule import Rule

POLICY_RULES = {
    "opt-out-for-all": Rule(
        "warning",
        "every tenant can protect its pods from all but system-critical priorities",
        "select the namespaces that may, or leave it out: then those labelled "
        "podgroup-extender.io/opt-out: allowed may",
    ),
    "unprotected": Rule(
        "warning",
        "the cluster's own pods there may be evicted for more urgent pods",
        "add kube-system to plan.protectedNamespaces",
    ),
    "budgets-ignored": Rule(
        "warning",
        "plans exceed PodDisruptionBudgets as if there were none",
        "leave policy.optOut[PodDisruptionBudget] out, or select the namespaces that are trusted",
    ),
    "daemon-sets-go": Rule(
        "warning",
        "their controller creates them again on the node at once, and they are evicted again",
        "leave it out, unless no DaemonSet's pods tolerate the taints",
    ),
    "no-gangs": Rule(
        "warning",
        "every pod is one by itself: gangs are evicted and started in part",
        "leave groups.dialects out, or list those that are in use",
    ),
    "opt-out-of-gangs": Rule(
        "warning",
        "one small pod keeps its whole gang from being preempted",
        "write shields: pod, unless that is meant",
    ),
    "shields-for-all": Rule(
        "hint",
        "a tenant with a budget of 0, or a DaemonSet, is moved by system-critical pods only",
        "where tenants are not trusted, give policy.optOut[PodDisruptionBudget] and [DaemonSet] a "
        "namespace selector",
    ),
    "records-unsigned": Rule(
        "hint",
        "only the rights on the records' namespace keep others from writing a list of evictions",
        "make the Secret podgroup-extender-records (docs/operations.md, Records of plans) and name "
        "the mounted key in seats.recordKeyFile",
    ),
    "record-key-unmounted": Rule(
        "error",
        "serve does not start without the configured key",
        "mount the Secret podgroup-extender-records, as manifests/deployment.yaml does",
    ),
    "records-writable": Rule(
        "error",
        "a user who may write ConfigMaps there can make a restart carry out a forged plan",
        "give them another namespace, or sign the records with a key that they cannot read",
    ),
    "records-shared": Rule(
        "error",
        "a user who may write ConfigMaps there can make a restart carry out a forged plan",
        "keep records in the extender's own namespace, or sign them with seats.recordKeyFile",
    ),
}
"""On what tenants are allowed."""
LIMIT_RULES = {
    "overrun-late": Rule(
        "warning",
        "/livez fails after a minute without progress, so the process restarts before a search "
        "that does not end is stopped",
        "set plan.seconds and plan.overrunSeconds to less than 60 in all",
    ),
    "share-whole": Rule(
        "hint",
        "searches for one namespace's gangs may then keep all others waiting, however long",
        "write namespaceShare: 0.5, unless all namespaces are one owner's",
    ),
    "retry-at-once": Rule(
        "warning",
        "a gang that was refused is searched for again and again, at the expense of others",
        "write retrySeconds: 2",
    ),
    "never-suspended": Rule(
        "warning",
        "a gang whose members never start has pods evicted for it again and again",
        "write giveUps: 3",
    ),
    "limit-wide": Rule(
        "warning",
        "a limit that is never reached protects nothing",
        "leave it out, or stay within {most}",
    ),
    "grace-endless": Rule(
        "warning",
        "seats are held as long as a victim's owner likes",
        "write longestGraceSeconds: 3600, or the longest that a checkpoint takes",
    ),
}
"""On limits between tenants."""
