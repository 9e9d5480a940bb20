"""``check`` lets every shipped installation pass, and no unsafe change to one of them.

See docs/security.md, rows 7, 10 and 13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from extender.cli.flag_catalogue import FLAG_RULES
from extender.cli.manifest_catalogue import MANIFEST_RULES
from extender.cli.tenant_catalogue import LIMIT_RULES, POLICY_RULES
from tests.cli.installations import DEPLOYMENT, SECOND, STATIC, WAYS, Installation, Object

Change = Callable[[Installation], object]

EVERY = (SECOND, STATIC, DEPLOYMENT)
IN_CLUSTER = (SECOND, DEPLOYMENT)

TENANTS_TRUSTED = {
    "hint shields-for-all",  # PodDisruptionBudgets count, as Kubernetes promises.
    "hint records-unsigned",  # A key is the administrator's to make.
}
ACCEPTED = {
    SECOND: {
        "warning image-tag",  # A digest is known only once an image was built and pushed.
        "hint shared-account",  # A pod has one account.
        "hint egress-anywhere",  # The API server's address is each cluster's own.
        "hint open-metrics",  # Behind the NetworkPolicy, for Prometheus.
        *TENANTS_TRUSTED,
    },
    STATIC: {"warning image-tag", *TENANTS_TRUSTED},
    DEPLOYMENT: {
        "warning image-tag",
        "warning ignorable-filter",  # Or its own pod could never be placed again.
        "warning example-address",  # Of the control plane, to be written by who installs.
        "hint egress-anywhere",
        *TENANTS_TRUSTED,
    },
}
"""What is said about the manifests as they are."""


def on_pod(**values: Any) -> Change:
    """Change the pod's spec; None removes a key."""
    return lambda installation: put(installation.pod, values)


def on_container(path: str = "", **values: Any) -> Change:
    """Change the extender's container, or a mapping in it."""

    def change(installation: Installation) -> None:
        target = installation.extender
        for step in filter(None, path.split(".")):
            target = target[step]
        put(target, values)

    return change


def put(target: Object, values: Object) -> None:
    for key, value in values.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = value


def on_context(**values: Any) -> Change:
    """Change what container and pod say in securityContext, together."""

    def change(installation: Installation) -> None:
        put(installation.pod.setdefault("securityContext", {}), dict.fromkeys(values))
        put(installation.extender["securityContext"], values)

    return change


def on_policies(change: Callable[[Object], object]) -> Change:
    """Change the spec of every NetworkPolicy."""

    def apply(installation: Installation) -> None:
        for policy in installation.objects("NetworkPolicy"):
            change(policy["spec"])

    return apply


def on_budget(**values: Any) -> Change:
    """Replace what the PodDisruptionBudget demands."""

    def change(installation: Installation) -> None:
        (budget,) = installation.objects("PodDisruptionBudget")
        budget["spec"] = {"selector": budget["spec"]["selector"], **values}

    return change


def on_role(kind: str, change: Callable[[list[Object]], object]) -> Change:
    """Change the rules of rbac.yaml's role."""

    def apply(installation: Installation) -> None:
        for role in installation.objects(kind):
            if role["metadata"]["name"] == "podgroup-extender":
                change(role["rules"])

    return apply


def on_entries(**values: Any) -> Change:
    """Change kube-scheduler's entries."""

    def change(installation: Installation) -> None:
        for entry in installation.entries:
            put(entry, values)

    return change


def on_settings(section: str, **values: Any) -> Change:
    """Change the extender's own settings."""
    return lambda installation: installation.configure(
        lambda settings: put(settings.setdefault(section, {}), values)
    )


def bound_to(role: str) -> Change:
    """One more binding of the extender's account."""

    def change(installation: Installation) -> None:
        (binding,) = [
            each
            for each in installation.objects("ClusterRoleBinding")
            if each["metadata"]["name"] == "podgroup-extender"
        ]
        more = {**binding, "metadata": {"name": "more"}}
        installation.add(more | {"roleRef": {**binding["roleRef"], "name": role}})

    return change


def for_group(name: str) -> Change:
    """The extender's rights for a group."""

    def change(installation: Installation) -> None:
        for binding in installation.objects("ClusterRoleBinding"):
            if binding["metadata"]["name"] == "podgroup-extender":
                binding["subjects"].append({"kind": "Group", "name": name})

    return change


def others_bound(role: str, *rights: tuple[str, str], everywhere: bool = False) -> Change:
    """Somebody else has a role in the records' namespace; with ``rights`` it is among the files."""

    def change(installation: Installation) -> None:
        metadata = {"name": role, "namespace": "podgroup-extender"}
        kind = "ClusterRole" if everywhere or not rights else "Role"
        if rights:
            rules = [
                {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
                for resource, verb in rights
            ]
            installation.add({"kind": kind, "metadata": metadata, "rules": rules})
        reference = {"kind": kind, "name": role}
        subjects = [{"kind": "Group", "name": "team"}]
        kind = "ClusterRoleBinding" if everywhere else "RoleBinding"
        installation.add(
            {"kind": kind, "metadata": metadata, "roleRef": reference, "subjects": subjects}
        )

    return change


def signed(change: Change) -> Change:
    """With a key for records where the manifests mount it."""

    def both(installation: Installation) -> None:
        on_settings("seats", recordKeyFile=KEYS[installation.way])(installation)
        change(installation)

    return both


def on_neighbour(installation: Installation) -> None:
    """Another workload under the extender's account."""
    other = {"serviceAccountName": "podgroup-extender", "containers": [{"name": "web"}]}
    metadata = {"name": "web", "namespace": "podgroup-extender"}
    installation.add({"kind": "Pod", "metadata": metadata, "spec": other, "apiVersion": "v1"})


def writable_host_path(installation: Installation) -> None:
    for volume in installation.pod["volumes"]:
        if volume["name"] in ("extender", "extender-config"):
            volume.clear()
            volume.update({"name": "host", "hostPath": {"path": "/etc/podgroup-extender"}})
    for mount in installation.extender["volumeMounts"]:
        if mount["name"] in ("extender", "extender-config"):
            mount.update({"name": "host", "readOnly": False})


def plain_calls(installation: Installation) -> None:
    """kube-scheduler speaks HTTP to a server with a certificate."""
    for entry in installation.entries:
        entry["urlPrefix"] = entry["urlPrefix"].replace("https:", "http:")
        entry.pop("tlsConfig")


def under_another_name(installation: Installation) -> None:
    """What is called otherwise is looked at as well."""
    put(installation.extender, {"resources": None})
    installation.extender["name"] = "gangs"


def arguments(old: str, new: str) -> Change:
    """Replace a word of the extender's command line."""

    def change(installation: Installation) -> None:
        words = installation.extender["args"]
        assert old in words
        words[words.index(old)] = new

    return change


def more_flags(*words: str) -> Change:
    """More words on kube-scheduler's command line, as the chart's scheduler.extraArgs."""

    def change(installation: Installation) -> None:
        for container in installation.pod["containers"]:
            if container["name"] == "kube-scheduler":
                container["command"] = [*container["command"], *words]

    return change


def more_words(*words: str) -> Change:
    """More words on the extender's command line."""

    def change(installation: Installation) -> None:
        installation.extender["args"] = [*installation.extender["args"], *words]

    return change


def both(*changes: Change) -> Change:
    """One after the other."""

    def change(installation: Installation) -> None:
        for each in changes:
            each(installation)

    return change


def on_scheduler_config(**values: Any) -> Change:
    """Change kube-scheduler's configuration."""

    def change(installation: Installation) -> None:
        (document,) = installation.files[WAYS[installation.way].scheduler_config]
        put(document, values)

    return change


def own_lease_left_out(installation: Installation) -> None:
    """The second kube-scheduler takes part in the election of the cluster's own."""
    (document,) = installation.files[WAYS[installation.way].scheduler_config]
    document["leaderElection"] = {"leaderElect": True}


def annotated(key: str, value: str) -> Change:
    """An annotation on the pods' template."""

    def change(installation: Installation) -> None:
        for each in installation.objects("Deployment"):
            meta = each["spec"]["template"]["metadata"]
            meta.setdefault("annotations", {})[key] = value

    return change


def case(name: str, ways: tuple[str, ...], change: Change, *expected: str) -> list[Any]:
    """One unsafe change, in each of these ways, and ``severity rule`` of what must be found."""
    return [pytest.param(way, change, set(expected), id=f"{name}, {way}") for way in ways]


KEYS = {
    SECOND: "/etc/podgroup-extender-records/key",
    DEPLOYMENT: "/etc/podgroup-extender-records/key",
    STATIC: "/etc/podgroup-extender/records.key",
}
UNLABELLED = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
KUBECONFIG = "--kubeconfig=/etc/podgroup-extender/kubeconfig"
EVERYBODY: Object = {"from": [{"namespaceSelector": {}}]}
HALVES: list[Object] = [{"ipBlock": {"cidr": cidr}} for cidr in ("0.0.0.0/1", "128.0.0.0/1")]
NAMED: Object = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
ANYWHERE: Object = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}

PODS = [
    *case(
        "privileged", EVERY, on_container("securityContext", privileged=True), "error privileged"
    ),
    *case("no limits under another name", EVERY, under_another_name, "error no-memory-limit"),
    *case("root", EVERY, on_context(runAsNonRoot=False, runAsUser=0), "error root-user"),
    *case("user 0", EVERY, on_context(runAsNonRoot=True, runAsUser=0), "error root-user"),
    *case("nothing about the user", EVERY, on_context(runAsNonRoot=None), "error root-user"),
    *case(
        "writable root",
        EVERY,
        on_container("securityContext", readOnlyRootFilesystem=None),
        "error writable-root",
    ),
    *case(
        "privilege escalation",
        EVERY,
        on_container("securityContext", allowPrivilegeEscalation=None),
        "error privilege-escalation",
    ),
    *case(
        "a capability",
        EVERY,
        on_container("securityContext.capabilities", add=["NET_ADMIN"]),
        "error capabilities",
    ),
    *case(
        "capabilities kept",
        EVERY,
        on_container("securityContext", capabilities=None),
        "error capabilities",
    ),
    *case("no seccomp", EVERY, on_context(seccompProfile=None), "error seccomp"),
    *case(
        "seccomp off",
        EVERY,
        on_context(seccompProfile={"type": "Unconfined"}),
        "error seccomp",
    ),
    *case(
        "AppArmor off",
        EVERY,
        on_context(appArmorProfile={"type": "Unconfined"}),
        "error unconfined",
    ),
    *case(
        "AppArmor off by annotation",
        IN_CLUSTER,
        annotated("container.apparmor.security.beta.kubernetes.io/extender", "unconfined"),
        "error unconfined",
    ),
    *case(
        "all of /proc",
        EVERY,
        on_container("securityContext", procMount="Unmasked"),
        "error unconfined",
    ),
    *case("node's processes", EVERY, on_pod(hostPID=True), "error host-namespaces"),
    *case("node's IPC", EVERY, on_pod(hostIPC=True), "error host-namespaces"),
    *case("node's files", EVERY, writable_host_path, "error host-path"),
    *case("low priority", EVERY, on_pod(priorityClassName="high"), "error priority-class"),
    *case("no priority", EVERY, on_pod(priorityClassName=None), "error priority-class"),
    *case("no limits", EVERY, on_container("resources", limits=None), "error no-memory-limit"),
    *case("no requests", EVERY, on_container("resources", requests=None), "error no-memory-limit"),
    *case(
        "latest", EVERY, on_container(image="registry:5000/podgroup-extender"), "error image-latest"
    ),
    *case("default account", IN_CLUSTER, on_pod(serviceAccountName=None), "error default-account"),
    *case("account of another pod", IN_CLUSTER, on_neighbour, "error shared-account"),
    *case(
        "kube-scheduler's rights too",
        (DEPLOYMENT,),
        bound_to("system:kube-scheduler"),
        "error shared-account",
    ),
    *case(
        "kube-scheduler's kubeconfig",
        (STATIC,),
        arguments(KUBECONFIG, "--kubeconfig=/etc/kubernetes/scheduler.conf"),
        "error shared-account",
    ),
    *case(
        "administrator's kubeconfig",
        (STATIC,),
        arguments(KUBECONFIG, "--kubeconfig=/etc/kubernetes/admin.conf"),
        "error rights-admin",
    ),
    *case(
        "token for everybody in the pod",
        IN_CLUSTER,
        on_pod(automountServiceAccountToken=None),
        "warning token-everywhere",
    ),
    *case("node's network", (DEPLOYMENT,), on_pod(hostNetwork=True), "error host-network"),
    *case(
        "node's network for metrics", (SECOND,), on_pod(hostNetwork=True), "warning host-network"
    ),
    *case(
        "open on the node's network",
        (STATIC,),
        on_settings("server", host="0.0.0.0"),
        "error host-network",
    ),
]

AROUND = [
    *case(
        "no NetworkPolicy",
        IN_CLUSTER,
        lambda i: i.drop("NetworkPolicy"),
        "error no-network-policy",
        "error no-egress-policy",
    ),
    *case(
        "no egress policy",
        IN_CLUSTER,
        on_policies(lambda spec: spec.update(policyTypes=["Ingress"])),
        "error no-egress-policy",
    ),
    *case(
        "policy for others",
        IN_CLUSTER,
        on_policies(lambda spec: spec.update(podSelector={"matchLabels": {"app": "x"}})),
        "error no-network-policy",
        "error no-egress-policy",
    ),
    *case(
        "everybody comes in",
        IN_CLUSTER,
        on_policies(lambda spec: spec.update(ingress=[{}])),
        "error policy-open",
    ),
    *case(
        "every namespace comes in",
        IN_CLUSTER,
        on_policies(lambda spec: spec.update(ingress=[EVERYBODY])),
        "error policy-open",
    ),
    *case(
        "both halves of all addresses come in",
        IN_CLUSTER,
        on_policies(lambda spec: spec.update(ingress=[{"from": HALVES}])),
        "error policy-open",
    ),
    *case(
        "all addresses, written as somebody's",
        IN_CLUSTER,
        on_policies(
            lambda spec: spec.update(ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.7/0"}}]}])
        ),
        "error policy-open",
    ),
    *case(
        "every namespace that has a name comes in",
        IN_CLUSTER,
        on_policies(lambda spec: spec.update(ingress=[{"from": [{"namespaceSelector": NAMED}]}])),
        "error policy-open",
    ),
    *case(
        "pods of every namespace that say who they are come in",
        IN_CLUSTER,
        on_policies(
            lambda spec: spec.update(
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
            )
        ),
        "error policy-open",
    ),
    *case(
        "out to both halves of all addresses",
        IN_CLUSTER,
        on_policies(lambda spec: spec.update(egress=[{"to": HALVES}])),
        "error egress-open",
    ),
    *case(
        "out to everywhere",
        IN_CLUSTER,
        on_policies(lambda spec: spec.update(egress=[ANYWHERE])),
        "error egress-open",
    ),
    *case("no budget", IN_CLUSTER, lambda i: i.drop("PodDisruptionBudget"), "error no-budget"),
    *case("budget of nothing", IN_CLUSTER, on_budget(maxUnavailable=0), "error budget-blocks"),
    *case("budget of all", IN_CLUSTER, on_budget(minAvailable=2), "error budget-blocks"),
]

RIGHTS = [
    *case("cluster-admin", EVERY, bound_to("cluster-admin"), "error rights-admin"),
    *case("edit", EVERY, bound_to("edit"), "error rights-admin"),
    *case(
        "every verb",
        EVERY,
        on_role("ClusterRole", lambda rules: rules[0].update(verbs=["*"])),
        "error rights-wildcard",
    ),
    *case(
        "every resource",
        EVERY,
        on_role("Role", lambda rules: rules[0].update(resources=["*"])),
        "error rights-wildcard",
    ),
    *case(
        "Secrets",
        EVERY,
        on_role("ClusterRole", lambda rules: rules[0]["resources"].append("secrets")),
        "error rights-beyond",
    ),
    *case(
        "making pods",
        EVERY,
        on_role(
            "ClusterRole",
            lambda rules: rules.append(
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
            ),
        ),
        "error rights-beyond",
    ),
    *case("for everybody", EVERY, for_group("system:authenticated"), "error rights-for-all"),
    *case(
        "for every account", EVERY, for_group("system:serviceaccounts:work"), "error rights-for-all"
    ),
]

CALLS = [
    *case("fails open", EVERY, on_entries(ignorable=True), "error ignorable"),
    *case("calls too short", EVERY, on_entries(httpTimeout="2s"), "error timeout-short"),
    *case("calls too long", EVERY, on_entries(httpTimeout="5m"), "warning timeout-long"),
    *case(
        "no weight",
        EVERY,
        on_entries(prioritizeVerb="prioritize"),
        "hint prioritize",
        "error weight",
    ),
    *case(
        "every node in full", EVERY, on_entries(nodeCacheCapable=None), "error node-cache-capable"
    ),
    *case("no preempt", EVERY, on_entries(preemptVerb=None), "error no-preempt"),
    *case("no filter", EVERY, on_entries(filterVerb=None), "error no-filter"),
    *case(
        "prioritize", EVERY, on_entries(prioritizeVerb="prioritize", weight=1), "hint prioritize"
    ),
    *case("binds", EVERY, on_entries(bindVerb="bind"), "error bind"),
    *case(
        "some pods only",
        EVERY,
        on_entries(managedResources=[{"name": "nvidia.com/gpu"}]),
        "error managed-resources",
    ),
    *case(
        "two that plan",
        IN_CLUSTER,
        on_settings("leadership", enabled=False),
        "error two-planners",
    ),
]

LISTENERS = [
    *case(
        "open to everybody",
        (SECOND, STATIC),
        on_settings("server", host="0.0.0.0"),
        "error open-port",
    ),
    *case(
        "open, told once",
        (SECOND, STATIC),
        on_settings("server", host="0.0.0.0", allowOpenPort=True),
        "error open-port",
    ),
    *case(
        "no TLS",
        (DEPLOYMENT,),
        on_settings(
            "server", tlsCertFile=None, tlsKeyFile=None, clientCaFile=None, allowedNames=None
        ),
        "error open-port",
        "error tls-mismatch",
    ),
    *case(
        "no client CA",
        (DEPLOYMENT,),
        on_settings("server", clientCaFile=None, allowedNames=None),
        "error open-port",
    ),
    *case(
        "no allow-list",
        (DEPLOYMENT,),
        on_settings("server", allowedNames=None),
        "error open-port",
    ),
    *case(
        "debug for everybody, without TLS",
        (SECOND,),
        on_settings("server", debug=True),
        "warning plain-tokens",
    ),
    *case(
        "metrics for everybody",
        (DEPLOYMENT,),
        on_settings("server", openMetrics=True),
        "hint open-metrics",
    ),
    *case(
        "any certificate, on loopback",
        (STATIC,),
        on_settings("server", tlsCertFile="/c", tlsKeyFile="/k", clientCaFile="/ca"),
        "warning any-certificate",
    ),
    *case("calls in plain text", (DEPLOYMENT,), plain_calls, "error tls-mismatch"),
    *case(
        "server not verified",
        (DEPLOYMENT,),
        on_entries(tlsConfig={"certFile": "/c", "keyFile": "/k"}, enableHTTPS=True),
        "warning tls-ca",
    ),
    *case(
        "no client certificate",
        (DEPLOYMENT,),
        on_entries(tlsConfig={"caFile": "/ca"}),
        "error tls-client",
    ),
    *case(
        "HTTPS on a plain address",
        (SECOND, STATIC),
        on_entries(enableHTTPS=True),
        "error https-scheme",
    ),
    *case(
        "probes where only loopback listens",
        (SECOND,),
        on_settings("server", healthHost="127.0.0.1"),
        "error probe-unanswered",
    ),
    *case(
        "probes without a listener",
        (SECOND,),
        on_settings("server", healthHost=None, healthPort=None),
        "error probe-unanswered",
    ),
    *case(
        "probes without a certificate",
        (DEPLOYMENT,),
        on_container("livenessProbe.httpGet", port="extender"),
        "error probe-unanswered",
    ),
    *case(
        "probes in plain text",
        (DEPLOYMENT,),
        on_container("startupProbe.httpGet", scheme=None),
        "error probe-unanswered",
    ),
]

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

BESIDE = (SECOND, STATIC)
"""Where the manifest has kube-scheduler's command line."""


def flag_cases(rule: str, *lines: str, ways: tuple[str, ...] = BESIDE) -> list[Any]:
    """Each line, split into words, is an unsafe addition to kube-scheduler's command line."""
    return [each for line in lines for each in case(line, ways, more_flags(*line.split()), rule)]


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
    *case(
        "no election in the file",
        (SECOND,),
        on_scheduler_config(leaderElection={"leaderElect": False}),
        "error flag-elect",
    ),
    *flag_cases(
        "error flag-lease",
        "--leader-elect-resource-namespace=kube-system --leader-elect-resource-name=kube-scheduler",
        ways=(SECOND,),
    ),
    *case("the cluster's lease", (SECOND,), own_lease_left_out, "error flag-lease"),
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
    *case("on the node's addresses", (SECOND,), on_pod(hostNetwork=True), "warning flag-bind"),
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
        "warning flag-config",
        "--config=/etc/kubernetes/scheduler/mine.yaml",
        ways=(SECOND,),
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
    *case(
        "open by the extender's command line",
        BESIDE,
        more_words("--host=0.0.0.0"),
        "error open-port",
        "hint flag-overrides",
    ),
    *case(
        "another port by the extender's command line",
        EVERY,
        more_words("--port", "8890"),
        "hint flag-overrides",
    ),
    *case(
        "probes elsewhere than the extender's command line says",
        EVERY,
        more_words("--health-port=1", "--port=2"),
        "error probe-unanswered",
    ),
    *case(
        "the extender's configuration from nowhere",
        EVERY,
        more_words("--config=/tmp/mine.yaml"),
        "error flag-config",
    ),
    *case(
        "the extender without its configuration",
        EVERY,
        on_container(args=["serve"]),
        "error flag-config",
    ),
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
        on_settings("seats", suspendSeconds=0.1),
        "warning never-suspended",
    ),
    *case(
        "asked again at once", EVERY, on_settings("plan", retrySeconds=0), "warning retry-at-once"
    ),
]

CASES = [*PODS, *AROUND, *RIGHTS, *CALLS, *LISTENERS, *TENANTS, *FLAGS, *SETTINGS]


def named(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """``severity rule`` of everything that is found."""
    return {f"{each.severity} {each.rule}" for each in installation.check(monkeypatch)}


@pytest.mark.parametrize("way", WAYS)
def test_shipped_installation_passes(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(Installation(way), monkeypatch) == ACCEPTED[way]
    assert not any(line.startswith("error") for line in ACCEPTED[way])


@pytest.mark.parametrize(("way", "change", "expected"), CASES)
def test_unsafe_change_is_found(
    way: str, change: Change, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = Installation(way)
    change(installation)
    found = named(installation, monkeypatch)
    assert found >= expected
    assert not expected & ACCEPTED[way]


def test_every_rule_on_manifests_and_tenants_is_broken_by_a_case() -> None:
    broken = {line.split()[1] for each in CASES for line in each.values[-1]}
    accepted = {line.split()[1] for lines in ACCEPTED.values() for line in lines}
    rules = MANIFEST_RULES.keys() | POLICY_RULES.keys() | LIMIT_RULES.keys() | FLAG_RULES.keys()
    assert rules <= broken | accepted


@pytest.mark.parametrize("way", WAYS)
def test_a_digest_ends_the_warning_about_tags(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(way)
    for field in ("initContainers", "containers"):
        for container in installation.pod.get(field, []):
            container["image"] += "@sha256:" + "0" * 64
    assert "warning image-tag" not in named(installation, monkeypatch)


@pytest.mark.parametrize("way", WAYS)
def test_a_key_and_selectors_end_the_hints_about_tenants(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key, who writes ConfigMaps and cannot read it is no danger."""
    installation = Installation(way)
    signed(others_bound("writers", ("configmaps", "create")))(installation)
    chosen = {"namespaces": {"matchLabels": {"podgroup-extender.io/opt-out": "allowed"}}}
    rules = {"PodDisruptionBudget": {**chosen, "shields": "gang"}, "DaemonSet": chosen}
    on_settings("policy", optOut=rules)(installation)
    assert named(installation, monkeypatch) == ACCEPTED[way] - TENANTS_TRUSTED


def test_addresses_end_the_remarks_about_them(monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(DEPLOYMENT)
    for policy in installation.objects("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            for peer in rule["from"]:
                if "ipBlock" in peer:
                    peer["ipBlock"]["cidr"] = "10.1.0.0/28"
        for rule in policy["spec"].get("egress", []):
            rule.setdefault("to", [{"ipBlock": {"cidr": "10.1.0.0/28"}}])
    found = named(installation, monkeypatch)
    assert not found & {"warning example-address", "hint egress-anywhere"}
