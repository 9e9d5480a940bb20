"""``replay``: a trace of jobs played through this planner and through kube-scheduler's own ways."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from extender.cli.dump_files import STDIN, dump_path
from extender.cli.exit_statuses import BAD_INPUT, OK, statuses
from extender.cli.live_http import MOST_BYTES
from extender.cli.number_flags import at_least_one, seconds
from extender.cli.output import Table, add_output, error, progress, show
from extender.cli.standard_streams import standard_input
from extender.model.errors import InvalidInput
from extender.model.texts import counted
from extender.replay.figures import Replayed, figures, nodes_for
from extender.replay.page import page
from extender.replay.play import POD_BY_POD, POLICIES, WAP_38, ReplaySettings, play
from extender.replay.text import heading, rows
from extender.replay.trace import Job, read

COMPARED = (POD_BY_POD, WAP_38, "default")
LOAD = 0.95
MIX = {0: 70.0, 100: 25.0, 1000: 5.0}
MOST_NODES, MOST_GPUS = 20_000, 64


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "replay",
        help="play a trace of jobs, and say what each way of preempting would have lost",
        description="Play a month of jobs, offline, under several ways of preempting. Nothing is "
        "contacted or changed.",
        epilog=statuses(ok="played"),
    )
    parser.add_argument(
        "trace",
        type=dump_path,
        metavar="TRACE",
        help="CSV with the columns job_id, submission_time and duration (seconds), and num_gpu "
        "(all GPUs of the job); - for standard input",
    )
    parser.add_argument(
        "--policies",
        type=_policies,
        default=COMPARED,
        metavar="NAME,...",
        help=f"of {', '.join(POLICIES)}, or all (default: {','.join(COMPARED)})",
    )
    parser.add_argument(
        "--priorities",
        type=_mix,
        default=MIX,
        metavar="PRIORITY=SHARE,...",
        help="which share of the jobs has which priority; the job's name decides which one "
        "(default: 0=70,100=25,1000=5)",
    )
    parser.add_argument(
        "--nodes",
        type=at_least_one,
        help=f"nodes (default: as many as the trace fills to {LOAD:.0%}%)",
    )
    parser.add_argument("--gpus", type=at_least_one, default=8, help="GPUs of a node (default: 8)")
    parser.add_argument(
        "--grace", type=seconds, default=30.0, help="seconds a pod takes to end (default: 30)"
    )
    parser.add_argument(
        "--checkpoint",
        type=seconds,
        default=0.0,
        help="seconds between two checkpoints of a job; 0 = none (default: 0)",
    )
    parser.add_argument(
        "--restart",
        type=seconds,
        default=300.0,
        help="seconds in which a restarted job makes no progress (default: 300)",
    )
    parser.add_argument(
        "--score",
        choices=("most", "least"),
        default="most",
        help="how nodes with free room are scored: MostAllocated or LeastAllocated (default: most)",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots too")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Play, print the figures and return the exit status."""
    name = "standard input" if args.trace == STDIN else str(args.trace)
    try:
        jobs = _read(args, name)
        found = _replayed(args, jobs, name)
        if args.html is not None:
            _write(args.html, page(found))
    except InvalidInput as problem:
        error(problem)
        return BAD_INPUT
    table = Table(("", *(each.policy for each in found.policies)), tuple(rows(found)))
    show((heading(found), table, *found.notes), found, args.output)
    return OK


def _read(args: argparse.Namespace, name: str) -> tuple[Job, ...]:
    if args.gpus > MOST_GPUS:
        raise InvalidInput(f"--gpus {args.gpus}: {MOST_GPUS} at most")
    try:
        if args.trace == STDIN:
            data = standard_input(MOST_BYTES)
        else:
            with args.trace.open("rb") as file:
                data = file.read(MOST_BYTES + 1)  # a device has no end
    except OSError as problem:
        raise InvalidInput(f"{name}: cannot be read: {problem.strerror}") from problem
    if len(data) > MOST_BYTES:
        raise InvalidInput(f"{name}: is larger than {MOST_BYTES} bytes")
    try:
        return read(data.decode().splitlines(), args.gpus, args.priorities)
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"{name}: is no UTF-8 text: byte {problem.start}") from problem
    except InvalidInput as problem:
        raise InvalidInput(f"{name}: {problem}") from problem


def _replayed(args: argparse.Namespace, jobs: tuple[Job, ...], name: str) -> Replayed:
    nodes = args.nodes or nodes_for(jobs, args.gpus, LOAD)
    if nodes > MOST_NODES:
        raise InvalidInput(f"--nodes {nodes}: {MOST_NODES} at most")
    largest = max(job.members for job in jobs)
    if nodes < largest:
        raise InvalidInput(
            f"--nodes {nodes}: the largest job of the trace needs {counted(largest, 'node')}"
        )
    settings = ReplaySettings(
        nodes=nodes,
        gpus=args.gpus,
        grace=args.grace,
        restart=args.restart,
        checkpoint=args.checkpoint,
        packs=args.score == "most",
    )
    found = []
    with progress("replaying") as update:
        for policy in args.policies:
            update(f"replaying {len(jobs):,} jobs: {policy}")
            found.append(figures(play(jobs, settings, policy, time.process_time), settings))
    return Replayed(
        trace=name,
        jobs=len(jobs),
        gangs=sum(job.members > 1 for job in jobs),
        gpu_hours=sum(job.gpu_seconds for job in jobs) / 3600,
        days=(jobs[-1].submitted - jobs[0].submitted) / 86_400,
        settings=settings,
        priorities={str(priority): share for priority, share in args.priorities.items()},
        policies=tuple(found),
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise InvalidInput(f"--html {path}: {problem.strerror}") from problem


def _policies(text: str) -> tuple[str, ...]:
    names = POLICIES if text == "all" else tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in POLICIES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of all, {', '.join(POLICIES)}")
    return names


def _mix(text: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for part in text.split(","):
        priority, _, share = part.partition("=")
        try:
            level, weight = int(priority), float(share)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} is no PRIORITY=SHARE") from None
        if not -(10**9) <= level <= 10**9 or not 0 < weight <= 10**6 or level in found:
            raise argparse.ArgumentTypeError(
                f"{part!r}: each priority once, -1000000000 to 1000000000; shares above 0, "
                "1000000 at most"
            )
        found[level] = weight
    return found
