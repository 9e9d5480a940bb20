"""``check``: is this configuration, together with kube-scheduler's, safe to run?

Exit status 0: nothing that breaks a promise; 1: at least one error; 2: a file cannot be read
or is malformed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from extender.check import config, documents
from extender.check.bind_rules import hold_findings
from extender.check.documents import Document
from extender.check.findings import Finding, by_severity, render
from extender.check.flag_rules import as_served, flag_findings, serve_findings
from extender.check.kubescheduler import (
    command_line,
    command_lines,
    configuration,
    parse_gates,
)
from extender.check.listener_rules import grpc_findings, listener_findings
from extender.check.mode_rules import mode_findings
from extender.check.network_rules import budget_findings, network_findings
from extender.check.object_shapes import well_formed
from extender.check.pod_rules import pod_findings, probe_findings, socket_findings
from extender.check.replica_rules import replica_findings
from extender.check.rights_rules import rights_findings, unbound, written_findings
from extender.check.rule import broken
from extender.check.scheduler_rules import (
    command_line_findings,
    configuration_findings,
    gate_findings,
)
from extender.check.tenant_rules import (
    limit_findings,
    policy_findings,
    record_findings,
    shield_findings,
)
from extender.cli.exit_statuses import BAD_INPUT, NO, OK, statuses
from extender.cli.output import as_json, error
from extender.model.errors import InvalidInput
from extender.model.texts import counted
from extender.settings.mode import OBSERVE
from extender.settings.settings import Settings


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "check",
        help="say what is unsafe in a configuration",
        description="Validate this program's configuration and a KubeSchedulerConfiguration, and "
        "say what is unsafe, why, and how to repair it. A file may be a manifest with a ConfigMap "
        "that carries the configuration.",
        epilog=statuses("at least one error was found", ok="no errors"),
    )
    parser.add_argument("--config", type=Path, help="this program's configuration (YAML)")
    parser.add_argument(
        "--scheduler-config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration"
    )
    parser.add_argument(
        "--scheduler-manifest",
        type=Path,
        metavar="FILE",
        help="kube-scheduler's Pod or Deployment; its command line is checked",
    )
    parser.add_argument(
        "--scheduler-feature-gates",
        metavar="A=true,B=false",
        help="kube-scheduler's feature gates, where there is no manifest",
    )
    parser.add_argument(
        "--extender-url",
        metavar="URL",
        help="urlPrefix of this extender's entry, where several extenders share its port or ours "
        "is behind a Service",
    )
    parser.add_argument(
        "--manifest",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="any other manifest of the installation: rights, network policies (repeatable)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Print the findings and return the exit status."""
    try:
        findings, unchecked = examine(args)
    except InvalidInput as problem:
        error(problem)
        return BAD_INPUT
    findings = by_severity(findings)
    counts = {
        severity: sum(finding.severity == severity for finding in findings)
        for severity in ("error", "warning", "hint")
    }
    if args.json:
        report = {"findings": findings, "counts": counts, "unchecked": unchecked}
        print(as_json(report))
    else:
        for finding in findings:
            print(render(finding))
        for missing in unchecked:
            print(f"not checked: {missing}")
        print(", ".join(counted(count, severity) for severity, count in counts.items()))
    return NO if counts["error"] else OK


def examine(args: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """All findings, and what could not be looked at for want of a file."""
    if not any((args.config, args.scheduler_config, args.scheduler_manifest, args.manifest)):
        raise InvalidInput(
            "nothing to check: give --config, --scheduler-config, --scheduler-manifest or "
            "--manifest"
        )
    settings = config.load(args.config)
    files = dict.fromkeys(filter(None, (args.config, args.scheduler_manifest, *args.manifest)))
    objects = well_formed(document for path in files for document in documents.read(path))
    settings = as_served(settings, objects)
    findings = list(settings_findings(settings, str(args.config))) if args.config else []
    findings += manifest_findings(objects, settings)
    findings += serve_findings(objects, names_of(args.config))
    unchecked: list[str] = []
    if unbound(objects):
        unchecked.append("the rights of the extender's account (give rbac.yaml with --manifest)")
    scheduler = None
    if path := args.scheduler_config:
        scheduler = configuration(documents.read(path), str(path))
        findings += configuration_findings(scheduler, settings, str(path), args.extender_url)
    elif settings.mode != OBSERVE:
        unchecked.append("kube-scheduler's configuration (give --scheduler-config)")
    lines = command_lines(objects)
    if path := args.scheduler_manifest:
        lines = [command_line(documents.read(path), str(path))]
    for line in lines:
        findings += command_line_findings(line)
        findings += flag_findings(line, scheduler, names_of(args.scheduler_config))
    if args.scheduler_feature_gates is not None:
        option = "--scheduler-feature-gates"
        findings += gate_findings(parse_gates(args.scheduler_feature_gates, option), option)
    elif not args.scheduler_manifest and settings.mode != OBSERVE:
        unchecked.append(
            "kube-scheduler's feature gates (give --scheduler-manifest or "
            "--scheduler-feature-gates)"
        )
    return findings, unchecked


def names_of(path: Path | None) -> set[str]:
    """The names under which a file may be mounted; none without a file."""
    return documents.file_names(documents.read(path)) if path else set()


def manifest_findings(objects: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """What the installation's objects say, all files taken together."""
    yield from replica_findings(objects, settings)
    yield from pod_findings(objects, settings)
    yield from probe_findings(objects, settings)
    yield from socket_findings(objects, settings)
    yield from network_findings(objects)
    observes = settings.mode == OBSERVE
    yield from rights_findings(objects, binds=settings.bind.enabled, observes=observes)
    if not observes:  # it keeps no record, and nothing waits for it when its node is drained
        yield from budget_findings(objects)
        yield from record_findings(objects, settings)
        yield from written_findings(objects, settings)
    yield from shield_findings(objects, settings)


def settings_findings(settings: Settings, source: str) -> Iterator[Finding]:
    """What is allowed in our own configuration, but deserves a second look."""
    if settings.plan.pdb_policy == "prefer":
        yield broken("pdb-policy", f"{source}: plan.pdbPolicy", "is prefer")
    yield from mode_findings(settings, source)
    yield from limit_findings(settings, source)
    yield from hold_findings(settings, source)
    yield from listener_findings(settings.server, source)
    yield from grpc_findings(settings, source)
    yield from policy_findings(settings, source)
