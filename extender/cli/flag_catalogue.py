"""What ``check`` may find on command lines, kube-scheduler's and ours.

The rules are in flag_rules.py and serve_rules.py.
"""

from __future__ import annotations

from extender.cli.rule import Rule

FLAG_RULES = {
    "flag-elect": Rule(
        "error",
        "several kube-schedulers of one name then bind the same pods at once, each with a picture "
        "of its own, and seats of a plan are given away",
        "leave --leader-elect out, and write leaderElection: {{leaderElect: true}}",
    ),
    "flag-lease": Rule(
        "error",
        "it is a standby while the cluster's own kube-scheduler leads, or prevents that one from "
        "leading",
        "write a resourceName and resourceNamespace of its own under leaderElection, and leave the "
        "flags out",
    ),
    "flag-open-paths": Rule(
        "error",
        "every caller that reaches the port reads them without a token: profiles, configuration, "
        "names of namespaces",
        "leave it out: /healthz, /readyz and /livez are open then",
    ),
    "flag-proxy": Rule(
        "error",
        "every certificate of that authority may call in any user's name",
        "name the proxy's certificate in --requestheader-allowed-names, or leave both out",
    ),
    "flag-kept": Rule(
        "warning",
        "a revoked token or right is still accepted for so long",
        "leave it out: answers are kept for 10 s then",
    ),
    "flag-probe": Rule(
        "error",
        "kubelet gets no answer, so the container is restarted for ever and nothing is placed",
        "leave --secure-port and --bind-address as the manifests have them",
    ),
    "flag-bind": Rule(
        "warning",
        "the port is open on the node's own addresses, where no NetworkPolicy holds",
        "write --bind-address=127.0.0.1, or remove hostNetwork",
    ),
    "flag-tls": Rule(
        "warning",
        "a token that crosses the network may be read by others",
        "leave it out: TLS 1.2 and Go's safe ciphers are the defaults",
    ),
    "flag-master": Rule(
        "error",
        "it takes the place of the API server in the kubeconfig, whose authority does not speak "
        "for it, and over http the token crosses the network in the clear",
        "leave it out",
    ),
    "flag-ends": Rule(
        "error",
        "kube-scheduler prints or writes what is asked and ends: nothing is placed",
        "leave it out",
    ),
    "flag-config": Rule(
        "error",
        "what was checked is not what is read",
        "let --config, once, name the file that was checked, where the manifest mounts it",
    ),
    "flag-unknown": Rule(
        "warning",
        "kube-scheduler ends at once on a flag that it does not have, and one of a later version "
        "was not judged",
        "leave it out, unless your kube-scheduler lists it with --help",
    ),
    "flag-overrides": Rule(
        "hint",
        "the configuration alone does not say how the extender runs",
        "write it to the configuration and leave the flag out",
    ),
}
"""On command lines."""
