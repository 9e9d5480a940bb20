"""Rules on a kube-scheduler that is built with the plugin (docs/plugin.md).

What the plugin refuses, and what it makes of a profile, is in plugin/core/args.go and profile.go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from extender.cli.catalogue import broken
from extender.cli.config import typed
from extender.cli.documents import Document
from extender.cli.findings import Finding
from extender.cli.kubescheduler import Configuration, ExtenderEntry, PluginConfig, Profile, seconds
from extender.cli.plugin_link import link_findings, problem_of_address
from extender.cli.plugin_profile import (
    BINDER,
    NAME,
    POINTS,
    PREEMPTION,
    Args,
    called,
    given,
    mentions,
)
from extender.model.errors import InvalidInput
from extender.model.settings import Settings

MARGIN = 0.8
LONG_CALL_SECONDS = 30.0
SHORTEST_HEARTBEAT_SECONDS = 0.1
SLACK_SECONDS = 2.0
"""As for an extender's entry: entry_rules.py and bind_rules.py say why."""


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
