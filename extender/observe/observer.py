"""The engine in observe mode: it plans as it would, and watches what schedulers do instead.

Nothing here holds a client: the cluster is read through a ClusterSource, and what is found goes
into the ledger and the decisions. Each gang is planned for by itself, on the cluster as it was when
its first member came, since a scheduler that asks nobody evicts for single members at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

import structlog
from msgspec.structs import replace

from extender.gang.controller.planner_thread import PLANNER, Overran, PlannerThread
from extender.gang.controller.rounds import Heartbeats, run_rounds
from extender.gang.controller.waiting import Version, Waiting
from extender.gang.incremental.enforcement import NOT_ENFORCED, Enforcement
from extender.gang.incremental.victims import leaves_in_time
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import Masks
from extender.gang.plan.schedulers import NO_ASKER, seated_by
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.tell.decisions import (
    Decision,
    Decisions,
    ObservedEnd,
    Outcome,
    SearchInput,
    Verb,
    of_plan,
    of_refusal,
)
from extender.groups.resolver import Resolver
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import DEFAULT_SCHEDULER, Pod
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted
from extender.observe.case import (
    Case,
    as_it_was,
    broken_by,
    forget_before,
    take_plan,
    take_refusal,
)
from extender.observe.cases import Cases
from extender.observe.preemptions import Preemptions
from extender.observe.sums import Ledger, Waited
from extender.settings.settings import Settings
from extender.wire.preempt_json import NodeVictims, victims_of

log = structlog.get_logger("observe")

"""Who asked, in decisions."""
PLANNING, TICK = "planning", "tick"
LOOPS = (PLANNING, TICK, PLANNER)
"""What has to show life."""
ENDINGS = {
    Waited.WHOLE: (ObservedEnd.WHOLE, "has its quorum"),
    Waited.GONE: (ObservedEnd.GONE, "ended without its quorum"),
}
"""What becomes of a gang that waited -> how decisions call it, and words for it."""
OF_BEFORE = 1 << 40
"""Generations from here on are those of clusters as they were; no cache comes so far."""


class Observer:
    """Implements verbs.Hears. One event loop only."""

    def __init__(
        self,
        source: ClusterSource,
        known: Callable[[str], Pod | None],
        settings: Settings,
        resolver: Resolver,
        ledger: Ledger,
        *,
        clocks: Clocks,
        heartbeats: Heartbeats,
        decided: Callable[[Decision], None],
    ) -> None:
        """``known`` returns a pod by uid as the cache has it."""
        self.decisions = Decisions()
        self.resolver = resolver
        self.ledger = ledger
        self._source = source
        self._known = known
        self._settings = settings
        self._clocks = clocks
        self._heartbeats = heartbeats
        self._decided = decided
        self._enforcement = Enforcement(settings.enforce)
        self._preemptions = Preemptions(clocks.monotonic)
        self.cases = Cases(
            resolver,
            source.snapshot,
            self._preemptions,
            ledger,
            clocks,
            settings.scheduler_names,
            self._case_closed,
            self._gang_broken,
        )
        self._evidence = NodeLists(clocks, source)
        self._waiting = Waiting(
            clocks,
            settings.plan.retry_seconds,
            settings.groups.settle_seconds,
            settings.plan.longest_retry_seconds,
            partial(leaves_in_time, plan=settings.plan, seats=settings.seats),
        )
        self._planner = PlannerThread(
            lambda: Planner(settings, resolver),
            settings.plan.seconds,
            settings.plan.overrun_seconds,
            clocks,
            heartbeats,
        )
        self._generations = count(OF_BEFORE)
        self._begun = False

    # -- what is heard ------------------------------------------------------------------

    def offered(self, told: Pod, nodes: Iterable[str]) -> None:
        """kube-scheduler would place the pod on one of these nodes."""
        pod = self._known(told.uid)
        if pod is not None:
            self._evidence.accepts(pod, nodes)

    def preempting(self, told: Pod, candidates: dict[str, NodeVictims]) -> None:
        """kube-scheduler would evict one of these sets of pods for the pod."""
        pod = self._known(told.uid)
        if pod is None:
            return
        self._evidence.accepts(pod, candidates, victims_of(candidates))
        for candidate in candidates.values():
            self._preemptions.asked(pod, candidate.uids)

    def masks(self, gang: Gang, snapshot: Snapshot) -> Masks:
        """Return which nodes are known to be refused to members by what is not modelled."""
        beside = self._evidence.in_the_way(gang, snapshot)
        return self._evidence.masks(gang, snapshot.nodes, beside)

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        if not self._begun:
            return
        if old is None and new is not None and not new.node:
            key = self.resolver.member_key(new)
            if key is not None:
                self._waiting.grown(key)
        self.cases.observe(old, new)

    # -- life ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Take in who waits already. To be called once, when the cluster is known."""
        snapshot = self._source.snapshot()
        waiting = [pod for pod in snapshot.pending.values() if not (pod.gated or pod.deleting)]
        keys = {self.resolver.member_key(pod) for pod in waiting}
        for key in sorted(key for key in keys if key is not None):
            self.cases.begin(key, fresh=False)
        self._begun = True
        for pod in waiting:
            self.cases.observe(pod, pod)

    async def run(self, stop: asyncio.Event, period: float = 0.25) -> None:
        """Plan and look until ``stop`` is set."""
        await run_rounds(
            {PLANNING: self._plan_waiting, TICK: self._tick}, stop, period, self._heartbeats
        )

    def close(self) -> None:
        """Stop planning for good."""
        self._planner.close()

    def stale(self) -> bool:
        """Whether the cache may be behind the cluster: nothing is planned on it."""
        return self._source.stale_for() > self._settings.cache.stale_seconds

    async def _tick(self) -> None:
        if self.stale():
            self.cases.pause()
        else:
            self.cases.tick()

    # -- planning -----------------------------------------------------------------------

    async def _plan_waiting(self) -> None:
        await self._planner.show(self._source.snapshot)
        if self.stale():
            return
        snapshot, version = self._source.snapshot(), self._version()
        for case in self.cases:
            if not case.wanted or case.plan is not None:
                self._tell_unasked(case, version)
                continue
            if self._waiting.kept(case.key, version) is not None:
                continue
            try:
                gang = self.cases.gangs.resolve(case.key, snapshot)
                of_before = case.before is not None and (gang.complete or case.whole_since)
                if (of_before or (gang.complete and gang.missing)) and not self.stale():
                    await self._plan(case)
            except NotReady:
                raise
            except Exception:  # one bad gang must not keep the others from their turn
                log.exception("a gang could not be planned", gang=str(case.key))
                self._waiting.failed(case.key)

    def _tell_unasked(self, case: Case, version: Version) -> None:
        """Say once why a gang is not planned for whose scheduler is not among ours."""
        if case.stranger and not case.wanted and case.refusal is None:
            forget_before(case)
            why = f"its members wait for {case.stranger}, {NO_ASKER}; it is not in schedulerNames"
            self._refuse(case, Refusal(case.key, Code.INCOMPLETE, why), version, 0.0)

    def _version(self) -> Version:
        return (self._source.generation, 0, self._evidence.version())

    async def _plan(self, case: Case) -> None:
        now, version = self._source.snapshot(), self._version()
        present = self._ours(self.cases.gangs.resolve(case.key, now))
        if not self._enforcement.acts_for(case.key.namespace, now):
            why = f"{NOT_ENFORCED.format(case.key.namespace)}: it would be left to kube-scheduler"
            self._refuse(case, Refusal(case.key, Code.NOT_ENFORCED, why), version, 0.0)
            return
        waits = self._waiting.must_wait(present, now.now) or self._unseen(present)
        if waits is not None:
            self._refuse(case, waits, version, 0.0)
            return
        snapshot, gang = now, present
        if case.before is not None:
            snapshot = as_it_was(case, case.before, now, next(self._generations))
            gang = self._ours(self.resolver.resolve(case.key, snapshot))
        began = self._clocks.monotonic()
        snapshot = self._evidence.beside(gang, snapshot)
        masks = self._evidence.masks(gang, snapshot.nodes, snapshot.in_the_way)
        answer = await self._search(gang, snapshot, masks)
        seconds = self._clocks.monotonic() - began
        if self.cases.open.get(case.key) is not case:
            return  # it was over before the answer came
        if isinstance(answer, Refusal):
            if answer.code is not Code.INCOMPLETE:
                forget_before(case)  # what time changes is seen on the present cluster only
            self._refuse(case, answer, version, seconds)
            return
        wall = self._clocks.wall()
        self._waiting.planned(case.key)
        take_plan(case, answer, snapshot, wall)
        amounts = {
            "planned": 1,
            "would_evict_pods": len(answer.victims),
            "would_lose": sum(victim.lost for victim in answer.victims),
            "would_break_gangs": len(broken_by(answer)),
        }
        self.ledger.count(wall, **amounts)
        decision = of_plan(answer, time=wall, verb=Verb.OBSERVE, seconds=seconds)
        self._decide(replace(decision, message=f"would be done: {decision.message}"))

    async def _search(self, gang: Gang, snapshot: Snapshot, masks: Masks) -> Plan | Refusal:
        self.decisions.searched(SearchInput(gang.key, snapshot, (), masks, {}))
        try:
            return await self._planner.plan(gang, snapshot, (), masks, None)
        except Overran:
            why = "its search had to be stopped by force"
            return Refusal(gang=gang.key, code=Code.SUSPENDED, message=why)

    def schedulers(self) -> frozenset[str]:
        """Return the schedulers whose pods are planned for."""
        names = frozenset(self._settings.scheduler_names)
        return names or self._evidence.schedulers | {DEFAULT_SCHEDULER}

    def _ours(self, gang: Gang) -> Gang:
        return seated_by(gang, self.schedulers())

    def _unseen(self, gang: Gang) -> Refusal | None:
        pod = self._evidence.unseen(gang)
        if pod is None or gang.problems or not gang.complete:
            return None
        kinds = ", ".join(pod.shape.unmodelled)
        why = f"{pod.name} uses {kinds}: which nodes are fit for it only kube-scheduler can say"
        return Refusal(gang=gang.key, code=Code.UNSEEN, message=why)

    def _refuse(self, case: Case, refusal: Refusal, version: Version, seconds: float) -> None:
        take_refusal(case, refusal)
        self._waiting.refuse(refusal, version, seconds, self._clocks.wall())
        self._decide(
            of_refusal(refusal, time=self._clocks.wall(), verb=Verb.OBSERVE, seconds=seconds)
        )

    # -- telling ------------------------------------------------------------------------

    def _case_closed(self, case: Case) -> None:
        told = case.told
        ours = "nothing was planned" if not told.answer else f"{told.answer}: {told.message}"
        theirs = (
            f"{counted(told.evicted, 'pod')} evicted for it, "
            f"{counted(len(told.broke), 'gang')} broken, "
            f"{len(told.half_broke)} of them left in part; {told.in_part_seconds:.0f} s in part, "
            f"{counted(told.seats_lost, 'seat')} lost"
        )
        ending, words = ENDINGS[told.outcome]
        message = f"{words} after {told.until - told.since:.0f} s. We: {ours}. "
        self._tell(case.told.gang, ending, message + f"kube-scheduler: {theirs}")

    def _gang_broken(self, preemptor: Pod | None, gang: Gang, *, half: bool) -> None:
        whom = "a pod not seen any more" if preemptor is None else preemptor.key
        rest = ", and left some of its members on their nodes" if half else ""
        message = f"a scheduler's preemption for {whom} took its quorum{rest}"
        self._tell(str(gang.key), ObservedEnd.HALF_BROKEN if half else ObservedEnd.BROKEN, message)

    def _tell(self, gang: str, code: ObservedEnd, message: str) -> None:
        self._decide(
            Decision(
                time=self._clocks.wall(),
                gang=gang,
                verb=Verb.OBSERVE,
                outcome=Outcome.OBSERVED,
                code=code,
                message=message,
            )
        )

    def _decide(self, decision: Decision) -> None:
        if self.decisions.add(decision):
            try:
                self._decided(decision)
            except Exception:
                log.exception("a decision is not reported", gang=decision.gang)
