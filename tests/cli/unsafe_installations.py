"""Installations made unsafe: pods and what is around them, rights, listeners, settings, flags."""

from __future__ import annotations

from typing import Any

from tests.cli.installations import DEPLOYMENT, SECOND, STATIC, Object
from tests.cli.unsafe_changes import (
    EVERY,
    IN_CLUSTER,
    annotated,
    arguments,
    bound_to,
    cases,
    for_group,
    more_flags,
    more_words,
    on_budget,
    on_container,
    on_context,
    on_entries,
    on_neighbour,
    on_pod,
    on_policies,
    on_role,
    on_scheduler_config,
    on_settings,
    others_bound,
    own_lease_left_out,
    plain_calls,
    signed,
    under_another_name,
    without,
    writable_host_path,
)

UNLABELLED = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
NAMED: Object = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
KUBECONFIG = "--kubeconfig=/etc/podgroup-extender/kubeconfig"
EVERYBODY: Object = {"from": [{"namespaceSelector": {}}]}
HALVES: list[Object] = [{"ipBlock": {"cidr": cidr}} for cidr in ("0.0.0.0/1", "128.0.0.0/1")]
ANYWHERE: Object = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}
PODS = [
    *cases(
        EVERY,
        {
            "error privileged: privileged": on_container("securityContext", privileged=True),
            "error no-memory-limit: no limits under another name": under_another_name,
            "error no-memory-limit: no limits": on_container("resources", limits=None),
            "error no-memory-limit: no requests": on_container("resources", requests=None),
            "error root-user: root": on_context(runAsNonRoot=False, runAsUser=0),
            "error root-user: user 0": on_context(runAsNonRoot=True, runAsUser=0),
            "error root-user: nothing about the user": on_context(runAsNonRoot=None),
            "error writable-root: writable root": on_container(
                "securityContext", readOnlyRootFilesystem=None
            ),
            "error privilege-escalation: privilege escalation": on_container(
                "securityContext", allowPrivilegeEscalation=None
            ),
            "error capabilities: a capability": on_container(
                "securityContext.capabilities", add=["NET_ADMIN"]
            ),
            "error capabilities: capabilities kept": on_container(
                "securityContext", capabilities=None
            ),
            "error seccomp: no seccomp": on_context(seccompProfile=None),
            "error seccomp: seccomp off": on_context(seccompProfile={"type": "Unconfined"}),
            "error unconfined: AppArmor off": on_context(appArmorProfile={"type": "Unconfined"}),
            "error unconfined: all of /proc": on_container("securityContext", procMount="Unmasked"),
            "error host-namespaces: node's processes": on_pod(hostPID=True),
            "error host-namespaces: node's IPC": on_pod(hostIPC=True),
            "error host-path: node's files": writable_host_path,
            "error priority-class: low priority": on_pod(priorityClassName="high"),
            "error priority-class: no priority": on_pod(priorityClassName=None),
            "error image-latest: latest": on_container(image="registry:5000/podgroup-extender"),
            "error socket-unmounted: a socket and no directory for it": on_settings(
                "grpc", listen="unix:/run/podgroup-extender/grpc.sock"
            ),
            "error socket-unmounted: a socket below what is empty": on_settings(
                "grpc", listen="unix:/tmp/deeper/grpc.sock"
            ),
            "error socket-unmounted: a socket among files that are only read": on_settings(
                "grpc", listen="unix:/etc/podgroup-extender/grpc.sock"
            ),
        },
    ),
    *cases(
        IN_CLUSTER,
        {
            "error unconfined: AppArmor off by annotation": annotated(
                "container.apparmor.security.beta.kubernetes.io/extender", "unconfined"
            ),
            "error default-account: default account": on_pod(serviceAccountName=None),
            "error shared-account: account of another pod": on_neighbour,
            "warning token-everywhere: token for everybody in the pod": on_pod(
                automountServiceAccountToken=None
            ),
        },
    ),
    *cases(
        (DEPLOYMENT,),
        {
            "error shared-account: kube-scheduler's rights too": bound_to("system:kube-scheduler"),
            "error host-network: node's network": on_pod(hostNetwork=True),
        },
    ),
    *cases(
        (STATIC,),
        {
            "error shared-account: kube-scheduler's kubeconfig": arguments(
                KUBECONFIG, "--kubeconfig=/etc/kubernetes/scheduler.conf"
            ),
            "error rights-admin: administrator's kubeconfig": arguments(
                KUBECONFIG, "--kubeconfig=/etc/kubernetes/admin.conf"
            ),
            "error host-network: open on the node's network": on_settings("server", host="0.0.0.0"),
        },
    ),
    *cases(
        (SECOND,),
        {
            "warning host-network: node's network for metrics": on_pod(hostNetwork=True),
        },
    ),
]
AROUND = [
    *cases(
        IN_CLUSTER,
        {
            "error no-network-policy, error no-egress-policy: no NetworkPolicy": lambda i: i.drop(
                "NetworkPolicy"
            ),
            "error no-network-policy, error no-egress-policy: policy for others": on_policies(
                podSelector={"matchLabels": {"app": "x"}}
            ),
            "error no-egress-policy: no egress policy": on_policies(policyTypes=["Ingress"]),
            "error policy-open: everybody comes in": on_policies(ingress=[{}]),
            "error policy-open: every namespace comes in": on_policies(ingress=[EVERYBODY]),
            "error policy-open: both halves of all addresses come in": on_policies(
                ingress=[{"from": HALVES}]
            ),
            "error policy-open: all addresses, written as somebody's": on_policies(
                ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.7/0"}}]}]
            ),
            "error policy-open: every namespace that has a name comes in": on_policies(
                ingress=[{"from": [{"namespaceSelector": NAMED}]}]
            ),
            "error policy-open: pods of every namespace that say who they are come in": on_policies(
                ingress=[
                    {
                        "from": [
                            {
                                "namespaceSelector": {},
                                "podSelector": {"matchLabels": {"app": "prometheus"}},
                            }
                        ]
                    }
                ]
            ),
            "error egress-open: out to both halves of all addresses": on_policies(
                egress=[{"to": HALVES}]
            ),
            "error egress-open: out to everywhere": on_policies(egress=[ANYWHERE]),
            "error no-budget: no budget": lambda i: i.drop("PodDisruptionBudget"),
            "error budget-blocks: budget of nothing": on_budget(maxUnavailable=0),
            "error budget-blocks: budget of all": on_budget(minAvailable=2),
        },
    ),
]
RIGHTS = [
    *cases(
        EVERY,
        {
            "error rights-admin: cluster-admin": bound_to("cluster-admin"),
            "error rights-admin: edit": bound_to("edit"),
            "error rights-wildcard: every verb": on_role(
                "ClusterRole", lambda rules: rules[0].update(verbs=["*"])
            ),
            "error rights-wildcard: every resource": on_role(
                "Role", lambda rules: rules[0].update(resources=["*"])
            ),
            "warning job-right: no Jobs": on_role("ClusterRole", without("jobs")),
            "warning claim-right: no claims": on_role(
                "ClusterRole", without("persistentvolumeclaims")
            ),
            "warning event-right: no events": on_role("ClusterRole", without("events")),
            "error rights-beyond: Secrets": on_role(
                "ClusterRole", lambda rules: rules[0]["resources"].append("secrets")
            ),
            "error rights-beyond: making pods": on_role(
                "ClusterRole",
                lambda rules: rules.append(
                    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
                ),
            ),
            "error rights-for-all: for everybody": for_group("system:authenticated"),
            "error rights-for-all: for every account": for_group("system:serviceaccounts:work"),
        },
    ),
]
CALLS = [
    *cases(
        EVERY,
        {
            "error ignorable: fails open": on_entries(ignorable=True),
            "error timeout-short: calls too short": on_entries(httpTimeout="2s"),
            "warning timeout-long: calls too long": on_entries(httpTimeout="5m"),
            "hint prioritize, error weight: no weight": on_entries(prioritizeVerb="prioritize"),
            "error node-cache-capable: every node in full": on_entries(nodeCacheCapable=None),
            "error no-preempt: no preempt": on_entries(preemptVerb=None),
            "error no-filter: no filter": on_entries(filterVerb=None),
            "hint prioritize: prioritize": on_entries(prioritizeVerb="prioritize", weight=1),
            "error bind: binds": on_entries(bindVerb="bind"),
            "error managed-resources: some pods only": on_entries(
                managedResources=[{"name": "nvidia.com/gpu"}]
            ),
        },
    ),
    *cases(
        IN_CLUSTER,
        {
            "error two-planners: two that plan": on_settings("leadership", enabled=False),
        },
    ),
]
LISTENERS = [
    *cases(
        (SECOND, STATIC),
        {
            "error open-port: open to everybody": on_settings("server", host="0.0.0.0"),
            "error open-port: open, told once": on_settings(
                "server", host="0.0.0.0", allowOpenPort=True
            ),
            "error https-scheme: HTTPS on a plain address": on_entries(enableHTTPS=True),
        },
    ),
    *cases(
        (DEPLOYMENT,),
        {
            "error open-port, error tls-mismatch: no TLS": on_settings(
                "server", tlsCertFile=None, tlsKeyFile=None, clientCaFile=None, allowedNames=None
            ),
            "error open-port: no client CA": on_settings(
                "server", clientCaFile=None, allowedNames=None
            ),
            "error open-port: no allow-list": on_settings("server", allowedNames=None),
            "hint open-metrics: metrics for everybody": on_settings("server", openMetrics=True),
            "error tls-mismatch: calls in plain text": plain_calls,
            "warning tls-ca: server not verified": on_entries(
                tlsConfig={"certFile": "/c", "keyFile": "/k"}, enableHTTPS=True
            ),
            "error tls-client: no client certificate": on_entries(tlsConfig={"caFile": "/ca"}),
            "error probe-unanswered: probes without a certificate": on_container(
                "livenessProbe.httpGet", port="extender"
            ),
            "error probe-unanswered: probes in plain text": on_container(
                "startupProbe.httpGet", scheme=None
            ),
        },
    ),
    *cases(
        (SECOND,),
        {
            "warning plain-tokens: debug for everybody, without TLS": on_settings(
                "server", debug=True
            ),
            "error probe-unanswered: probes where only loopback listens": on_settings(
                "server", healthHost="127.0.0.1"
            ),
            "error probe-unanswered: probes without a listener": on_settings(
                "server", healthHost=None, healthPort=None
            ),
        },
    ),
    *cases(
        (STATIC,),
        {
            "warning any-certificate: any certificate, on loopback": on_settings(
                "server", tlsCertFile="/c", tlsKeyFile="/k", clientCaFile="/ca"
            ),
        },
    ),
]
TENANTS = [
    *cases(
        EVERY,
        {
            "warning opt-out-for-all: everybody opts out": on_settings(
                "policy", optOut={"default": {"namespaces": {}}}
            ),
            "warning opt-out-for-all: all but some opt out": on_settings(
                "policy", optOut={"volcano.sh/preemptable": {"namespaces": UNLABELLED}}
            ),
            "warning opt-out-for-all: all that have a name opt out": on_settings(
                "policy", optOut={"volcano.sh/preemptable": {"namespaces": NAMED}}
            ),
            "warning opt-out-of-gangs: one pod shields its gang": on_settings(
                "policy", optOut={"podgroup-extender.io/protected": {"shields": "gang"}}
            ),
            "error records-shared: records beside others'": on_settings(
                "seats", recordNamespace="kube-system"
            ),
            "warning status-right: a status where nothing may be written": on_settings(
                "status", namespace="kube-public"
            ),
            "error record-right: records where nothing may be written": on_settings(
                "seats", recordNamespace="gang-records"
            ),
            "error lease-right: a lease that nobody may hold": on_settings(
                "leadership", namespace="leases"
            ),
            "error lease-right: a lease of another name than the Role's": on_settings(
                "leadership", name="another"
            ),
            "error records-writable: editors beside the records": others_bound("edit"),
            "error records-writable: writers beside the records": others_bound(
                "writers", ("configmaps", "patch")
            ),
            "error records-writable: writers everywhere": others_bound(
                "writers", ("configmaps", "create"), everywhere=True
            ),
            "error records-writable: writers who read the key": signed(
                others_bound("writers", ("configmaps", "update"), ("secrets", "get"))
            ),
            "error record-key-unmounted: a key that is not there": on_settings(
                "seats", recordKeyFile="/run/elsewhere/key"
            ),
            "warning overrun-late: a planner that is replaced too late": on_settings(
                "plan", overrunSeconds=120
            ),
            "hint share-whole: one tenant has all planning time": on_settings(
                "plan", namespaceShare=1
            ),
            "warning never-suspended: no suspension": on_settings("seats", giveUps=0),
            "warning grace-endless: a grace of years": on_settings(
                "eviction", longestGraceSeconds=10**8
            ),
        },
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
TENANTS += cases(
    EVERY,
    {
        f"warning limit-wide: {key} without end": on_settings(section, **{key: value})
        for section, values in WIDE.items()
        for key, value in values.items()
    },
)

SETTINGS = [
    *cases(
        EVERY,
        {
            "warning unprotected: no namespace protected": on_settings(
                "plan", protectedNamespaces=[]
            ),
            "warning unprotected: the system's namespace not protected": on_settings(
                "plan", protectedNamespaces=["podgroup-extender"]
            ),
            "warning budgets-ignored: budgets count for nobody": on_settings(
                "policy", optOut={"PodDisruptionBudget": {"namespaces": None, "shields": "gang"}}
            ),
            "warning budgets-ignored: budgets count against nobody": on_settings(
                "policy", optOut={"PodDisruptionBudget": {"preemptorsBelow": -1, "shields": "gang"}}
            ),
            "warning daemon-sets-go: DaemonSets' pods go": on_settings(
                "plan", evictDaemonSetPods=True
            ),
            "warning daemon-sets-go: DaemonSets count for nobody": on_settings(
                "policy", optOut={"DaemonSet": {"namespaces": None}}
            ),
            "warning no-gangs: no dialect": on_settings("groups", dialects=[]),
            "warning never-suspended: suspended for a moment": on_settings(
                "seats", suspendSeconds=1
            ),
            "warning retry-at-once: asked again at once": on_settings("plan", retrySeconds=0),
        },
    ),
]
BESIDE = (SECOND, STATIC)
"""Where the manifest has kube-scheduler's command line."""


def flag_cases(rule: str, *lines: str, ways: tuple[str, ...] = BESIDE) -> list[Any]:
    """Each line, split into words, is an unsafe addition to kube-scheduler's command line."""
    return cases(ways, {f"{rule}: {line}": more_flags(*line.split()) for line in lines})


FLAGS = [
    *flag_cases(
        "error flag-elect",
        "--leader-elect=false",
        "--leader-elect=0",
        "--leader_elect=false",
        "--leader-elect=true --leader-elect=F",
        "--leader-elect=$(ELECT)",
        ways=(SECOND,),
    ),
    *flag_cases("warning flag-elect", "--leader-elect=false", ways=(STATIC,)),
    *flag_cases(
        "error flag-lease",
        "--leader-elect-resource-namespace=kube-system --leader-elect-resource-name=kube-scheduler",
        ways=(SECOND,),
    ),
    *flag_cases(
        "error flag-open-paths",
        "--authorization-always-allow-paths=/*",
        "--authorization-always-allow-paths=*",
        "--authorization-always-allow-paths=/healthz,/debug/*",
        "--authorization-always-allow-paths=/configz",
        "--authorization_always_allow_paths /livez,/flagz",
        "--authorization-always-allow-paths=/healthz --authorization-always-allow-paths=/metrics*",
    ),
    *flag_cases("warning flag-open-paths", "--authorization-always-allow-paths=/healthz,/metrics"),
    *flag_cases(
        "error flag-proxy",
        "--requestheader-client-ca-file=/ca.crt",
        "--requestheader-client-ca-file=/ca.crt --requestheader-allowed-names=",
    ),
    *flag_cases(
        "warning flag-kept",
        "--authentication-token-webhook-cache-ttl=24h",
        "--authorization-webhook-cache-authorized-ttl=1h",
        "--authorization-webhook-cache-authorized-ttl=forever",
    ),
    *flag_cases("error flag-probe", "--secure-port=0", "--secure-port=10260", "--secure-port=x"),
    *flag_cases("error flag-probe", "--bind-address=127.0.0.1", ways=(SECOND,)),
    *flag_cases(
        "warning flag-bind", "--bind-address=0.0.0.0", "--bind-address=10.0.0.1", ways=(STATIC,)
    ),
    *flag_cases(
        "warning flag-tls",
        "--tls-min-version=VersionTLS10",
        "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA",
    ),
    *flag_cases("error flag-master", "--master=http://10.0.0.1:8080", "--master=https://api"),
    *flag_cases("error flag-ends", "--write-config-to=/tmp/x", "--version", "--help"),
    *flag_cases(
        "error flag-config",
        "--config=/tmp/mine.yaml",
        "--config=/etc/../etc/kubernetes/mine.yaml",
        "--config=/etc/kubernetes/scheduler/../mine.yaml",
    ),
    *flag_cases(
        "warning flag-config", "--config=/etc/kubernetes/scheduler/mine.yaml", ways=(SECOND,)
    ),
    *flag_cases("warning flag-config", "--config=/etc/podgroup-extender/mine.yaml", ways=(STATIC,)),
    *flag_cases("error config-flag", "--config="),
    *flag_cases(
        "warning flag-unknown", "--authorization-mode=AlwaysAllow", "--insecure-port=10251"
    ),
    *flag_cases("error feature-gate", "--feature_gates=GenericWorkload=true"),
    *flag_cases(
        "error rights-admin",
        "--authentication-kubeconfig=/etc/kubernetes/admin.conf",
        "--authorization-kubeconfig=/etc/kubernetes/super-admin.conf",
    ),
    *cases(
        (SECOND,),
        {
            "error flag-elect: no election in the file": on_scheduler_config(
                leaderElection={"leaderElect": False}
            ),
            "error flag-lease: the cluster's lease": own_lease_left_out,
            "warning flag-bind: on the node's addresses": on_pod(hostNetwork=True),
        },
    ),
    *cases(
        BESIDE,
        {
            "error open-port, hint flag-overrides: open by the extender's command line": more_words(
                "--host=0.0.0.0"
            ),
        },
    ),
    *cases(
        EVERY,
        {
            "hint flag-overrides: another port by the extender's command line": more_words(
                "--port", "8890"
            ),
            "error probe-unanswered: probes elsewhere than its words say": more_words(
                "--health-port=1", "--port=2"
            ),
            "error flag-config: the extender's configuration from nowhere": more_words(
                "--config=/tmp/mine.yaml"
            ),
            "error flag-config: the extender without its configuration": on_container(
                args=["serve"]
            ),
        },
    ),
]
