"""``seats``: what a running server holds, for whom, and what it waits for."""

from __future__ import annotations

import argparse
from typing import Any

from extender.cli.api_client import ServerClient
from extender.cli.live_command import (
    NOBODY,
    add_live,
    add_scope,
    answered,
    listed,
    one_name,
    wanted,
)
from extender.cli.output import OutputPart, Table
from extender.gang.tell.gang_status import PREEMPTION_STATES


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "seats",
        help="list the seats that a running server holds, and what their plans wait for",
        description="List open plans with the seats that are not taken yet and the victims "
        "that are not gone yet.",
    )
    parser.add_argument("gang", type=one_name, nargs="?", metavar="GANG", help="only of this gang")
    add_scope(parser)
    add_live(parser, one=NOBODY)


def run(args: argparse.Namespace) -> int:
    """Print the seats and return the exit status."""

    async def work(server: ServerClient) -> int:
        found = [plan for plan in await server.rows("reservations") if wanted(plan["gang"], args)]
        parts = [part for plan in found for part in _parts(plan)] or ["no seats are held"]
        return await listed(server, args, "reservations", found, parts)

    return answered(args, work)


def _parts(plan: dict[str, Any]) -> list[OutputPart]:
    left = plan["secondsLeft"]
    until = f", given back in {left:.0f} s" if left is not None else ""
    parts: list[OutputPart] = [
        f"{plan['gang']} (priority {plan['priority']}, plan {plan['plan']}): {plan['state']} for "
        f"{plan['stateSeconds']:.0f} s, {PREEMPTION_STATES.get(plan['state'], '')}{until}",
        Table(
            columns=("POD", "NODE"),
            rows=tuple(
                (f"{seat['namespace']}/{seat['name']}", seat["node"]) for seat in plan["seats"]
            ),
            indent="  ",
        ),
    ]
    leaving = [*plan["victimsLeft"], *plan["waitsFor"]]
    if leaving:
        parts.append(
            Table(
                prose=True,
                columns=("WAITS FOR", "NODE", "PRIORITY", "WHY"),
                rows=tuple(
                    (
                        f"{pod['namespace']}/{pod['name']}",
                        pod["node"],
                        str(pod["priority"]),
                        pod["reason"],
                    )
                    for pod in leaving
                ),
                indent="  ",
            )
        )
    return parts
