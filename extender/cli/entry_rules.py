"""Rules on our own entries of ``extenders``: verbs, fail-closed, timeout, address and TLS.

The behaviour behind each rule is that of kube-scheduler's pkg/scheduler/extender.go and
pkg/scheduler/apis/config/validation, read at v1.36.3 and v1.37.0.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from extender.cli.bind_rules import bind_findings, binds_only
from extender.cli.catalogue import broken
from extender.cli.findings import Finding
from extender.cli.kubescheduler import ExtenderEntry, timeout
from extender.cli.mode_rules import observed_entry_findings
from extender.model.mode import OBSERVE
from extender.model.settings import Settings

VERBS = {"filter_verb": "filter", "prioritize_verb": "prioritize", "preempt_verb": "preempt"}
"""Field of an entry -> the path under which this program serves it."""

MARGIN = 0.8
"""A search may use this part of the timeout; the rest is for the call and the machine's load."""

LONG_TIMEOUT_SECONDS = 30.0


def camel(name: str) -> str:
    """``filter_verb`` as it is written in YAML."""
    head, *tail = name.split("_")
    return head + "".join(word.title() for word in tail)


def entry_findings(
    own: dict[str, ExtenderEntry], settings: Settings, source: str
) -> Iterator[Finding]:
    """Findings on our entries, which are keyed by their YAML path."""
    asked = {path: entry for path, entry in own.items() if not binds_only(entry)}
    observes = settings.mode == OBSERVE
    yield from _verbs(asked or own, source, wanted=not observes)
    for path, entry in own.items():
        place = f"{source}: {path}"
        if path in asked:
            if observes:
                yield from observed_entry_findings(entry, place)
            else:
                yield from _fail_closed(entry, place, own)
            yield from _reach(entry, place)
            yield from _timeout(entry, place, settings)
        yield from _address(entry, place, settings)
    yield from bind_findings(own, settings, source)


def _verbs(own: dict[str, ExtenderEntry], source: str, *, wanted: bool) -> Iterator[Finding]:
    """Every verb is there once if it is ``wanted``, and under the path we serve."""
    last = next(reversed(own))
    for field, verb in VERBS.items():
        key = camel(field)
        named = [path for path, entry in own.items() if getattr(entry, field)]
        if wanted and not named and verb != "prioritize":
            yield broken(f"no-{verb}", f"{source}: {last}", f"{key} is missing")
        for path in named:
            value = str(getattr(own[path], field))
            if value != verb:
                place = f"{source}: {path}.{key}"
                yield broken("verb-path", place, f"is {value!r}", key=key, verb=verb)
        for path in named[1:]:
            problem = f"{verb} is already asked for by {named[0]}"
            yield broken("verb-twice", f"{source}: {path}.{key}", problem)


def _fail_closed(
    entry: ExtenderEntry, place: str, own: dict[str, ExtenderEntry]
) -> Iterator[Finding]:
    """While we are away nothing may be evicted behind our back."""
    if not entry.ignorable:
        return
    if entry.preempt_verb or not any(e.preempt_verb and not e.ignorable for e in own.values()):
        yield broken("ignorable", f"{place}.ignorable", "is true (fails open)")
    elif entry.filter_verb:
        yield broken("ignorable-filter", f"{place}.ignorable", "is true on the entry that filters")


def _reach(entry: ExtenderEntry, place: str) -> Iterator[Finding]:
    """Every pod and every node reaches us, and nothing that we do not serve."""
    weight = f"is {entry.weight}"
    if not entry.node_cache_capable:
        yield broken("node-cache-capable", f"{place}.nodeCacheCapable", "is false")
    if entry.managed_resources:
        names = ", ".join(resource.name for resource in entry.managed_resources)
        problem = f"limits the calls to pods that ask for {names}"
        yield broken("managed-resources", f"{place}.managedResources", problem)
    if entry.prioritize_verb:
        yield broken("prioritize", f"{place}.prioritizeVerb", "is asked for every pod")
    if entry.prioritize_verb and entry.weight <= 0:
        yield broken("weight", f"{place}.weight", f"{weight} with a prioritizeVerb")
    if entry.weight and not entry.prioritize_verb:
        yield broken("weight-unused", f"{place}.weight", f"{weight} without a prioritizeVerb")


def _timeout(entry: ExtenderEntry, place: str, settings: Settings) -> Iterator[Finding]:
    """A search ends before kube-scheduler gives the call up."""
    limit = timeout(entry)
    where = f"{place}.httpTimeout"
    searching = settings.plan.seconds
    enough = searching / MARGIN
    if limit is None or limit < 0:
        problem = f"{entry.http_timeout!r} is not a duration above zero"
        yield broken("timeout-format", where, problem)
        return
    shown = f"is {limit:g} s" if entry.http_timeout else f"is missing, hence {limit:g} s"
    if limit <= searching:
        problem = f"{shown}, not above plan.seconds ({searching:g} s)"
        yield broken("timeout-short", where, problem, enough=enough)
    elif searching > MARGIN * limit:
        problem = f"{shown}, close to plan.seconds ({searching:g} s)"
        yield broken("timeout-tight", where, problem, enough=enough)
    if limit > LONG_TIMEOUT_SECONDS:
        yield broken("timeout-long", where, shown, searching=searching)


def _address(entry: ExtenderEntry, place: str, settings: Settings) -> Iterator[Finding]:
    """urlPrefix leads to where settings.server listens, with the same idea of TLS."""
    where = f"{place}.urlPrefix"
    server = settings.server
    try:
        url = urlsplit(entry.url_prefix)
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        url, port = SplitResult("", "", "", "", ""), 0
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        problem = f"{entry.url_prefix!r} is no http or https address"
        yield broken("url", where, problem, port=server.port)
        return
    if url.path.strip("/"):
        problem = f"has the path {url.path}"
        yield broken("url-path", where, problem, scheme=url.scheme, netloc=url.netloc)
    yield from _tls(entry, place, url.scheme, settings)
    if server.port and port != server.port:
        problem = f"goes to port {port}, while server.port is {server.port}"
        direct = _is_loopback(server.host) and _is_loopback(url.hostname)
        rule = "url-port-loopback" if direct else "url-port"
        yield broken(rule, where, problem, port=server.port)
    if _is_loopback(server.host) and not _is_loopback(url.hostname):
        problem = f"goes to {url.hostname}, while server.host is {server.host}"
        yield broken("url-host", where, problem)
    if url.hostname.endswith((".svc", ".cluster.local")):
        problem = f"names {url.hostname}, which only cluster DNS resolves"
        yield broken("url-dns", where, problem)


def _tls(entry: ExtenderEntry, place: str, scheme: str, settings: Settings) -> Iterator[Finding]:
    """The scheme decides whether TLS is spoken; enableHTTPS and tlsConfig only shape it."""
    server, tls = settings.server, entry.tls_config
    if entry.enable_https and scheme == "http":
        problem = "is true while urlPrefix begins with http://"
        yield broken("https-scheme", f"{place}.enableHTTPS", problem)
    if bool(server.tls_cert_file) != (scheme == "https"):
        certificate = "a certificate" if server.tls_cert_file else "no certificate"
        problem = f"is {scheme}, while the server has {certificate}"
        yield broken("tls-mismatch", f"{place}.urlPrefix", problem)
    if scheme != "https":
        return
    where = f"{place}.tlsConfig"
    if tls is None or not (tls.ca_file or tls.ca_data):
        trusted = (
            "any certificate: the connection can be intercepted"
            if entry.enable_https
            else "only authorities of its own host"
        )
        yield broken("tls-ca", where, "names no caFile or caData", trusted=trusted)
    if server.client_ca_file and (tls is None or not (tls.cert_file or tls.cert_data)):
        problem = "has no client certificate, while server.clientCaFile is set"
        yield broken("tls-client", where, problem)


def _is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
