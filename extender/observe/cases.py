"""The gangs that wait now, each with its case; what came of them goes into the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from cachetools import LRUCache, TTLCache

from extender.gang.core.last_check import KeptGangs
from extender.gang.incremental.victims import lost_gpu_seconds
from extender.gang.runtime.clocks import Clocks
from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.observe.case import Case, add_name, newly_lost
from extender.observe.preemptions import SETTLE_SECONDS, Preemptions, Sighting
from extender.observe.sums import Ledger, Told, Waited

MOST_CASES = 4096
"""Gangs followed at a time; what others lose or evict is counted all the same."""
MOST_BEFORE = 8
"""Of them, those whose cluster is kept as it was when they came. Each may be some megabytes."""
MOST_MEMBERS = 16_384
"""Of one gang, kept beside that cluster."""
MOST_SIGHTINGS = 65_536
PART_SECONDS = 10.0
"""A gang that sits in part for less is being bound."""
PLAN_SECONDS = 60.0
"""A gang that has its quorum is kept for so long until what we would have done is found."""
IDLE_SECONDS = 1.0
GONE_SECONDS = 10.0
"""Without members for so long a gang is gone; its controller may be making it anew."""


class Broke(Protocol):
    """Who is told that a gang lost so many members that it cannot go on as one."""

    def __call__(self, preemptor: Pod | None, gang: Gang, *, half: bool) -> None:
        """``half``: some of its members still run."""


class Cases:
    """Opened by pod events, looked at by ``tick``. One event loop only.

    ``schedulers``: whose pods are planned for, empty: all. ``closed(case)`` is told of each that is
    over, ``broke(preemptor, gang, half)`` of each gang that lost its quorum; half: not all of it.
    """

    def __init__(
        self,
        resolver: Resolver,
        snapshot: Callable[[], Snapshot],
        preemptions: Preemptions,
        ledger: Ledger,
        clocks: Clocks,
        schedulers: tuple[str, ...],
        closed: Callable[[Case], None],
        broke: Broke,
    ) -> None:
        self._resolver = resolver
        self.gangs = KeptGangs(resolver)
        self._snapshot = snapshot
        self._preemptions = preemptions
        self._ledger = ledger
        self._clocks = clocks
        self._schedulers = schedulers
        self._closed = closed
        self._broke = broke
        self.open: dict[GangKey, Case] = {}
        self._idle: TTLCache[GangKey, None] = TTLCache(
            maxsize=MOST_SIGHTINGS, ttl=IDLE_SECONDS, timer=clocks.monotonic
        )
        """Gangs that did not wait a moment ago. Each of thousands of pods beyond a quorum, or of a
        job whose pods start one by one, would ask for a snapshot of its own."""
        self._later: set[GangKey] = set()
        """Of them, those that the next tick looks at again."""
        self._sightings: list[tuple[Sighting, Gang | None]] = []
        self._broken: LRUCache[GangKey, float] = LRUCache(MOST_CASES)
        """Gangs that have lost their quorum -> when they were counted."""
        self.unseen = 0
        """Gangs that were not followed, since too many wait."""

    def __iter__(self) -> Iterator[Case]:
        return iter(list(self.open.values()))

    # -- what the cache reports ---------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event."""
        sighting = self._preemptions.observe(old, new)
        if sighting is not None and len(self._sightings) < MOST_SIGHTINGS:
            key = self.gangs.unit_key(sighting.victim)
            # As it is now, with its other members: a moment later its controller may end them.
            gang = None if key is None else self._resolver.resolve(key, self._snapshot())
            self._sightings.append((sighting, gang))
        pod = new if new is not None else old
        if pod is None or not (self.open or _waits(pod)):
            return
        key = self.gangs.member_key(pod)
        if key is None:
            return
        if key not in self.open and new is not None and _waits(new):
            if key in self._idle:
                self._later.add(key)
            else:
                self.begin(key)
        case = self.open.get(key)
        if case is None:
            return
        room = len(case.came) < MOST_MEMBERS
        if case.before is not None and room and new is not None and _waits(new):
            case.came.setdefault(new.uid, new)
        if new is not None and _waits(new) and (new.tried or new.nominated):
            if self._seeks(new):
                case.wanted = True
            else:
                case.stranger = new.shape.scheduler
        self._seated(case, pod, gone=new is None or bool(new.deleting))

    def _seated(self, case: Case, pod: Pod, *, gone: bool) -> None:
        if gone:
            case.seated.discard(pod.uid)
        elif pod.node and pod.uid not in case.seated and pod.uid not in case.of_one_before:
            case.seated.add(pod.uid)
            enough = case.size_known and len(case.seated) >= case.told.quorum
            short = any(part.lacks(case.seated) for part in case.parts)
            if enough and not short and not case.whole_since:
                case.whole_since = self._clocks.monotonic()

    def begin(self, key: GangKey, *, fresh: bool = True) -> None:
        """Follow the gang if it waits for its quorum; ``fresh``: it has only just come."""
        snapshot = self._snapshot()
        # Not KeptGangs, which takes in all that has changed in the cluster: this is per event.
        gang = self._resolver.resolve(key, snapshot)
        if not gang.starts_whole or not gang.missing:
            self._idle[key] = None
            return
        if len(self.open) >= MOST_CASES:
            self.unseen += 1
            return
        kept = sum(case.before is not None for case in self.open.values())
        wall = self._clocks.wall()
        case = Case(
            key=key,
            since=wall,
            before=snapshot if fresh and kept < MOST_BEFORE else None,
            told=Told(gang=str(key), since=wall, quorum=gang.min_count),
            seated={pod.uid for pod in gang.seated},
            of_one_before=gang.before,
            size_known=gang.size_known,
            parts=gang.parts,
            looked=self._clocks.monotonic(),
        )
        self.open[key] = case
        self._ledger.count(wall, gangs=1)

    def plannable(self, case: Case) -> bool:
        """Whether the plan that we would have had can be made on the cluster as it was."""
        return case.wanted and case.plan is None and case.before is not None

    def _seeks(self, pod: Pod) -> bool:
        return not self._schedulers or pod.shape.scheduler in self._schedulers

    # -- looking after them --------------------------------------------------------------

    def tick(self) -> None:
        """Count what has come to pass since the last tick."""
        later, self._later = self._later, set()
        for key in later - self.open.keys():
            self.begin(key, fresh=False)
        # One moment for both: no gang is told of before the victims that went for it are counted.
        now = self._clocks.monotonic()
        self._settle(now)
        snapshot = self._snapshot()
        for case in self:
            self._look(case, self.gangs.resolve(case.key, snapshot), snapshot, now)

    def pause(self) -> None:
        """Count no time: nobody knows how things stand."""
        for case in self.open.values():
            case.looked = self._clocks.monotonic()

    def _settle(self, now: float) -> None:
        """Count victims whose preemptor and whose gang's fate show by now."""
        due = now - SETTLE_SECONDS
        ready = [each for each in self._sightings if each[0].at <= due]
        if not ready:
            return
        self._sightings = [each for each in self._sightings if each[0].at > due]
        snapshot, wall = self._snapshot(), self._clocks.wall()
        lost: dict[GangKey, list[tuple[Sighting, Gang]]] = {}
        for sighting, gang in ready:
            preemptor = self._preemptions.preemptor(sighting)
            case = self._case_of(preemptor)
            self._ledger.count(wall, evicted_pods=1, evicted_for_gangs=int(case is not None))
            if case is not None:
                node = snapshot.nodes.get(sighting.victim.node)
                work = lost_gpu_seconds(sighting.victim, node, wall - (now - sighting.at))
                self._ledger.count(wall, lost_for_gangs=work)
                case.told.evicted += 1
                add_name(case.told.evicted_pods, sighting.victim.key)
            if gang is not None:
                lost.setdefault(gang.key, []).append((sighting, gang))
        for key, victims in lost.items():
            self._judge(key, victims, snapshot, wall)

    def _judge(
        self,
        key: GangKey,
        victims: list[tuple[Sighting, Gang]],
        snapshot: Snapshot,
        wall: float,
    ) -> None:
        """Count a gang that has lost its quorum by these victims."""
        first = victims[0][1]
        gone = {sighting.victim.uid for sighting, _ in victims}
        had = len({pod.uid for pod in first.bound} | gone)
        counted = first.starts_whole and first.size_known
        together = max(1, first.min_count) if counted else had
        whole = {pod.uid for pod in first.bound} | gone
        if counted and first.parts and first.runs_with(whole) and not first.runs_with(whole - gone):
            together = had  # a part has too few, whatever the sum
        is_gang = not first.problems and (first.starts_whole or first.unit == UNIT_ALL)
        if not is_gang or not together <= had < together + len(gone):
            return
        if self._clocks.monotonic() - self._broken.get(key, float("-inf")) < GONE_SECONDS:
            return
        self._broken[key] = self._clocks.monotonic()
        left = len(self.gangs.resolve(key, snapshot).bound)
        half = 0 < left < together
        preemptors = (self._preemptions.preemptor(sighting) for sighting, _ in victims)
        preemptor = next((pod for pod in preemptors if pod is not None), None)
        case = self._case_of(preemptor)
        self._ledger.count(
            wall,
            broken_gangs=1,
            broken_for_gangs=int(case is not None),
            half_broken_gangs=int(half),
        )
        if case is not None:
            add_name(case.told.broke, str(key))
            if half:
                add_name(case.told.half_broke, str(key))
        self._broke(preemptor, first, half=half)

    def _case_of(self, pod: Pod | None) -> Case | None:
        key = None if pod is None else self.gangs.member_key(pod)
        return None if key is None else self.open.get(key)

    def _look(self, case: Case, gang: Gang, snapshot: Snapshot, now: float) -> None:
        passed, case.looked = now - case.looked, now
        told, bound = case.told, len(gang.seated)
        told.quorum = max(told.quorum, gang.min_count)
        case.size_known, case.parts = gang.size_known, gang.parts
        case.of_one_before = gang.before
        case.seated -= gang.before
        told.priority = gang.preemptor_priority if gang.members else told.priority
        told.most_bound = max(told.most_bound, bound)
        if not gang.missing and not gang.problems:
            case.whole_since = case.whole_since or now
        if case.whole_since:
            # Who went for it shows a moment later, and so may what we would have done. It may have
            # ended its work meanwhile.
            pause = PLAN_SECONDS if self.plannable(case) else SETTLE_SECONDS
            if now - case.whole_since >= pause:
                self._close(case, Waited.WHOLE)
                if gang.pending:
                    self.begin(case.key)
            return
        if not any(not pod.deleting for pod in gang.members):
            case.empty_since = case.empty_since or now
            if now - case.empty_since >= GONE_SECONDS:
                self._close(case, Waited.GONE)
            return
        case.empty_since = 0.0
        if not gang.starts_whole:
            del self.open[case.key]
            return
        self._in_part(case, bound, passed)
        lost = newly_lost(case, gang, snapshot, {pod.uid: pod for pod in gang.members})
        if lost:
            told.seats_lost += lost
            self._ledger.count(self._clocks.wall(), seats_lost=lost)

    def _in_part(self, case: Case, bound: int, passed: float) -> None:
        if not bound:
            case.part_seconds = 0.0
            return
        case.part_seconds += passed
        if case.part_seconds < PART_SECONDS:
            return
        wall, told = self._clocks.wall(), case.told
        if not case.part_counted:
            case.part_counted = True
            passed = case.part_seconds
            self._ledger.count(wall, in_part_gangs=1)
        told.in_part_seconds += passed
        self._ledger.count(wall, in_part_pod_seconds=passed * bound)

    def _close(self, case: Case, outcome: Waited) -> None:
        del self.open[case.key]
        wall, told = self._clocks.wall(), case.told
        began = case.whole_since if outcome is Waited.WHOLE else case.empty_since
        told.outcome, told.until = outcome, wall - (self._clocks.monotonic() - began)
        amounts = {str(outcome): 1, "refused": int(case.plan is None and case.refusal is not None)}
        if outcome is Waited.GONE:
            amounts["evicted_in_vain"] = told.evicted
        self._ledger.count(wall, **amounts)
        if told.weight >= 1:
            self._ledger.tell(wall, told)
        self._closed(case)


def _waits(pod: Pod) -> bool:
    """Whether a pod waits for a node."""
    return not (pod.node or pod.deleting or pod.gated)
