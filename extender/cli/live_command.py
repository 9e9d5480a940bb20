"""What the commands that ask a running server have in common."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from extender.cli.api_client import NoAnswer, ServerClient, add_target, target_of
from extender.cli.exit_statuses import BAD_INPUT, NO, OK, UNREACHED, statuses
from extender.cli.output import PROGRAMS, OutputPart, add_output, error, show
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey


def add_live(parser: argparse.ArgumentParser, *, one: str) -> None:
    """Register the options of a command that asks a server; ``one``: what status 1 says."""
    add_output(parser)
    add_target(parser)
    parser.epilog = statuses(one, server=True)


def one_name(text: str) -> str:
    """Return the name of a pod or gang as an argument, for argparse: it ends with a name."""
    if not text.strip() or text[-1] in "/:":
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME, NAMESPACE/NAME or a gang's key")
    return text


def one_namespace(text: str) -> str:
    """Return a namespace as an argument, for argparse: "" is a variable that is not set."""
    if not text.strip() or "/" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no namespace")
    return text


def add_scope(parser: argparse.ArgumentParser) -> None:
    """Register ``-n`` and ``-A`` as kubectl has them; every namespace is what is listed anyway."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-n",
        "--namespace",
        type=one_namespace,
        help="only gangs of this namespace (default: all)",
    )
    group.add_argument(
        "-A",
        "--all-namespaces",
        action="store_const",
        const=None,
        dest="namespace",
        help="gangs of every namespace, which is the default here",
    )


def wanted(gang: str, args: argparse.Namespace) -> bool:
    """Whether a gang, by its key as text, is the one and of the namespace that were asked for."""
    return (args.gang is None or named(gang, args.gang)) and (
        args.namespace is None or namespace_of(gang) == args.namespace
    )


def answered(
    args: argparse.Namespace,
    work: Callable[[ServerClient], Awaitable[int]],
    *,
    observer: bool = False,
) -> int:
    """Run ``work`` on the server that the options name and return the exit status.

    ``observer``: of two the one that observes.
    """

    async def ask() -> int:
        asyncio.get_running_loop().set_exception_handler(_untold)
        server = ServerClient(target_of(args, observer=observer))
        await server.find()
        return await work(server)

    try:
        return asyncio.run(ask())
    except InvalidInput as problem:
        error(problem)
        return BAD_INPUT
    except KeyError as problem:
        error(f"the server's answer has no {problem}: is it of this version?")
        return UNREACHED
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as problem:
        # Rows of other types than ours: of another version, or of another program.
        error(f"the server's answer cannot be read: {type(problem).__name__}: {problem}")
        return UNREACHED
    except NoAnswer as problem:
        error(problem)
        return UNREACHED


def _untold(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Say nothing of what else went wrong beside the error that is told.

    The event loop would write a traceback, with what a server said as it came: a hostile one's
    control characters as well.
    """


NOBODY = "nothing of this name is known: no gang, and no decision that is kept"
"""Status 1 of the commands that may be given a gang's name."""


async def listed(
    server: ServerClient,
    args: argparse.Namespace,
    what: str,
    found: Sequence[object],
    parts: Sequence[OutputPart],
) -> int:
    """Print what was found, under ``what`` for programs; return OK or, of no known gang, NO.

    A gang of which there is nothing to list now is known while a decision is kept.
    """
    known = args.gang is None or bool(found) or await _known(server, args.gang)
    if args.gang is not None and not found:
        parts = [
            f"nothing to list for {args.gang!r}; `why {args.gang}` shows its state, or what is "
            "remembered of it"
        ]
    if known or args.output in PROGRAMS:
        show(parts, {what: found}, args.output)
    if known:
        return OK
    error(
        f"no gang {args.gang!r} is known to the server: it never existed, or ended before "
        "the decisions that are kept"
    )
    return NO


async def _known(server: ServerClient, name: str) -> bool:
    gangs, decisions = await asyncio.gather(server.rows("gangs"), server.rows("decisions"))
    keys = {row["gang"] for row in (*gangs, *decisions)}
    keys |= {victim["gang"] for row in decisions for victim in row["victims"] if victim["gang"]}
    return any(named(key, name) for key in keys)


def moment(seconds: float) -> str:
    """Return a wall clock time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def age(seconds: float) -> str:
    """Return how long ago something was, in its largest unit of which there are two."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * unit:
            return f"{seconds // unit:.0f}{name}"
    return f"{max(0.0, seconds) // 1:.0f}s"


def named(gang: str, wanted: str) -> bool:
    """Whether a gang's key as text is the NAME, NAMESPACE/NAME or DIALECT:NAMESPACE/NAME."""
    dialect, namespace, name = GangKey.read(gang)
    return wanted in (name, f"{namespace}/{name}", gang) or wanted == f"{dialect}:{name}"


def namespace_of(gang: str) -> str:
    """Return the namespace of a gang's key as text."""
    return GangKey.read(gang).namespace
