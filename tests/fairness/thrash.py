"""An adversary that comes again at once, whenever its last gang is over, and so does its victim.

The planner and what is remembered of evictions are the real ones; whoever has a plan runs at once.
A second is a step.
"""

from __future__ import annotations

import random

from msgspec.structs import replace

from extender.gang.core.last_check import KeptGangs
from extender.gang.core.victim_group import Claim, Sent
from extender.gang.fairness.eviction_history import EvictionHistory
from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.runtime.clocks import Clocks
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.plan import Plan
from extender.model.snapshot import Snapshot
from extender.settings.fairness import ProtectionSettings
from extender.settings.settings import Settings
from tests.gang.world import NOW, group, node, pod

FIRST, LONGEST, SECONDS = 5, 40, 240
DOUBLINGS = 3
"""Of FIRST until it is LONGEST."""
VICTIM = "victim"


def bound(levels: int, seconds: int = SECONDS) -> float:
    """Return how often one victim is evicted at most; docs/fairness.md has the proof."""
    return levels * (1 + DOUBLINGS + seconds / LONGEST)


class Thrash:
    """One victim gang that needs all nodes, and an adversary with gangs of several priorities."""

    def __init__(self, seed: int, *, protection: bool = True, rising: bool = False) -> None:
        """``rising``: each gang of the adversary is more urgent than the one before."""
        self._random = random.Random(seed)
        self._rising = rising
        self.levels = self._random.randint(1, 3)
        self.now = 0
        self.evictions: list[tuple[int, int]] = []
        """When the victim was evicted, and by what priority."""
        self.blocked: list[str] = []
        """Gangs more urgent than the last one that evicted, and refused."""
        self.settings = ProtectionSettings(
            enabled=protection, first_seconds=FIRST, longest_seconds=LONGEST
        )
        self._resolver = Resolver(Settings().groups)
        self._planner = Planner(Settings(), self._resolver)
        self._nodes = [node(f"n{i}") for i in range(self._random.randint(1, 3))]
        self._pods: dict[str, Pod] = {}
        self._groups: list[GroupObject] = [
            group(VICTIM, len(self._nodes), priority=0, namespace="low")
        ]
        self._made = 0
        self._ends = 0
        self.before = EvictionHistory(
            self.settings, None, Clocks(wall=lambda: NOW + self.now), KeptGangs(self._resolver)
        )
        self._arrives(VICTIM, "low", 0)
        self._plan(VICTIM, "low")
        self._adversary = ""

    def _arrives(self, name: str, namespace: str, priority: int) -> None:
        for _ in self._nodes:
            self._made += 1
            one = pod(f"p{self._made}", group=name, priority=priority, namespace=namespace)
            self._pods[one.uid] = replace(one, created=NOW + self.now)

    def _look(self) -> Snapshot:
        self._made += 1
        return assemble(
            self._resolver.member_key,
            nodes=self._nodes,
            pods=self._pods.values(),
            groups=self._groups,
            now=NOW + self.now,
            generation=self._made,
            spared=self.before.spared(),
        )

    def _of(self, name: str) -> list[Pod]:
        return [each for each in self._pods.values() if each.pod_group == name]

    def _plan(self, name: str, namespace: str) -> bool:
        """Plan for the gang; whether it runs now."""
        state = self._look()
        gang = self._resolver.resolve(GangKey("pod-group", namespace, name), state)
        answer = self._planner.plan(GangQuestion(gang, state))
        if not isinstance(answer, Plan):
            return False
        if answer.victims:
            self._evict(answer)
        for seat in answer.seats:
            old = self._pods[seat.uid]
            new = replace(old, node=seat.node, started=NOW + self.now, phase="Running")
            self._pods[seat.uid] = new
            self.before.observe(old, new)
        return True

    def _evict(self, plan: Plan) -> None:
        assert len(plan.victims) == len(self._nodes), "whole or not at all"
        self.evictions.append((self.now, plan.priority))
        victims = {victim.uid: victim for victim in plan.victims}
        claim = Claim(
            plan_id=f"plan-{len(self.evictions)}",
            preemptor=plan.gang,
            priority=plan.priority,
            message="",
            uids=frozenset(victims),
        )
        name = plan.victims[0].unit
        self.before.taken(self._pods[uid] for uid in victims)
        for uid, victim in victims.items():
            sent = Sent(claim, name, whole=True, victim=victim, ours=True, claims=(claim,))
            self.before.sent(sent)
            self.before.observe(self._pods.pop(uid), None)
        self._arrives(VICTIM, "low", 0)

    def _next_adversary(self) -> None:
        self._adversary = f"high{self._made}"
        level = self._random.randint(1, self.levels)
        priority = 1 + len(self._groups) if self._rising else level
        size = len(self._nodes)
        made = group(self._adversary, size, priority=priority, namespace="adversary")
        self._groups = [self._groups[0], *self._groups[1:], made]
        self._arrives(self._adversary, "adversary", priority)

    def step(self) -> None:
        """Who is done goes, and the victim comes again at once; a moment later the adversary."""
        running = [each for each in self._of(self._adversary) if each.node]
        if running and self.now >= self._ends:
            for each in running:
                self.before.observe(self._pods.pop(each.uid), None)
            self._plan(VICTIM, "low")
            running = []
        if not running:
            if not self._of(self._adversary):
                self._next_adversary()
            priority = self._of(self._adversary)[0].priority
            last = self.evictions[-1][1] if self.evictions else 0
            if self._plan(self._adversary, "adversary"):
                self._ends = self.now + self._random.randint(1, 3)
            elif priority > last:
                self.blocked.append(self._adversary)
        self.now += 1

    def play(self, seconds: int = SECONDS) -> Thrash:
        """Return itself, after so long."""
        while self.now < seconds:
            self.step()
        return self
