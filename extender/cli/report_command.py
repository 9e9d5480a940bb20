"""``report``: a week of observe mode, as Markdown, HTML or JSON."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from extender.cli.api_client import Declined, NoAnswer, ServerClient, add_target
from extender.cli.exit_statuses import BAD_INPUT, NO, OK, statuses
from extender.cli.live_command import answered
from extender.cli.output import as_json, error
from extender.model.errors import InvalidInput
from extender.observe.file import MOST_BYTES, Report
from extender.observe.markdown import markdown
from extender.observe.page import page
from extender.observe.sums import Told
from extender.observe.weekly import choose, read, start_of, weekly

FORMATS = ("markdown", "html", "json")
ENFORCES = (
    "no report: this server acts (mode: enforce), so there is nothing to compare with what "
    "kube-scheduler did by itself. `decisions` lists what it did; ask a server with mode: observe "
    "(docs/observe.md; --extender-namespace, --extender-selector or --url), or give the file that "
    "one has written with --from FILE"
)
BY_SUFFIX = {".md": "markdown", ".html": "html", ".htm": "html", ".json": "json"}


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "report",
        help="a week of observe mode: what was done, and what the extender would have done",
        description="Report one week of a server with mode: observe: what preemption did to gangs, "
        "beside what the extender would have done.",
        epilog=statuses("the server does not observe, so there is no report", server=True),
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="a saved /debug/observe answer, or the file of observe.file, instead of a server",
    )
    parser.add_argument(
        "--week",
        default="this",
        metavar="this|last|YYYY-MM-DD",
        help="weeks begin on Mondays, 00:00 UTC (default: this)",
    )
    parser.add_argument("--format", choices=FORMATS, help="default: by --out, else markdown")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    """Write the report and return the exit status."""
    try:
        start_of(args.week, time.time())  # before a server is asked
    except InvalidInput as problem:
        error(problem)
        return BAD_INPUT
    if args.source is None:

        async def work(server: ServerClient) -> int:
            try:
                data = await server.ask("/debug/observe")
            except Declined as problem:
                if problem.status != 400:
                    raise
                print(ENFORCES, file=sys.stderr)
                return NO
            try:
                found = read(data)
            except InvalidInput as problem:
                raise NoAnswer(f"/debug/observe: {problem}") from problem
            return _write(found, args)

        return answered(args, work, observer=True)
    try:
        with args.source.open("rb") as file:
            data = file.read(MOST_BYTES + 1)  # a device has no end
        if len(data) > MOST_BYTES:
            raise InvalidInput(f"is larger than {MOST_BYTES} bytes")
        return _write(read(data), args)
    except OSError as problem:
        error(f"{args.source}: {problem.strerror}")
    except InvalidInput as problem:
        error(f"{args.source}: {problem}")
    return BAD_INPUT


def _write(found: tuple[Report, list[Told]], args: argparse.Namespace) -> int:
    report, waiting = found
    week = weekly(report, waiting, choose(report, args.week))
    suffix = args.out.suffix.lower() if args.out is not None else ""
    form = args.format or BY_SUFFIX.get(suffix, "markdown")
    if form == "json":
        text = as_json(week) + "\n"
    else:
        text = page(week) if form == "html" else markdown(week)
    if args.out is None:
        sys.stdout.write(text)
    else:
        try:
            args.out.write_text(text, encoding="utf-8")
        except OSError as problem:
            raise InvalidInput(f"--out {args.out}: {problem.strerror}") from problem
    return OK
