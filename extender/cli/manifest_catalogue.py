"""What ``check`` may find in manifests: pods, policies around them, and rights.

The rules themselves stand in pod_rules.py, network_rules.py and rights_rules.py.
"""

from __future__ import annotations

from extender.cli.rule import Rule

POD_RULES = {
    "privileged": Rule(
        "error",
        "a privileged container is root on the node, and reads the other containers' tokens",
        "remove privileged: true",
    ),
    "root-user": Rule(
        "error",
        "a way out of the container then leads to root on the node",
        "write runAsNonRoot: true and runAsUser: 65532",
    ),
    "writable-root": Rule(
        "error",
        "an attacker who runs code in it can change the program",
        "write readOnlyRootFilesystem: true; /tmp is all that is written",
    ),
    "privilege-escalation": Rule(
        "error",
        "a setuid program gives more rights than the container was started with",
        "write allowPrivilegeEscalation: false",
    ),
    "capabilities": Rule(
        "error",
        "the program needs no capability, and each is a way to the node or its network",
        "write capabilities: {{drop: [ALL]}} and add none",
    ),
    "seccomp": Rule(
        "error",
        "an attacker who runs code in it can use every system call of the kernel",
        "write seccompProfile: {{type: RuntimeDefault}}",
    ),
    "unconfined": Rule(
        "error",
        "an attacker who runs code in it can do what the kernel forbids to containers",
        "remove it: the container runtime's own profile is the default",
    ),
    "host-namespaces": Rule(
        "error",
        "the container sees, and may signal, the processes of its node",
        "remove hostPID and hostIPC",
    ),
    "host-network": Rule(
        "error",
        "the port is open on the node's own addresses, where no NetworkPolicy holds",
        "write server.host: 127.0.0.1, or remove hostNetwork",
    ),
    "host-path": Rule(
        "error",
        "an attacker who runs code in it can write to the node's files",
        "mount it readOnly, or use an emptyDir",
    ),
    "priority-class": Rule(
        "error",
        "the pod can be preempted, even for the pods that it has to schedule, and its scheduler "
        "then places nothing",
        "write priorityClassName: system-cluster-critical",
    ),
    "no-memory-limit": Rule(
        "error",
        "an input that makes it grow takes the memory of the node from other pods; without a "
        "request it is the first to be killed",
        "write requests and limits for memory",
    ),
    "image-latest": Rule(
        "error",
        "each restart may run another program than the one that was checked",
        "name a version, better a digest (image@sha256:...)",
    ),
    "image-tag": Rule(
        "warning",
        "a user who can push to the registry can put another program under the same tag",
        "pin it by digest (image@sha256:..., in kustomization.yaml: digest)",
    ),
    "default-account": Rule(
        "error",
        "every pod of the namespace that names no account has the extender's rights: it can "
        "delete pods everywhere",
        "write serviceAccountName: podgroup-extender and grant rights to that one only",
    ),
    "shared-account": Rule(
        "error",
        "an attacker in one of the two has the rights of both",
        "give each an account (a kubeconfig) of its own; a pod has only one, see 'Accounts' in "
        "docs/security.md",
    ),
    "probe-unanswered": Rule(
        "error",
        "kubelet gets no answer, so the pod never becomes ready or is restarted for ever",
        "set server.healthPort, and let the probes ask there (scheme: HTTPS where the server has a "
        "certificate)",
    ),
    "socket-unmounted": Rule(
        "error",
        "the root is read-only, so the socket cannot be made: the extender does not start, nor a "
        "kube-scheduler that waits for it",
        "mount an emptyDir at the socket's directory, into kube-scheduler's container too where "
        "its plugin calls",
    ),
    "token-everywhere": Rule(
        "warning",
        "every container that something puts into this pod later gets the extender's token",
        "write automountServiceAccountToken: false, and mount a projected token where it is used",
    ),
}
"""On the pods that run this program."""

NETWORK_RULES = {
    "no-network-policy": Rule(
        "error",
        "every pod of the cluster reaches its ports",
        "apply a NetworkPolicy that admits its callers only (manifests/ has one for each way), and "
        "name its file with --manifest",
    ),
    "no-egress-policy": Rule(
        "error",
        "an attacker who runs code in it can send what it knows of the cluster anywhere",
        "apply a NetworkPolicy of type Egress (manifests/ has one for each way), and name its file "
        "with --manifest",
    ),
    "policy-open": Rule(
        "error",
        "a NetworkPolicy that admits every pod to a port protects nothing",
        "name namespaces, pods or addresses under from",
    ),
    "egress-open": Rule(
        "error",
        "a NetworkPolicy that leads everywhere keeps nothing in",
        "name the API server's and DNS' ports, and their addresses where they are known",
    ),
    "egress-anywhere": Rule(
        "hint",
        "any address with that port open can be sent to, not only the API server",
        "write your API server's addresses under to",
    ),
    "example-address": Rule(
        "warning",
        "no node has it, so no caller is admitted",
        "write your control plane nodes' addresses",
    ),
    "no-budget": Rule(
        "error",
        "draining nodes may take all replicas at once, and then nothing is scheduled",
        "apply a PodDisruptionBudget with minAvailable: 1, and name its file with --manifest",
    ),
    "budget-blocks": Rule(
        "error",
        "no node with a replica can be drained",
        "leave room for one: minAvailable: 1 with two replicas",
    ),
}
"""On what stands around them."""

RIGHTS_RULES = {
    "rights-admin": Rule(
        "error",
        "an attacker in the extender, its configuration or its token owns the cluster",
        "grant manifests/rbac.yaml instead of {role}",
    ),
    "rights-wildcard": Rule(
        "error",
        "a star grants what is not used, and what later versions of the API add",
        "write the rules of manifests/rbac.yaml",
    ),
    "rights-beyond": Rule(
        "error",
        "nothing uses it, so only an intruder would",
        "write the rules of manifests/rbac.yaml",
    ),
    "status-right": Rule(
        "warning",
        "the status ConfigMap is not written; nothing else is affected",
        "leave status.namespace alone, or let the account get, create and update ConfigMaps there; "
        'write status.name: "" where none is wanted',
    ),
    "record-right": Rule(
        "error",
        "no plan can be recorded, and nothing is evicted whose plan is not: every plan is given up",
        "leave seats.recordNamespace alone, or give the account the Role of manifests/rbac.yaml "
        "there",
    ),
    "lease-right": Rule(
        "error",
        "it never leads, so no verb is answered and nothing is placed",
        "leave leadership.namespace and leadership.name alone, or give the account the Role of "
        "manifests/rbac.yaml there, with that name",
    ),
    "job-right": Rule(
        "warning",
        "completed members whose pods were cleaned up do not count: the "
        "replacement of a lost one waits for ever, and as a victim the gang may be evicted in part",
        "grant list and watch on jobs of batch, as manifests/rbac.yaml does",
    ),
    "claim-right": Rule(
        "warning",
        "no pod is evicted for members that share a PersistentVolumeClaim: it is not known whether "
        "two pods may use it",
        "grant get on persistentvolumeclaims, as manifests/rbac.yaml does",
    ),
    "rights-for-all": Rule(
        "error",
        "every user in that group may then delete pods in every namespace",
        "bind to the service account only",
    ),
}
"""On what their accounts may do."""

MANIFEST_RULES = POD_RULES | NETWORK_RULES | RIGHTS_RULES
