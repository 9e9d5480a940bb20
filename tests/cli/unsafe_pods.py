"""Unsafe pods, and what around them is open: policies and budgets."""

from __future__ import annotations

from tests.cli.installations import DEPLOYMENT, SECOND, STATIC, Object
from tests.cli.unsafe_changes import (
    EVERY,
    IN_CLUSTER,
    annotated,
    arguments,
    bound_to,
    case,
    on_budget,
    on_container,
    on_context,
    on_neighbour,
    on_pod,
    on_policies,
    on_settings,
    under_another_name,
    writable_host_path,
)
from tests.cli.unsafe_settings import NAMED

KUBECONFIG = "--kubeconfig=/etc/podgroup-extender/kubeconfig"
EVERYBODY: Object = {"from": [{"namespaceSelector": {}}]}
HALVES: list[Object] = [{"ipBlock": {"cidr": cidr}} for cidr in ("0.0.0.0/1", "128.0.0.0/1")]
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
        "a socket and no directory for it",
        EVERY,
        on_settings("grpc", listen="unix:/run/podgroup-extender/grpc.sock"),
        "error socket-unmounted",
    ),
    *case(
        "a socket below what is empty",
        EVERY,
        on_settings("grpc", listen="unix:/tmp/deeper/grpc.sock"),
        "error socket-unmounted",
    ),
    *case(
        "a socket among files that are only read",
        EVERY,
        on_settings("grpc", listen="unix:/etc/podgroup-extender/grpc.sock"),
        "error socket-unmounted",
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
