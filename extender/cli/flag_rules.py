"""Rules on kube-scheduler's command line, which overrides what its configuration says.

The flags are those of k8s.io/kubernetes/cmd/kube-scheduler/app/options; what ``--config`` makes
of no effect (kubeconfig, kube-api-*, profiling) is not judged. A value that cannot be read, such
as a variable's, counts as unsafe.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from posixpath import basename, normpath
from typing import Any

from extender.cli import flags
from extender.cli.catalogue import broken
from extender.cli.findings import Finding, Severity
from extender.cli.kubescheduler import CommandLine, Configuration, seconds
from extender.cli.pod_rules import ADMIN_KUBECONFIGS
from extender.cli.probe_rules import PROBES, number_of
from extender.cli.replica_rules import several
from extender.cli.workloads import at, items
from extender.server.addresses import is_loopback

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
