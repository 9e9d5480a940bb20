"""``plan``: what would be evicted for a gang, offline and without touching anything.

Input is what kubectl prints (files, directories or standard input, JSON or YAML), or a snapshot
downloaded from the debug API, which replays a decision to the same answer. A manifest may add a
gang that is not there yet.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from extender.check import config
from extender.cli import dump_files, manifest_input
from extender.cli.cluster_question import (
    ClusterQuestion,
    answer,
    find_gang,
    of_dump,
    of_records,
    strangers,
    with_manifest,
)
from extender.cli.dump_gaps import ASK, gaps, required
from extender.cli.exit_statuses import BAD_INPUT, NO, OK, statuses
from extender.cli.number_flags import seconds
from extender.cli.output import add_output, error, note, progress, show
from extender.cli.plan_text import document, told
from extender.decode.metadata import keep_annotations
from extender.model.errors import InvalidInput
from extender.model.names import quoted
from extender.model.plan import Plan, Refusal
from extender.model.texts import some
from extender.settings.custom_groups import custom_annotations
from extender.settings.settings import Settings


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "plan",
        help="say offline what would be evicted for a gang, and why",
        description="Plan for one gang on a dump of a cluster. Nothing is contacted or changed. "
        f"The whole dump: {ASK}",
        epilog=statuses("there is no plan (the reason is printed)"),
    )
    parser.add_argument(
        "dump",
        nargs="+",
        type=dump_files.dump_path,
        metavar="DUMP",
        help="what kubectl printed, JSON or YAML (nodes, pods, podgroups, priorityclasses, "
        "poddisruptionbudgets, namespaces); a directory of such files; - for standard input; "
        "or a snapshot from /debug/snapshot",
    )
    parser.add_argument(
        "--gang",
        help="NAME, NAMESPACE/NAME or DIALECT:NAMESPACE/NAME; may be left out when the manifest "
        "adds one gang",
    )
    parser.add_argument(
        "-f",
        "--manifest",
        type=Path,
        help="YAML with a PodGroup, Pods, Jobs or JobSets to add first",
    )
    parser.add_argument("--config", type=Path, help="this program's configuration (YAML)")
    parser.add_argument(
        "--seconds",
        type=seconds,
        help="time for the search; 0 = until its work is done (default: plan.seconds). SIGTERM "
        "or SIGINT ends it as well: then the best plan so far is printed, with its bound",
    )
    add_output(parser)
    parser.add_argument(
        "--json", action="store_const", const="json", dest="output", help="the same as -o json"
    )


def run(args: argparse.Namespace) -> int:
    """Print the plan or the refusal and return the exit status."""
    try:
        found = answer_for(args)
    except InvalidInput as problem:
        error(problem)
        return BAD_INPUT
    show(told(found), document(found), args.output)
    return OK if isinstance(found, Plan) else NO


def answer_for(args: argparse.Namespace) -> Plan | Refusal:
    """Return the answer for the command line's gang. Raises InvalidInput."""
    if args.gang is None and args.manifest is None:
        raise InvalidInput("name a gang with --gang, or give one with --manifest")
    settings = config.load(args.config) if args.config else None
    keep_annotations(custom_annotations(settings.groups.custom if settings else ()))
    with progress("reading") as update:
        question = load(args.dump, args.manifest, settings, update)
        key = find_gang(args.gang, question)
        if named := strangers(question, key):
            note(
                f"members of {key} name {some([quoted(name) for name in named])} as "
                "their scheduler: planned as if it calls this extender (schedulerNames in --config "
                "names those that do)"
            )
        update(f"planning for {key}")
        return answer(question, key, args.seconds)


def load(
    paths: list[Path],
    added: Path | None,
    settings: Settings | None,
    update: Any = lambda _: None,
) -> ClusterQuestion:
    """Read all input files into one question. Raises InvalidInput that names the file."""
    contents = dump_files.read(paths, lambda name: update(f"reading {name}"))
    if contents.snapshot is not None:
        try:
            question = of_dump(contents.snapshot, settings)
        except InvalidInput as problem:
            raise InvalidInput(f"{paths[0]}: {problem}") from problem
    else:
        required(contents.records)
        for gap in gaps(contents.records):
            note(f"the dump has {gap}")
        question = of_records(contents.records, settings or Settings())
    if added is not None:
        extra = manifest_input.read(added, question.snapshot.priority_classes)
        for what in extra.unread:
            note(f"{added}: {what} is not read, it decides nothing here")
        question = with_manifest(question, extra)
    return question
