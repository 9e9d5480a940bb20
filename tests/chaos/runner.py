"""One run: rounds of trouble, each followed by a rest in which everything must come right."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from typing import TypeVar

from tests.chaos import groups, invariants, kubelets
from tests.chaos.bed import HOLD_SECONDS, POST_SECONDS, Bed
from tests.chaos.cases import Cases
from tests.chaos.faults import Faults
from tests.chaos.history import EXTENDER
from tests.chaos.invariants import Problem
from tests.chaos.observing import PART_LABEL, PLAN_LABEL
from tests.chaos.report import Run, Violations, probe
from tests.chaos.watcher import Watcher
from tests.chaos.workload import Workload
from tests.controlplane.client import ApiError, Object
from tests.controlplane.objects import make_pod

Found = TypeVar("Found")
NODES = 5
CORES = 4
TROUBLE_SECONDS = 40.0
REST_SECONDS = 120.0
"""How long the rest may take; more than all deadlines of a plan one after the other."""
REST_PERIOD = 0.5
QUIET_SECONDS = 3.0
"""How long everything must be in order before the next round."""


class Runner:
    """Plays a run on a bed. ``say`` is told what goes on, a line at a time."""

    def __init__(self, bed: Bed, minor: str, seed: int, say: Callable[[str], None]) -> None:
        self.run = Run(minor, seed)
        self._bed = bed
        self._say = say
        self._history = self.run.history
        self._rng = random.Random(f"{seed}:runner")
        self._nodes = {f"n{index}": CORES * 1000 for index in range(NODES)}
        self._question = b""
        self._violated = Violations(self.run, say).add
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="runner")
        self._watcher = Watcher(bed, self.run, self._threads, self._violated)

    async def play(self, seconds: float) -> Run:
        """Play the scripted cases, then rounds for so long, the last one to its end."""
        self.run.began = time.time()
        await self._bed.start()
        await self._bed.in_thread(self._furnish)
        workload = Workload(
            self._bed.client.fork(),
            self._bed.plane.release,
            self._history,
            f"{self.run.seed}:workload",
            sum(self._nodes.values()),
        )
        self._watcher.start()
        over = asyncio.Event()
        beside = [
            asyncio.create_task(task)
            for task in (
                workload.run(over),
                self._every(0.2, over, self._watcher.look),
                self._every(1.0, over, self._measure),
                self._every(0.25, over, self._probe),
                self._every(1.0, over, self._watcher.decisions),
            )
        ]
        try:
            workload.paused = True
            cases = Cases(self._bed, self._history, NODES, self._say)
            for problem in await cases.play():
                self._violated(problem, self.run.began)
            self.run.cases = cases.count
            end = time.time() + seconds
            while time.time() < end:
                await self._round(workload)
        finally:
            over.set()
            await asyncio.gather(*beside, return_exceptions=True)
            self._watcher.stop()
            workload.close()
            self._threads.shutdown(wait=False)
        for task in beside:
            if not task.cancelled() and task.exception() is not None:
                raise task.exception() or RuntimeError
        self.run.seconds = time.time() - self.run.began
        self.run.notes["requests of the workload to be tried again"] = workload.errors
        self._read_log()
        return self.run

    def _furnish(self) -> None:
        cluster = self._bed.cluster
        values = {f"p{value}": value for value in groups.PRIORITIES}
        cluster.priority_classes(**values)
        cluster.client.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "never"},
                "value": groups.NEVER_PREEMPTS,
                "preemptionPolicy": "Never",
            }
        )
        cluster.nodes(NODES, CORES)
        asked = make_pod("probe", "1m", namespace="default", spec={"schedulerName": "nobody"})
        self._question = probe(cluster.client.create(asked), "n0")

    # -- rounds -----------------------------------------------------------------------------

    async def _round(self, workload: Workload) -> None:
        self.run.rounds += 1
        number, history = self.run.rounds, self._history
        faults = Faults(
            self._bed, history, f"{self.run.seed}:{number}", self._nodes, workload.remove
        )
        workload.paused = False
        stop = asyncio.Event()
        lanes = asyncio.create_task(faults.run(stop))
        try:
            await asyncio.wait({lanes}, timeout=TROUBLE_SECONDS)
        finally:
            stop.set()
            workload.paused = True
            await lanes
        try:
            await self._bed.in_thread(self._bed.restore)
            await faults.restore_budgets()
            if self._rng.random() < 0.5:
                history.disturb(time.time(), "nodes restored")
                await self._patiently(faults.restore_nodes)
            history.tell(time.time(), f"REST of round {number} begins")
            before = len(self.run.violations)
            took = await self._rest(workload)
            new = len(self.run.violations) - before
            self._say(
                f"round {number}: {len(history.faults)} faults so far, "
                f"{len(history.placed)} gangs placed, {len(history.evictions)} evictions, "
                + (f"in order after {took:.1f} s" if took is not None else "NOT IN ORDER")
                + (f", {new} new violations" if new else "")
            )
            history.disturb(time.time(), "nodes restored")
            await self._patiently(faults.restore_nodes)
        finally:
            faults.close()
        history.prune(time.time())

    async def _rest(self, workload: Workload) -> float | None:
        """Wait until all is in order; return how long it took, None when it never came."""
        began = time.time()
        in_order_since = 0.0
        problems: list[Problem] = []
        evicted = self._evicted_by_extender()
        while time.time() - began < REST_SECONDS:
            await asyncio.sleep(REST_PERIOD)
            await kubelets.look_after(self._bed, self._history, self.run.notes, began)
            now = time.time()
            problems = (
                invariants.at_rest(
                    self._history,
                    now,
                    barrier_seconds=POST_SECONDS + HOLD_SECONDS if self._bed.barrier else 0.0,
                )
                + await self._held()
            )
            if problems or self._moving():
                in_order_since = 0.0
                for name in {each.invariant for each in problems} or {"pods on their way out"}:
                    self.run.measures.waited_for[name] += REST_PERIOD
                continue
            in_order_since = in_order_since or now
            if now - in_order_since >= QUIET_SECONDS:
                self.run.measures.settled.append(in_order_since - began)
                break
        since = began - TROUBLE_SECONDS
        for problem in problems:
            self._violated(problem, since)
        slots = sum(self._nodes.values()) // 1000
        count = self._evicted_by_extender() - evicted
        if count > 2 * slots:
            text = f"{count} evictions at rest, {slots} pods fit on the cluster"
            self._violated(Problem("storm", "cluster", text), since)
        for problem in invariants.storms(self._history, since):
            self._violated(problem, since)
        if in_order_since:
            return in_order_since - began
        await self._clean(workload, problems)
        return None

    def _moving(self) -> bool:
        """Whether pods are still on their way out; a Job keeps finished ones for a while."""
        return any(
            life.exists and life.deleting_at and not life.finished_at
            for life in self._history.pods.values()
        )

    def _evicted_by_extender(self) -> int:
        return sum(each.by == EXTENDER for each in self._history.evictions)

    async def _held(self) -> list[Problem]:
        """Seats held and units not all evicted, as the extender's debug API tells them."""
        held = await self._thread(lambda: self._bed.extender.debug("reservations"))
        begun = await self._thread(lambda: self._bed.extender.debug("evictions"))
        if held is None or begun is None:
            return [Problem("not serving", "extender", "the extender's debug API does not answer")]
        return [
            *(
                Problem("seats held", str(each.get("gang")), f"a plan under way: {_short(each)}")
                for each in held
            ),
            *(
                Problem("eviction unfinished", str(each.get("unit")), f"unit {each}")
                for each in begun
            ),
        ]

    async def _clean(self, workload: Workload, problems: list[Problem]) -> None:
        """Take away what went wrong, so that the next round begins in order."""
        for problem in problems:
            workload.remove(problem.subject.rpartition("/")[2], "is taken away after a violation")
        end = time.time() + 40
        while time.time() < end and (self._history.records or await self._held()):
            await asyncio.sleep(1.0)
        if self._history.records:
            client = self._bed.client
            await self._bed.in_thread(lambda: self._bed.extender.end(0))
            for label in (PLAN_LABEL, PART_LABEL):
                delete = functools.partial(client.delete_all, "ConfigMap", selector=label)
                await self._patiently(delete)
            await self._bed.in_thread(self._bed.extender.start)

    async def _patiently(self, what: Callable[[], object]) -> None:
        """Send requests until they work: the API server may have just come back."""
        for _ in range(10):
            try:
                await self._bed.in_thread(what)
            except (OSError, HTTPException, ApiError):
                await asyncio.sleep(1.0)
            else:
                return

    # -- beside ---------------------------------------------------------------------------

    async def _every(self, period: float, over: asyncio.Event, what: Callable[[], object]) -> None:
        while not over.is_set():
            found = what()
            if asyncio.iscoroutine(found):
                await found
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), period)

    async def _measure(self) -> None:
        process = self._bed.extender.process
        if process is not None and self._bed.extender.alive:
            self.run.measures.sample(process.pid, time.time())

    async def _probe(self) -> None:
        began = time.time()
        body = self._question
        if await self._thread(lambda: self._bed.extender.verb(body)):
            self.run.measures.good_verbs.append((began, time.time()))

    async def _thread(self, what: Callable[[], Found]) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, what)

    def _read_log(self) -> None:
        log = self._bed.extender.log
        with suppress(OSError), log.open(errors="replace") as lines:
            for line in lines:
                if '"level": "error"' in line or '"level":"error"' in line or "[error" in line:
                    self.run.notes["error lines in the extender's log"] += 1
                if line.startswith("Traceback"):
                    self.run.notes["tracebacks in the extender's log"] += 1


def _short(held: Object) -> str:
    """A plan under way in a few words."""
    kept = {key: held[key] for key in ("priority", "state", "stateSeconds") if key in held}
    victims = [victim.get("name") for victim in held.get("victimsLeft", ())]
    seats = [f"{seat.get('name')} on {seat.get('node')}" for seat in held.get("seats", ())]
    return f"{kept}, victims left {victims}, seats {seats}"
