"""Between plans in flight and their victim groups: what plans claim, whether they hold, what came.

The view that the machine of ``victim_group.py`` is given, and what is done with those of its
effects that are about plans. Nothing here sends anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from math import inf
from typing import assert_never

from extender.gang.controller.record_writer import RecordWriter
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.core.last_check import LastCheck
from extender.gang.core.preconditions import Preconditions, units_of
from extender.gang.core.record import Record
from extender.gang.core.refusals import Refusals
from extender.gang.core.reservations import Preemption
from extender.gang.core.victim_group import (
    Claim,
    Claimed,
    Ended,
    Owes,
    Refused,
    Sent,
    Tables,
    VictimGroup,
    WholeAgain,
)
from extender.gang.plan.validity import present
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GangKey, Pod
from extender.model.plan import Victim
from extender.model.texts import counted


class PlanVictims:
    """``advance(preemption)`` looks at what a preemption still waits for, ``replan(preemption,
    why)`` searches for another plan when one does not hold any more.
    """

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        keeper: RecordWriter,
        check: LastCheck,
        *,
        advance: Callable[[Preemption], None],
        replan: Callable[[Preemption, str], None],
    ) -> None:
        self._reservations = reading.reservations
        self._snapshot = reading.snapshot
        self._gangs = reading.gangs
        self._offers = reading.offers
        self._check = check
        self.tables = Tables(
            term.evictor.concurrency,
            term.evictor.attempts,
            term.settings.seats.victim_slack_seconds,
            Refusals(term.clocks.monotonic),
        )
        self._keeper = keeper
        self._notices = telling.notices
        self._clocks = term.clocks
        self._decide = telling.decisions.decide
        self._advance = advance
        self._replan = replan
        self._stale = reading.readiness.stale
        self.preconditions = Preconditions(
            reading.reservations,
            reading.source,
            reading.gangs,
            check,
            self.tables,
            reading.offers,
            term.settings.eviction.longest_grace_seconds,
            reading.evidence.freed_since,
        )
        self.taken: Callable[[Iterable[Pod]], None] = lambda pods: None
        """Told of pods that are about to be evicted ..."""
        self.sent: Callable[[Sent], None] = lambda sent: None
        """... and of each eviction that the API server has accepted."""

    # -- what plans claim -----------------------------------------------------------------

    def claims(self, preemption: Preemption) -> Iterator[Claimed]:
        """Return the groups that a recorded plan claims, as long as it evicts."""
        plan = preemption.plan
        message = (
            f"preempted by {plan.gang} (priority {plan.priority}), which runs as a whole "
            f"once {counted(len(plan.victims), 'pod', 'is', 'are')} gone"
        )
        claimed = {group.name for group in self.tables.of_plan(preemption.id)}
        for name, victims in units_of(preemption.victims.values()).items():
            if preemption.state not in (PreemptionState.EVICTING, PreemptionState.WAITING):
                return
            there = tuple(victim for victim in victims if victim.uid in preemption.victims)
            if name in claimed or not there:
                continue
            # Some may go already, by another plan's hand or somebody else's. Whom another plan has
            # only asked for may stay, so it is asked for here as well.
            snapshot = self._snapshot()
            pods = [pod for each in there if (pod := present(each, snapshot)) is not None]
            sent = frozenset(
                pod.uid
                for pod in pods
                if self._check.leaves(pod, snapshot.now) or self.tables.accepted(pod.uid)
            )
            preemption.sent.update(sent)
            self.taken(pods)
            yield Claimed(
                Claim(
                    plan_id=preemption.id,
                    preemptor=plan.gang,
                    priority=plan.priority,
                    message=message,
                    uids=frozenset(victim.uid for victim in there),
                    beside=self._beside(there),
                ),
                there,
                sent=sent,
                watched=preemption.resumed,
            )

    def recovered(
        self, record: Record, left: Iterable[Victim], sent: Iterable[str], size: int, *, begun: bool
    ) -> Claimed:
        """Return the claim on a group of ``size`` of a plan of a life before; ``begun``: it has
        gone in part. A request of that life may still arrive."""
        plan, there = record.plan, tuple(left)
        message = f"preempted by {plan.gang} (priority {plan.priority}) in a plan before a restart"
        if begun:
            message += ", which has evicted a part of its gang"
        claim = Claim(
            plan_id=record.id,
            preemptor=plan.gang,
            priority=plan.priority,
            message=message,
            uids=frozenset(victim.uid for victim in there),
            beside=frozenset(record.others.bound),
        )
        return Claimed(claim, there, sent=frozenset(sent), size=size, begun=begun, watched=True)

    def _beside(self, victims: tuple[Victim, ...]) -> frozenset[str]:
        gang = self._check.gang_of(victims[0]) if victims[0].unit else None
        uids = {victim.uid for victim in victims}
        bound = () if gang is None else gang.bound
        return frozenset(pod.uid for pod in bound if pod.uid not in uids)

    # -- the machine's view ---------------------------------------------------------------

    def problem(self, victim: Victim, priority: int, *, alone: bool) -> str:
        """As View.problem."""
        return self._check.of_victim(victim, priority, alone=alone)

    def budgeted(self, victim: Victim, priority: int) -> bool:
        """Whether a pod is evicted through the Eviction API: read again before each request."""
        return bool(self._check.budgeted([victim], priority))

    def there(self, victim: Victim) -> bool:
        """As View.there."""
        return self._check.there(victim)

    def on_its_way(self, name: str) -> bool:
        """As View.on_its_way; what a life before has offered is not known for a moment."""
        if self._offers.unknown(-inf):
            return True
        members = self._snapshot().members.get(GangKey.read(name), ())
        return any(not pod.node and self._offers.unsettled(pod.uid) for pod in members)

    def whole_again(self, victim: Victim, known: AbstractSet[str], size: int) -> bool:
        """As View.whole_again."""
        return self._check.whole_again(victim, known, size)

    def completing(self, name: str) -> bool:
        """As View.completing."""
        return any(
            str(self._gangs.unit_key(pod)) == name
            for preemption in self._reservations
            for pod in preemption.pods.values()
        )

    def doubt(self, group: VictimGroup, claim: Claim) -> str | None:
        """As View.doubt."""
        preemption = self._preemption_of(claim)
        evicts = preemption is not None and preemption.state is PreemptionState.EVICTING
        if preemption is None or not evicts or self._stale() is not None:
            return ""
        why = self._check.not_for(preemption.key.namespace)
        why = why or self.preconditions.less_urgent(preemption)
        if why:
            return why
        nodes = self._snapshot().nodes
        if preemption.doubted or nodes is not preemption.nodes:
            preemption.doubted, preemption.nodes = False, nodes
            why = self.preconditions.problem(preemption)
            if why:
                return why
        why = self.preconditions.grown(group, claim)
        if not why and preemption.seen is not None and not self.tables.asks(preemption.id):
            why = self._spares(preemption) or self.preconditions.gone_in_part(
                preemption, group, claim
            )
        return why or None

    def _spares(self, preemption: Preemption) -> str:
        """Return why nobody may have to go after all, "" when nothing speaks for it."""
        snapshot, version = preemption.spared_at
        if snapshot is self._snapshot() and version == self._reservations.version:
            return ""
        preemption.spared_at = self._snapshot(), self._reservations.version
        return self.preconditions.spares(preemption)

    # -- what came of it ------------------------------------------------------------------

    def fails(self, plan_id: str, why: str) -> None:
        """Search for another plan in the place of one that does not hold."""
        for preemption in self._reservations:
            if preemption.id == plan_id:
                self._replan(preemption, why)

    def told(self, effect: Sent | Refused | WholeAgain | Ended | Owes) -> None:
        """Take note of what came of victims."""
        match effect:
            case Sent():
                self._sent(effect)
            case Refused():
                self._refused(effect)
            case WholeAgain(name, claims):
                why = f"{name} went in part and is whole again by others"
                for claim in claims:
                    self.fails(claim.plan_id, why)
            case Ended(name):
                self._notices.held_back.unit_ended(name)
            case Owes(plan_id):
                self._keeper.settle(plan_id, self.tables.owed)
            case _:
                assert_never(effect)

    def _sent(self, sent: Sent) -> None:
        self.sent(sent)
        asking = self._preemption_of(sent.claim)
        first = asking is not None and not asking.told
        self._notices.evicted(sent, asking, first=first)
        for claim in sent.claims:
            preemption = self._preemption_of(claim)
            if preemption is None:
                continue
            if sent.ours:
                # From here on room comes by our own hand.
                preemption.seen, preemption.seen_holds = None, ()
                preemption.spared_at = (None, 0)
            preemption.sent.add(sent.victim.uid)
            preemption.progress_at = self._clocks.monotonic()
            preemption.told = True
            self._advance(preemption)

    def _refused(self, refused: Refused) -> None:
        victim, failure = refused.victim, refused.failure
        told = f"{victim.namespace}/{victim.name} cannot be evicted: {failure.why}"
        if not failure.own:
            self.tables.refusals.note(
                victim.uid,
                failure.why,
                passing=failure.passing,
                unclear=failure.unclear,
                budgeted=failure.budgeted,
                readable=refused.readable,
            )
        if refused.left:
            self._notices.broken(refused, self._preemption_of(refused.claim))
            self._decide(
                Decision(
                    time=self._clocks.wall(),
                    gang=str(refused.claim.preemptor),
                    verb=Verb.LOOP,
                    outcome=Outcome.BROKEN,
                    message=f"{refused.name} is evicted in part: {told}",
                    victims=refused.left,
                )
            )
        for claim in refused.claims:
            preemption = self._preemption_of(claim)
            if preemption is None:
                continue
            if preemption.state is not PreemptionState.CHANGING:
                preemption.stayed[victim.uid] = victim
            self._replan(preemption, told)

    def takes(self, name: str) -> bool:
        """Whether what goes together under this name is to go, or has gone in part and still has
        to: who comes to it now would have to go with it, or be left alone."""
        return self._reservations.takes_unit(name) or self.tables.owes(name)

    def wake_held_back(self) -> None:
        """Wake those who wait for a group that does not go: a plan may have let go of it before
        anything was asked for, and of a broken one the rest stays."""
        units = self._notices.held_back.units()
        self._notices.held_back.units_ended({name for name in units if not self.takes(name)})

    def _preemption_of(self, claim: Claim) -> Preemption | None:
        preemption = self._reservations.get(claim.preemptor)
        return preemption if preemption is not None and preemption.id == claim.plan_id else None
