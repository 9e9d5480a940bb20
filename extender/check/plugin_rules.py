"""Rules on the scheduler plugin: its arguments, and the address that it calls.

What the plugin refuses, and what it makes of a profile, is in plugin/core/args.go and profile.go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from extender.check.config import typed
from extender.check.documents import Document
from extender.check.findings import Finding
from extender.check.kubescheduler import (
    Configuration,
    ExtenderEntry,
    PluginConfig,
    Profile,
    seconds,
)
from extender.check.plugin_profile import (
    BINDER,
    NAME,
    POINTS,
    PREEMPTION,
    Args,
    called,
    given,
    mentions,
)
from extender.check.rule import Rule, broken, declare
from extender.model.errors import InvalidInput
from extender.server.access_rules import is_loopback
from extender.settings.grpc_address import Address, parse
from extender.settings.settings import Settings

PLUGIN_RULES = {
    "plugin-args": Rule(
        "error",
        "the plugin refuses its arguments, so kube-scheduler does not start",
        "write what docs/plugin.md lists under 'How to configure'",
    ),
    "plugin-points": Rule(
        "error",
        "seats are not guarded there; the plugin sees that it is missing and schedules nothing, or "
        "is not there at all",
        "enable PodGroupExtender at multiPoint, and disable it at no extension point",
    ),
    "plugin-preemption": Rule(
        "error",
        "it evicts pod by pod without asking, so the plugin schedules nothing beside it",
        "disable DefaultPreemption at multiPoint: the plugin takes its place",
    ),
    "plugin-binder": Rule(
        "error",
        "members are bound one by one, without the extender, so the plugin schedules nothing",
        "write plugins.bind.enabled: [{{name: PodGroupExtender}}] and enable it at multiPoint too",
    ),
    "plugin-profile": Rule(
        "error",
        "its pods take the room of promised seats, and it evicts pod by pod and breaks gangs",
        "enable the plugin in every profile",
    ),
    "plugin-profiles": Rule(
        "hint",
        "each has a mirror and a barrier of its own: a gang whose members name several of them "
        "waits for itself",
        "give all members of a gang one scheduler name",
    ),
    "plugin-twice": Rule(
        "error",
        "kube-scheduler asks about each pod over HTTP as well: pods of no gang pay for calls that "
        "the plugin spares them, and members are sent elsewhere when two answers differ",
        "remove the entry; the plugin has all its verbs",
    ),
    "plugin-filter": Rule(
        "hint",
        "it is asked after the plugin, which does not know the nodes that it removes: a seat there "
        "is refused first, then another plan is searched for",
        "nothing, if it removes few nodes",
    ),
    "plugin-other-binder": Rule(
        "error",
        "kube-scheduler has extenders bind before any plugin, so members do not wait for "
        "each other",
        "limit it by managedResources to pods of no gang, or use barrier: Permit",
    ),
    "plugin-unserved": Rule(
        "error",
        "no server listens there, so nothing is scheduled",
        "set grpc.listen in the extender's configuration",
    ),
    "plugin-address": Rule(
        "error",
        "no server listens there, so nothing is scheduled",
        "write address: {target}",
    ),
    "plugin-port": Rule(
        "hint",
        "unless a proxy translates it, no server listens there and nothing is scheduled",
        "write port {port}",
    ),
    "plugin-plain": Rule(
        "error",
        "an attacker on the network could hide reservations, so kube-scheduler does not start",
        "set caFile, certFile and keyFile, or use a Unix socket or loopback",
    ),
    "plugin-tls": Rule(
        "error",
        "no connection is made, so nothing is scheduled",
        "{advice}",
    ),
    "plugin-elsewhere": Rule(
        "warning",
        "while the extender is away, pods of no gang take nodes that were freed for a gang: more "
        "is evicted for it later, or it is given up",
        "write whenCut: Hold unless that is meant",
    ),
    "plugin-call-short": Rule(
        "error",
        "the plugin gives a call up while the search still runs, and the pod's attempt ends in an "
        "error although a plan was on its way",
        "raise callTimeout to {enough:.1f}s or more, or lower plan.seconds",
    ),
    "plugin-call-long": Rule(
        "warning",
        "calls run inside kube-scheduler's single scheduling loop: a hanging extender stops all "
        "scheduling for that long with every member of a gang",
        "lower it to a little above plan.seconds ({searching:g} s)",
    ),
    "plugin-barrier-long": Rule(
        "warning",
        "the reservations are returned while members still wait for the others",
        "lower barrierTimeout below seats.bindSeconds ({seconds:g} s)",
    ),
    "plugin-barrier-short": Rule(
        "error",
        "the plugin gives a held bind up before it is answered, so a gang whose last member is "
        "slow never starts",
        "raise barrierTimeout to {enough:g}s or more, or lower bind.holdSeconds",
    ),
    "plugin-bind": Rule(
        "error",
        "the extender serves no bindings, so no member of a gang ever starts",
        "set bind.enabled: true and apply manifests/barrier/rbac.yaml, or write barrier: Permit",
    ),
    "plugin-bind-unused": Rule(
        "warning",
        "the extender may bind and is never asked to",
        "write barrier: Bind, or set bind.enabled: false and take the right away",
    ),
}
"""On the plugin (docs/plugin.md)."""
declare(PLUGIN_RULES)


MARGIN = 0.8
LONG_CALL_SECONDS = 30.0
SHORTEST_HEARTBEAT_SECONDS = 0.1
SLACK_SECONDS = 2.0
"""As for an extender's entry: extender_entry_rules.py and bind_rules.py say why."""


def plugged(configuration: Configuration) -> bool:
    """Whether any profile names the plugin."""
    return any(map(mentions, configuration.profiles))


def plugin_findings(
    configuration: Configuration, settings: Settings, source: str
) -> Iterator[Finding]:
    """Findings on each profile, where one has the plugin."""
    having = [profile for profile in configuration.profiles if mentions(profile)]
    for index, profile in enumerate(configuration.profiles):
        place = f"{source}: profiles[{index}]"
        if profile not in having:
            problem = f"{profile.scheduler_name} does not have the plugin"
            yield broken("plugin-profile", place, problem)
            continue
        args = None
        for position, entry in _entries(profile):
            path = f"{place}.pluginConfig" + ("" if position is None else f"[{position}].args")
            args = yield from _arguments(entry, path, settings)
        yield from _points(profile, place, binds=args is not None and args.barrier == "Bind")
    if len(having) > 1:
        problem = f"{len(having)} of them have the plugin"
        yield broken("plugin-profiles", f"{source}: profiles", problem)


def neighbour_findings(
    configuration: Configuration, own: Mapping[str, ExtenderEntry], source: str
) -> Iterator[Finding]:
    """Findings on the extenders beside the plugin; ``own`` lead to this program."""
    binds = any(
        entry.args.get("barrier") == "Bind"
        for profile in configuration.profiles
        for _, entry in given(profile)
    )
    for index, other in enumerate(configuration.extenders):
        path = f"extenders[{index}]"
        place = f"{source}: {path}"
        if path in own:
            problem = f"{other.url_prefix} is this extender, and so is the plugin"
            yield broken("plugin-twice", place, problem)
            continue
        if other.filter_verb:
            problem = f"{other.url_prefix} is asked after the plugin"
            yield broken("plugin-filter", f"{place}.filterVerb", problem)
        if other.preempt_verb:
            problem = f"{other.url_prefix} takes part in preemption too"
            yield broken("preempt-other", f"{place}.preemptVerb", problem)
        if other.bind_verb and binds:
            problem = f"{other.url_prefix} binds"
            yield broken("plugin-other-binder", f"{place}.bindVerb", problem)


def _entries(profile: Profile) -> list[tuple[int | None, PluginConfig]]:
    """Those of the plugin; without one kube-scheduler gives it no arguments."""
    return [*given(profile)] or [(None, PluginConfig(NAME))]


def _arguments(
    entry: PluginConfig, place: str, settings: Settings
) -> Generator[Finding, None, Args | None]:
    """Findings on the arguments, which are returned if they have the right form."""
    try:
        args = typed(Document(place, entry.args), Args)
    except InvalidInput as problem:
        yield broken("plugin-args", place, str(problem).removeprefix(f"{place}: "))
        return None
    wrong = [*_refused(args)]
    for name, text in wrong:
        where = f"{place}.{name}" if entry.args else place
        yield broken("plugin-args", where, text)
    if not wrong:
        yield from link_findings(args, place, settings)
        yield from _times(args, place, settings)
        yield from _chosen(args, place, settings)
    return args


def _refused(args: Args) -> Iterator[tuple[str, str]]:
    """Argument and problem, for each that keeps kube-scheduler from starting."""
    if not args.address:
        yield "address", "is not given"
    elif problem := problem_of_address(args.address):
        yield "address", problem
    for name, text in (
        ("callTimeout", args.call_timeout),
        ("heartbeat", args.heartbeat),
        ("barrierTimeout", args.barrier_timeout),
    ):
        value = seconds(text)
        if value is None or value < 0:
            yield name, f"{text!r} is not a duration of zero or more"
        elif name == "heartbeat" and 0 < value < SHORTEST_HEARTBEAT_SECONDS:
            yield name, f"is {text}, below 100ms"
    if args.when_cut not in ("", "Hold", "Elsewhere"):
        yield "whenCut", f"is {args.when_cut!r}, neither Hold nor Elsewhere"
    if args.barrier not in ("", "Permit", "Bind"):
        yield "barrier", f"is {args.barrier!r}, neither Permit nor Bind"
    if bool(args.cert_file) != bool(args.key_file):
        yield "certFile", "and keyFile go together"
    elif args.cert_file and not args.ca_file:
        yield "caFile", "is missing beside certFile"
    if not 0 <= args.min_candidate_nodes_percentage <= 100:
        yield "minCandidateNodesPercentage", "is not 0 to 100"
    if args.min_candidate_nodes_absolute < 0:
        yield "minCandidateNodesAbsolute", "is negative"
    if args.min_candidate_nodes_percentage == args.min_candidate_nodes_absolute == 0:
        yield "minCandidateNodesAbsolute", "and minCandidateNodesPercentage are both 0"


def _times(args: Args, place: str, settings: Settings) -> Iterator[Finding]:
    call = seconds(args.call_timeout) or 5.0
    barrier = seconds(args.barrier_timeout) or 45.0
    searching = settings.plan.seconds
    where, enough = f"{place}.callTimeout", searching / MARGIN
    shown = f"is {call:g} s"
    if call <= searching:
        problem = f"{shown}, not above plan.seconds ({searching:g} s)"
        yield broken("plugin-call-short", where, problem, enough=enough)
    elif searching > MARGIN * call:
        problem = f"{shown}, close to plan.seconds ({searching:g} s)"
        yield broken("plugin-call-short", where, problem, "warning", enough=enough)
    if call > LONG_CALL_SECONDS:
        yield broken("plugin-call-long", where, shown, searching=searching)
    where, shown = f"{place}.barrierTimeout", f"is {barrier:g} s"
    if args.barrier != "Bind":
        limit = settings.seats.bind_seconds
        if barrier >= limit:
            problem = f"{shown}, not below seats.bindSeconds"
            yield broken("plugin-barrier-long", where, problem, seconds=limit)
        return
    enough = settings.bind.hold_seconds + settings.bind.post_seconds + SLACK_SECONDS
    if barrier < enough:
        problem = f"{shown}, below bind.holdSeconds, bind.postSeconds and {SLACK_SECONDS:g} s"
        yield broken("plugin-barrier-short", where, problem, enough=enough)


def _chosen(args: Args, place: str, settings: Settings) -> Iterator[Finding]:
    if args.when_cut == "Elsewhere":
        yield broken("plugin-elsewhere", f"{place}.whenCut", "is Elsewhere")
    if args.barrier == "Bind" and not settings.bind.enabled:
        problem = "is Bind, and bind.enabled is false"
        yield broken("plugin-bind", f"{place}.barrier", problem)
    if args.barrier != "Bind" and settings.bind.enabled:
        problem = "is Permit, while bind.enabled is true"
        yield broken("plugin-bind-unused", f"{place}.barrier", problem)
    share = args.min_candidate_nodes_percentage
    if share != 100:
        where = f"{place}.minCandidateNodesPercentage"
        yield broken("candidate-nodes", where, f"is {share}")


def _points(profile: Profile, place: str, *, binds: bool) -> Iterator[Finding]:
    """Where the plugin is called, and what would act without it."""
    missing = [point for point in POINTS if NAME not in called(profile, point)]
    if missing:
        problem = f"{NAME} is not enabled at {', '.join(missing)}"
        yield broken("plugin-points", f"{place}.plugins", problem)
        return
    if PREEMPTION in called(profile, "postFilter"):
        yield broken("plugin-preemption", f"{place}.plugins", f"{PREEMPTION} is enabled")
    binders = called(profile, "bind")
    if binds and (NAME not in binders or BINDER in binders[: binders.index(NAME)]):
        problem = f"{NAME} does not come before {BINDER}"
        yield broken("plugin-binder", f"{place}.plugins.bind", problem)


_UNIX = "unix:"


def problem_of_address(text: str) -> str:
    """What is wrong with HOST:PORT or unix:/path as gRPC's target; "" when nothing is."""
    if text.startswith(_UNIX):
        path = _path(text)
        return "" if path.startswith("/") else f"{text!r} is not unix:/absolute/path"
    host, port = _host_and_port(text)
    fine = (
        host and "/" not in host and port.isdecimal() and len(port) < 6 and 0 < int(port) <= 65535
    )
    return "" if fine else f"{text!r} is neither HOST:PORT nor unix:/absolute/path"


def link_findings(args: Args, place: str, settings: Settings) -> Iterator[Finding]:
    """Whether the address leads to grpc.listen, with the same idea of TLS."""
    where = f"{place}.address"
    unix = args.address.startswith(_UNIX)
    host, port = _host_and_port(args.address)
    if not unix and not is_loopback(host) and not args.ca_file:
        problem = f"{host} is reached over the network, without TLS"
        yield broken("plugin-plain", where, problem)
    if not settings.grpc.listen:
        yield broken("plugin-unserved", where, "grpc.listen is not set")
        return
    listens = parse(settings.grpc.listen)
    if unix or listens.path:
        if _path(args.address) != listens.path:
            yield _elsewhere(where, args, listens)
            return
    elif listens.local and not is_loopback(host):
        yield _elsewhere(where, args, listens)
    elif listens.port and int(port) != listens.port:
        problem = f"goes to port {port}, while grpc.listen has {listens.port}"
        yield broken("plugin-port", where, problem, port=listens.port)
    yield from _tls(args, place, listens, settings)


def _elsewhere(where: str, args: Args, listens: Address) -> Finding:
    problem = f"leads to {args.address}, while grpc.listen is {listens.target}"
    return broken("plugin-address", where, problem, target=listens.target)


def _tls(args: Args, place: str, listens: Address, settings: Settings) -> Iterator[Finding]:
    certificate, _, authority = settings.grpc_tls
    served = bool(certificate) and not listens.path
    where = f"{place}.caFile"
    if served and not args.ca_file:
        advice = "name the authority of the extender's certificate"
        problem = "is missing, while the extender speaks TLS"
        yield broken("plugin-tls", where, problem, advice=advice)
    elif args.ca_file and not served:
        advice = "leave caFile, certFile and keyFile out, or give the extender a certificate"
        problem = "is set, while the extender does not speak TLS there"
        yield broken("plugin-tls", where, problem, advice=advice)
    elif served and authority and not args.cert_file:
        advice = "name a certificate of that authority, whose name is in grpc.allowedNames"
        problem = "is missing, while the extender asks for a certificate"
        yield broken("plugin-tls", f"{place}.certFile", problem, advice=advice)


def _path(address: str) -> str:
    """Of a Unix socket; gRPC takes unix:/path and unix:///path."""
    if not address.startswith(_UNIX):
        return ""
    path = address.removeprefix(_UNIX)
    return path[2:] if path.startswith("//") else path


def _host_and_port(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return ("" if ":" in host else host), port
