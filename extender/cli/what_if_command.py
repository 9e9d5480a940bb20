"""``what-if``: the plan that a running server would make, without making it.

The server's snapshot, with the seats it holds and its own settings, is downloaded and asked here:
the server's planner is not kept from its work, and nothing can be evicted.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from extender.cli import manifest_input
from extender.cli.api_client import NoAnswer, ServerClient
from extender.cli.cluster_question import (
    ClusterQuestion,
    answer,
    find_gang,
    of_dump,
    ordered,
    with_manifest,
)
from extender.cli.exit_statuses import BAD_INPUT, NO, OK
from extender.cli.live_command import add_live, answered, one_name
from extender.cli.number_flags import priority, seconds
from extender.cli.output import error, note, progress, show
from extender.cli.plan_text import compared, document, told
from extender.decode.json_text import decoded
from extender.gang.plan.assemble import Dump
from extender.model.errors import InvalidInput
from extender.model.plan import Plan


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "what-if",
        help="say what a running server would evict for a gang that does not exist yet",
        description="Plan for a manifest on the cluster as a running server sees it. Nothing is "
        "created, held or evicted.",
    )
    parser.add_argument(
        "-f",
        "--manifest",
        type=Path,
        help="YAML with a PodGroup, Pods, Jobs or JobSets (- for standard input)",
    )
    parser.add_argument("name", type=one_name, nargs="?", metavar="GANG", help="the same as --gang")
    parser.add_argument(
        "--gang", help="of several, or one that exists already: NAME, NAMESPACE/NAME or its key"
    )
    parser.add_argument(
        "--cost-order",
        metavar="NAME",
        help="plan by this cost order too, and show the difference",
    )
    parser.add_argument(
        "--priority",
        type=priority,
        metavar="N",
        help="plan as if the gang had this priority",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        help="time for the search; 0 = until its work is done (default: the server's "
        "plan.seconds). SIGTERM or SIGINT ends it with the best plan so far",
    )
    add_live(parser, one="there is no plan (the reason is printed)")


def run(args: argparse.Namespace) -> int:
    """Print the plan or the refusal and return the exit status."""
    asked: list[ClusterQuestion] = []

    async def work(server: ServerClient) -> int:
        asked.append(await _question(server))
        return OK

    try:  # What is wrong here is told before a server is asked.
        if args.name is not None and args.gang not in (None, args.name):
            raise InvalidInput(f"two gangs are named: {args.name!r}, and {args.gang!r} by --gang")
        wanted = args.gang if args.name is None else args.name
        if wanted is None and args.manifest is None:
            raise InvalidInput("give a manifest with -f, or the name of a gang")
        written = [] if args.manifest is None else manifest_input.written(args.manifest)
    except InvalidInput as problem:
        error(problem)
        return BAD_INPUT
    status = answered(args, work)
    if not asked:
        return status
    try:
        question = asked[0]
        if args.manifest is not None:
            added = manifest_input.added_by(
                args.manifest, written, question.snapshot.priority_classes
            )
            for what in added.unread:
                note(f"{args.manifest}: {what} is not read, it decides nothing here")
            question = with_manifest(question, added)
        key = find_gang(wanted, question)
        other = None if args.cost_order is None else ordered(question, args.cost_order)
        with progress(f"planning for {key}"):
            found = answer(question, key, args.seconds, args.priority)
            changed = None if other is None else answer(other, key, args.seconds, args.priority)
    except InvalidInput as problem:
        error(problem)
        return BAD_INPUT
    if other is not None and changed is not None:
        lines, values = compared(question, found, other, changed)
        show(lines, values, args.output)
        return OK if isinstance(changed, Plan) else NO
    show(told(found), document(found), args.output)
    return OK if isinstance(found, Plan) else NO


async def _question(server: ServerClient) -> ClusterQuestion:
    with progress("downloading the snapshot") as update:
        data = await server.ask(
            "/debug/snapshot",
            lambda size: update(f"downloading the snapshot, {size / 1e6:.1f} MB"),
        )
        update("reading the snapshot")
        try:
            dump = await asyncio.to_thread(decoded, data, Dump)
        except InvalidInput as problem:
            raise NoAnswer(f"the server's snapshot cannot be read here: {problem}") from problem
    return of_dump(dump, None)
