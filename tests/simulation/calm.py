"""What must hold once nothing happens any more and all has come to rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from extender.sandbox.resources import BUDGETS, CONFIG_MAPS
from extender.sandbox.storage import Storage
from tests.simulation.checks import GANG, Checks
from tests.simulation.host import Host
from tests.simulation.objects import PLAN, POD_KEY, Work
from tests.simulation.placement import fits
from tests.simulation.replicas import Replicas
from tests.simulation.state import Seen, State

LAG = 4.0
"""What happened this long before the first member was bound may have been unknown to us: a watch
is 1.5 seconds late, and a bind takes two."""


class Calm:
    """Says what is wrong at rest. ``disturbed`` is told of what others do to a start."""

    def __init__(
        self, state: State, storage: Storage, host: Host | Replicas, checks: Checks
    ) -> None:
        self.disturbed: list[tuple[float, str]] = []
        """When, and which work ("" = any), somebody else got in the way."""
        self.held_for = 0.0
        """How long after the first binding of a gang the last may be posted; 0: no barrier."""
        self.least_runs: Mapping[str, float] = {}
        """Priority class -> for how many seconds a pod runs before it may be evicted."""
        self.preempting = False
        """Whether pods of no gang are judged by whether they could preempt."""
        self.seated: dict[str, list[float]] = {}
        """Work -> when plans gave its members seats."""
        self._state = state
        self._storage = storage
        self._host = host
        self._checks = checks

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (rule, what is wrong)."""
        if not self._checks.enforcing.acts:
            yield "unchosen", "the extender may not act yet"
            return
        yield from self._units()
        if any(self._denied(pod) for pod in self._state.pods.values()):
            return  # what is refused for good is tried again now and then
        yield from self._left_over()
        yield from self._phantoms()
        for work in self._state.works.values():
            if work.gang and work.quorum:
                yield from self._started(work)
                yield from self._runs(work)
            elif not work.gang:
                yield from self._single_runs(work)
        yield from self._overcommitted()

    # -- victims ----------------------------------------------------------------------------

    def _units(self) -> Iterator[tuple[str, str]]:
        """(a) No unit `all` is left half gone by our hand."""
        lost = self._checks.standing.records_lost
        for unit in () if lost else self._checks.units.values():
            pods = [self._state.pods[uid] for uid in unit.left]
            if any(pod.protected for pod in pods) or self._budgeted(unit.work):
                continue
            names = ", ".join(sorted(pod.name for pod in pods))
            members = {pod.uid for pod in self._state.of_work(unit.work.name)}
            stays = unit.denied or self._state.stays_for(unit)
            if stays or any(self._denied(pod) for pod in pods):
                if not (self._checks.warned & members):
                    yield (
                        "unreported",
                        f"{unit.work.name} is half gone, {names} refused, no warning",
                    )
                continue
            yield "half-gone", f"{unit.work.name} is half gone: {names} still there"

    def _budgeted(self, work: Work) -> bool:
        return self._storage.get(BUDGETS.key, work.namespace, work.name) is not None

    # -- gangs ------------------------------------------------------------------------------

    def _started(self, work: Work) -> Iterator[tuple[str, str]]:
        """(b) No gang has started in part."""
        pods = self._state.of_work(work.name)
        running = [pod for pod in pods if pod.runs]
        if not running or len(running) >= work.quorum:
            return
        first = min(pod.bound for pod in running)
        if work.sizeless:
            planned = max(
                (at for at in self.seated.get(work.name, ()) if at <= first), default=first
            )
            if all(pod.runs or pod.going or pod.made > planned - LAG for pod in pods):
                return  # who goes, or came later, was no part of what was given seats
        if self._state.whole.get(work.name, -1.0) >= first:
            return  # it was whole, and somebody has broken it since
        # With the barrier all had come when the first was bound: what happens long after that is
        # no excuse.
        until = first + self.held_for if self.held_for else float("inf")
        if any(
            first - LAG <= at <= until and name in ("", work.name) for at, name in self.disturbed
        ):
            return
        yield "partial", f"{len(running)} of {work.quorum} members of {work.name} run"

    def _runs(self, work: Work) -> Iterator[tuple[str, str]]:
        """(g) Every gang that fits runs."""
        pods = [pod for pod in self._state.of_work(work.name) if not pod.going]
        running = sum(pod.runs for pod in pods)
        waiting = [pod for pod in pods if not pod.node]
        missing = work.quorum - running
        if missing <= 0 or len(waiting) < missing:
            return
        wants = sorted(pod.cpu for pod in waiting)[:missing]
        if fits(self._free(work), wants):
            yield "room", f"{work.name} fits and does not run"
        elif not all(pod.preempts for pod in waiting):
            return
        elif fits(self._free(work, self._evictable(work)), wants):
            yield "preempts", f"{work.name} would fit after evictions and does not run"

    def _free(self, work: Work, gone: frozenset[str] = frozenset()) -> dict[str, int]:
        """Return the free CPU less what kube-scheduler keeps for others as urgent as the work.

        It keeps a nomination of its own when we allow it none of the victims that it proposes
        next, and filters everybody else by it. Nominations of ours are not excused.
        """
        free = self._state.free(gone)
        urgency = self._state.wants(work)
        for pod in self._state.pods.values():
            waits = pod.nominated in free and not pod.node and not pod.going
            theirs = self._checks.nominated.get(pod.name) != pod.nominated
            as_urgent = pod.priority >= urgency and pod.work.name != work.name
            if waits and theirs and as_urgent:
                free[pod.nominated] -= pod.cpu
        return free

    def _evictable(self, work: Work) -> frozenset[str]:
        gone: set[str] = set()
        urgency = self._state.wants(work)
        for other in self._state.works.values():
            pods = [pod for pod in self._state.of_work(other.name) if pod.runs]
            if self._budgeted(other) or not pods:
                continue
            stay = [
                pod
                for pod in pods
                if pod.protected
                or self._denied(pod)
                or self._state.stays_below(pod) >= urgency
                or self._young(pod)
            ]
            if other.gang and other.whole and stay:
                continue
            gone |= {pod.uid for pod in pods if pod not in stay}
        return frozenset(gone)

    def _young(self, pod: Seen) -> bool:
        """Whether it has not run for long enough, as far as the extender's clock goes: one that was
        set back by an hour makes all of them young for an hour."""
        least = self.least_runs.get(pod.work.cls, 0.0)
        item = self._storage.get(POD_KEY, pod.work.namespace, pod.name) if least else None
        started = str((item or {}).get("status", {}).get("startTime", ""))
        if not started:
            return bool(least)
        ran = self._host.clock.wall() - datetime.fromisoformat(started).timestamp()
        return ran < least

    def _denied(self, pod: Seen) -> bool:
        """Whether the API server refuses to let the pod go, for good."""
        return self._checks.denies(pod.name)

    def _single_runs(self, work: Work) -> Iterator[tuple[str, str]]:
        waiting = [p for p in self._state.of_work(work.name) if not p.node and not p.going]
        if waiting and fits(self._free(work), [min(pod.cpu for pod in waiting)]):
            yield "single", f"{work.name} fits and does not run"
        elif not self.preempting or any(pod.going for pod in self._state.pods.values()):
            return  # what has been evicted and does not end may be what it waits for
        elif waiting and all(pod.preempts for pod in waiting):
            gone = self._evictable(work)
            if fits(self._free(work, gone), [min(pod.cpu for pod in waiting)]):
                yield "single-preempts", f"{work.name} would fit after evictions and does not run"

    # -- what is left -----------------------------------------------------------------------

    def _left_over(self) -> Iterator[tuple[str, str]]:
        """(f) No seat, record or nomination without an owner."""
        coordinator = self._host.coordinator
        if coordinator is None or not coordinator.recovered:
            yield "down", "the extender has not recovered"
            return
        for preemption in coordinator.reservations:
            yield "seats", f"{preemption.key} still holds {len(preemption.seats)} seats"
        told = self._checks.warned & self._state.pods.keys()
        owed = bool(self._checks.units or told)  # a broken gang's record is kept
        for item in self._storage.all(CONFIG_MAPS.key):
            meta = item["metadata"]
            aside = owed or meta["name"] in self._checks.spoilt
            if PLAN in (meta.get("labels") or {}) and not aside:
                yield "record-left", f"a plan record of {(meta.get('annotations') or {}).get(GANG)}"
        for pod in self._state.pods.values():
            # Members that start one by one may be nominated by kube-scheduler itself.
            if pod.nominated and not pod.node and pod.work.gang and pod.work.quorum:
                yield "nomination", f"{pod.name} is nominated to {pod.nominated}"
            if pod.marked and not pod.going and not owed:
                yield "marked", f"{pod.name} has DisruptionTarget and stays"

    def _phantoms(self) -> Iterator[tuple[str, str]]:
        """What the extender knows is what there is."""
        cache = self._host.cache
        if cache is None:
            return
        known = {pod.uid: pod.node for pod in cache.store.pods.by_uid.values() if not pod.finished}
        there = {pod.uid: pod.node for pod in self._state.pods.values()}
        if known != there:
            wrong = sorted(dict(known.items() ^ there.items()))
            yield "phantom", f"the cache has {len(known)} pods of {len(there)}; not right: {wrong}"
        nodes = cache.snapshot().nodes.keys()
        if nodes != self._state.sizes.keys():
            yield "phantom", f"the cache has the nodes {sorted(nodes)}"

    def _overcommitted(self) -> Iterator[tuple[str, str]]:
        """(e) No node has more than it can take."""
        used: dict[str, int] = {}
        for pod in self._state.pods.values():
            if pod.node:
                used[pod.node] = used.get(pod.node, 0) + pod.cpu
        for node, cpu in used.items():
            shrunk = self._checks.standing.smaller(node)
            if cpu > self._state.sizes.get(node, cpu) and not shrunk:
                yield "overcommit", f"{node} has {cpu} of {self._state.sizes[node]} CPU in use"
