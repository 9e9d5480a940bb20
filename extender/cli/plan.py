"""``plan``: what would be evicted for a gang, offline and without touching anything.

Input is what ``kubectl get nodes,pods,podgroups,priorityclasses,pdb,namespaces -A
-o json`` prints, or a snapshot downloaded from the debug API, which replays a
decision to the same answer. A manifest may add a gang that is not there yet.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from extender.cli import config, documents
from extender.cli.interruptible import interruptible
from extender.gang.plan.assemble import KIND, Dump, assemble, restore
from extender.gang.plan.planner import Planner
from extender.gang.plan.what_if import find_gang, manifest_records, with_added
from extender.groups.resolver import Resolver
from extender.model.decode import decode_documents
from extender.model.errors import InvalidInput
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    Namespace,
    Node,
    Pod,
    PriorityClass,
)
from extender.model.plan import Hold, Plan, Refusal
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot

PLANNED, REFUSED, BAD_INPUT = 0, 1, 2


class Loaded(Struct, frozen=True):
    """What the input files say."""

    snapshot: Snapshot
    holds: tuple[Hold, ...]
    settings: Settings
    masks: dict[str, frozenset[str]]
    offered: dict[str, frozenset[str]]


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "plan",
        help="say offline what would be evicted for a gang, and why",
        description="Plan for one gang on a dump of a cluster. Nothing is contacted or changed.",
        epilog="Exit status: 0 a plan exists, 1 it does not (the reason is printed), 2 bad input.",
    )
    parser.add_argument(
        "dump",
        nargs="+",
        type=Path,
        help="JSON from kubectl (nodes, pods, podgroups, priorityclasses, "
        "poddisruptionbudgets, namespaces), or a snapshot from /debug/snapshot",
    )
    parser.add_argument(
        "--gang", required=True, help="NAME, NAMESPACE/NAME or DIALECT:NAMESPACE/NAME"
    )
    parser.add_argument(
        "--manifest", type=Path, help="YAML with a PodGroup, Pods or Jobs to add first"
    )
    parser.add_argument("--config", type=Path, help="this program's configuration (YAML)")
    parser.add_argument(
        "--seconds",
        type=float,
        help="time for the search; 0 = until its work is done (default: plan.seconds). SIGTERM "
        "or SIGINT ends it as well: then the best plan so far is printed, with its bound",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Print the plan or the refusal and return the exit status."""
    try:
        answer = answer_for(args)
    except InvalidInput as problem:
        print(f"error: {problem}", file=sys.stderr)
        return BAD_INPUT
    if args.json:
        kind = "plan" if isinstance(answer, Plan) else "refusal"
        print(msgspec.json.format(msgspec.json.encode({kind: answer}), indent=2).decode())
    else:
        print("\n".join(told(answer)))
    return PLANNED if isinstance(answer, Plan) else REFUSED


def answer_for(args: argparse.Namespace) -> Plan | Refusal:
    """Return the answer for the command line's gang. Raises InvalidInput."""
    settings = config.load(args.config) if args.config else None
    loaded = load(args.dump, args.manifest, settings)
    resolver = Resolver(loaded.settings.groups)
    key = find_gang(args.gang, loaded.snapshot)
    gang = resolver.resolve(key, loaded.snapshot)
    planner = Planner(loaded.settings, resolver)
    seconds = loaded.settings.plan.seconds if args.seconds is None else args.seconds
    return interruptible(
        lambda flag: planner.plan(
            gang,
            loaded.snapshot,
            loaded.holds,
            loaded.masks,
            deadline=time.monotonic() + seconds if seconds > 0 else None,
            cancel=flag,
            offered=loaded.offered,
        )
    )


def load(paths: Iterable[Path], manifest: Path | None, settings: Settings | None) -> Loaded:
    """Read all input files into one snapshot. Raises InvalidInput that names the file."""
    holds: tuple[Hold, ...] = ()
    masks: dict[str, frozenset[str]] = {}
    offered: dict[str, frozenset[str]] = {}
    snapshot: Snapshot | None = None
    records: list[object] = []
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise InvalidInput(f"{path}: cannot be read: {problem.strerror}") from problem
        try:
            dumped = _dump(data)
            if dumped is None:
                records += decode_documents(data)
                continue
            settings = settings or dumped.settings
            holds, masks, offered = dumped.holds, dumped.masks, dumped.offered
            snapshot = restore(dumped, Resolver(settings.groups).member_key)
        except InvalidInput as problem:
            raise InvalidInput(f"{path}: {problem}") from problem
    if snapshot is not None and records:
        raise InvalidInput("give either a downloaded snapshot or dumps from kubectl, not both")
    settings = settings or Settings()
    member_key = Resolver(settings.groups).member_key
    if snapshot is None:
        snapshot = _snapshot(records, member_key)
    if manifest is not None:
        values = [document.value for document in documents.read(manifest)]
        added = manifest_records(values, snapshot.priority_classes, str(manifest))
        snapshot = with_added(snapshot, added, member_key)
    return Loaded(snapshot=snapshot, holds=holds, settings=settings, masks=masks, offered=offered)


class _Kind(Struct):
    kind: str = ""


def _dump(data: bytes) -> Dump | None:
    try:
        if msgspec.json.decode(data, type=_Kind).kind != KIND:
            return None
        return msgspec.json.decode(data, type=Dump)
    except msgspec.DecodeError as problem:
        raise InvalidInput(f"not readable: {problem}") from problem


def _snapshot(records: Iterable[object], member_key: Any) -> Snapshot:
    by_type: dict[type, list[Any]] = {}
    for record in records:
        by_type.setdefault(type(record), []).append(record)
    pods: list[Pod] = by_type.get(Pod, [])
    # The newest moment the dump speaks of: the same file gives the same plan tomorrow.
    now = max((max(pod.created, pod.started) for pod in pods), default=0.0) or time.time()
    return assemble(
        member_key,
        nodes=by_type.get(Node, []),
        pods=pods,
        groups=by_type.get(GroupObject, []),
        priority_classes=by_type.get(PriorityClass, []),
        budgets=by_type.get(DisruptionBudget, []),
        namespaces={found.name: found.labels for found in by_type.get(Namespace, [])},
        now=float(int(now)),
    )


def told(answer: Plan | Refusal) -> list[str]:
    """Return the answer as lines of text."""
    if isinstance(answer, Refusal):
        return [
            f"no plan for {answer.gang} ({answer.code}): {answer.message}",
            *(f"  {line}" for line in answer.details),
        ]
    lines = [f"plan for {answer.gang}, priority {answer.priority}: {answer.proof}"]
    lines += [f"  {line}" for line in answer.explanation]
    lines.append("seats:")
    lines += [f"  {seat.namespace}/{seat.name} -> {seat.node}" for seat in answer.seats]
    lines.append("victims:" if answer.victims else "victims: none")
    lines += [
        f"  {victim.namespace}/{victim.name} on {victim.node} (priority {victim.priority}"
        + (f", {victim.gang}" if victim.gang else "")
        + f"): {victim.reason}"
        for victim in answer.victims
    ]
    costs = [cost for cost in answer.costs if cost.value or cost.bound]
    lines.append("cost (level: value, proved lower bound):" if costs else "cost: nothing")
    lines += [f"  {cost.level}: {cost.value}, {cost.bound}" for cost in costs]
    return lines
