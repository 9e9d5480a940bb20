"""How long /livez takes while somebody reads /debug/gangs.

``python -m bench.serving.gangs_bench --gangs 3000 --members 20`` serves a made cluster of so many
PodGroups, asks for the page again and again, and from another process for /livez every 5 ms. Told
are the seconds of one page, and of /livez half of all answers, 99 of 100, and the longest, first
with nobody at the page and then with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import urllib.request
from collections.abc import Iterator

import structlog
import uvloop

from bench.report import percentile
from bench.serving.verbs_bench import NoDebug, PassThrough
from extender.gang.plan.assemble import assemble
from extender.gang.tell.gang_status import described
from extender.groups.resolver import Resolver
from extender.model.objects import GroupObject, Owner, Pod
from extender.model.snapshot import Snapshot
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.metrics import Metrics
from extender.settings.settings import ServerSettings, Settings

PAUSE = 0.005
ASKERS = frozenset({"default-scheduler"})


def cluster(resolver: Resolver, gangs: int, members: int) -> Snapshot:
    """Return PodGroups of so many pods each, all of which wait."""
    return assemble(
        resolver.member_key,
        nodes=(),
        pods=(
            Pod(
                uid=f"{gang}-{index}",
                namespace=f"team-{gang % 50}",
                name=f"g{gang}-{index}",
                requests=(("cpu", 1000),),
                owner=Owner("Job", f"g{gang}", f"o-{gang}"),
                pod_group=f"g{gang}",
                tried=True,
            )
            for gang in range(gangs)
            for index in range(members)
        ),
        groups=[
            GroupObject("core", f"u-{gang}", f"team-{gang % 50}", f"g{gang}", min_count=members)
            for gang in range(gangs)
        ],
        now=0.0,
        generation=1,
    )


class Gangs(NoDebug):
    """The page as cli.debug_source makes it."""

    def __init__(self, resolver: Resolver, snapshot: Snapshot) -> None:
        self._resolve, self._snapshot = resolver.resolve, snapshot

    def gangs(self) -> Iterator[object]:
        """Return the gangs as resolved, each made as it is asked for."""
        snapshot = self._snapshot
        return (described(self._resolve(key, snapshot), ASKERS) for key in sorted(snapshot.members))


def ask(url: str, seconds: float) -> None:
    """Ask for /livez for so long, and print how long each answer took, as JSON."""
    took: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=60) as answer:
            answer.read()
        took.append(time.perf_counter() - began)
        time.sleep(PAUSE)
    print(json.dumps(took))


async def asked(url: str, seconds: float) -> list[float]:
    """Let another process ask; return how long each answer took."""
    command = [sys.executable, "-m", "bench.serving.gangs_bench", "--ask", url]
    process = await asyncio.create_subprocess_exec(
        *command, "--seconds", str(seconds), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return [float(each) for each in json.loads(output)]


async def read(url: str) -> float:
    """Read the page in another process; return how long that took."""
    began = time.perf_counter()
    program = f"import urllib.request as r; r.urlopen({url!r}).read()"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    await process.wait()
    return time.perf_counter() - began


async def measure(options: argparse.Namespace) -> None:
    """Serve, ask and print."""
    settings = Settings()
    resolver = Resolver(settings.groups)
    server = Server(
        ServerSettings(port=0, health_port=0),
        PassThrough(),
        Gangs(resolver, cluster(resolver, options.gangs, options.members)),
        Health(list, list, list),
        Metrics(),
    )
    stop = asyncio.Event()
    serving = asyncio.create_task(server.serve(stop))
    await server.started.wait()
    livez, page = f"{server.health_url}/livez", f"{server.url}/debug/gangs"
    alone = await asked(livez, options.seconds)
    asking = asyncio.create_task(asked(livez, options.seconds))
    pages: list[float] = []
    while not asking.done():
        pages.append(await read(page))
    busy = await asking
    stop.set()
    await serving
    print(f"{options.gangs} gangs of {options.members}: a page {min(pages):.2f} s")
    for what, took in (("nobody at the page", alone), ("the page is read", busy)):
        middle, most = percentile(took, 0.5), percentile(took, 0.99)
        print(
            f"/livez, {what}: p50 {middle * 1000:.1f} ms, p99 {most * 1000:.1f} ms, "
            f"longest {max(took) * 1000:.1f} ms of {len(took)}"
        )


def main() -> None:
    """Run and print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gangs", type=int, default=3000)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        ask(options.ask, options.seconds)
        return
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    uvloop.run(measure(options))


if __name__ == "__main__":
    main()
