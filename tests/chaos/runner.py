"""One run: rounds of trouble, each followed by a rest in which everything must come right."""

from __future__ import annotations

import asyncio
import functools
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TypeVar

from tests.chaos import groups, invariants, kubelets
from tests.chaos.bed import HOLD_SECONDS, NAMESPACE, POST_SECONDS, Bed
from tests.chaos.cases import Cases
from tests.chaos.faults import Faults
from tests.chaos.history import EXTENDER, Eviction, History
from tests.chaos.invariants import Problem
from tests.chaos.measuring import Measures, probe
from tests.chaos.observing import (
    PART_LABEL,
    PLAN_LABEL,
    AuditLog,
    Follower,
    node_room,
    pod_seen,
    record_gang,
)
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
TOLD_SECONDS = 60.0
"""How far back the story of a violation goes that is seen at once."""
OVER_BOUND = "pods bound beyond a node's room after a fault of kube-scheduler's"
LATE_MARK = "terminating pods marked as victims of a less urgent gang"
EVENT_SECONDS = 5.0
"""How long an eviction waits for the watch to show its pod."""


GROUP_NAME = re.compile(r"\bg\d+\b")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that did not hold, with what led to it."""

    at: float
    problem: Problem
    story: list[str]


@dataclass
class Run:
    """What came of a run."""

    minor: str
    seed: int
    history: History = field(default_factory=History)
    measures: Measures = field(default_factory=Measures)
    violations: list[Violation] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    rounds: int = 0
    began: float = 0.0
    seconds: float = 0.0
    gaps: int = 0


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
        self._found: set[tuple[str, str]] = set()
        self._pending: list[tuple[float, str, str, str]] = []
        self._unchecked: list[Eviction] = []
        self._over: dict[str, float] = {}
        self._told: set[tuple[float, str, str]] = set()
        self._followers: list[Follower] = []
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="runner")

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
        self._start_followers()
        over = asyncio.Event()
        beside = [
            asyncio.create_task(task)
            for task in (
                workload.run(over),
                self._every(0.2, over, self._look),
                self._every(1.0, over, self._measure),
                self._every(0.25, over, self._probe),
                self._every(1.0, over, self._decisions),
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
            for follower in self._followers:
                follower.stop()
                self.run.gaps += follower.gaps
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
                Problem("seats held", str(each.get("gang")), f"a plan in flight: {_short(each)}")
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

    # -- watching ---------------------------------------------------------------------------

    def _start_followers(self) -> None:
        loop = asyncio.get_running_loop()
        client = self._bed.client

        def follow(kind: str, take: Callable[[str, Object, float], None], **query: str) -> None:
            def told(event: str, each: Object, at: float) -> None:
                with suppress(RuntimeError):  # The loop has ended.
                    loop.call_soon_threadsafe(take, event, each, at)

            namespace = "" if kind == "Node" else NAMESPACE
            self._followers.append(Follower(client, kind, told, namespace, **query))

        follow("Pod", self._take_pod)
        follow("Node", self._take_node)
        for label in (PLAN_LABEL, PART_LABEL):
            follow("ConfigMap", self._take_record, labelSelector=label)
        for follower in self._followers:
            follower.start()
        self._audit = AuditLog(self._bed.plane.layout.audit_log, NAMESPACE)

    def _take_pod(self, event: str, pod: Object, at: float) -> None:
        if "spec" in pod:
            seen = pod_seen(pod)
            known = self._history.pods.get(seen.uid)
            leaving = known is not None and known.deleting_at
            self._history.take(seen, at)
            for problem in invariants.of_a_mark(seen):
                if leaving:  # It was on its way out already, for somebody else: no harm done.
                    self.run.notes[LATE_MARK] += 1
                else:
                    self._violated(problem)
        if event == "DELETED":
            self._history.gone(pod["metadata"]["uid"], at)

    def _take_node(self, event: str, node: Object, at: float) -> None:
        name, history = node["metadata"]["name"], self._history
        history.nodes.pop(name, None)
        history.closed_nodes.pop(name, None)
        if event == "DELETED":
            return
        cpu, takes_pods = node_room(node)
        (history.nodes if takes_pods else history.closed_nodes)[name] = cpu

    def _take_record(self, event: str, record: Object, at: float) -> None:
        name = record["metadata"]["name"]
        if event == "DELETED":
            self._history.records.pop(name, None)
            self._history.tell(at, f"plan record {name} is deleted")
            return
        if name not in self._history.records:
            self._history.tell(at, f"plan record {name} for {record_gang(record)}")
        self._history.records[name] = record_gang(record)

    async def _every(self, period: float, over: asyncio.Event, what: Callable[[], object]) -> None:
        while not over.is_set():
            found = what()
            if asyncio.iscoroutine(found):
                await found
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), period)

    def _look(self) -> None:
        """Take note of new evictions and check what holds at every moment."""
        history, now = self._history, time.time()
        self._pending += self._audit.new()
        waiting, self._pending = self._pending, []
        for at, user, name, uid in waiting:
            uid = uid or self._uid_of(name, at)
            if uid not in history.pods:
                if now - at < EVENT_SECONDS:
                    self._pending.append((at, user, name, uid))
                continue
            eviction = history.removed(uid, at, user, invariants.lag(history, at))
            if eviction is not None and user == EXTENDER:
                history.tell(at, f"{history.pods[uid].seen.name} is evicted by the extender")
                self._unchecked.append(eviction)
        self._check_evictions(now)
        self._check_commitment(now)
        extender = self._bed.extender
        if extender.meant_to_run and not extender.alive:
            extender.meant_to_run = False
            tail = extender.process.tail(15) if extender.process else ""
            self._violated(Problem("ended", "extender", f"the extender ended by itself:\n{tail}"))

    def _uid_of(self, name: str, at: float) -> str:
        """The pod that had a name when a request named it without its uid."""
        return next(
            (
                uid
                for uid, life in self._history.pods.items()
                if life.seen.name == name
                and life.created_at <= at + 1
                and (not life.gone_at or life.gone_at >= at - 1)
            ),
            "",
        )

    def _check_evictions(self, now: float) -> None:
        later = []
        for eviction in self._unchecked:
            life = self._history.pods[eviction.uid]
            if not (life.deleting_at or life.gone_at) and now - eviction.at < EVENT_SECONDS:
                later.append(eviction)
                continue
            if not life.disrupted:
                self.run.notes["evictions without a condition that names the preemptor"] += 1
            for problem in invariants.of_an_eviction(self._history, eviction):
                self._violated(problem)
        self._unchecked = later

    def _check_commitment(self, now: float) -> None:
        problems = {each.subject: each for each in invariants.over_commitment(self._history)}
        self._over = {node: self._over.get(node, now) for node in problems}
        for node, since in self._over.items():
            if now - since < 3.0:
                continue
            last = max(self._history.on_node(node), key=lambda life: life.bound_at)
            begin = last.bound_at - 20.0
            if any(
                fault.touches_scheduler and fault.overlaps(begin, now)
                for fault in self._history.recent_faults()
            ):
                # kube-scheduler lost the answer to a binding: a kubelet would turn the pod away.
                self.run.notes[OVER_BOUND] += 1
                name = last.seen.name
                self._history.disturb(now, f"turned away by its kubelet: {name}")
                delete = functools.partial(self._bed.client.delete, "Pod", grace=0, missing_ok=True)
                self._threads.submit(delete, name)
                self._over[node] = now
            else:
                self._violated(problems[node])

    async def _measure(self) -> None:
        process = self._bed.extender.process
        if process is not None and self._bed.extender.alive:
            self.run.measures.sample(process.pid, time.time())

    async def _probe(self) -> None:
        began = time.time()
        body = self._question
        if await self._thread(lambda: self._bed.extender.verb(body)):
            self.run.measures.good_verbs.append((began, time.time()))

    async def _decisions(self) -> None:
        """Add what the extender says of its decisions to the story."""
        for decision in reversed(await self._thread(lambda: self._bed.extender.decisions(60))):
            key = (decision["time"], decision["gang"], decision["outcome"])
            if key in self._told or decision["time"] < self.run.began:
                continue
            self._told.add(key)
            victims = ", ".join(victim["name"] for victim in decision["victims"])
            seats = ", ".join(f"{s['name']} on {s['node']}" for s in decision["seats"])
            self._history.tell(
                decision["time"],
                f"extender: {decision['gang']} {decision['outcome']} {decision.get('code', '')}: "
                f"{decision['message']}"
                + (f"; victims {victims}" if victims else "")
                + (f"; seats {seats}" if seats else ""),
            )
        if len(self._told) > 5000:
            self._told = set(sorted(self._told)[-2000:])

    async def _thread(self, what: Callable[[], Found]) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, what)

    def _violated(self, problem: Problem, since: float | None = None) -> None:
        """Keep a violation with what led to it, from ``since`` on, and say so; once only."""
        key = (problem.invariant, problem.subject)
        if key in self._found:
            return
        self._found.add(key)
        now = time.time()
        self._history.tell(now, f"VIOLATION {problem.invariant}: {problem.text}")
        story = story_of(self._history, problem, since or now - TOLD_SECONDS)
        self.run.violations.append(Violation(now, problem, story))
        self._say(f"VIOLATION {problem.invariant}: {problem.text}")

    def _read_log(self) -> None:
        log = self._bed.extender.log
        with suppress(OSError), log.open(errors="replace") as lines:
            for line in lines:
                if '"level": "error"' in line or '"level":"error"' in line or "[error" in line:
                    self.run.notes["error lines in the extender's log"] += 1
                if line.startswith("Traceback"):
                    self.run.notes["tracebacks in the extender's log"] += 1


def story_of(history: History, problem: Problem, since: float) -> list[str]:
    """What has happened since, as far as it is about the subject or a fault."""
    names = {problem.subject.rpartition("/")[2], *GROUP_NAME.findall(problem.text)}
    related = [
        (at, text)
        for at, text in sorted(history.story)
        if at >= since
        and (
            any(_names(text, name) for name in names)
            or text.startswith(("FAULT", "fault over", "REST", "VIOLATION"))
        )
    ]
    began = history.story[0][0] if history.story else since
    return [f"{at - began:8.2f} s  {text}" for at, text in related]


def _names(text: str, name: str) -> bool:
    """Whether a line is about a group, not about one whose name only begins alike."""
    at = text.find(name)
    while at >= 0:
        after = text[at + len(name) : at + len(name) + 1]
        if not after.isdigit() and not text[at - 1 : at].isalnum():
            return True
        at = text.find(name, at + 1)
    return False


def _short(held: Object) -> str:
    """A plan in flight in a few words."""
    kept = {key: held[key] for key in ("priority", "state", "stateSeconds") if key in held}
    victims = [victim.get("name") for victim in held.get("victimsLeft", ())]
    seats = [f"{seat.get('name')} on {seat.get('node')}" for seat in held.get("seats", ())]
    return f"{kept}, victims left {victims}, seats {seats}"
