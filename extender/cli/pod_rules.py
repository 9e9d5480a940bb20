"""Rules on the pods that run this program: what they may do on their node, and who they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document
from extender.cli.findings import Finding
from extender.cli.workloads import Workload, at, items, workloads
from extender.model.settings import Settings
from extender.server.addresses import is_loopback

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
