"""Rules on pods: confinement, identity, probes and the socket that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from extender.check.documents import Document
from extender.check.findings import Finding
from extender.check.rule import Rule, broken, declare
from extender.check.workloads import Workload, at, items, workloads
from extender.server.access_rules import is_loopback
from extender.settings.grpc_address import parse
from extender.settings.settings import ServerSettings, Settings

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
declare(POD_RULES)


ADMIN_KUBECONFIGS = ("admin.conf", "super-admin.conf")
"""What kubeadm writes for people; both are cluster-admin or above."""

APP_ARMOR = "container.apparmor.security.beta.kubernetes.io"
"""Annotation of old, which kubelet still obeys."""

SCHEDULER_KUBECONFIGS = (
    "--kubeconfig",
    "--authentication-kubeconfig",
    "--authorization-kubeconfig",
)


def pod_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on every pod or template with our container in it."""
    found = list(workloads(documents))
    for each in found:
        ours = each.extender
        if ours is None:
            continue
        yield from _node(each, settings)
        yield from _confinement(each, ours)
        yield from _upkeep(each, ours)
        yield from _identity(each, ours, [other for other in found if other is not each])


def _node(each: Workload, settings: Settings) -> Iterator[Finding]:
    """The pod keeps to itself on its node."""
    for key in ("hostPID", "hostIPC"):
        if each.pod.get(key) is True:
            yield broken("host-namespaces", f"{each.place}: {key}", "is true")
    server = settings.server
    place = f"{each.place}: hostNetwork"
    if each.on_host_network and not is_loopback(server.host):
        yield broken("host-network", place, f"is true, and server.host is {server.host}")
    elif each.on_host_network and not is_loopback(server.health_host or server.host):
        problem = f"is true, and server.healthHost is {server.health_host}"
        yield broken("host-network", place, problem, "warning")
    for container in each.containers:
        if at(container, "securityContext").get("privileged") is True:
            place = f"{each.place}: {container.get('name', '')}.securityContext.privileged"
            yield broken("privileged", place, "is true")
    ours = each.extender or {}
    read_only = {
        mount.get("name") for mount in items(ours, "volumeMounts") if mount.get("readOnly")
    }
    mounted = {mount.get("name") for mount in items(ours, "volumeMounts")}
    for volume in items(each.pod, "volumes"):
        name = volume.get("name")
        if "hostPath" in volume and name in mounted - read_only:
            place = f"{each.place}: extender.volumeMounts"
            problem = f"{name} is a directory of the node and not readOnly"
            yield broken("host-path", place, problem)


def _confinement(each: Workload, ours: dict[str, Any]) -> Iterator[Finding]:
    """What the container may do is what the restricted pod security standard allows, and less."""
    pod, own = at(each.pod, "securityContext"), at(ours, "securityContext")
    place = f"{each.place}: extender.securityContext"
    user = own.get("runAsUser", pod.get("runAsUser"))
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield broken("root-user", f"{place}.runAsNonRoot", "is not true")
    elif user == 0:
        yield broken("root-user", f"{place}.runAsUser", "is 0")
    if own.get("readOnlyRootFilesystem") is not True:
        yield broken("writable-root", f"{place}.readOnlyRootFilesystem", "is not true")
    if own.get("allowPrivilegeEscalation") is not False:
        yield broken("privilege-escalation", f"{place}.allowPrivilegeEscalation", "is not false")
    capabilities = at(own, "capabilities")
    added = capabilities.get("add") or []
    if added or "ALL" not in (capabilities.get("drop") or []):
        problem = f"adds {', '.join(map(str, added))}" if added else "does not drop ALL"
        yield broken("capabilities", f"{place}.capabilities", problem)
    seccomp = own.get("seccompProfile", pod.get("seccompProfile"))
    kind = seccomp.get("type") if isinstance(seccomp, dict) else None
    if kind not in ("RuntimeDefault", "Localhost"):
        yield broken("seccomp", f"{place}.seccompProfile", f"is {kind or 'missing'}")
    yield from _kernel(each, ours, place)


def _kernel(each: Workload, ours: dict[str, Any], place: str) -> Iterator[Finding]:
    """What the node's kernel keeps from a container is not given up."""
    pod, own = at(each.pod, "securityContext"), at(ours, "securityContext")
    profile = own.get("appArmorProfile", pod.get("appArmorProfile"))
    if isinstance(profile, dict) and profile.get("type") == "Unconfined":
        yield broken("unconfined", f"{place}.appArmorProfile", "is Unconfined")
    marked = f"{APP_ARMOR}/{ours.get('name', '')}"
    if each.annotations.get(marked) == "unconfined":
        yield broken("unconfined", f"{each.place}: annotation {marked}", "is unconfined")
    if own.get("procMount") == "Unmasked":
        yield broken("unconfined", f"{place}.procMount", "is Unmasked")


def _upkeep(each: Workload, ours: dict[str, Any]) -> Iterator[Finding]:
    """The pod is there when it is needed, and is what was tested."""
    priority = str(each.pod.get("priorityClassName", ""))
    if not priority.startswith("system-"):
        place = f"{each.place}: priorityClassName"
        yield broken("priority-class", place, f"is {priority or 'missing'}")
    resources = at(ours, "resources")
    for part in ("requests", "limits"):
        if "memory" not in at(resources, part):
            yield broken("no-memory-limit", f"{each.place}: extender.resources.{part}", "no memory")
    for container in each.containers:
        image = str(container.get("image", ""))
        place = f"{each.place}: {container.get('name', '')}.image"
        tag = image.rsplit("/", 1)[-1].partition(":")[2]
        if "@sha256:" in image:
            continue
        rule = "image-latest" if tag in ("", "latest") else "image-tag"
        yield broken(rule, place, f"is {image}")


def _identity(each: Workload, ours: dict[str, Any], others: list[Workload]) -> Iterator[Finding]:
    """Nobody but this program has its rights."""
    kubeconfig = _flag(ours, "--kubeconfig")
    scheduler = next((c for c in each.containers if _runs_scheduler(c)), None)
    if kubeconfig:
        place = f"{each.place}: extender --kubeconfig"
        theirs = {_flag(scheduler or {}, flag) for flag in SCHEDULER_KUBECONFIGS}
        if kubeconfig.rsplit("/", 1)[-1] in ADMIN_KUBECONFIGS:
            yield broken("rights-admin", place, f"is {kubeconfig}", role="an administrator")
        elif kubeconfig in theirs:
            yield broken("shared-account", place, f"is kube-scheduler's too: {kubeconfig}")
        return
    account = str(each.pod.get("serviceAccountName", "default"))
    place = f"{each.place}: serviceAccountName"
    if account == "default":
        yield broken("default-account", place, "is default or missing")
    elif scheduler is not None:
        problem = f"{account} is kube-scheduler's too, in the same pod"
        yield broken("shared-account", place, problem, "hint")
    for other in others:
        if (other.namespace, other.pod.get("serviceAccountName")) == (each.namespace, account) and (
            other.extender is None
        ):
            yield broken("shared-account", place, f"{account} is also the account of {other.place}")
    if each.pod.get("automountServiceAccountToken") is not False:
        place = f"{each.place}: automountServiceAccountToken"
        yield broken("token-everywhere", place, "is not false")


def _runs_scheduler(container: dict[str, Any]) -> bool:
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return any(str(word).rsplit("/", 1)[-1] == "kube-scheduler" for word in words)


def _flag(container: dict[str, Any], name: str) -> str:
    """The value of a flag, ``--name=value`` or ``--name value``; "" without it."""
    words = [str(w) for w in [*(container.get("command") or []), *(container.get("args") or [])]]
    for position, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == name:
            return value if equals else "".join(words[position + 1 : position + 2])
    return ""


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def probe_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on the probes of every container of ours."""
    for each in workloads(documents):
        if each.extender is None:
            continue
        for probe in PROBES:
            request = at(each.extender, probe, "httpGet")
            if request:
                place = f"{each.place}: extender.{probe}.httpGet"
                yield from _answered(each, request, settings.server, place)


def _answered(
    each: Workload, request: dict[str, Any], server: ServerSettings, place: str
) -> Iterator[Finding]:
    port = number_of(each.extender or {}, request.get("port"))
    separate = server.health_port is not None
    listens = {server.port: server.host}
    if server.health_port is not None:
        listens[server.health_port] = server.health_host or server.host
    if port not in listens:
        yield broken("probe-unanswered", place, f"goes to port {port}, where nothing listens")
        return
    # On the host network kubelet may be told to ask the node's own loopback address.
    beside = each.on_host_network and is_loopback(str(request.get("host", "")))
    if is_loopback(listens[port]) and not beside:
        problem = f"goes to port {port}, which listens on {listens[port]} only"
        yield broken("probe-unanswered", place, problem)
    elif server.client_ca_file and not (separate and port == server.health_port):
        yield broken(
            "probe-unanswered", place, f"port {port} wants a certificate, kubelet has none"
        )
    spoken = "HTTPS" if server.tls_cert_file else "HTTP"
    if request.get("scheme", "HTTP") != spoken:
        yield broken(
            "probe-unanswered", f"{place}.scheme", f"is not {spoken}, as the server speaks"
        )


def number_of(container: dict[str, Any], port: object) -> object:
    """A probe's port as a number; names are those of the container's ports."""
    for named in items(container, "ports"):
        if named.get("name") == port:
            return named.get("containerPort")
    return port


def socket_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on our pods' mounts, where ``grpc.listen`` names a socket."""
    listen = settings.grpc.listen
    path = parse(listen).path if listen else ""
    if not path:
        return
    directory = PurePosixPath(path).parent
    for each in workloads(documents):
        if each.extender is not None and not _mounted(each, each.extender, directory):
            problem = f"mounts nothing that can be written at {directory}, for grpc.listen"
            yield broken("socket-unmounted", each.place, problem)


def _mounted(workload: Workload, extender: dict[str, Any], directory: PurePosixPath) -> bool:
    """Whether the directory is there and can be written; an emptyDir has none below its own."""
    empty = {each.get("name") for each in items(workload.pod, "volumes") if "emptyDir" in each}
    for mount in items(extender, "volumeMounts"):
        place = str(mount.get("mountPath") or "")
        if not place or mount.get("readOnly") is True:
            continue
        if directory == PurePosixPath(place):
            return True
        if directory.is_relative_to(place) and mount.get("name") not in empty:
            return True
    return False
