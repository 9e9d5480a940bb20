"""Rules of ``check`` on our own entries of kube-scheduler's ``extenders``."""

from __future__ import annotations

from extender.cli.rule import Rule

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
        "when a call fails or times out, kube-scheduler continues alone: it evicts pod by pod, "
        "breaks gangs and places others on reserved nodes",
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
        "the weight has no effect, because no scores are requested",
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
    "url-port-loopback": Rule(
        "error",
        "nothing maps ports on loopback: no call arrives, and an entry that fails closed places "
        "nothing",
        "use port {port} in urlPrefix, or that port in server.port",
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
