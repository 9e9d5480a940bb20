"""Rules on this program's own configuration: what it listens on."""

from __future__ import annotations

from collections.abc import Iterator

from extender.check.findings import Finding
from extender.check.rule import Rule, broken, declare
from extender.model.errors import InvalidInput
from extender.server.access_rules import health_rules, is_loopback, is_open, verbs_rules
from extender.settings.grpc_address import parse
from extender.settings.settings import ServerSettings, Settings

SETTINGS_RULES = {
    "pdb-policy": Rule(
        "hint",
        "a plan may then exceed a PodDisruptionBudget when nothing else makes room",
        "write pdbPolicy: respect unless that is meant",
    ),
    "open-port": Rule(
        "error",
        "every caller that reaches the port could have pods evicted, so serve does not start",
        "listen on 127.0.0.1, with server.healthPort for probes and metrics; or set "
        "server.tlsCertFile, tlsKeyFile, clientCaFile and allowedNames",
    ),
    "any-certificate": Rule(
        "warning",
        "every certificate of that authority can call the verbs",
        "name kube-scheduler's certificate in server.allowedNames (over gRPC: grpc.allowedNames)",
    ),
    "open-metrics": Rule(
        "hint",
        "every caller that reaches the port can read names of namespaces and gangs",
        "leave server.openMetrics out, or keep others away with a NetworkPolicy",
    ),
    "plain-tokens": Rule(
        "warning",
        "a token would cross the network unencrypted, so none is accepted and the pages are closed",
        "set server.tlsCertFile and tlsKeyFile, or server.openMetrics behind a NetworkPolicy",
    ),
}
"""On this program's own configuration."""
declare(SETTINGS_RULES)


def require_closed(server: ServerSettings, *, allowed: bool) -> None:
    """Raise InvalidInput when strangers could call the verbs and nobody said twice that they may.

    ``allowed`` is the command line's word, ``server.allow_open_port`` the configuration's.
    """
    if is_open(server) and not (allowed and server.allow_open_port):
        raise InvalidInput(
            f"{_open(server)}: every caller that reaches the port could have pods evicted. "
            "Listen on 127.0.0.1, or set server.clientCaFile and server.allowedNames; to "
            "serve like this, set server.allowOpenPort and give --allow-open-port",
            "server.host",
        )


def listener_findings(server: ServerSettings, source: str) -> Iterator[Finding]:
    """What ``check`` says about the listeners of one configuration."""
    if is_open(server):
        yield broken("open-port", f"{source}: server.host", _open(server))
    elif server.client_ca_file and not server.allowed_names:
        yield broken("any-certificate", f"{source}: server.allowedNames", "is empty")
    shared = not is_loopback(server.host)
    rules = verbs_rules(server)
    if server.health_port is not None:
        shared = shared or not is_loopback(server.health_host or server.host)
        rules = health_rules(server)
    if server.open_metrics and shared:
        yield broken("open-metrics", f"{source}: server.openMetrics", "is true")
    if not rules.encrypted and "token" in (rules.metrics, rules.debug):
        pages = "/metrics" if rules.debug != "token" else "/metrics and /debug"
        place = "healthPort" if server.health_port is not None else "host"
        yield broken("plain-tokens", f"{source}: server.{place}", f"shows {pages} without TLS")


def grpc_findings(settings: Settings, source: str) -> Iterator[Finding]:
    """What ``check`` says about the gRPC listener; an open port is refused with the file itself."""
    listen = settings.grpc.listen
    asks = bool(listen and settings.grpc_tls[2]) and not parse(listen).path
    if asks and not settings.grpc_names:
        yield broken("any-certificate", f"{source}: grpc.allowedNames", "is empty")


def _open(server: ServerSettings) -> str:
    lacking = "server.allowedNames is empty" if server.client_ca_file else "no certificate is asked"
    return f"is {server.host!r}, and {lacking}"
