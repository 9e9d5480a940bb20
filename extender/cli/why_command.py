"""``why``: why a pod or a gang waits or went, what was decided, and what to do next."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from msgspec.structs import asdict, replace

from extender.cli.api_client import ServerClient
from extender.cli.decisions_command import told
from extender.cli.exit_statuses import NO, OK
from extender.cli.live_command import (
    add_live,
    answered,
    named,
    namespace_of,
    one_name,
    one_namespace,
)
from extender.cli.output import OutputPart, error, show
from extender.cli.why_gone import stories_of_gone_gangs, story_of_evicted
from extender.cli.why_pod import story_of_pod
from extender.gang.tell.gang_status import Facts
from extender.gang.tell.story import Story, story_of_gang


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "why",
        help="say why a pod or a gang is pending or was evicted, and what to do",
        description="Ask a running server about a pod or a gang: the reason, the decision behind "
        "it and the next step. Pods that a plan evicted and gangs that ended are found by the "
        "names they had, as long as the decision is kept.",
    )
    parser.add_argument(
        "name",
        type=one_name,
        metavar="POD|GANG",
        help="NAME, NAMESPACE/NAME, or a gang's key DIALECT:NAMESPACE/NAME",
    )
    parser.add_argument(
        "-n", "--namespace", type=one_namespace, help="namespace of the pod or gang"
    )
    parser.add_argument("--short", action="store_true", help="without the decision's explanation")
    add_live(
        parser, one="no pod or gang of this name is known, and no decision that is kept names one"
    )


def run(args: argparse.Namespace) -> int:
    """Print what is known and return the exit status."""

    async def work(server: ServerClient) -> int:
        found = await stories(server, args.name, args.namespace)
        if not found:
            error(
                f"no pod or gang {args.name!r} is known to the server: it has finished, never "
                "existed, or ended before the decisions that are kept"
            )
            return NO
        parts = [part for story in found for part in _parts(story, short=args.short)]
        show(parts, {"stories": [_document(story) for story in found]}, args.output)
        return OK

    return answered(args, work)


async def stories(server: ServerClient, name: str, namespace: str | None) -> list[Story]:
    """Return what there is to tell about a name: of pods first, then of gangs."""
    in_text, _, last = name.rpartition("/")
    is_key = ":" in name
    space = namespace or (None if is_key else in_text or None)
    asked = f"{space}/{last}" if space else last
    pages = ("gangs", "reservations", "evictions", "decisions")
    gangs, held, units, decisions, pods = await asyncio.gather(
        *(server.rows(page) for page in pages), server.rows("pods", name=asked)
    )
    facts = Facts(gangs, held, units, decisions, now=time.time())
    found = [] if is_key else [replace(story_of_pod(pod, facts), gang=pod["gang"]) for pod in pods]
    for gang in facts.gangs:
        key = str(gang["gang"])
        if named(key, name) and namespace in (None, namespace_of(key)):
            story = story_of_gang(key, facts)
            found += [story] if story is not None else []
    if not found:
        found = stories_of_gone_gangs(name, namespace, facts)
        gone = None if is_key else story_of_evicted(space, last, facts)
        found += [gone] if gone is not None else []
    return found


def _document(story: Story) -> dict[str, object]:
    """Return a story for programs: with the pod or gang that it is about."""
    what, _, name = story.subject.partition(" ")
    namespace, _, last = name.rpartition("/")
    pod = {"namespace": namespace, "name": last} if what == "pod" else None
    return {"pod": pod, "gang": story.gang, **asdict(story)}


def _parts(story: Story, *, short: bool) -> list[OutputPart]:
    lines: list[OutputPart] = [f"{story.subject}: {story.state}", f"  reason: {story.reason}"]
    lines += [f"          {line}" for line in story.also]
    if story.decision is not None:
        first, *more = told(dict(story.decision))
        lines.append(f"  decision: {first}")
        lines += [] if short else [f"          {line}" for line in more]
    if story.next:
        lines.append(f"  next: {story.next}")
    return lines
