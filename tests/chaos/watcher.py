"""Watches a run: what the API server and the extender tell, checked against what holds always."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tests.chaos import invariants
from tests.chaos.bed import NAMESPACE, Bed
from tests.chaos.history import EXTENDER, SQUATTERS, Eviction
from tests.chaos.invariants import Problem
from tests.chaos.observing import (
    PART_LABEL,
    PLAN_LABEL,
    AuditLog,
    Follower,
    Removal,
    node_room,
    pod_seen,
    record_gang,
)
from tests.chaos.report import Run
from tests.controlplane.client import Object

OVER_BOUND = "pods bound beyond a node's room after a fault of kube-scheduler's"
LATE_MARK = "terminating pods marked as victims of a less urgent gang"
EVENT_SECONDS = 5.0
"""How long an eviction waits for the watch to show its pod."""


class Watcher:
    """Fills in the history of ``run``; ``violated`` is told what did not hold."""

    def __init__(
        self,
        bed: Bed,
        run: Run,
        threads: ThreadPoolExecutor,
        violated: Callable[[Problem], None],
    ) -> None:
        self._bed = bed
        self._run = run
        self._history = run.history
        self._threads = threads
        self._violated = violated
        self._pending: list[Removal] = []
        self._unchecked: list[Eviction] = []
        self._over: dict[str, float] = {}
        self._told: set[tuple[float, str, str]] = set()
        self._followers: list[Follower] = []

    def start(self) -> None:
        """Follow the API server from now on."""
        loop = asyncio.get_running_loop()
        client = self._bed.client

        def follow(
            kind: str, namespace: str, take: Callable[[str, Object, float], None], **query: str
        ) -> None:
            def told(event: str, each: Object, at: float) -> None:
                with suppress(RuntimeError):  # The loop has ended.
                    loop.call_soon_threadsafe(take, event, each, at)

            self._followers.append(Follower(client, kind, told, namespace, **query))

        follow("Pod", NAMESPACE, self._take_pod)
        follow("Pod", SQUATTERS, self._take_pod)
        follow("Node", "", self._take_node)
        for label in (PLAN_LABEL, PART_LABEL):
            follow("ConfigMap", NAMESPACE, self._take_record, labelSelector=label)
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
                    self._run.notes[LATE_MARK] += 1
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

    def stop(self) -> None:
        """Follow it no more; count what was missed."""
        for follower in self._followers:
            follower.stop()
            self._run.gaps += follower.gaps

    def look(self) -> None:
        """Take note of new evictions and check what holds at every moment."""
        history, now = self._history, time.time()
        self._pending += self._audit.new()
        waiting, self._pending = self._pending, []
        for removal in waiting:
            at, user = removal.at, removal.user
            uid = removal.uid or self._uid_of(removal.name, at)
            if uid not in history.pods:
                if now - at < EVENT_SECONDS:
                    self._pending.append(removal)
                continue
            lag = invariants.lag(history, at)
            eviction = history.removed(uid, at, user, lag, asked=removal.asked)
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
                self._run.notes["evictions without a condition that names the preemptor"] += 1
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
                self._run.notes[OVER_BOUND] += 1
                name = last.seen.name
                self._history.disturb(now, f"turned away by its kubelet: {name}")
                delete = functools.partial(self._bed.client.delete, "Pod", grace=0, missing_ok=True)
                self._threads.submit(delete, name)
                self._over[node] = now
            else:
                self._violated(problems[node])

    async def decisions(self) -> None:
        """Add what the extender says of its decisions to the story."""
        loop = asyncio.get_running_loop()
        for decision in reversed(
            await loop.run_in_executor(self._threads, lambda: self._bed.extender.decisions(60))
        ):
            key = (decision["time"], decision["gang"], decision["outcome"])
            if key in self._told or decision["time"] < self._run.began:
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
