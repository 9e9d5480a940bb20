"""What the console costs at 5,000 nodes and 150,000 pods: the process, the verbs, the browser.

    python -m bench.serving.console_bench            # the process and the verbs
    python -m bench.serving.console_bench --browser  # and a real Chromium (./run test-browser's)

The cluster is one of bench/inputs/mix.py (node shapes and background pods: openb-2023; running
jobs: itp-2021), filled up with small CPU pods to about 30 pods a node, its nodes dealt out to three
zones; the urgent gang's plan is under way. Between two pictures 20 nodes change
(bench/inputs/drift.py).
Told are

- the thread's CPU time for the first picture, for later ones, and for each page,
- how long filter takes (bench.serving.verbs_bench's PassThrough, 1,000 names, one caller) with
  nobody at the page and, in turns with that, while four people each ask for a page of the changing
  map, every 50 ms anew; caller and people are in the server's process: both look worse than they
  are,
- in the browser: first paint of a page in a new context (wall time), and what one update takes of
  the main thread (CPU time of all tasks: fetching, parsing, comparing, layout, painting).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import aiohttp
import uvloop
from msgspec.structs import replace

from bench.inputs.drift import drift
from bench.inputs.mix import MixSettings, mix
from bench.report import machine, percentile, table
from bench.serving.verbs_bench import Caller, NoDebug, PassThrough, question
from extender.console.capture import Capture, ConsoleSource, PreemptionSeen
from extender.console.console import Console
from extender.console.picture import PictureMaker
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.tell.decisions import Decision, Verb, of_plan
from extender.gang.tell.decisions_per_day import MOST_DAYS, SECONDS, Days
from extender.groups.resolver import Resolver
from extender.model.plan import Plan
from extender.model.snapshot import Snapshot
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.logs import configure_logs
from extender.server.metrics import Metrics
from extender.settings.settings import ServerSettings, Settings

SETTINGS = Settings()
ZONE = "topology.kubernetes.io/zone"
PAGES = {"gangs": "", "one gang": "gang?name=urgent", "decisions": "decisions",
         "cluster": "cluster"}  # fmt: skip
NAMES = 1000
LOOKERS = 4
LOOK_PAUSE = 0.05
CHANGES = 20
CHANGED = 30
"""Snapshots made beforehand."""
SWITCH_SECONDS = 0.0005
"""As serve sets it."""


class Cluster:
    """A cluster that changes a little whenever it is told to."""

    def __init__(self, nodes: int, fillers: int, gang: int) -> None:
        self.resolver = Resolver(SETTINGS.groups)
        state = mix(MixSettings(nodes=nodes, fill=0.95, gang=gang, fillers=fillers, seed=0))
        snapshot = state.snapshot(self.resolver)
        zoned = {
            name: replace(node, labels={**node.labels, ZONE: f"zone-{index % 3}"})
            for index, (name, node) in enumerate(snapshot.nodes.items())
        }
        self.snapshot: Snapshot = replace(snapshot, nodes=zoned)
        self.pods = len(state.pods)
        self._coming: Iterator[Snapshot] = cycle((self.snapshot,))
        self.preemptions: tuple[PreemptionSeen, ...] = ()
        self.decisions: tuple[Decision, ...] = ()
        self._days = Days(snapshot.now - MOST_DAYS * SECONDS)
        waiting = self.resolver.resolve(state.key, self.snapshot)
        plan = Planner(SETTINGS, self.resolver).plan(GangQuestion(waiting, self.snapshot))
        if isinstance(plan, Plan):
            self.decisions = (
                of_plan(plan, time=self.snapshot.now, verb=Verb.PREEMPT, seconds=0.02),
            )
            for day in range(MOST_DAYS):
                self._days.add(replace(self.decisions[0], time=self.snapshot.now - day * SECONDS))
            members = {pod.uid: pod for pod in waiting.members}
            self.preemptions = (
                PreemptionSeen(
                    plan=plan,
                    id="p",
                    state="waiting",
                    binding=False,
                    since=self.snapshot.now,
                    deadline=0.0,
                    members=members,
                    seats={seat.uid: seat.node for seat in plan.seats},
                    victims=plan.victims,
                    waits=plan.waits_for,
                    sent=frozenset(),
                    replans=0,
                ),
            )

    def foresee(self, changes: int) -> None:
        """Make other states now: making them is no part of what is measured."""
        rng, last, coming = random.Random(0), self.snapshot, []
        for _ in range(changes):
            last = drift(last, rng, CHANGES)
            coming.append(last)
        self._coming = cycle((*coming, *coming[-2:0:-1]))

    def change(self) -> None:
        """Let 20 nodes change and a second pass, or go back by as much."""
        self.snapshot = next(self._coming)

    def capture(self) -> Capture:
        """Return this moment."""
        return Capture(
            # Each page tells the minute: it is another one every time.
            time=self.snapshot.now + 60 * self.snapshot.generation,
            snapshot=self.snapshot,
            preemptions=self.preemptions,
            decisions=self.decisions,
            days=tuple(self._days.until(self.snapshot.now)),
            counted_since=self._days.since,
        )

    def source(self) -> ConsoleSource:
        """Return what a console asks."""
        return ConsoleSource(
            settings=SETTINGS,
            resolver=self.resolver,
            mark=lambda: self.snapshot.generation,
            capture=self.capture,
            stale=lambda: None,
            question=lambda: (self.snapshot, ()),
            masks=lambda gang, snapshot: {},
            read_manifest=lambda text, name: [],
        )


def cpu(work: Callable[[], object]) -> float:
    """Return the milliseconds of CPU time that work takes."""
    began = time.thread_time()
    work()
    return (time.thread_time() - began) * 1000


def pictures(cluster: Cluster, rounds: int) -> dict[str, float]:
    """Return what pictures cost."""
    reader = PictureMaker(cluster.resolver)
    first = cpu(lambda: reader.read(cluster.capture()))
    later = []
    for _ in range(rounds):
        cluster.change()
        later.append(cpu(lambda: reader.read(cluster.capture())))
    return {"first": first, "later p50": percentile(later, 0.5), "later max": max(later)}


async def fetched(url: str, pages: dict[str, str]) -> dict[str, int]:
    """Return the bytes of each page."""
    found = {}
    async with aiohttp.ClientSession() as web:
        for name, page in pages.items():
            async with web.get(f"{url}/ui/{page}") as answer:
                assert answer.status == 200, await answer.text()
                found[name] = len(await answer.read())
    return found


async def verbs(
    server: Server, cluster: Cluster, seconds: float, rounds: int
) -> tuple[dict[str, list[float]], int]:
    """Return filter's milliseconds, nobody at the page and while it is looked at; and looks."""
    loop = asyncio.get_running_loop()
    caller = Caller(server.port, question(NAMES))
    times: dict[str, list[float]] = {"nobody looks": [], "pages are looked at": []}
    looks = 0

    def call(into: list[float]) -> None:
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            caller.call()
            into.append((time.perf_counter() - began) * 1000)
            time.sleep(0.002)

    async def look() -> None:
        nonlocal looks
        async with aiohttp.ClientSession() as web:
            while True:
                cluster.change()
                async with web.get(f"{server.url}/ui/cluster?page={1 + looks % 50}") as answer:
                    assert answer.status in (200, 503), await answer.text()
                    looks += answer.status == 200
                    await answer.read()
                await asyncio.sleep(LOOK_PAUSE)

    with ThreadPoolExecutor(1) as pool:
        for _ in range(rounds):
            await loop.run_in_executor(pool, call, times["nobody looks"])
            looking = [asyncio.create_task(look()) for _ in range(LOOKERS)]
            await loop.run_in_executor(pool, call, times["pages are looked at"])
            for task in looking:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)
    return times, looks


async def browser(server: Server, cluster: Cluster, updates: int) -> dict[str, dict[str, float]]:
    """Return, per page, first paint and what an update takes of the main thread, in ms."""
    from tests.console.browser import chromium

    found: dict[str, dict[str, float]] = {}
    async with chromium() as driven:
        first = await driven.new_page()
        await first.goto(f"{server.url}/ui/static/console.css")  # the browser itself is started
        for name, page in PAGES.items():
            context = await driven.new_context(viewport={"width": 1280, "height": 860})
            opened = await context.new_page()
            opened.set_default_timeout(120_000)
            cdp = await context.new_cdp_session(opened)
            # CPU time, so that what else the machine does is left out.
            await cdp.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
            await cdp.send("Performance.enable")
            await opened.goto(f"{server.url}/ui/{page}")
            await opened.wait_for_function(
                "() => performance.getEntriesByName('first-contentful-paint').length"
            )
            paint = await opened.evaluate(
                "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
            counted = "Number(document.documentElement.dataset.updates ?? 0)"
            measured = "performance.getEntriesByName('console-update').map((one) => one.duration)"
            costs = []
            for _ in range(updates):
                seen = await opened.evaluate(counted)
                before = await _busy(cdp)
                cluster.change()
                await opened.wait_for_function(f"() => {counted} > {seen}", polling=250)
                await opened.evaluate("new Promise(requestAnimationFrame)")
                costs.append((await _busy(cdp) - before) * 1000)
            found[name] = {
                "first paint": paint,
                "update p50, CPU": percentile(costs, 0.5),
                "update max, CPU": max(costs),
                "comparing p50, wall": percentile(await opened.evaluate(measured), 0.5),
            }
            await context.close()
    return found


async def _busy(cdp: Any) -> float:
    metrics = (await cdp.send("Performance.getMetrics"))["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything asked for."""
    cluster = Cluster(options.nodes, options.fillers, options.gang)
    cluster.foresee(CHANGED)
    result: dict[str, Any] = {"pods": cluster.pods, "pictures": pictures(cluster, options.rounds)}
    console = Console(cluster.source())
    stop = asyncio.Event()
    server = Server(
        ServerSettings(port=0), PassThrough(), NoDebug(), Health(), Metrics(), pages=console
    )
    serving = asyncio.create_task(server.serve(stop))
    await server.started.wait()
    try:
        result["bytes"] = await fetched(server.url, PAGES)
        picture = await console.board.picture()
        result["pages"] = {
            name: await _rendered(console, picture, page) for name, page in PAGES.items()
        }
        times, result["looks"] = await verbs(server, cluster, options.seconds, options.rounds)
        result["verbs"] = {
            name: {
                "p50": percentile(found, 0.5),
                "p99": percentile(found, 0.99),
                "max": max(found),
            }
            for name, found in times.items()
        }
        if options.browser:
            result["browser"] = await browser(server, cluster, options.updates)
    finally:
        stop.set()
        await serving
    return result


async def _rendered(console: Console, picture: Any, page: str) -> float:
    from extender.console.query import Query

    name, _, query = page.partition("?")
    asked = Query(query.encode())
    made = [
        await console.worker.run(lambda: cpu(lambda: console._rendered(name, picture, asked)))
        for _ in range(3)
    ]
    return min(made)


def main() -> int:
    """Run and print; return the exit status."""
    parser = argparse.ArgumentParser(description="What the console costs.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--fillers", type=int, default=26, help="small pods a node")
    parser.add_argument("--gang", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0, help="of filter, a round and state")
    parser.add_argument("--updates", type=int, default=8, help="seen in the browser, a page")
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--json", help="write the result there")
    options = parser.parse_args()
    configure_logs("warning")
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        result = loop.run(run(options))
    print(f"{machine()}; {options.nodes:,} nodes, {result['pods']:,} pods")
    print(table(("picture, CPU ms", "value"), list(result["pictures"].items())))
    rows = [(name, result["bytes"][name], result["pages"][name]) for name in PAGES]
    print(table(("page", "bytes", "made in CPU ms"), rows))
    told = [(name, *found.values()) for name, found in result["verbs"].items() if name != "looks"]
    print(table((f"filter, {NAMES:,} names, ms", "p50", "p99", "max"), told))
    print(f"pages looked at meanwhile: {result['looks']}")
    if options.browser:
        seen = [(name, *found.values()) for name, found in result["browser"].items()]
        print(table(("browser, ms", *next(iter(result["browser"].values()))), seen))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
