"""What the commands that ask a running server have in common."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from extender.cli.exit_statuses import BAD_INPUT, NO, OK, UNREACHED, statuses
from extender.cli.live import NoAnswer, Server, add_target, target_of
from extender.cli.output import add_output, clean
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey


def add_live(parser: argparse.ArgumentParser, *, one: str) -> None:
    """Register the options of a command that asks a server; ``one``: what status 1 says."""
    add_output(parser)
    add_target(parser)
    parser.epilog = statuses(one, server=True)


def answered(args: argparse.Namespace, work: Callable[[Server], Awaitable[int]]) -> int:
    """Run ``work`` on the server that the options name and return the exit status."""

    async def ask() -> int:
        server = Server(target_of(args))
        await server.find()
        return await work(server)

    try:
        return asyncio.run(ask())
    except InvalidInput as problem:
        print(f"error: {problem}", file=sys.stderr)
        return BAD_INPUT
    except KeyError as problem:
        print(
            f"error: the server's answer has no {problem}: is it of this version?", file=sys.stderr
        )
        return UNREACHED
    except NoAnswer as problem:
        print(f"error: {clean(str(problem))}", file=sys.stderr)
        return UNREACHED


NOBODY = "nothing of this name is known: no gang, and no decision that is kept"
"""Status 1 of the commands that may be given a gang's name."""


async def found_or_known(server: Server, name: str | None, *, found: bool) -> int:
    """Return OK, or NO after saying so when the server knows nothing of a name.

    A gang of which there is nothing to list now is known while a decision is kept.
    """
    if name is None or found:
        return OK
    gangs, decisions = await asyncio.gather(server.rows("gangs"), server.rows("decisions"))
    keys = {row["gang"] for row in (*gangs, *decisions)}
    keys |= {victim["gang"] for row in decisions for victim in row["victims"] if victim["gang"]}
    if any(named(key, name) for key in keys):
        return OK
    print(
        f"no gang {name!r} is known to the server: it was never there, or went before the "
        "decisions that are kept",
        file=sys.stderr,
    )
    return NO


def moment(seconds: float) -> str:
    """Return a wall clock time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def named(gang: str, wanted: str) -> bool:
    """Whether a gang's key as text is the NAME, NAMESPACE/NAME or DIALECT:NAMESPACE/NAME."""
    dialect, namespace, name = GangKey.read(gang)
    return wanted in (name, f"{namespace}/{name}", gang) or wanted == f"{dialect}:{name}"


def namespace_of(gang: str) -> str:
    """Return the namespace of a gang's key as text."""
    return GangKey.read(gang).namespace
