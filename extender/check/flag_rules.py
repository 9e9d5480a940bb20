"""Rules on command lines: kube-scheduler's own, and that of ``serve``.

The flags are those of k8s.io/kubernetes/cmd/kube-scheduler/app/options; what ``--config`` makes
of no effect (kubeconfig, kube-api-*, profiling) is not judged. A value that cannot be read, such
as a variable's, counts as unsafe.

The rules are in flag_rules.py and flag_rules.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from posixpath import basename, normpath
from typing import Any

from msgspec.structs import replace

from extender.check import flags
from extender.check.documents import Document
from extender.check.findings import Finding, Severity
from extender.check.kubescheduler import CommandLine, Configuration, seconds
from extender.check.pod_rules import ADMIN_KUBECONFIGS, PROBES, number_of
from extender.check.replica_rules import several
from extender.check.rule import Rule, broken, declare
from extender.check.workloads import at, items, workloads
from extender.server.access_rules import is_loopback
from extender.settings.settings import Settings

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
declare(FLAG_RULES)


KNOWN = frozenset(
    {
        "allow-metric-labels",
        "allow-metric-labels-manifest",
        "authentication-kubeconfig",
        "authentication-skip-lookup",
        "authentication-token-webhook-cache-ttl",
        "authentication-tolerate-lookup-failure",
        "authorization-always-allow-paths",
        "authorization-kubeconfig",
        "authorization-webhook-cache-authorized-ttl",
        "authorization-webhook-cache-unauthorized-ttl",
        "bind-address",
        "cert-dir",
        "client-ca-file",
        "config",
        "contention-profiling",
        "disable-http2-serving",
        "disabled-metrics",
        "emulated-version",
        "feature-gates",
        "help",
        "http2-max-streams-per-connection",
        "kube-api-burst",
        "kube-api-content-type",
        "kube-api-qps",
        "kubeconfig",
        "leader-elect",
        "leader-elect-lease-duration",
        "leader-elect-renew-deadline",
        "leader-elect-resource-lock",
        "leader-elect-resource-name",
        "leader-elect-resource-namespace",
        "leader-elect-retry-period",
        "log-flush-frequency",
        "log-json-info-buffer-size",
        "log-json-split-stream",
        "log-text-info-buffer-size",
        "log-text-split-stream",
        "logging-format",
        "master",
        "min-compatibility-version",
        "permit-address-sharing",
        "permit-port-sharing",
        "pod-max-in-unschedulable-pods-duration",
        "profiling",
        "requestheader-allowed-names",
        "requestheader-client-ca-file",
        "requestheader-extra-headers-prefix",
        "requestheader-group-headers",
        "requestheader-uid-headers",
        "requestheader-username-headers",
        "secure-port",
        "show-hidden-metrics-for-version",
        "tls-cert-file",
        "tls-cipher-suites",
        "tls-curve-preferences",
        "tls-min-version",
        "tls-private-key-file",
        "tls-sni-cert-key",
        "v",
        "version",
        "vmodule",
        "write-config-to",
    }
)
"""Of 1.36 and 1.37."""
OPEN_PATHS = ("/healthz", "/readyz", "/livez")
METRICS = "/metrics"
KEPT = (
    "authentication-token-webhook-cache-ttl",
    "authorization-webhook-cache-authorized-ttl",
)
LONGEST_KEPT_SECONDS = 300.0
ENDS = ("write-config-to", "version", "help")
OLD_TLS = ("VersionTLS10", "VersionTLS11")
WEAK_CIPHERS = ("RC4", "3DES", "TLS_RSA_")
DEFAULT_PORT = "10259"
OWN_LEASE = ("kube-system", "kube-scheduler")
"""Of the cluster's own kube-scheduler, and the default of each."""


def flag_findings(
    line: CommandLine, configuration: Configuration | None, checked: AbstractSet[str]
) -> Iterator[Finding]:
    """Findings on one kube-scheduler; without its configuration its defaults are taken.

    ``checked``: names of the file with the configuration.
    """
    given = line.flags.get("config", [])
    place = _place(line, "config")
    yield from file_findings(place, line.workload.pod, line.container, given, checked)
    yield from _election(line, configuration)
    yield from _rights(line)
    yield from _port(line)
    yield from _tls(line)
    for name in ENDS:
        if flags.holds(line.flags, name, default=False) or flags.last(line.flags, name):
            yield broken("flag-ends", _place(line, name), "is given")
    if master := flags.last(line.flags, "master"):
        yield broken("flag-master", _place(line, "master"), f"is {master}")
    for name in sorted(line.flags.keys() - KNOWN - {""}):
        yield broken("flag-unknown", _place(line, name), "is no flag that is known here")


def _place(line: CommandLine, name: str) -> str:
    return f"{line.workload.place}: --{name}"


def _election(line: CommandLine, configuration: Configuration | None) -> Iterator[Finding]:
    """One acts, and it is elected among its own."""
    election = (configuration or Configuration()).leader_election
    elects = flags.holds(line.flags, "leader-elect", default=election.leader_elect is not False)
    each = line.workload
    if not elects and (many := several(each.kind, each.spec)):
        severity: Severity = "warning" if each.kind == "Pod" else "error"
        yield broken("flag-elect", _place(line, "leader-elect"), f"is false with {many}", severity)
    lease = (
        flags.last(line.flags, "leader-elect-resource-namespace", election.resource_namespace),
        flags.last(line.flags, "leader-elect-resource-name", election.resource_name),
    )
    names = {profile.scheduler_name for profile in configuration.profiles} if configuration else ()
    of_its_own = names and "default-scheduler" not in names
    if elects and of_its_own and (lease[0] or OWN_LEASE[0], lease[1] or OWN_LEASE[1]) == OWN_LEASE:
        problem = f"elects by {'/'.join(OWN_LEASE)}, as the cluster's own kube-scheduler"
        yield broken("flag-lease", f"{each.place}: leaderElection", problem)


def _rights(line: CommandLine) -> Iterator[Finding]:
    """Who reads its pages shows a token that somebody has looked at lately."""
    name = "authorization-always-allow-paths"
    given = [path.strip() for value in line.flags.get(name, []) for path in value.split(",")]
    shown = [path for path in given if path.strip("/") and not _harmless(path)]
    if shown:
        severity: Severity = "warning" if set(shown) == {METRICS} else "error"
        problem = f"opens {', '.join(shown)}"
        yield broken("flag-open-paths", _place(line, name), problem, severity)
    proxies = "requestheader-allowed-names"
    if flags.last(line.flags, "requestheader-client-ca-file") and not flags.last(
        line.flags, proxies
    ):
        yield broken("flag-proxy", _place(line, proxies), "is empty")
    for name in KEPT:
        value = flags.last(line.flags, name, "10s")
        kept = seconds(value)
        if kept is None or kept > LONGEST_KEPT_SECONDS:
            yield broken("flag-kept", _place(line, name), f"is {value}")
    for name in ("authentication-kubeconfig", "authorization-kubeconfig"):
        path = flags.last(line.flags, name)
        if basename(path) in ADMIN_KUBECONFIGS:
            yield broken("rights-admin", _place(line, name), f"is {path}", role="an administrator")


def _harmless(path: str) -> bool:
    """Whether it is about health, also as the beginning of what a star stands for."""
    return any(path.removesuffix("*").startswith(each) for each in OPEN_PATHS)


def _port(line: CommandLine) -> Iterator[Finding]:
    """Its probes are answered, and nobody else's network reaches the port."""
    port = flags.last(line.flags, "secure-port", DEFAULT_PORT)
    address = flags.last(line.flags, "bind-address", "0.0.0.0") or "0.0.0.0"
    on_host = line.workload.on_host_network
    for probe in PROBES:
        request = at(line.container, probe, "httpGet")
        if not request:
            continue
        place = f"{line.workload.place}: {line.container.get('name', '')}.{probe}.httpGet"
        asked = str(number_of(line.container, request.get("port")))
        if asked != port or port == "0":
            yield broken("flag-probe", place, f"goes to port {asked}, and --secure-port is {port}")
        elif is_loopback(address) and not (on_host and is_loopback(str(request.get("host", "")))):
            yield broken("flag-probe", place, f"goes to the pod, and --bind-address is {address}")
    if on_host and port != "0" and not is_loopback(address):
        yield broken("flag-bind", _place(line, "bind-address"), f"is {address} with hostNetwork")


def _tls(line: CommandLine) -> Iterator[Finding]:
    least = flags.last(line.flags, "tls-min-version")
    if least in OLD_TLS:
        yield broken("flag-tls", _place(line, "tls-min-version"), f"is {least}")
    suites = flags.last(line.flags, "tls-cipher-suites")
    if any(weak in suites for weak in WEAK_CIPHERS):
        yield broken("flag-tls", _place(line, "tls-cipher-suites"), f"is {suites}")


def file_findings(
    place: str,
    pod: dict[str, Any],
    container: dict[str, Any],
    given: list[str],
    checked: AbstractSet[str],
) -> Iterator[Finding]:
    """Findings on ``--config`` of a container; ``checked``: names of the file that was read.

    ``given``: the flag's values, the last one counts.
    """
    if not given or not given[-1]:
        return
    path = normpath(given[-1])
    mount = flags.mount_of(container, path)
    if container.get("volumeMounts") and mount is None:
        yield broken("flag-config", place, f"is {path}, where nothing is mounted")
    elif mount and "emptyDir" in flags.named(items(pod, "volumes"), mount.get("name")):
        yield broken("flag-config", place, f"is {path}, in a directory that is empty at first")
    elif checked and basename(path) not in checked:
        problem = f"is {path}; {' or '.join(sorted(checked))} was checked"
        yield broken("flag-config", place, problem, "warning")
    elif len(set(map(normpath, given))) > 1:
        problem = f"is given as {' and as '.join(given)}, of which the last counts"
        yield broken("flag-config", place, problem)


OVERRIDES = {"host": "host", "port": "port", "health-port": "health_port"}
"""Flag -> field of ServerSettings; see ``add_parser`` of serve_command.py."""


def as_served(settings: Settings, documents: Sequence[Document]) -> Settings:
    """Return the settings as the command line of the manifests changes them."""
    changed: dict[str, object] = {}
    for each in workloads(documents):
        given = flags.parse(flags.words_of(each.extender or {}))
        for name, value in given.items():
            if name in OVERRIDES and (name == "host" or _is_port(value[-1])):
                changed[OVERRIDES[name]] = value[-1] if name == "host" else int(value[-1])
    return replace(settings, server=replace(settings.server, **changed))


def serve_findings(documents: Sequence[Document], checked: AbstractSet[str]) -> Iterator[Finding]:
    """Findings on each container of ours; ``checked``: names of the file with our configuration.

    Empty: none was given.
    """
    for each in workloads(documents):
        if each.extender is None:
            continue
        given = flags.parse(flags.words_of(each.extender))
        for name in OVERRIDES:
            if name in given:
                place = f"{each.place}: extender --{name}"
                problem = f"is {given[name][-1]}, whatever the configuration says"
                yield broken("flag-overrides", place, problem)
        if checked:
            place = f"{each.place}: extender --config"
            if not flags.last(given, "config"):
                yield broken("flag-config", place, "is missing")
            files = given.get("config", [])
            yield from file_findings(place, each.pod, each.extender, files, checked)


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= len("65535")
