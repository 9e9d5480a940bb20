"""Rules on our own entries of ``extenders``: verbs, fail-closed, timeout, address and TLS.

The behaviour behind each rule is that of kube-scheduler's pkg/scheduler/extender.go and
pkg/scheduler/apis/config/validation, read at v1.36.3 and v1.37.0.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from extender.cli.findings import Finding
from extender.cli.kubescheduler import ExtenderEntry, timeout
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
    yield from _verbs(own, source)
    for path, entry in own.items():
        place = f"{source}: {path}"
        yield from _fail_closed(entry, place, own)
        yield from _reach(entry, place)
        yield from _timeout(entry, place, settings)
        yield from _address(entry, place, settings)


def _verbs(own: dict[str, ExtenderEntry], source: str) -> Iterator[Finding]:
    """Every verb is there once, and under the path we serve."""
    reasons = {
        "filter_verb": "seats of a plan are not held and members are not kept to their seats",
        "preempt_verb": "kube-scheduler evicts pod by pod for gangs and breaks gangs for others",
        "prioritize_verb": "pods of no gang are not steered away from the room that gangs need",
    }
    last = next(reversed(own))
    for field, verb in VERBS.items():
        named = [path for path, entry in own.items() if getattr(entry, field)]
        if not named:
            yield Finding(
                severity="warning" if field == "prioritize_verb" else "error",
                rule=f"no-{verb}",
                place=f"{source}: {last}",
                problem=f"{camel(field)} is missing",
                why=reasons[field],
                repair=f"add {camel(field)}: {verb}"
                + (" and weight: 1" if field == "prioritize_verb" else ""),
            )
        for path in named:
            value = str(getattr(own[path], field))
            if value != verb:
                yield Finding(
                    severity="error",
                    rule="verb-path",
                    place=f"{source}: {path}.{camel(field)}",
                    problem=f"is {value!r}",
                    why="the call goes to a path that is not served, and every answer but 200 is "
                    "an error to kube-scheduler",
                    repair=f"write {camel(field)}: {verb}",
                )
        for path in named[1:]:
            yield Finding(
                severity="error",
                rule="verb-twice",
                place=f"{source}: {path}.{camel(field)}",
                problem=f"{verb} is already asked for by {named[0]}",
                why="the second call sees the cluster as the first one left it and decides again",
                repair="keep it in one entry only",
            )


def _fail_closed(
    entry: ExtenderEntry, place: str, own: dict[str, ExtenderEntry]
) -> Iterator[Finding]:
    """While we are away nothing may be evicted behind our back."""
    if not entry.ignorable:
        return
    if entry.preempt_verb or not any(e.preempt_verb and not e.ignorable for e in own.values()):
        yield Finding(
            severity="error",
            rule="ignorable",
            place=f"{place}.ignorable",
            problem="is true (fails open)",
            why="whenever a call fails or times out, kube-scheduler goes on alone: it evicts pod "
            "by pod, breaks gangs and gives promised seats away",
            repair="write ignorable: false; so that the extender's own pods can start while it is "
            "down, see 'Starting without itself' in docs/operations.md",
        )
    elif entry.filter_verb:
        yield Finding(
            severity="warning",
            rule="ignorable-filter",
            place=f"{place}.ignorable",
            problem="is true on the entry that filters",
            why="nothing is evicted while the extender is away, but pods that fit are bound "
            "without it: promised seats may be taken and a gang may start in part",
            repair="accept this for availability, or write ignorable: false",
        )


def _reach(entry: ExtenderEntry, place: str) -> Iterator[Finding]:
    """Every pod and every node reaches us, and nothing that we do not serve."""
    if not entry.node_cache_capable:
        yield Finding(
            severity="error",
            rule="node-cache-capable",
            place=f"{place}.nodeCacheCapable",
            problem="is false",
            why="each call carries every Node object in full (tens of megabytes at 5,000 nodes), "
            "which exceeds any timeout, and scoring then sees the nodes as empty",
            repair="write nodeCacheCapable: true",
        )
    if entry.managed_resources:
        names = ", ".join(resource.name for resource in entry.managed_resources)
        yield Finding(
            severity="error",
            rule="managed-resources",
            place=f"{place}.managedResources",
            problem=f"limits the calls to pods that ask for {names}",
            why="all other pods are placed without asking, on promised seats too, and preempt "
            "members of gangs one by one",
            repair="remove managedResources; pods of no gang pass through fast",
        )
    if entry.bind_verb:
        yield Finding(
            severity="error",
            rule="bind",
            place=f"{place}.bindVerb",
            problem=f"is {entry.bind_verb!r}, which is not served",
            why="kube-scheduler would leave every binding to a call that fails",
            repair="remove bindVerb",
        )
    if entry.prioritize_verb and entry.weight <= 0:
        yield Finding(
            severity="error",
            rule="weight",
            place=f"{place}.weight",
            problem=f"is {entry.weight} with a prioritizeVerb",
            why="kube-scheduler refuses to start: a prioritizing extender needs a positive weight",
            repair="write weight: 1",
        )
    if entry.weight and not entry.prioritize_verb:
        yield Finding(
            severity="warning",
            rule="weight-unused",
            place=f"{place}.weight",
            problem=f"is {entry.weight} without a prioritizeVerb",
            why="the weight has no effect, so somebody expects scores that are never asked for",
            repair="add prioritizeVerb: prioritize, or remove weight",
        )


def _timeout(entry: ExtenderEntry, place: str, settings: Settings) -> Iterator[Finding]:
    """A search ends before kube-scheduler gives the call up."""
    limit = timeout(entry)
    where = f"{place}.httpTimeout"
    searching = settings.plan.seconds
    if limit is None or limit < 0:
        yield Finding(
            severity="error",
            rule="timeout-format",
            place=where,
            problem=f"{entry.http_timeout!r} is not a duration above zero",
            why="kube-scheduler refuses it, or gives every call up at once",
            repair="write httpTimeout: 5s",
        )
        return
    shown = f"is {limit:g} s" if entry.http_timeout else f"is missing, hence {limit:g} s"
    if limit <= searching:
        yield Finding(
            severity="error",
            rule="timeout-short",
            place=where,
            problem=f"{shown}, not above plan.seconds ({searching:g} s)",
            why="kube-scheduler gives a call up while the search still runs, and the pod's attempt "
            "ends in an error although a plan was on its way",
            repair=f"raise httpTimeout to {searching / MARGIN:.1f}s or more, or lower plan.seconds",
        )
    elif searching > MARGIN * limit:
        yield Finding(
            severity="warning",
            rule="timeout-tight",
            place=where,
            problem=f"{shown}, close to plan.seconds ({searching:g} s)",
            why="a search that uses all its time leaves too little for the call itself",
            repair=f"raise httpTimeout to {searching / MARGIN:.1f}s or more, or lower plan.seconds",
        )
    if limit > LONG_TIMEOUT_SECONDS:
        yield Finding(
            severity="warning",
            rule="timeout-long",
            place=where,
            problem=shown,
            why="calls run inside kube-scheduler's single scheduling loop: a hanging extender "
            "stops all scheduling for that long with every pod",
            repair=f"lower it to a little above plan.seconds ({searching:g} s)",
        )


def _address(entry: ExtenderEntry, place: str, settings: Settings) -> Iterator[Finding]:
    """urlPrefix leads to where settings.server listens, with the same idea of TLS."""
    where = f"{place}.urlPrefix"
    try:
        url = urlsplit(entry.url_prefix)
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        url, port = SplitResult("", "", "", "", ""), 0
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        yield Finding(
            severity="error",
            rule="url",
            place=where,
            problem=f"{entry.url_prefix!r} is no http or https address",
            why="kube-scheduler appends /filter, /prioritize and /preempt to it",
            repair=f"write urlPrefix: http://127.0.0.1:{settings.server.port}",
        )
        return
    if url.path.strip("/"):
        yield Finding(
            severity="error",
            rule="url-path",
            place=where,
            problem=f"has the path {url.path}",
            why="kube-scheduler appends /filter, /prioritize and /preempt, and the verbs are "
            "served at the root only",
            repair=f"write urlPrefix: {url.scheme}://{url.netloc}",
        )
    yield from _tls(entry, place, url.scheme, settings)
    if settings.server.port and port != settings.server.port:
        yield Finding(
            severity="hint",
            rule="url-port",
            place=where,
            problem=f"goes to port {port}, while server.port is {settings.server.port}",
            why="that is right only with a Service or proxy in between that maps the port",
            repair=f"use port {settings.server.port} when kube-scheduler calls directly",
        )
    if _is_loopback(settings.server.host) and not _is_loopback(url.hostname):
        yield Finding(
            severity="error",
            rule="url-host",
            place=where,
            problem=f"goes to {url.hostname}, while server.host is {settings.server.host}",
            why="a server on the loopback address is not reachable from another pod or host",
            repair="run both in one pod with urlPrefix http://127.0.0.1:..., or set server.host "
            "to 0.0.0.0",
        )
    if url.hostname.endswith((".svc", ".cluster.local")):
        yield Finding(
            severity="warning",
            rule="url-dns",
            place=where,
            problem=f"names {url.hostname}, which only cluster DNS resolves",
            why="a kube-scheduler on the host network uses the host's resolver, and cluster DNS "
            "itself needs scheduling to come up",
            repair="write the Service's cluster IP, or run the extender beside kube-scheduler",
        )


def _tls(entry: ExtenderEntry, place: str, scheme: str, settings: Settings) -> Iterator[Finding]:
    """The scheme decides whether TLS is spoken; enableHTTPS and tlsConfig only shape it."""
    server, tls = settings.server, entry.tls_config
    serves_tls = bool(server.tls_cert_file)
    if entry.enable_https and scheme == "http":
        yield Finding(
            severity="error",
            rule="https-scheme",
            place=f"{place}.enableHTTPS",
            problem="is true while urlPrefix begins with http://",
            why="the scheme of urlPrefix decides: the calls go out in plain text",
            repair="write urlPrefix: https://..., or remove enableHTTPS",
        )
    if serves_tls != (scheme == "https"):
        yield Finding(
            severity="error",
            rule="tls-mismatch",
            place=f"{place}.urlPrefix",
            problem=f"is {scheme}, while the server "
            + ("has a certificate" if serves_tls else "has no certificate"),
            why="one side speaks TLS and the other does not, so every call fails",
            repair="set server.tlsCertFile and server.tlsKeyFile together with an https urlPrefix, "
            "or neither",
        )
    if scheme != "https":
        return
    if tls is None or not (tls.ca_file or tls.ca_data):
        trust = "any certificate" if entry.enable_https else "only authorities of its own host"
        yield Finding(
            severity="warning",
            rule="tls-ca",
            place=f"{place}.tlsConfig",
            problem="names no caFile or caData",
            why=f"kube-scheduler then trusts {trust}"
            + (": the connection can be intercepted" if entry.enable_https else ""),
            repair="set tlsConfig.caFile to the authority that signed the server's certificate",
        )
    if server.client_ca_file and (tls is None or not (tls.cert_file or tls.cert_data)):
        yield Finding(
            severity="error",
            rule="tls-client",
            place=f"{place}.tlsConfig",
            problem="has no client certificate, while server.clientCaFile is set",
            why="the server turns callers without a certificate away, so every call fails",
            repair="set tlsConfig.certFile and tlsConfig.keyFile, or remove server.clientCaFile",
        )


def _is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
