"""Users, and the controllers that a real cluster would have for their groups.

Groups arrive, run, finish and are deleted by seeded choice, more of them than the cluster can
hold. Lost pods come back: by the real Job controller, else by ``_tend`` as the launcher of the
dialect would do it. API errors of a broken cluster are met by trying again in the next round.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.client import HTTPException

from tests.chaos import groups
from tests.chaos.groups import GROUP_LABEL, GroupSpec
from tests.chaos.history import GroupLife, History
from tests.controlplane.client import STRATEGIC, ApiError, Client, Object
from tests.controlplane.releases import Release

PERIOD = 0.25
DEMAND = 2.6
"""Requests of all groups together, as a share of what the nodes have."""
IMPATIENCE = 25.0
"""Users take a group away that has waited this long."""
UNSEEN_SECONDS = 20.0
"""A pod that no watch shows this long after its creation has come and gone."""
REACTION_SECONDS = 6.0
"""How long a launcher that throws everything away after a loss takes to notice the loss."""

_WEIGHTS = {
    groups.POD_GROUP: 5,
    groups.PLUGINS_LABEL: 2,
    groups.JOBSET: 2,
    groups.INDEXED_JOB: 1,
    groups.SKYPILOT: 2,
    groups.SINGLE: 3,
    groups.REPLICAS: 2,
}


@dataclass
class Slot:
    """One member's place, whatever pod fills it at the moment."""

    index: int
    attempt: int = 0
    uid: str = ""
    made_at: float = 0.0


@dataclass
class Launch:
    """What the owner of a group remembers."""

    spec: GroupSpec
    slots: list[Slot]
    ends_at: float
    """When its work is done, counted from its start."""
    eager: bool
    """Whether a pod is replaced while the old one still terminates."""
    set_up: bool = False
    attempt: int = 0
    jobs_made: bool = False
    lost_since: float = 0.0
    finishes: bool = False
    running_since: float = 0.0
    waiting_since: float = field(default_factory=time.time)
    unready: str = ""
    """Uid of the pod that was made unready last."""


class Workload:
    """Brings groups and takes them away; ``paused`` only tends to those that are there."""

    def __init__(
        self, client: Client, release: Release, history: History, seed: str, capacity: int
    ) -> None:
        self.launches: dict[str, Launch] = {}
        self.paused = False
        self.errors = 0
        self._client = client
        self._release = release
        self._history = history
        self._rng = random.Random(seed)
        self._capacity = capacity
        self._number = 0
        self._urgent_next = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="workload")

    async def run(self, stop: asyncio.Event) -> None:
        """Act until told to stop."""
        while not stop.is_set():
            began = time.monotonic()
            await self.round()
            left = PERIOD - (time.monotonic() - began)
            try:
                await asyncio.wait_for(stop.wait(), max(0.02, left))
            except TimeoutError:
                continue

    async def round(self) -> None:
        """Look at every group once."""
        now = time.time()
        if not self.paused:
            self._arrivals(now)
            self._departures(now)
        for launch in list(self.launches.values()):
            group = self._history.groups[launch.spec.name]
            if group.present:
                await self._attempt(functools.partial(self._tend, launch, group))
            else:
                await self._attempt(functools.partial(self._clear, launch))
                if not launch.set_up and not self._history.of(launch.spec.name):
                    del self.launches[launch.spec.name]
                    self._history.forget(launch.spec.name)

    def close(self) -> None:
        """Give the thread back."""
        self._thread.shutdown(wait=False)

    def remove(self, name: str, why: str) -> None:
        """Take one group away."""
        group = self._history.groups.get(name)
        if group is not None and group.present:
            self._history.leave(name, time.time(), why)

    async def _attempt(self, what: Callable[[], None]) -> None:
        """Run requests in the thread; what failed is looked at again in the next round."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, what)
        except (OSError, HTTPException, ApiError, LookupError, ValueError):
            self.errors += 1

    # -- arriving and leaving ---------------------------------------------------------------

    def _arrivals(self, now: float) -> None:
        demand = sum(
            launch.spec.cpu * launch.spec.size
            for launch in self.launches.values()
            if self._history.groups[launch.spec.name].present
        )
        if demand < DEMAND * self._capacity and self._rng.random() < 0.6:
            spec = self._draw()
            if self._urgent_next and spec.preempts:
                spec = replace(spec, priority=max(groups.PRIORITIES))
            # More urgent ones often come while others are still being planned for.
            self._urgent_next = self._rng.random() < 0.3
            self.bring(spec, now)

    def bring(self, spec: GroupSpec, now: float) -> None:
        """Let a group arrive."""
        rng = self._rng
        self._history.arrive(spec, now)
        self.launches[spec.name] = Launch(
            spec,
            [Slot(index) for index in range(spec.size)],
            # The urgent ones are short, so that the others run again and are evicted again.
            ends_at=(
                rng.uniform(1.5, 5.0) if spec.priority >= groups.URGENT else rng.uniform(10.0, 40.0)
            ),
            eager=spec.dialect == groups.POD_GROUP and rng.random() < 0.3,
        )

    def _draw(self) -> GroupSpec:
        rng = self._rng
        self._number += 1
        dialect = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        spec = GroupSpec(
            name=f"g{self._number}",
            dialect=dialect,
            priority=rng.choices(groups.PRIORITIES, (4, 3, 2, 3, 3))[0],
            cpu=rng.choice((1000, 1000, 1000, 2000, 3000)),
            grace=rng.choice((0, 1, 1, 3, 5)),
            protected=rng.random() < 0.05,
            unit=groups.ALL,
        )
        if rng.random() < 0.05:
            spec = replace(spec, priority=groups.NEVER_PREEMPTS, preempts=False)
        if dialect == groups.SINGLE:
            single = replace(spec, unit=groups.EACH)
            return self._guarded(single, 0.3, (groups.NOTHING, groups.UNREADY))
        most = max(2, min(6, int(0.7 * self._capacity) // spec.cpu))
        size = rng.randint(2, most)
        if dialect == groups.REPLICAS:
            low = replace(
                spec, size=size, unit=groups.EACH, protected=False, priority=min(20, spec.priority)
            )
            return self._guarded(low, 1.0, tuple(groups.BUDGETS))
        unit = groups.ALL
        if dialect == groups.PLUGINS_LABEL or (dialect == groups.POD_GROUP and rng.random() < 0.35):
            unit = groups.EACH
        surplus = dialect == groups.POD_GROUP and size > 2 and rng.random() < 0.25
        gang = replace(spec, size=size, min_count=size - surplus, unit=unit)
        kinds = (groups.NOTHING, groups.UNREADY, groups.ONE_LEFT)
        return self._guarded(gang, 0.3 if unit == groups.EACH else 0.1, kinds)

    def _guarded(self, spec: GroupSpec, share: float, kinds: tuple[str, ...]) -> GroupSpec:
        """Return the group, perhaps with one of these budgets and perhaps with an unready pod."""
        rng = self._rng
        if rng.random() >= share:
            return spec
        return replace(spec, budget=rng.choice(kinds), unready=rng.random() < 0.5)

    def _departures(self, now: float) -> None:
        for launch in self.launches.values():
            group = self._history.groups[launch.spec.name]
            if not group.present:
                continue
            runs = group.was_whole or (not launch.spec.starts_whole and group.first_bound_at)
            if not runs:
                launch.running_since = 0.0
                launch.waiting_since = launch.waiting_since or now
                planned = any(life.seen.nominated for life in self._history.of(launch.spec.name))
                cancels = self._rng.random() < (0.02 if planned else 0.002)
                if cancels or now - launch.waiting_since > IMPATIENCE:
                    self.remove(launch.spec.name, "is deleted by its user while it waits")
                continue
            launch.waiting_since = 0.0
            launch.running_since = launch.running_since or now
            if now - launch.running_since > launch.ends_at:
                launch.finishes = self._rng.random() < 0.6
                how = "finishes" if launch.finishes else "is deleted by its user"
                self.remove(launch.spec.name, how)

    # -- what controllers and launchers do (in the thread) --------------------------------------

    def _tend(self, launch: Launch, group: GroupLife) -> None:
        spec = launch.spec
        if not launch.set_up:
            for document in groups.group_objects(spec, self._release):
                self._make(document)
            launch.set_up = True
        if spec.unready:
            self._make_unready(launch)
        if spec.comes_back_whole and self._start_over(launch, group):
            return
        if spec.by_jobs:
            if not launch.jobs_made:
                for document in groups.job_objects(spec, launch.attempt):
                    self._make(document)
                launch.jobs_made = True
            return
        for slot in launch.slots:
            if slot.uid and not self._lost(slot, eager=launch.eager):
                continue
            if slot.uid:
                slot.uid = ""
                slot.attempt += 1
            name = f"{spec.name}-{slot.index}"
            if not spec.same_names:
                name = f"{name}-{slot.attempt}"
            self._fill(slot, groups.pod_object(spec, name))

    def _make_unready(self, launch: Launch) -> None:
        """Let one of the pods that run not be ready; another one once that is gone."""
        running = [
            life
            for life in self._history.of(launch.spec.name)
            if life.seated and life.seen.phase == "Running"
        ]
        if not running or any(life.seen.uid == launch.unready for life in running):
            return
        chosen = running[0].seen
        condition = {"type": "Ready", "status": "False", "reason": "Chaos"}
        self._client.patch(
            "Pod",
            chosen.name,
            {"status": {"conditions": [condition]}},
            subresource="status",
            content_type=STRATEGIC,
        )
        launch.unready = chosen.uid

    def _lost(self, slot: Slot, *, eager: bool) -> bool:
        life = self._history.pods.get(slot.uid)
        if life is None:
            return time.time() - slot.made_at > UNSEEN_SECONDS
        return bool(life.gone_at or (eager and life.deleting_at))

    def _start_over(self, launch: Launch, group: GroupLife) -> bool:
        """Throw away what is left after a loss; True while that goes on."""
        spec = launch.spec
        pods = self._history.of(spec.name)
        made = launch.jobs_made if spec.by_jobs else all(slot.uid for slot in launch.slots)
        if not launch.lost_since:
            whole = [life for life in pods if life.alive]
            seen = all(slot.uid in self._history.pods for slot in launch.slots if slot.uid)
            if not made or not seen or len(whole) >= spec.size:
                return False
            if spec.by_jobs and not self._failed(spec):
                return False  # The Job controller has not made them all yet.
            launch.lost_since = time.time()
        left = [life for life in pods if life.alive]
        half_gone = any(each.survivors & {life.seen.uid for life in left} for each in group.breaks)
        soon = time.time() - launch.lost_since < REACTION_SECONDS
        if left and (soon or (self.paused and half_gone)):
            return True
        if spec.by_jobs:
            self._delete_jobs(spec)
        if left:
            self._client.delete_all("Pod", selector=f"{GROUP_LABEL}={spec.name}")
        if pods:
            return True
        launch.lost_since = 0.0
        launch.attempt += 1
        launch.jobs_made = False
        for slot in launch.slots:
            slot.uid = ""
            slot.attempt += 1
        return False

    def _failed(self, spec: GroupSpec) -> bool:
        """Whether a Job of the group has lost a pod."""
        return any((job.get("status") or {}).get("failed") for job in self._jobs(spec))

    def _jobs(self, spec: GroupSpec) -> list[Object]:
        return [
            job
            for job in self._client.list(spec.controller)
            if job["metadata"]["name"] == spec.name
            or job["metadata"]["name"].startswith(f"{spec.name}-")
        ]

    def _delete_jobs(self, spec: GroupSpec) -> None:
        for job in self._jobs(spec):
            self._client.delete(
                spec.controller, job["metadata"]["name"], propagation="Background", missing_ok=True
            )

    def _clear(self, launch: Launch) -> None:
        """Remove everything of a group that is leaving, step by step."""
        spec = launch.spec
        pods = self._history.of(spec.name)
        if launch.finishes:
            for life in pods:
                if life.seated and life.seen.phase == "Running":
                    self._succeed(life.seen.name)
            launch.finishes = False
            return
        if not launch.set_up:
            return
        if spec.by_jobs:
            self._delete_jobs(spec)
        self._client.delete_all("Pod", selector=f"{GROUP_LABEL}={spec.name}")
        for document in groups.group_objects(spec, self._release):
            kind = f"{document['apiVersion']}/{document['kind']}"
            self._client.delete(kind, spec.name, missing_ok=True)
        left = self._client.list("Pod", labelSelector=f"{GROUP_LABEL}={spec.name}")
        jobs = self._jobs(spec) if spec.by_jobs else []
        if not left and not jobs:
            launch.set_up = False

    def _succeed(self, name: str) -> None:
        try:
            self._client.patch(
                "Pod", name, {"status": {"phase": "Succeeded"}}, subresource="status"
            )
        except ApiError as problem:
            if problem.status != 404:
                raise

    def _make(self, document: Object) -> None:
        """Create an object that may be there from an attempt whose answer was lost."""
        try:
            self._client.create(document)
        except ApiError as problem:
            if problem.status != 409:
                raise

    def _fill(self, slot: Slot, document: Object) -> None:
        try:
            made = self._client.create(document)
        except ApiError as problem:
            if problem.status != 409:
                raise
            made = self._client.get("Pod", document["metadata"]["name"])
            if made["metadata"].get("deletionTimestamp"):
                return  # The one before it has not gone yet.
        slot.made_at = time.time()
        slot.uid = made["metadata"]["uid"]
