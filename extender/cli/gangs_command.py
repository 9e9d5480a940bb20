"""``gangs``: every gang that a running server sees, and where it stands."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from extender.cli.api_client import ServerClient
from extender.cli.live_command import (
    NOBODY,
    add_live,
    add_scope,
    age,
    answered,
    listed,
    one_name,
    wanted,
)
from extender.cli.output import OutputPart, Table
from extender.gang.tell.gang_status import Facts, GangState, GangStatuses

MORE = ("MEMBERS", "SEATS", "VICTIMS")
"""Columns of -o wide."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "gangs",
        help="list the gangs that a running server sees, and the state of each",
        description="List gangs with state, priority, members and the reason.",
    )
    parser.add_argument(
        "gang",
        type=one_name,
        nargs="?",
        metavar="GANG",
        help="only this one: NAME, NAMESPACE/NAME or the key",
    )
    add_scope(parser)
    parser.add_argument("--waiting", action="store_true", help="leave out gangs that run")
    add_live(parser, one=NOBODY)


def run(args: argparse.Namespace) -> int:
    """Print the gangs and return the exit status."""

    async def work(server: ServerClient) -> int:
        pages = ("gangs", "reservations", "evictions", "decisions")
        gangs, held, units, decisions = await asyncio.gather(*(server.rows(p) for p in pages))
        now, wide = time.time(), args.output == "wide"
        statuses = GangStatuses(Facts(gangs, held, units, decisions, now=now))
        found = [
            status
            for status in map(statuses.of, gangs)
            if wanted(status.gang, args)
            and not (args.waiting and status.state == GangState.RUNNING)
        ]
        table = Table(
            prose=True,
            columns=("GANG", "STATE", "PRIORITY", "BOUND", *(MORE if wide else ()), "AGE", "WHY"),
            rows=tuple(
                (
                    one.gang,
                    one.state,
                    str(one.priority),
                    f"{one.bound}/{one.min_count}",
                    *(map(str, (one.members, one.seats, one.victims_left)) if wide else ()),
                    age(now - one.created) if one.created else "",
                    one.what,
                )
                for one in found
            ),
        )
        parts: list[OutputPart] = [table] if found else ["no gangs"]
        return await listed(server, args, "gangs", found, parts)

    return answered(args, work)
