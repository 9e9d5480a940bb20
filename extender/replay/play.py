"""The replay: jobs come, run, are evicted, wait and end, on simulated time.

Rules, equal for all policies:

- Jobs are tried by priority, then by how long they have waited, whenever one comes or room becomes
  free. Who does not fit keeps nobody else from free room.
- A job makes progress while all of its members have a node. An evicted job loses what it has done
  since its last checkpoint, waits again once its grace period is over, and needs ``restart``
  seconds before it makes progress again.
- Free room is taken as kube-scheduler scores it. A policy decides only whom to evict.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from msgspec import Struct, field

from extender.replay.cluster import Cluster, Member, Placement, Work
from extender.replay.planned import Planned
from extender.replay.retold import Score, pod_by_pod, without_victims, workload_aware
from extender.replay.trace import Job
from extender.settings.cost_order import ORDERS

POD_BY_POD, WAP_37, WAP_38 = "pod-by-pod", "workload-aware-1.37", "workload-aware-1.38"
POLICIES = (*ORDERS, POD_BY_POD, WAP_37, WAP_38)
IN_VAIN_SECONDS = 600.0
"""Pods were evicted in vain where the job that they were evicted for does not run so soon after
their grace period."""
DAY = 86_400.0


class ReplaySettings(Struct, frozen=True, kw_only=True):
    """What is replayed on."""

    nodes: int
    gpus: int = 8
    grace: float = 30.0
    restart: float = 300.0
    checkpoint: float = 0.0
    """Seconds between two checkpoints of a job, 0 for none."""
    packs: bool = True
    """Free nodes are scored by MostAllocated, else by LeastAllocated."""


class Played(Struct, kw_only=True):
    """What became of the jobs under one policy. GPU-seconds, but for counts and waits."""

    policy: str
    kept: float = 0.0
    """Progress that counted."""
    lost: float = 0.0
    """Progress that evictions undid."""
    restarts: float = 0.0
    """Time in which restarted jobs made no progress yet."""
    idle: float = 0.0
    """GPUs held by jobs of which other members wait."""
    pods: int = 0
    """Evicted."""
    jobs: int = 0
    """Times that a job was evicted."""
    gangs: int = 0
    """Of these, jobs of several members."""
    in_part: int = 0
    """Of these, jobs that kept some of their members."""
    in_vain: int = 0
    """Pods evicted for a job that did not run soon after."""
    unfinished: int = 0
    plans: int = 0
    """Times that somebody was evicted."""
    bounded: int = 0
    """Of these, plans that are not proved to be the least."""
    seconds: list[float] = field(default_factory=list)
    """CPU time of each decision that may evict."""
    waits: dict[int, list[float]] = field(default_factory=dict)
    """Priority -> seconds from submission to the first progress, of each job that ran."""
    delays: dict[int, list[float]] = field(default_factory=dict)
    """Priority -> seconds by which each job ended later than if it had run at once."""
    by_day: dict[int, float] = field(default_factory=dict)
    """Day -> progress that counted."""
    lost_by_day: dict[int, float] = field(default_factory=dict)
    until: float = 0.0
    """When the last job ended."""


class _Queue(NamedTuple):
    """A job waits from now on."""

    work: Work


class _Done(NamedTuple):
    """A run of a job ends, unless it was stopped before."""

    work: Work
    run: int


class _Ended(NamedTuple):
    """GPUs of a node are free: who held them has ended."""

    node: int
    gpus: int


_Event = _Queue | _Done | _Ended


def play(
    jobs: Sequence[Job],
    settings: ReplaySettings,
    policy: str,
    clock: Callable[[], float] = lambda: 0.0,
) -> Played:
    """Replay jobs, by submission, under one of POLICIES. Raises ValueError for another name.

    ``clock``: seconds of CPU time, for ``Played.seconds`` alone.
    """
    if policy not in POLICIES:
        raise ValueError(f"{policy!r} is none of {', '.join(POLICIES)}")
    return _Replay(jobs, settings, policy, clock).run()


class _Replay:
    def __init__(
        self,
        jobs: Sequence[Job],
        settings: ReplaySettings,
        policy: str,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._cluster = Cluster(settings.nodes, settings.gpus)
        self._score = Score(packs=settings.packs)
        self._alone = policy == POD_BY_POD
        self._planned = (
            Planned(self._cluster, policy, settings.restart) if policy in ORDERS else None
        )
        self._played = Played(policy=policy)
        self._works = [
            Work(job, number, job.seconds, job.submitted, [-1] * job.members)
            for number, job in enumerate(jobs)
        ]
        self._events: list[tuple[float, int, _Event]] = []
        self._order = count()
        self._waiting: list[tuple[tuple[int, float, int], Work]] = []
        self._refused: list[tuple[int, int, int]] = []
        """GPUs a member, members and priority of what did not fit since room was last freed."""
        self._evictions: dict[Work, list[tuple[float, int]]] = defaultdict(list)
        """By the job that they were for: when, and how many pods."""

    def run(self) -> Played:
        """Play all events."""
        for work in self._works:
            self._at(work.queued_at, _Queue(work))
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                self._apply(heappop(self._events)[2], now)
            self._schedule(now)
        self._end()
        return self._played

    def _at(self, when: float, event: _Event) -> None:
        heappush(self._events, (when, next(self._order), event))

    # -- events ---------------------------------------------------------------------------

    def _apply(self, event: _Event, now: float) -> None:
        match event:
            case _Queue(work):
                if all(work is not other for _, other in self._waiting):
                    work.queued_at = now
                    entry = ((-work.job.priority, now, work.number), work)
                    insort(self._waiting, entry, key=_place)
            case _Done(work, run):
                if work.runs == run and work.running_since is not None:
                    self._finish(work, work.running_since, now)
                    self._refused.clear()
            case _Ended(node, gpus):
                self._cluster.let_go(node, gpus)
                self._refused.clear()

    def _finish(self, work: Work, since: float, now: float) -> None:
        self._progress(work, since, now, self._played.by_day)
        self._played.kept += work.left * work.held
        work.left, work.ended, work.running_since = 0.0, now, None
        for at in range(len(work.nodes)):
            self._cluster.take(work, at)

    # -- scheduling -----------------------------------------------------------------------

    def _schedule(self, now: float) -> None:
        for _, work in list(self._waiting):
            job = work.job
            while not work.whole:
                wants = (job.gpus, 1 if self._alone else job.members, job.priority)
                if self._hopeless(*wants):
                    break
                placement = self._placement(work, now, wants)
                if placement is None:
                    self._refused.append(wants)
                    break
                self._place(work, placement, now)
        self._waiting = [each for each in self._waiting if not each[1].whole]

    def _hopeless(self, gpus: int, members: int, priority: int) -> bool:
        """Whether somebody who asks for no more, and is no less urgent, did not fit."""
        return any(
            gpus >= own and members >= fewer and priority <= other
            for own, fewer, other in self._refused
        )

    def _placement(self, work: Work, now: float, wants: tuple[int, int, int]) -> Placement | None:
        if not self._cluster.could_fit(*wants):
            return None
        if not self._alone:
            free = without_victims(self._cluster, work, self._score)
            if free is not None:
                return free
        began = self._clock()
        placement = self._preempt(work, now)
        self._played.seconds.append(self._clock() - began)
        return placement

    def _preempt(self, work: Work, now: float) -> Placement | None:
        if self._planned is not None:
            return self._planned.preempt(work, now, self._settings.checkpoint)
        if self._alone:
            return pod_by_pod(self._cluster, work, self._score)
        ranked = self._played.policy == WAP_38
        return workload_aware(self._cluster, work, self._score, ranked=ranked)

    def _place(self, work: Work, placement: Placement, now: float) -> None:
        played, cluster = self._played, self._cluster
        gone: dict[int, int] = defaultdict(int)
        for work_of, members in _by_work(placement.victims).items():
            for member in members:
                gone[work_of.nodes[member.at]] += work_of.job.gpus
            self._evict(work_of, members, now)
        for at, node in placement.seats:
            if not work.held:
                work.held_since = now
            self._idle(work, now)
            cluster.put(work, at, node)
            gone[node] -= work.job.gpus
        for node, gpus in gone.items():
            if gpus > 0:
                cluster.hold(node, gpus)
                self._at(now + self._settings.grace, _Ended(node, gpus))
        if placement.victims:
            work.ready_at = now + self._settings.grace
            played.plans += 1
            played.bounded += placement.bounded
            played.pods += len(placement.victims)
            self._evictions[work].append((now, len(placement.victims)))
        if work.whole:
            self._start(work, now)

    def _start(self, work: Work, now: float) -> None:
        starts = max(now, work.ready_at)
        for when, pods in self._evictions.pop(work, ()):
            if starts - when > self._settings.grace + IN_VAIN_SECONDS:
                self._played.in_vain += pods
        if work.started is None:
            work.started = starts
        else:
            self._played.restarts += self._settings.restart * work.held
            starts += self._settings.restart
        work.runs += 1
        work.running_since = starts
        self._at(starts + work.left, _Done(work, work.runs))

    def _evict(self, work: Work, members: Sequence[Member], now: float) -> None:
        played, several = self._played, len(work.nodes) > 1
        if work.running_since is not None:
            saved = work.saved(now, self._settings.checkpoint)
            upto = work.running_since + saved
            self._progress(work, work.running_since, upto, played.by_day)
            self._progress(work, upto, now, played.lost_by_day)
            played.kept += saved * work.held
            played.lost += max(0.0, now - upto) * work.held
            work.left -= saved
            work.running_since = None
        else:
            self._idle(work, now)
        work.held_since = now
        for member in members:
            self._cluster.take(work, member.at)
        played.jobs += 1
        played.gangs += several
        played.in_part += several and work.held > 0
        self._waiting = [each for each in self._waiting if each[1] is not work]
        self._at(now + self._settings.grace, _Queue(work))

    # -- sums -----------------------------------------------------------------------------

    def _idle(self, work: Work, now: float) -> None:
        if work.running_since is None:
            self._played.idle += work.held * (now - work.held_since)
            work.held_since = now

    def _progress(self, work: Work, since: float, until: float, days: dict[int, float]) -> None:
        while since < until:
            day = int(since // DAY)
            upto = min(until, (day + 1) * DAY)
            days[day] = days.get(day, 0.0) + (upto - since) * work.held
            since = upto

    def _end(self) -> None:
        played = self._played
        for work in self._works:
            if work.ended is None:
                played.unfinished += 1
                continue
            played.until = max(played.until, work.ended)
            delay = work.ended - work.job.submitted - work.job.seconds
            played.delays.setdefault(work.job.priority, []).append(delay)
        for work in self._works:
            if work.started is not None:
                wait = work.started - work.job.submitted
                played.waits.setdefault(work.job.priority, []).append(wait)
        for evictions in self._evictions.values():
            played.in_vain += sum(pods for _, pods in evictions)


def _place(entry: tuple[tuple[int, float, int], Work]) -> tuple[int, float, int]:
    return entry[0]


def _by_work(victims: Sequence[Member]) -> dict[Work, list[Member]]:
    found: dict[Work, list[Member]] = {}
    for member in victims:
        found.setdefault(member.work, []).append(member)
    return found
