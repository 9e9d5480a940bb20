"""What ``check`` may find: of each rule how grave it is, why it matters and how to repair it.

The rules themselves, that is when one is broken and where, stand in entry_rules.py,
scheduler_rules.py, replica_rules.py and check.py; those on manifests have a catalogue of their own.
"""

from __future__ import annotations

from extender.cli.findings import Finding, Severity
from extender.cli.flag_catalogue import FLAG_RULES
from extender.cli.manifest_catalogue import MANIFEST_RULES
from extender.cli.mode_catalogue import MODE_RULES
from extender.cli.plugin_catalogue import PLUGIN_RULES
from extender.cli.rule import Rule


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


ENTRY_RULES = {
    "no-filter": Rule(
        "error",
        "seats of a plan are not held and members are not kept to their seats",
        "add filterVerb: filter",
    ),
    "no-preempt": Rule(
        "error",
        "kube-scheduler evicts pod by pod for gangs and breaks gangs for others",
        "add preemptVerb: preempt",
    ),
    "prioritize": Rule(
        "hint",
        "each pod costs a second call, and no promise rests on it: it leads pods of no gang to "
        "other nodes than those with seats held, which filter keeps free in any case",
        "leave out prioritizeVerb and weight",
    ),
    "verb-path": Rule(
        "error",
        "the call goes to a path that is not served, and every answer but 200 is an error to "
        "kube-scheduler",
        "write {key}: {verb}",
    ),
    "verb-twice": Rule(
        "error",
        "the second call sees the cluster as the first one left it and decides again",
        "keep it in one entry only",
    ),
    "ignorable": Rule(
        "error",
        "whenever a call fails or times out, kube-scheduler goes on alone: it evicts pod by pod, "
        "breaks gangs and gives promised seats away",
        "write ignorable: false; so that the extender's own pods can start while it is down, see "
        "'Starting without itself' in docs/operations.md",
    ),
    "ignorable-filter": Rule(
        "warning",
        "nothing is evicted while the extender is away, but pods that fit are bound without it: "
        "promised seats may be taken and a gang may start in part",
        "accept this for availability, or write ignorable: false",
    ),
    "node-cache-capable": Rule(
        "error",
        "each call carries every Node object in full (tens of megabytes at 5,000 nodes), which "
        "exceeds any timeout, and scoring then sees the nodes as empty",
        "write nodeCacheCapable: true",
    ),
    "managed-resources": Rule(
        "error",
        "all other pods are placed without asking, on promised seats too, and preempt members of "
        "gangs one by one",
        "remove managedResources; pods of no gang pass through fast",
    ),
    "weight": Rule(
        "error",
        "kube-scheduler refuses to start: a prioritizing extender needs a positive weight",
        "write weight: 1",
    ),
    "weight-unused": Rule(
        "warning",
        "the weight has no effect, so somebody expects scores that are never asked for",
        "remove weight",
    ),
    "timeout-format": Rule(
        "error",
        "kube-scheduler refuses it, or gives every call up at once",
        "write httpTimeout: 5s",
    ),
    "timeout-short": Rule(
        "error",
        "kube-scheduler gives a call up while the search still runs, and the pod's attempt ends "
        "in an error although a plan was on its way",
        "raise httpTimeout to {enough:.1f}s or more, or lower plan.seconds",
    ),
    "timeout-tight": Rule(
        "warning",
        "a search that uses all its time leaves too little for the call itself",
        "raise httpTimeout to {enough:.1f}s or more, or lower plan.seconds",
    ),
    "timeout-long": Rule(
        "warning",
        "calls run inside kube-scheduler's single scheduling loop: a hanging extender stops all "
        "scheduling for that long with every pod",
        "lower it to a little above plan.seconds ({searching:g} s)",
    ),
    "url": Rule(
        "error",
        "kube-scheduler appends /filter, /prioritize and /preempt to it",
        "write urlPrefix: http://127.0.0.1:{port}",
    ),
    "url-path": Rule(
        "error",
        "kube-scheduler appends /filter, /prioritize and /preempt, and the verbs are served at "
        "the root only",
        "write urlPrefix: {scheme}://{netloc}",
    ),
    "url-port": Rule(
        "hint",
        "that is right only with a Service or proxy in between that maps the port",
        "use port {port} when kube-scheduler calls directly",
    ),
    "url-host": Rule(
        "error",
        "a server on the loopback address is not reachable from another pod or host",
        "run both in one pod with urlPrefix http://127.0.0.1:..., or set server.host to 0.0.0.0",
    ),
    "url-dns": Rule(
        "warning",
        "a kube-scheduler on the host network uses the host's resolver, and cluster DNS itself "
        "needs scheduling to come up",
        "write the Service's cluster IP, or run the extender beside kube-scheduler",
    ),
    "https-scheme": Rule(
        "error",
        "the scheme of urlPrefix decides: the calls go out in plain text",
        "write urlPrefix: https://..., or remove enableHTTPS",
    ),
    "tls-mismatch": Rule(
        "error",
        "one side speaks TLS and the other does not, so every call fails",
        "set server.tlsCertFile and server.tlsKeyFile together with an https urlPrefix, or neither",
    ),
    "tls-ca": Rule(
        "warning",
        "kube-scheduler then trusts {trusted}",
        "set tlsConfig.caFile to the authority that signed the server's certificate",
    ),
    "tls-client": Rule(
        "error",
        "the server turns callers without a certificate away, so every call fails",
        "set tlsConfig.certFile and tlsConfig.keyFile, or remove server.clientCaFile",
    ),
}
"""On our own entries of ``extenders``."""

SCHEDULER_RULES = {
    "not-configured": Rule(
        "error",
        "kube-scheduler never asks, so it evicts pod by pod as if nothing were installed",
        "add the entry of manifests/kube-scheduler-config.yaml, or name ours with --extender-url",
    ),
    "preempt-after": Rule(
        "error",
        "it gets our answer and may put victims back in: pods are evicted that no plan contains",
        "{move}",
    ),
    "preempt-other": Rule(
        "warning",
        "it may remove the nodes that a plan counts on; the plan is then made again",
        "remove its preemptVerb unless it must protect pods of its own",
    ),
    "filter-after": Rule(
        "warning",
        "a node it refuses looks free to us, so a plan may promise a seat there that cannot be "
        "taken",
        "{move}",
    ),
    "percentage-of-nodes": Rule(
        "hint",
        "every node is filtered for every pod, which this extender does not need: members reach "
        "their seats by nomination. At 3,000 nodes kube-scheduler then places a third as many pods",
        "leave percentageOfNodesToScore out, unless scores should compare all nodes",
    ),
    "filter-before": Rule(
        "hint",
        "above 100 nodes a list that it has shortened looks complete to us although kube-scheduler "
        "has sampled: a plan may then pass over free nodes and evict more than it has to",
        "nothing, if it removes few nodes; else percentageOfNodesToScore: 100",
    ),
    "default-preemption-off": Rule(
        "warning",
        "preempt is never called: gangs are still planned for from filter and from the controller "
        "loop, but no single pod can preempt any more",
        "leave DefaultPreemption enabled; it asks this extender before it evicts",
    ),
    "candidate-nodes": Rule(
        "hint",
        "above 100 nodes a preempting pod shows us a random part of the candidates; for a single "
        "pod the node that breaks no gang may not be among them",
        "set minCandidateNodesPercentage: 100 there, at the price of a dry run on every node for "
        "each preempting pod",
    ),
    "scheduler-name": Rule(
        "warning",
        "its gangs are never planned for, although it asks for every pod",
        "add {name} to schedulerNames, or leave schedulerNames out to serve all",
    ),
    "scheduler-unknown": Rule(
        "warning",
        "its gangs are planned for, but a scheduler that does not ask us gives their seats away",
        "check that scheduler's configuration too, or take the name out",
    ),
    "feature-gate": Rule(
        "error",
        "kube-scheduler then preempts for pod groups by itself, never asks preempt for their "
        "members and calls filter inside simulations",
        "{advice}",
    ),
    "gate-unknown": Rule(
        "error",
        "kube-scheduler refuses to start with a feature gate that it does not know, also where it "
        "is to be off",
        "leave it out of --feature-gates: what this release does not have is off",
    ),
    "config-flag": Rule(
        "error",
        "kube-scheduler reads no KubeSchedulerConfiguration, hence knows no extender",
        "add --config=/path/to/kube-scheduler-config.yaml and mount the file",
    ),
}
"""On kube-scheduler as a whole."""

POLICY_RULES = {
    "opt-out-for-all": Rule(
        "warning",
        "every tenant keeps its pods from everybody below system-critical priorities",
        "select the namespaces that may, or leave it out: then those labelled "
        "podgroup-extender.io/opt-out: allowed may",
    ),
    "unprotected": Rule(
        "warning",
        "what the cluster itself runs there goes for whoever is more urgent",
        "add kube-system to plan.protectedNamespaces",
    ),
    "budgets-ignored": Rule(
        "warning",
        "plans exceed PodDisruptionBudgets as if there were none",
        "leave policy.optOut[PodDisruptionBudget] out, or select the namespaces that are trusted",
    ),
    "daemon-sets-go": Rule(
        "warning",
        "their controller puts them back on the node at once, and they go again",
        "leave it out, unless no DaemonSet's pods tolerate what keeps others off",
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
        "serve does not start without the key that it is told to use",
        "mount the Secret podgroup-extender-records, as manifests/deployment.yaml does",
    ),
    "records-writable": Rule(
        "error",
        "whoever may write ConfigMaps there can make a restart finish a plan that nobody made",
        "give them another namespace, or sign the records with a key that they cannot read",
    ),
    "records-shared": Rule(
        "error",
        "whoever may write ConfigMaps there can make a restart finish a plan that nobody made",
        "keep records in the extender's own namespace, or sign them with seats.recordKeyFile",
    ),
}
"""On what tenants are allowed."""

BIND_RULES = {
    "bind": Rule(
        "error",
        "kube-scheduler would leave every binding to a call that fails",
        "remove bindVerb, or set bind.enabled: true (docs/barrier.md)",
    ),
    "bind-unused": Rule(
        "warning",
        "kube-scheduler binds members one by one, as without the barrier",
        "add an entry with bindVerb: bind and httpTimeout: 45s, or set bind.enabled: false",
    ),
    "bind-ignorable": Rule(
        "error",
        "a bind that is refused, or not answered, is then done by kube-scheduler itself: a gang "
        "starts in part",
        "write ignorable: false on the entry with bindVerb",
    ),
    "bind-shared": Rule(
        "warning",
        "held bindings need a long httpTimeout, and a filter that hangs would stop all scheduling "
        "for as long; managedResources would narrow filter too",
        "give bindVerb an entry of its own with the same urlPrefix",
    ),
    "bind-ignored": Rule(
        "error",
        "kube-scheduler then does not count {name}, and puts more pods on a node than it has",
        "write ignoredByScheduler: false",
    ),
    "bind-timeout": Rule(
        "error",
        "kube-scheduler gives a held bind up before it is answered, so a gang whose last member is "
        "slow never starts",
        "raise httpTimeout to {enough:g}s or more, or lower bind.holdSeconds",
    ),
    "bind-hold": Rule(
        "warning",
        "the seats go back before a bind is held for as long as that",
        "raise seats.bindSeconds, or lower bind.holdSeconds",
    ),
    "bind-right": Rule(
        "error",
        "no binding is accepted, so no pod that is bound by the extender ever starts",
        "apply manifests/barrier/rbac.yaml",
    ),
    "rollback": Rule(
        "hint",
        "members of a gang that is bound in part are deleted; a bare pod does not come back",
        "write rollback: keep unless that is meant",
    ),
}
"""On the bind barrier."""

SETTINGS_RULES = {
    "pdb-policy": Rule(
        "hint",
        "a plan may then exceed a PodDisruptionBudget when nothing else makes room",
        "write pdbPolicy: respect unless that is meant",
    ),
    "open-port": Rule(
        "error",
        "whoever reaches the port can ask for evictions, so serve does not start like this",
        "listen on 127.0.0.1, with server.healthPort for probes and metrics; or set "
        "server.tlsCertFile, tlsKeyFile, clientCaFile and allowedNames",
    ),
    "any-certificate": Rule(
        "warning",
        "whoever has a certificate of that authority can call the verbs",
        "name kube-scheduler's certificate in server.allowedNames (over gRPC: grpc.allowedNames)",
    ),
    "open-metrics": Rule(
        "hint",
        "names of namespaces and gangs can be read by whoever reaches the port",
        "leave server.openMetrics out, or keep others away with a NetworkPolicy",
    ),
    "plain-tokens": Rule(
        "warning",
        "a token would cross the network in the clear, so none is read and nobody can read them",
        "set server.tlsCertFile and tlsKeyFile, or server.openMetrics behind a NetworkPolicy",
    ),
}
"""On this program's own configuration."""

LIMIT_RULES = {
    "overrun-late": Rule(
        "warning",
        "/livez fails after a minute without life, so the process is restarted before a search "
        "that does not end is stopped",
        "let plan.seconds and plan.overrunSeconds come to less than 60",
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
        "a limit that nothing reaches protects nobody",
        "leave it out, or stay within {most}",
    ),
    "grace-endless": Rule(
        "warning",
        "seats are held as long as a victim's owner likes",
        "write longestGraceSeconds: 3600, or the longest that a checkpoint takes",
    ),
}
"""On limits between tenants."""

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
