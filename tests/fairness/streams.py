"""One random stream: small pods and gangs without end, more than fit, and one big gang among them.

Bookings, the book, what a node has spare and the planner are the real ones; kube-scheduler is a
loop that gives every pod the first node it may have, small ones before the big gang. A second is
a step.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from extender.gang.booking.bookings import Bookings
from extender.gang.core.reservations import Reservations
from extender.gang.plan.assemble import assemble
from extender.gang.plan.ends import EXPECTED
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.runtime.clocks import Clocks
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Node, Pod
from extender.model.plan import Refusal
from extender.model.snapshot import Snapshot
from extender.settings.fairness import FairnessSettings
from extender.settings.settings import Settings
from extender.verbs.room_beside_reservations import Spare
from tests.gang.desk import kept_on, played
from tests.gang.world import NOW, group, node, pod

GPU = "nvidia.com/gpu"
PATIENCE, LONGEST, ARRIVES = 30, 60, 20
SLACK = 5
"""Seconds until a round has seen what has changed, and worked a start out anew."""
LAST = ARRIVES + PATIENCE + 8 * LONGEST
BIG = "big"


class StreamOutcome(Struct):
    """What became of one stream."""

    seed: int
    waited: int | None = None
    """Seconds from the arrival of the big gang to its start."""
    booked_at: int | None = None
    kept: int = 0
    """GPU-seconds that stood idle for it."""
    total: int = 0
    """GPU-seconds that the cluster had while it was booked."""
    peak: float = 0.0
    passed: int = 0
    """Pods that started while it was booked."""
    older: set[str] = field(default_factory=set)
    """Gangs that have waited longer, and were booked while the big one could have been."""
    wrong: tuple[str, ...] = ()

    @property
    def late(self) -> bool:
        """Whether the bound on the wait does not hold."""
        turns = 1 + len(self.older)
        return self.waited is None or self.waited > PATIENCE + turns * (LONGEST + SLACK)


class Stream:
    """Its cluster, clock and arrivals."""

    def __init__(
        self, seed: int, *, booking: bool = True, own: str = "default", lie: bool = False
    ) -> None:
        """``own``: the big gang's namespace; all others are in "default". ``lie``: those without a
        limit say anything about their ends, again and again."""
        self._own = own
        self._lie = lie
        self._random = random.Random(seed)
        self.outcome = StreamOutcome(seed)
        self.now = 0
        self._each = self._random.choice((2, 4, 8))
        count = self._random.randint(1, 4)
        self._nodes = [node(f"n{i}", 64, None, **{GPU: self._each}) for i in range(count)]
        self._pods: dict[str, Pod] = {}
        self._run: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._groups: list[GroupObject] = []
        self._made = 0
        self._generation = 0
        self._refused: dict[GangKey, Refusal] = {}
        self._resolver = Resolver(Settings().groups)
        self._planner = Planner(Settings(), self._resolver)
        self._reservations = Reservations()
        self._state = self._look()
        fairness = FairnessSettings(
            booking=booking,
            patience_seconds=PATIENCE,
            idle_share=1.0,
            namespace_idle_share=1.0,
        )
        clocks = Clocks(monotonic=lambda: float(self.now), wall=lambda: NOW + self.now)
        cluster: Any = self
        self._bookings = Bookings(
            Settings(fairness=fairness), self._reservations, cluster, cluster, cluster, clocks
        )
        self._spare = Spare(self._reservations, self, clocks)

    # -- what the parts ask for -----------------------------------------------------------

    def _look(self) -> Snapshot:
        self._generation += 1
        return assemble(
            self._resolver.member_key,
            nodes=self._nodes,
            pods=self._pods.values(),
            groups=self._groups,
            now=NOW + self.now,
            generation=self._generation,
        )

    def _key(self, name: str) -> GangKey:
        return GangKey("pod-group", self._own if name == BIG else "default", name)

    def snapshot(self) -> Snapshot:
        """Return the cluster, as the cache does."""
        return self._state

    def shown(self) -> Snapshot:
        """Return the cluster as planning sees it."""
        return self._state

    def resolve(self, key: GangKey, snapshot: Snapshot) -> Gang:
        """Return the gang as it is."""
        return self._resolver.resolve(key, snapshot)

    def _gang(self, key: GangKey) -> Gang:
        return self.resolve(key, self._state)

    @property
    def generation(self) -> int:
        """Grows with every change, as the cache's does."""
        return self._generation

    def pod(self, uid: str) -> Pod | None:
        """As the cache has it."""
        return self._pods.get(uid)

    def node(self, name: str) -> Node | None:
        """As the cache has it."""
        return self._state.nodes.get(name)

    def short(self, name: str, wants: Iterable[tuple[str, int]]) -> str | None:
        """Return what the node has too little of, as the cache does."""
        free = self._free(name)
        return next((each for each, amount in wants if amount > free.get(each, 0)), None)

    def _free(self, name: str) -> dict[str, int]:
        place: Node = self._state.nodes[name]
        free = dict(place.allocatable)
        for each in self._pods.values():
            if each.node == name:
                for resource, amount in each.requests:
                    free[resource] -= amount
        return free

    # -- who comes and goes ---------------------------------------------------------------

    def _make(self, gpus: int, run: int, gang: str = "") -> None:
        self._made += 1
        made = pod(f"p{self._made}", cpu=1, group=gang, tried=True)
        limit = run if self._random.random() < 0.5 and gang != BIG else 0
        self._pods[made.uid] = replace(
            made,
            namespace=self._own if gang == BIG else made.namespace,
            created=NOW + self.now,
            limit=limit,
            grace=0,
            requests=(("cpu", 1000), (GPU, gpus), ("pods", 1)),
        )
        self._run[made.uid] = run

    def _arrivals(self) -> None:
        chance = self._random
        while sum(not each.node for each in self._pods.values()) < 6:
            run = chance.randint(1, LONGEST)
            if chance.random() < 0.7:
                self._make(chance.randint(1, max(1, self._each // 2)), run)
            else:
                name = f"g{self._made}"
                size = chance.randint(1, 2)
                self._groups.append(group(name, size))
                for _ in range(size):
                    self._make(1, run, name)
        if self.now == ARRIVES:
            whole = self._each * len(self._nodes)
            wanted = chance.randint(max(2, whole // 2), whole)
            self._groups.append(group(BIG, wanted, namespace=self._own))
            for _ in range(wanted):
                self._make(1, LONGEST, BIG)

    def _endings(self) -> None:
        for uid in [uid for uid, at in self._ends.items() if at <= self.now]:
            del self._ends[uid]
            gone = self._pods.pop(uid)
            self._state = self._look()
            self._bookings.observe(gone, None)

    def _bind(self, uid: str, name: str) -> None:
        self._pods[uid] = replace(self._pods[uid], node=name, started=NOW + self.now)
        self._ends[uid] = self.now + self._run[uid]
        self._state = self._look()
        if any(amount < 0 for amount in self._free(name).values()):
            self.outcome.wrong += (f"{self.now}: {name} has less than nothing",)
        if self.outcome.booked_at is not None and self.outcome.waited is None:
            self.outcome.passed += 1

    def _lies(self) -> None:
        """Whoever has no limit says that it ends in a while, which is not so."""
        for uid in [uid for uid in self._ends if not self._pods[uid].limit]:
            if self._random.random() < 0.1:
                ran = self.now + NOW - self._pods[uid].started
                told = {EXPECTED: str(int(ran) + self._random.choice((1, 5, 20, 5000)))}
                self._pods[uid] = replace(self._pods[uid], annotations=told)

    def _singles(self) -> None:
        for each in [one for one in self._pods.values() if not one.node and not one.pod_group]:
            for name in self._state.nodes:
                fits = self.short(name, each.requests) is None
                if fits and self._spare.why_not(each, name) is None:
                    self._bind(each.uid, name)
                    break

    def _gangs(self) -> None:
        names = [made.name for made in self._groups]
        for name in sorted(names, key=lambda name: name == BIG):
            key = self._key(name)
            gang = self._gang(key)
            if not gang.pending or not gang.missing:
                continue
            holds = (*self._reservations.holds(), *self._bookings.holds_against(gang, self._state))
            answer = self._planner.plan(GangQuestion(gang, self._state, holds))
            if isinstance(answer, Refusal):
                self._refused[key] = answer
                continue
            if answer.victims or len(answer.seats) != gang.missing:
                self.outcome.wrong += (f"{self.now}: {name} has a plan in part, or with victims",)
            if name == BIG:
                self.outcome.waited = self.now - ARRIVES
            self._refused.pop(key, None)
            for seat in answer.seats:
                self._bind(seat.uid, seat.node)

    async def play(self) -> StreamOutcome:
        """Return what became of it, until the big gang has started or is far too late."""
        while self.outcome.waited is None and self.now < LAST:
            self._endings()
            self._arrivals()
            if self._lie:
                self._lies()
            self._state = self._look()
            self._singles()
            self._gangs()
            if self._bookings.on:
                for _ in played(self._bookings, dict(self._refused), self._planner.plan):
                    await asyncio.sleep(0)
            self._order()
            self._measure()
            self.now += 1
        return self.outcome

    def _order(self) -> None:
        """Who is booked while the big gang is due is older than it."""
        big = self._key(BIG)
        if self.now < ARRIVES + PATIENCE or self._bookings.get(big) or self.outcome.waited:
            return
        for made in self._groups:
            key = self._key(made.name)
            if self._bookings.get(key) is not None:
                self.outcome.older.add(made.name)
                if self._gang(key).members[0].created > NOW + ARRIVES:
                    self.outcome.wrong += (f"{self.now}: the younger {made.name} is booked",)

    def _measure(self) -> None:
        if self._bookings.get(self._key(BIG)) is None:
            return
        outcome = self.outcome
        outcome.booked_at = self.now if outcome.booked_at is None else outcome.booked_at
        whole = self._each * len(self._nodes)
        kept = sum(
            min(dict(hold.requests).get(GPU, 0), self._free(name)[GPU])
            for name in self._reservations.booked
            for hold in kept_on(self._reservations, name)
            if hold.gang.name == BIG
        )
        outcome.kept += kept
        outcome.total += whole
        outcome.peak = max(outcome.peak, kept / whole)
