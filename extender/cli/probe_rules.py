"""Rules on probes: kubelet comes from outside the pod, without a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document
from extender.cli.findings import Finding
from extender.cli.workloads import Workload, at, items, workloads
from extender.model.settings import ServerSettings, Settings
from extender.server.addresses import is_loopback

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
