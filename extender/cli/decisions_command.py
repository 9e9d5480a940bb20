"""``decisions``: what a running server decided lately, newest first."""

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
    moment,
    one_name,
    wanted,
)
from extender.cli.number_flags import at_least_one
from extender.cli.output import OutputPart, Table
from extender.settings.cost_order import cost_words

OUTCOMES = ("plan", "refusal", "done", "gave-up", "broken", "in-part", "observed")


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "decisions",
        help="list what a running server decided lately, and why",
        description="List decisions, newest first. The last 512 are kept, for as long as the "
        "process leads.",
    )
    parser.add_argument(
        "gang", type=one_name, nargs="?", metavar="GANG", help="only about this gang"
    )
    add_scope(parser)
    parser.add_argument(
        "--limit", type=at_least_one, default=20, help="at most so many (default: 20)"
    )
    parser.add_argument("--outcome", choices=OUTCOMES, help="only of this kind")
    parser.add_argument(
        "--long", action="store_true", help="with the explanation, the victims and the cost"
    )
    add_live(parser, one=NOBODY)


def run(args: argparse.Namespace) -> int:
    """Print the decisions and return the exit status."""

    async def work(server: ServerClient) -> int:
        found = [
            decision
            for decision in await server.rows("decisions")
            if wanted(decision["gang"], args)
            and (args.outcome is None or decision["outcome"] == args.outcome)
        ][: args.limit]
        return await listed(server, args, "decisions", found, _parts(found, long=args.long))

    return answered(args, work)


def _parts(found: list[dict[str, Any]], *, long: bool) -> list[OutputPart]:
    if not found:
        return ["no decisions"]
    if long:
        return [line for decision in found for line in told(decision)]
    return [
        Table(
            prose=True,
            columns=("TIME", "GANG", "ASKED BY", "OUTCOME", "VICTIMS", "MESSAGE"),
            rows=tuple(
                (
                    moment(decision["time"]),
                    decision["gang"],
                    decision["verb"],
                    decision["outcome"] + (f" ({decision['code']})" if decision["code"] else ""),
                    str(len(decision["victims"])),
                    decision["message"],
                )
                for decision in found
            ),
        )
    ]


def told(decision: dict[str, Any]) -> list[str]:
    """Return one decision as lines of text."""
    code = f" ({decision['code']})" if decision["code"] else ""
    lines = [
        f"{moment(decision['time'])} {decision['outcome']}{code} for {decision['gang']}, asked by "
        f"{decision['verb']}: {decision['message']}"
    ]
    lines += [f"  {line}" for line in decision["explanation"]]
    lines += [
        f"  victim {victim['namespace']}/{victim['name']} on {victim['node']}: {victim['reason']}"
        for victim in decision["victims"]
    ]
    costs = [cost for cost in decision["costs"] if cost["value"] or cost["bound"]]
    lines += [
        f"  cost {cost['level']}: {cost_words(cost['level'], cost['value'], cost['bound'])} "
        f"(at least {cost_words(cost['level'], cost['bound'], cost['value'])})"
        for cost in costs
    ]
    return lines
