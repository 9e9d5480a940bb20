"""``sandbox``: a whole scenario played without a cluster, with the real ``serve``."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from extender.check import config
from extender.cli.exit_statuses import BAD_INPUT, INTERRUPTED, statuses
from extender.cli.number_flags import factor
from extender.cli.output import error
from extender.model.errors import InvalidInput
from extender.sandbox.command import run_sandbox, scenario_titles


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "sandbox",
        help="play a scenario in an embedded cluster",
        description="Start an in-process API server subset, a small scheduler that speaks the "
        "extender protocol, and the real serve; play a scenario, show what happens, and exit "
        "non-zero when a promise is broken. No cluster, no Docker, no network.",
        epilog=statuses("an expectation or a promise is broken", ok="played, and all held"),
    )
    parser.add_argument(
        "scenario",
        nargs="?",
        default="jobset",
        help="a YAML file, or the name of a packaged scenario (default: jobset)",
    )
    parser.add_argument(
        "--list", action="store_true", help="list the packaged scenarios, each with its title"
    )
    parser.add_argument("--config", type=Path, help="configuration of the extender (YAML)")
    parser.add_argument(
        "--keep", action="store_true", help="leave everything up afterwards, to look at"
    )
    parser.add_argument(
        "--kubernetes",
        choices=("1.36", "1.37"),
        default="1.37",
        help="whose PodGroup API is spoken (default: 1.37)",
    )
    parser.add_argument(
        "--time-scale",
        type=factor,
        default=1.0,
        metavar="X",
        help="multiply grace periods and pauses of the scenario",
    )


def run(args: argparse.Namespace) -> int:
    """Play and return the exit status."""
    if args.list:
        titles = scenario_titles()
        width = max(map(len, titles))
        print("\n".join(f"{name:<{width}}  {title}" for name, title in titles.items()))
        return 0
    try:
        settings = config.load(args.config)
        playing = run_sandbox(
            args.scenario,
            settings,
            keep=args.keep,
            minor=args.kubernetes,
            time_scale=args.time_scale,
        )
        return asyncio.run(_until_told(playing))
    except InvalidInput as problem:
        error(problem)
        return BAD_INPUT
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


async def _until_told(playing: Coroutine[Any, Any, int]) -> int:
    """Return what it returns. SIGTERM ends it as Ctrl-C does: no ``serve`` is left behind."""
    told = asyncio.current_task()
    assert told is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.cancel)
    return await playing
