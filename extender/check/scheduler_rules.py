"""Rules on kube-scheduler's configuration, feature gates and version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from extender.check.extender_entry_rules import entry_findings
from extender.check.findings import Finding, Severity
from extender.check.kubescheduler import CommandLine, Configuration, ExtenderEntry, Profile
from extender.check.plugin_profile import called, mentions
from extender.check.plugin_rules import neighbour_findings, plugged, plugin_findings
from extender.check.rule import Rule, broken, declare
from extender.model.texts import counted
from extender.settings.mode import OBSERVE
from extender.settings.settings import Settings

SCHEDULER_RULES = {
    "not-configured": Rule(
        "error",
        "kube-scheduler never calls preempt, so it evicts pod by pod as if nothing were installed",
        "add the entry of manifests/kube-scheduler-config.yaml, or name ours with --extender-url",
    ),
    "preempt-after": Rule(
        "error",
        "it gets our answer and may put victims back in: pods are evicted that no plan contains",
        "{move}",
    ),
    "preempt-other": Rule(
        "warning",
        "it may remove the nodes that a plan counts on; the plan is then made again",
        "remove its preemptVerb unless it must protect pods of its own",
    ),
    "filter-after": Rule(
        "warning",
        "a node it refuses looks free to us, so a plan may promise a seat there that cannot be "
        "taken",
        "{move}",
    ),
    "percentage-of-nodes": Rule(
        "hint",
        "every node is filtered for every pod, which this extender does not need: members reach "
        "their seats by nomination. At 3,000 nodes kube-scheduler then places a third as many pods",
        "leave percentageOfNodesToScore out, unless scores should compare all nodes",
    ),
    "filter-before": Rule(
        "hint",
        "above 100 nodes a list that it has shortened looks complete to us although kube-scheduler "
        "has sampled: a plan may then pass over free nodes and evict more than it has to",
        "nothing, if it removes few nodes; else percentageOfNodesToScore: 100",
    ),
    "default-preemption-off": Rule(
        "warning",
        "preempt is never called: gangs are still planned for from filter and from the controller "
        "loop, but no single pod can preempt any more",
        "leave DefaultPreemption enabled; it asks this extender before it evicts",
    ),
    "coscheduling": Rule(
        "warning",
        "members that wait at its Permit hold room that the API does not show, so a plan may count "
        "on that room; and it rejects gangs by its own rules",
        "take Coscheduling out of this profile, and keep its CRD: its PodGroups are read "
        "(docs/migrate.md)",
    ),
    "candidate-nodes": Rule(
        "hint",
        "above 100 nodes a preempting pod shows us a random part of the candidates; for a single "
        "pod the node that breaks no gang may not be among them",
        "set minCandidateNodesPercentage: 100 there, at the price of a dry run on every node for "
        "each preempting pod",
    ),
    "scheduler-name": Rule(
        "warning",
        "its gangs are never planned for, although it asks for every pod",
        "add {name} to schedulerNames, or leave schedulerNames out to serve all",
    ),
    "scheduler-unknown": Rule(
        "warning",
        "its gangs are planned for, but a scheduler without the extender places others on their "
        "nodes",
        "check that scheduler's configuration too, or take the name out",
    ),
    "feature-gate": Rule(
        "error",
        "kube-scheduler then preempts for pod groups by itself, never asks preempt for their "
        "members and calls filter inside simulations",
        "{advice}",
    ),
    "gate-unknown": Rule(
        "error",
        "kube-scheduler refuses to start with a feature gate that it does not know, also where it "
        "is to be off",
        "leave it out of --feature-gates: what this release does not have is off",
    ),
    "config-flag": Rule(
        "error",
        "kube-scheduler reads no KubeSchedulerConfiguration, hence knows no extender",
        "add --config=/path/to/kube-scheduler-config.yaml and mount the file",
    ),
}
"""On kube-scheduler as a whole."""
declare(SCHEDULER_RULES)


GANG_GATES = ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption")
"""Gates that make kube-scheduler schedule pod groups by itself."""

COSCHEDULING = "Coscheduling"
"""scheduler-plugins' gang plugin."""

UMBRELLA_GATES = ("AllAlpha", "AllBeta")
"""AllBeta turns GenericWorkload on from 1.37; AllAlpha turned all three on in 1.36."""


def configuration_findings(
    configuration: Configuration, settings: Settings, source: str, url: str | None
) -> Iterator[Finding]:
    """Everything the configuration file tells."""
    entries = {f"extenders[{i}]": entry for i, entry in enumerate(configuration.extenders)}
    plugin = plugged(configuration)
    own = own_entries(entries, settings, url, alone=not plugin)
    if plugin:
        yield from plugin_findings(configuration, settings, source)
        yield from neighbour_findings(configuration, own, source)
    elif own:
        yield from entry_findings(own, settings, source)
        full = configuration.percentage_of_nodes_to_score == 100
        yield from _neighbours(entries, own, source, full=full)
    elif settings.mode != OBSERVE:  # who only observes need not be asked
        seen = ", ".join(entry.url_prefix or "(no urlPrefix)" for entry in entries.values())
        problem = (
            f"none of {counted(len(entries), 'entry')} is this extender ({seen})"
            if entries
            else "is empty"
        )
        yield broken("not-configured", f"{source}: extenders", problem)
    yield from _profiles(configuration, settings, source)


def own_entries(
    entries: dict[str, ExtenderEntry], settings: Settings, url: str | None, *, alone: bool = True
) -> dict[str, ExtenderEntry]:
    """The entries that lead to us: by address when given, else by port, else the only one.

    ``alone``: the only entry is ours wherever it leads.
    """
    if url is not None:
        wanted = url.rstrip("/")
        return {p: e for p, e in entries.items() if e.url_prefix.rstrip("/") == wanted}
    if len(entries) == 1 and alone:
        return dict(entries)
    return {p: e for p, e in entries.items() if _port(e) == settings.server.port}


def _port(entry: ExtenderEntry) -> int:
    """The port an entry goes to; 0 when its address is malformed."""
    try:
        parts = urlsplit(entry.url_prefix)
        return parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return 0


def _neighbours(
    entries: dict[str, ExtenderEntry],
    own: dict[str, ExtenderEntry],
    source: str,
    *,
    full: bool,
) -> Iterator[Finding]:
    """Extenders are asked in file order, ignorable ones last; we want to be the last one.

    ``full``: all nodes are filtered for each pod.
    """
    asked = sorted(entries, key=lambda path: entries[path].ignorable)
    last_own = max(asked.index(path) for path in own)
    for path, other in entries.items():
        if path in own:
            continue
        after = asked.index(path) > last_own
        move = (
            "ignorable extenders are always asked last: make it ignorable: false and put it first"
            if other.ignorable
            else f"move {path} before this extender's entry"
        )
        asked_after = f"{other.url_prefix} is asked after this extender"
        if after and other.preempt_verb:
            yield broken("preempt-after", f"{source}: {path}.preemptVerb", asked_after, move=move)
        elif other.preempt_verb:
            problem = f"{other.url_prefix} takes part in preemption too"
            yield broken("preempt-other", f"{source}: {path}.preemptVerb", problem)
        if after and other.filter_verb:
            yield broken("filter-after", f"{source}: {path}.filterVerb", asked_after, move=move)
        elif other.filter_verb and not full:
            problem = f"{other.url_prefix} may remove nodes before this extender is asked"
            yield broken("filter-before", f"{source}: {path}.filterVerb", problem)


def _profiles(configuration: Configuration, settings: Settings, source: str) -> Iterator[Finding]:
    """Sampling, preemption plugin and names of every profile."""
    profiles = configuration.profiles or (Profile(),)
    general = configuration.percentage_of_nodes_to_score
    for index, profile in enumerate(profiles):
        path = f"{source}: profiles[{index}]"
        own = profile.percentage_of_nodes_to_score
        percentage = general if own is None else own
        if percentage == 100:
            problem = "is 100"
            if len(profiles) > 1:
                problem += f" (profile {profile.scheduler_name})"
            place = source + ": " if own is None else path + "."
            yield broken("percentage-of-nodes", f"{place}percentageOfNodesToScore", problem)
        if settings.mode != OBSERVE and COSCHEDULING in called(profile, "permit"):
            yield broken("coscheduling", f"{path}.plugins", f"{COSCHEDULING} is enabled")
        if not mentions(profile):
            yield from _preemption(profile, path)
    names = {profile.scheduler_name for profile in profiles}
    wanted = set(settings.scheduler_names)
    if wanted:
        yield from _names(names, wanted, source)


def _preemption(profile: Profile, path: str) -> Iterator[Finding]:
    """DefaultPreemption is what calls preempt; its sample limits what we see."""
    if _disabled(profile, "DefaultPreemption"):
        problem = "DefaultPreemption is disabled"
        yield broken("default-preemption-off", f"{path}.plugins", problem)
        return
    for position, plugin in enumerate(profile.plugin_config):
        if plugin.name == "DefaultPreemption":
            share = plugin.args.get("minCandidateNodesPercentage", 10)
            place = f"{path}.pluginConfig[{position}].args.minCandidateNodesPercentage"
            break
    else:
        share, place = 10, f"{path}.pluginConfig"
    if share != 100:
        yield broken("candidate-nodes", place, f"minCandidateNodesPercentage is {share}")


def _disabled(profile: Profile, plugin: str) -> bool:
    """Whether a profile turns a post-filter plugin off without turning it on again."""
    plugins = profile.plugins or {}
    on: set[str] = set()
    off: set[str] = set()
    for point in ("multiPoint", "postFilter"):
        listed = plugins.get(point)
        if listed is not None:
            on |= {each.name for each in listed.enabled or ()}
            off |= {each.name for each in listed.disabled or ()}
    return bool({plugin, "*"} & off) and plugin not in on


def _names(names: set[str], wanted: set[str], source: str) -> Iterator[Finding]:
    """Profiles and settings.schedulerNames speak of the same schedulers."""
    place = f"{source}: profiles"
    for name in sorted(names - wanted):
        problem = f"{name} is not in this extender's schedulerNames"
        severity: Severity = "warning" if names & wanted else "error"
        yield broken("scheduler-name", place, problem, severity, name=name)
    for name in sorted(wanted - names):
        problem = f"no profile is named {name}, which is in this extender's schedulerNames"
        yield broken("scheduler-unknown", place, problem)


def gate_findings(gates: dict[str, bool], source: str) -> Iterator[Finding]:
    """kube-scheduler's own gang scheduling must be off."""
    on = [gate for gate in GANG_GATES if gates.get(gate)]
    if not on and "GenericWorkload" not in gates:
        on = [gate for gate in UMBRELLA_GATES if gates.get(gate)]
    for gate in on:
        problem = "is on in kube-scheduler"
        advice = f"turn {gate} off in kube-scheduler; it stays on in kube-apiserver"
        if gate in UMBRELLA_GATES:
            problem += " (it turns pod group scheduling on)"
            advice = (
                "GenericWorkload=false in kube-scheduler and true in kube-apiserver keeps the "
                "PodGroup API"
            )
        yield broken("feature-gate", f"{source}: {gate}", problem, advice=advice)


def command_line_findings(flags: CommandLine) -> Iterator[Finding]:
    """The flags of a kube-scheduler manifest."""
    if not flags.config:
        yield broken("config-flag", f"{flags.source}: --config", "is missing")
    yield from gate_findings(flags.gates, f"{flags.source}: --feature-gates")
    yield from unknown_gate_findings(flags)


Minor = tuple[int, int]

KNOWN_GATES: dict[str, tuple[Minor, Minor | None]] = {
    "GenericWorkload": ((1, 35), None),
    "GangScheduling": ((1, 35), (1, 36)),
    "WorkloadAwarePreemption": ((1, 36), (1, 36)),
}
"""Gate -> the first and the last minor that know it (None: still there in 1.37).

Source: pkg/features/kube_features.go of v1.34.4, v1.35.4, v1.36.3 and v1.37.0.
"""

_TAG = re.compile(r":v?(\d+)\.(\d+)\.[^:/@]*(?:@[^/]*)?$")


def unknown_gate_findings(line: CommandLine) -> Iterator[Finding]:
    """Gates, on or off, that this kube-scheduler refuses to start with."""
    image = line.container.get("image")
    release = minor_of(image) if isinstance(image, str) else None
    if release is None:
        return
    for gate in line.gates:
        if gate not in KNOWN_GATES:
            continue
        first, last = KNOWN_GATES[gate]
        if release < first or (last is not None and release > last):
            problem = f"is unknown to kube-scheduler {release[0]}.{release[1]}"
            yield broken("gate-unknown", f"{line.source}: --feature-gates: {gate}", problem)


def minor_of(image: str) -> Minor | None:
    """The minor that an image's tag names; None where it names none."""
    found = _TAG.search(image)
    return (int(found[1]), int(found[2])) if found else None
