"""Rules on our own entries of ``extenders``: verbs, fail-closed, timeout, address and TLS.

The behaviour behind each rule is that of kube-scheduler's pkg/scheduler/extender.go and
pkg/scheduler/apis/config/validation, read at v1.36.3 and v1.37.0.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from extender.check.bind_rules import bind_findings, binds_only
from extender.check.findings import Finding
from extender.check.kubescheduler import ExtenderEntry, timeout
from extender.check.mode_rules import observed_entry_findings
from extender.check.rule import Rule, broken, declare
from extender.settings.mode import OBSERVE
from extender.settings.settings import Settings

ENTRY_RULES = {
    "no-filter": Rule(
        "error",
        "seats of a plan are not held and members are not kept to their seats",
        "add filterVerb: filter",
    ),
    "no-preempt": Rule(
        "error",
        "kube-scheduler evicts pod by pod for gangs and breaks gangs for others",
        "add preemptVerb: preempt",
    ),
    "prioritize": Rule(
        "hint",
        "each pod costs a second call, and no promise rests on it: it leads pods of no gang to "
        "other nodes than those with seats held, which filter keeps free in any case",
        "leave out prioritizeVerb and weight",
    ),
    "verb-path": Rule(
        "error",
        "the call goes to a path that is not served, and every answer but 200 is an error to "
        "kube-scheduler",
        "write {key}: {verb}",
    ),
    "verb-twice": Rule(
        "error",
        "the second call sees the cluster as the first one left it and decides again",
        "keep it in one entry only",
    ),
    "ignorable": Rule(
        "error",
        "when a call fails or times out, kube-scheduler continues alone: it evicts pod by pod, "
        "breaks gangs and places others on reserved nodes",
        "write ignorable: false; so that the extender's own pods can start while it is down, see "
        "'Starting without itself' in docs/operations.md",
    ),
    "ignorable-filter": Rule(
        "warning",
        "nothing is evicted while the extender is away, but pods that fit are bound without it: "
        "promised seats may be taken and a gang may start in part",
        "accept this for availability, or write ignorable: false",
    ),
    "node-cache-capable": Rule(
        "error",
        "each call carries every Node object in full (tens of megabytes at 5,000 nodes), which "
        "exceeds any timeout, and scoring then sees the nodes as empty",
        "write nodeCacheCapable: true",
    ),
    "managed-resources": Rule(
        "error",
        "all other pods are placed without asking, on promised seats too, and preempt members of "
        "gangs one by one",
        "remove managedResources; pods of no gang pass through fast",
    ),
    "weight": Rule(
        "error",
        "kube-scheduler refuses to start: a prioritizing extender needs a positive weight",
        "write weight: 1",
    ),
    "weight-unused": Rule(
        "warning",
        "the weight has no effect, because no scores are requested",
        "remove weight",
    ),
    "timeout-format": Rule(
        "error",
        "kube-scheduler refuses it, or gives every call up at once",
        "write httpTimeout: 5s",
    ),
    "timeout-short": Rule(
        "error",
        "kube-scheduler gives a call up while the search still runs, and the pod's attempt ends "
        "in an error although a plan was on its way",
        "raise httpTimeout to {enough:.1f}s or more, or lower plan.seconds",
    ),
    "timeout-tight": Rule(
        "warning",
        "a search that uses all its time leaves too little for the call itself",
        "raise httpTimeout to {enough:.1f}s or more, or lower plan.seconds",
    ),
    "timeout-long": Rule(
        "warning",
        "calls run inside kube-scheduler's single scheduling loop: a hanging extender stops all "
        "scheduling for that long with every pod",
        "lower it to a little above plan.seconds ({searching:g} s)",
    ),
    "url": Rule(
        "error",
        "kube-scheduler appends /filter, /prioritize and /preempt to it",
        "write urlPrefix: http://127.0.0.1:{port}",
    ),
    "url-path": Rule(
        "error",
        "kube-scheduler appends /filter, /prioritize and /preempt, and the verbs are served at "
        "the root only",
        "write urlPrefix: {scheme}://{netloc}",
    ),
    "url-port": Rule(
        "hint",
        "that is right only with a Service or proxy in between that maps the port",
        "use port {port} when kube-scheduler calls directly",
    ),
    "url-port-loopback": Rule(
        "error",
        "nothing maps ports on loopback: no call arrives, and an entry that fails closed places "
        "nothing",
        "use port {port} in urlPrefix, or that port in server.port",
    ),
    "url-host": Rule(
        "error",
        "a server on the loopback address is not reachable from another pod or host",
        "run both in one pod with urlPrefix http://127.0.0.1:..., or set server.host to 0.0.0.0",
    ),
    "url-dns": Rule(
        "warning",
        "a kube-scheduler on the host network uses the host's resolver, and cluster DNS itself "
        "needs scheduling to come up",
        "write the Service's cluster IP, or run the extender beside kube-scheduler",
    ),
    "https-scheme": Rule(
        "error",
        "the scheme of urlPrefix decides: the calls go out in plain text",
        "write urlPrefix: https://..., or remove enableHTTPS",
    ),
    "tls-mismatch": Rule(
        "error",
        "one side speaks TLS and the other does not, so every call fails",
        "set server.tlsCertFile and server.tlsKeyFile together with an https urlPrefix, or neither",
    ),
    "tls-ca": Rule(
        "warning",
        "kube-scheduler then trusts {trusted}",
        "set tlsConfig.caFile to the authority that signed the server's certificate",
    ),
    "tls-client": Rule(
        "error",
        "the server turns callers without a certificate away, so every call fails",
        "set tlsConfig.certFile and tlsConfig.keyFile, or remove server.clientCaFile",
    ),
}
"""On our own entries of ``extenders``."""
declare(ENTRY_RULES)


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
