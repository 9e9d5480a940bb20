"""preempt: kube-scheduler wants to evict pods for one pod; what may it do?

For a gang the answer is always "nothing": the plan's victims sit on several
nodes, and only whole gangs of room are of use, so we evict them ourselves and
the members wait for their seats. A single pod gets kube-scheduler's own choice
of nodes, less those where a seat or a protected pod is in the way. Where its
victims belong to gangs that go whole, the cheapest node over all candidates is
found by the same search as for gangs: either one that breaks no gang, which is
left to kube-scheduler, or a gang is evicted whole by us.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from extender.gang.controller.waiting import TIMED
from extender.gang.core.reservations import Preemption
from extender.gang.incremental.protection import Protections
from extender.gang.plan.candidates import Candidates
from extender.gang.plan.lists import samples
from extender.gang.plan.nominated import victims_leave
from extender.gang.plan.single import single_gang
from extender.gang.plan.validity import ending_problem
from extender.gang.tell.decisions import Verb
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Refusal
from extender.model.snapshot import Snapshot
from extender.settings.mode import EnforceSettings
from extender.settings.settings import Settings
from extender.verbs.context import Context
from extender.verbs.pod_lookup import PodLookup
from extender.wire.preempt_json import NodeVictims, PreemptArgs, PreemptResult, victims_of

NOTHING = PreemptResult(candidates={})


class Waits(Struct):
    """What stands against candidates for now, and passes without an event for kube-scheduler."""

    node: str = ""
    """One of their nodes, "" for none."""
    victims: set[str] = field(default_factory=set)
    """Uids of victims whose binding does not show yet."""
    protected: set[str] = field(default_factory=set)
    """Candidates with a victim that may not be evicted: that does not pass."""

    def for_an_answer(self, node: str, answer: object) -> None:
        """Add a candidate of which nothing is said yet, or of which time changes what is said."""
        if not isinstance(answer, Refusal) or answer.code in TIMED:
            self.node = self.node or node

    def for_binding(self, node: str, victims: set[str]) -> None:
        """Add a candidate whose victims do not all sit there as far as is known."""
        if victims:
            self.node = node
            self.victims |= victims


class Preempt:
    """Answers the preempt verb."""

    def __init__(self, context: Context, asked: PodLookup, settings: Settings) -> None:
        self._context = context
        self._asked = asked
        # Whose pods we may evict is no matter here: these victims are kube-scheduler's own choice.
        self._protections = Protections(replace(settings, enforce=EnforceSettings()))

    async def answer(self, args: PreemptArgs) -> PreemptResult:
        """Return the candidates kube-scheduler may act on.

        Raises NotReady before recovery, UnknownPod when the pod is not one that waits.
        """
        context = self._context
        context.hints.held_back.asked(args.pod.uid, args.pod.namespace, args.candidates)
        context.require_ready()
        asked = context.evidence.now()
        pod = await self._asked.pod(args.pod)
        context.evidence.accepts(pod, args.candidates, victims_of(args.candidates))
        preemption = context.reservations.of_member(pod.uid)
        gang = None if preemption is not None else context.waiting_gang(pod)
        if preemption is not None or gang is not None:
            context.hints.held_back.settled(pod)  # its gang's plan is looked after
        if preemption is not None:
            seat = preemption.seats.get(pod.uid, "")
            nodes = len(context.cluster.snapshot().nodes)
            if args.pod.nominated == seat or not samples(nodes):
                context.asking.seat_not_offered(preemption, pod, frozenset())
            else:
                context.asking.seat_not_tried(preemption, pod)
            return NOTHING
        if gang is not None:
            if not gang.missing:
                context.kept_off(pod)  # beyond the quorum nobody looks for a seat for it
            await context.asking.ensure(gang.key, Verb.PREEMPT, asked=asked)
            return NOTHING
        if context.samples.withheld(pod.uid):
            # It was refused as a member a moment ago, free nodes and all, and is treated alone now.
            return self._again(pod, args.candidates)
        if not context.acts_for(pod):
            context.hints.held_back.settled(pod)  # nothing is written for it on a guess
            return self._as_it_would(pod, args.candidates)
        if ending_problem(pod.namespace, context.cluster.snapshot()):
            context.hints.held_back.settled(pod)
            return NOTHING
        if self._beyond_quorum(pod) or context.kept_off(pod):
            # More than the quorum is placed only at no extra disruption.
            return NOTHING
        result = await self._single(pod, args.candidates, asked)
        if not result.candidates and args.pod.nominated:
            self._of_no_use(pod, args.pod.nominated)
        return result

    def _again(self, pod: Pod, candidates: dict[str, NodeVictims]) -> PreemptResult:
        """Allow no node, and have the pod tried again: what it was told before does not stand."""
        self._context.hints.held_back.retry((pod, node) for node in sorted(candidates)[:1])
        return NOTHING

    def _of_no_use(self, pod: Pod, node: str) -> None:
        """Clear the nomination that this attempt was made with, unless a plan holds its seat.

        kube-scheduler clears it where it finds no candidate itself, and keeps it where we allow
        none (docs/nominations.md). One that a life before has written is known by nothing else,
        and keeps room from the less urgent. Not another one: we may have searched for long, and
        kube-scheduler has asked again. Nor does it ask while its victims are on their way, so
        whoever asks then is somebody else.
        """
        if not victims_leave(pod, node, self._context.cluster.snapshot()):
            self._context.hints.nominations.clear([pod], node)

    def _beyond_quorum(self, pod: Pod) -> bool:
        gang = self._context.gang_of(pod, self._context.cluster.snapshot())
        return gang is not None and gang.starts_whole

    def _as_it_would(self, pod: Pod, candidates: dict[str, NodeVictims]) -> PreemptResult:
        """Leave the choice to kube-scheduler, but for nodes where it would cost somebody a seat."""
        if self._context.samples.goes_on(pod.uid):
            return self._again(pod, candidates)
        waits = Waits()
        held = self._context.reservations.nodes()
        kept: dict[str, NodeVictims] = {}
        for node, candidate in candidates.items():
            if node in held:
                victims = self._victims(node, candidate)
                if victims is None:
                    waits.for_binding(node, self._unbound(candidate))
                    continue
                if not self._leaves_seats(pod, node, victims):
                    waits.node = node
                    continue
            known = map(self._context.cluster.pod, candidate.uids)
            if any(self._takes_its_seat(each) for each in known if each is not None):
                waits.node = node
                continue
            kept[node] = candidate
        return self._allowed(pod, kept, waits)

    async def _single(
        self, pod: Pod, candidates: dict[str, NodeVictims], asked: float
    ) -> PreemptResult:
        if self._context.samples.goes_on(pod.uid):
            return self._again(pod, candidates)  # a node that it has not been offered may be free
        waits = Waits()
        clean, breaking = self._sorted(pod, candidates, waits)
        if not breaking:
            return self._allowed(pod, clean, waits)
        waits.node = waits.node or min(breaking.keys() - waits.protected, default="")
        return await self._cheapest(pod, clean, breaking, asked, waits)

    def _sorted(
        self, pod: Pod, candidates: dict[str, NodeVictims], waits: Waits
    ) -> tuple[dict[str, NodeVictims], dict[str, NodeVictims]]:
        """Return the nodes that may be had now, and those of them where kube-scheduler's choice
        breaks a gang or a protected pod. ``waits`` takes what stands against the others for now."""
        snapshot = self._context.cluster.snapshot()
        spared = self._context.spared()
        if spared:
            snapshot = replace(snapshot, spared=spared)
        clean: dict[str, NodeVictims] = {}
        breaking: dict[str, NodeVictims] = {}
        for node, candidate in candidates.items():
            victims = self._victims(node, candidate)
            if victims is None:
                waits.for_binding(node, self._unbound(candidate))
                continue
            gangs = [self._gang_of(victim, snapshot) for victim in victims]
            protected = self._protected(pod, victims, gangs, snapshot)
            if protected and self._protected(pod, victims, gangs, snapshot, lasting=True):
                waits.protected.add(node)
            taken = any(self._takes_its_seat(victim) for victim in victims)
            if taken or not self._leaves_seats(pod, node, victims):
                waits.node = node
                continue
            if protected or any(self._goes_whole(gang, snapshot) for gang in gangs):
                breaking[node] = candidate  # other pods there may do
            else:
                clean[node] = candidate
        return clean, breaking

    def _protected(
        self,
        pod: Pod,
        victims: list[Pod],
        gangs: list[Gang | None],
        snapshot: Snapshot,
        *,
        lasting: bool = False,
    ) -> bool:
        """Whether one of the victims may not be evicted; ``lasting``: whatever time passes."""
        return any(
            self._protections.why(victim, snapshot, pod.priority, gang=gang, begun=lasting)
            for victim, gang in zip(victims, gangs, strict=True)
        )

    def _allowed(self, pod: Pod, clean: dict[str, NodeVictims], waits: Waits) -> PreemptResult:
        """Leave the choice to kube-scheduler, which keeps the room on one of these for the pod.

        Where there is none and what stands against the others passes, kube-scheduler would try the
        pod again after five minutes: no event that its own filters wait for may follow.
        """
        if clean:
            self._context.offers.note(pod, list(clean))
            self._context.hints.held_back.allowed(pod, clean)
        elif waits.node:
            self._context.hints.held_back.park(pod, waits.node, waits.victims)
        else:
            self._context.hints.held_back.settled(pod)
        return PreemptResult(candidates=clean)

    def _victims(self, node: str, candidate: NodeVictims) -> list[Pod] | None:
        """Return the victims' pods; None when there are none or one is not known on the node.

        kube-scheduler 1.38 offers nodes without victims (only we refused them),
        1.37 may name members of a group on other nodes: neither can be answered.
        """
        found = [self._context.cluster.pod(uid) for uid in candidate.uids]
        pods = [victim for victim in found if victim is not None and victim.node == node]
        return pods if pods and len(pods) == len(found) else None

    def _unbound(self, candidate: NodeVictims) -> set[str]:
        """Return the victims that kube-scheduler has placed and that do not show there yet."""
        found = {uid: self._context.cluster.pod(uid) for uid in candidate.uids}
        return {uid for uid, victim in found.items() if victim is None or not victim.node}

    def _leaves_seats(self, pod: Pod, node: str, victims: list[Pod]) -> bool:
        return self._context.spare.why_not(pod, node, leaving=victims) is None

    def _takes_its_seat(self, victim: Pod) -> bool:
        """Whether the gang is being seated: with one member gone it would start in part."""
        key = self._context.resolver.member_key(victim)
        preemption = None if key is None else self._context.reservations.get(key)
        return preemption is not None and preemption.binding

    def _gang_of(self, victim: Pod, snapshot: Snapshot) -> Gang | None:
        key = self._context.resolver.unit_key(victim)
        return None if key is None else self._context.resolver.resolve(key, snapshot)

    def _goes_whole(self, gang: Gang | None, snapshot: Snapshot) -> bool:
        if gang is None:
            return False
        spared = not self._context.enforcement.may_evict(gang.key.namespace, snapshot)
        # A gang that we may not evict whole is left to kube-scheduler, as all of its namespace.
        return gang.goes_whole and len(gang.bound) > 1 and not spared

    async def _cheapest(
        self,
        pod: Pod,
        clean: dict[str, NodeVictims],
        breaking: dict[str, NodeVictims],
        asked: float,
        waits: Waits,
    ) -> PreemptResult:
        """Let the search choose between nodes that break a gang and nodes that do not.

        Nobody is to go beside room that came while kube-scheduler looked for candidates, or while
        we search; nor where it was our word that kept the pod off a node.
        """
        asking = self._context.asking
        stale = asking.stale()
        first = min(breaking)
        if stale is not None:
            waits.for_an_answer(first, None)
            return self._allowed(pod, clean, waits)
        gang = single_gang(pod)
        candidates = Candidates(frozenset(clean.keys() | breaking.keys()), asked)
        cheap = await asking.ask(gang, candidates)
        # Not found in time: kube-scheduler has its choice where no gang breaks. Elsewhere it is
        # planned after this answer.
        # A search takes seconds, in which seats may have come to be held there, and victims to be
        # protected, or of a gang that goes whole.
        clean = self._sorted(pod, clean, waits)[0]
        if isinstance(cheap, Refusal) or (clean and cheap is None):
            waits.for_an_answer(first, cheap)
            return self._allowed(pod, clean, waits)
        victims = cheap.victims if cheap else ()
        if clean and victims and {victim.node for victim in victims} <= clean.keys():
            return self._allowed(pod, clean, waits)
        answer = await asking.ensure(gang.key, Verb.PREEMPT, single=gang, candidates=candidates)
        if isinstance(answer, Preemption):
            return NOTHING
        waits.for_an_answer(first, answer)
        return self._allowed(pod, self._sorted(pod, clean, waits)[0], waits)
