"""Which gangs are planned at all, and whose turn it is: where tenants share one planner.

Five rules, each with a file of its own that says how it counts:

- only gangs of namespaces that the extender is to act for (incremental/enforcement.py);
- only members whose scheduler asks us get seats (plan/schedulers.py);
- a gang whose plans are given up again and again is left alone (plan/suspension.py);
- planning time is shared out between namespaces (plan/fair_turns.py);
- so are evictions, where that is configured (plan/eviction_budget.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TypedDict

from msgspec.structs import replace

from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.fairness.suspensions import Suspensions
from extender.gang.incremental.enforcement import NOT_ENFORCED, Enforcement
from extender.gang.plan.eviction_budget import EvictionBudget
from extender.gang.plan.fair_turns import SYSTEM_CRITICAL, FairTurns, Turn, TurnLine, turn_of
from extender.gang.plan.schedulers import seated_by
from extender.gang.plan.stayed_victims import DID_NOT_GO, TOOK_SEATS, StayedVictims
from extender.gang.plan.suspension import Cause, GiveUps, Suspension, looks_of, overran, refused
from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.status.notices import Notices
from extender.model.gang import Gang
from extender.model.objects import DEFAULT_SCHEDULER, GangKey, Pod
from extender.model.plan import Code, Plan, Refusal, Victim
from extender.model.snapshot import Snapshot
from extender.model.texts import rfc3339
from extender.settings.settings import Settings


class SuspendedGang(TypedDict):
    """A gang that is not planned for a while, as the debug API shows it."""

    gang: str
    cause: Cause
    """What its plans failed for."""
    why: str
    """The same as a sentence."""
    since: str
    until: str
    """When it is planned again."""
    untilItChanges: bool
    """Whether a change of the gang itself ends it earlier."""


class CurrentLimits(TypedDict):
    """What is limited now, as the debug API shows it. Times are RFC 3339."""

    schedulers: list[str]
    """Schedulers whose pods are planned for."""
    suspended: list[SuspendedGang]
    """Gangs that are not planned for a while."""
    planningSeconds: dict[str, float]
    """Namespace -> planning time that it has used lately."""
    evictionsLastHour: dict[str, int]
    """Namespace -> pods evicted for its gangs within an hour."""
    counted: dict[str, int]
    """Limit -> how often it was met since the start."""


class Admission:
    """Lets gangs in, or says why not. One event loop only."""

    def __init__(
        self,
        settings: Settings,
        clocks: Clocks,
        reservations: Reservations,
        evidence: NodeLists,
        suspensions: Suspensions,
        notices: Notices,
    ) -> None:
        self._settings = settings
        self._clocks = clocks
        self._reservations = reservations
        self._evidence = evidence
        self._notices = notices
        self.suspensions = suspensions
        self._give_ups = GiveUps(settings.seats.give_ups, settings.seats.suspend_seconds)
        self.stayed = StayedVictims()
        self.turns = FairTurns(settings.plan.namespace_share)
        self.budget = EvictionBudget(settings.eviction.per_namespace_hour)
        self._looked: tuple[object, str] = (None, "")
        self._enforcement = Enforcement(settings.enforce)
        self.chooses = not self._enforcement.everybody
        """Some namespaces are left alone: a snapshot has to be looked at, which is not free."""
        self.counted: Counter[str] = Counter()
        """How often a gang was suspended, or had to wait for a rule, by what."""

    async def recover(self) -> None:
        """Take in who was suspended in a life before. Raises ApiError."""
        longest = self._settings.seats.suspend_seconds
        for suspension in await self.suspensions.recover(longest):
            self._give_ups.adopt(suspension)

    # -- who is planned for ---------------------------------------------------------------

    def schedulers(self) -> frozenset[str]:
        """Return the schedulers whose pods get seats."""
        configured = self._settings.scheduler_names
        if configured:
            return frozenset(configured)
        return self._evidence.schedulers | {DEFAULT_SCHEDULER}

    def acts_for(self, namespace: str, snapshot: Snapshot) -> bool:
        """Whether gangs and pods of the namespace are planned for."""
        return self._enforcement.acts_for(namespace, snapshot)

    def left_alone(self, key: GangKey, snapshot: Snapshot) -> Refusal | None:
        """Return the refusal to plan for a gang that is left to kube-scheduler."""
        if self.acts_for(key.namespace, snapshot):
            return None
        why = NOT_ENFORCED.format(key.namespace)
        return Refusal(gang=key, code=Code.NOT_ENFORCED, message=f"{why}: it is left alone")

    def ours(self, gang: Gang) -> Gang:
        """Return the gang without waiting members whose scheduler does not ask us."""
        return seated_by(gang, self.schedulers())

    def turn_of(self, gang: Gang) -> Turn:
        """Return the gang's place among those that wait."""
        return turn_of(gang)

    def order(self, turns: list[Turn]) -> list[Turn]:
        """Return the turns in their order as things are now."""
        return self.turns.order(turns, self._clocks.monotonic())

    def line(self, turns: Iterable[Turn]) -> TurnLine:
        """Return a line of these, from which one after the other is taken."""
        return TurnLine(turns, self.order)

    # -- before and after a search --------------------------------------------------------

    def must_wait(self, gang: Gang, waiting: Iterable[Turn]) -> Refusal | None:
        """Return why the gang is not searched for now; ``waiting``: whoever wants to be."""
        critical = gang.preemptor_priority >= SYSTEM_CRITICAL
        held = self.suspensions.of(gang.key, lambda: self._looks(gang))
        spared = held is not None and held.cause is Cause.GAVE_UP and critical
        if held is not None and held.cause is not Cause.REFUSED and not spared:
            return Refusal(gang=gang.key, code=Code.SUSPENDED, message=held.told)
        now = self._clocks.monotonic()
        if self.turns.must_wait(self.turn_of(gang), waiting, now):
            self.counted["planning-share"] += 1
            return Refusal(
                gang=gang.key,
                code=Code.TURN,
                message=f"namespace {gang.key.namespace} has used its share of planning time "
                "(plan.namespaceShare), and gangs of other namespaces wait",
            )
        return None

    def _looks(self, gang: Gang) -> str:
        if self._looked[0] is not gang.members:
            self._looked = (gang.members, looks_of(gang))
        return self._looked[1]

    def counted_on(self, gang: Gang, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without counting on those who did not go for the gang lately."""
        stayed = self.stayed.of(gang, self._clocks.monotonic())
        return replace(snapshot, stayed=stayed) if stayed else snapshot

    def took_in(self, seconds: Mapping[str, float]) -> None:
        """Count the planning time that budgets of namespaces took while the cluster was read."""
        for namespace, each in seconds.items():
            self.turns.spend(namespace, each, self._clocks.monotonic())

    def searched(self, gang: Gang, seconds: float, causes: Collection[str] = ()) -> None:
        """Count the planning time that a search took, for the namespaces that have caused it if
        they are others than the gang's own."""
        namespaces = causes or (gang.key.namespace,)
        for namespace in namespaces:
            self.turns.spend(namespace, seconds / len(namespaces), self._clocks.monotonic())

    def overran(self, gang: Gang, seconds: float) -> Refusal:
        """Set a gang aside whose search had to be stopped by force."""
        lasting = self._settings.seats.suspend_seconds
        found = overran(gang.key, seconds, self._clocks.wall(), lasting)
        self._suspend(found, gang.members)
        return Refusal(gang=gang.key, code=Code.SUSPENDED, message=found.why)

    def too_many_evictions(
        self, plan: Plan, gang: Gang, before: Preemption | None = None
    ) -> Refusal | None:
        """Return why the plan's evictions are too many for its gang or its namespace now;
        ``before``: the plan that it takes the place of."""
        if plan.priority >= SYSTEM_CRITICAL:
            return None
        held = self.suspensions.of(gang.key, lambda: self._looks(gang)) if plan.victims else None
        if held is not None:
            return Refusal(gang=gang.key, code=Code.SUSPENDED, message=held.told)
        namespace = plan.gang.namespace
        on_the_way = sum(
            _charged(victim, preemption) == namespace
            for preemption in self._reservations
            if preemption.key.namespace == namespace and preemption.key != plan.gang
            for victim in preemption.plan.victims
        )
        planned = sum(
            before is None or _charged(victim, before) == namespace for victim in plan.victims
        )
        now = self._clocks.monotonic()
        why = self.budget.exceeded(namespace, planned, on_the_way, now)
        if not why:
            return None
        self.counted["eviction-budget"] += 1
        return Refusal(gang=plan.gang, code=Code.BUDGET, message=why)

    # -- the end of a plan ----------------------------------------------------------------

    def replaced(self, preemption: Preemption) -> None:
        """Count what a plan has evicted whose place another one takes."""
        self._spend(preemption)

    def ended(self, preemption: Preemption, *, done: bool, seen: bool = True) -> bool:
        """Count a plan that is over; return whether it counts as given up: it evicted or held
        seats for nothing, and its gang neither had to give way to a more urgent one, nor could not
        be seated by anybody: kube-scheduler is away, or (not ``seen``) its binding would not show.

        For an absent kube-scheduler pods are evicted once at most: without it no others are bound
        in their place. So a plan that evicted counts whoever asked meanwhile.
        """
        self._spend(preemption)
        if done:
            self._give_ups.seated(preemption.key)
            self.stayed.seated(preemption.key)
            return False
        if self._others_fault(preemption) or preemption.yields or not seen:
            return False
        held = preemption.deadline > 0 and not self._nobody_asks(preemption)
        return held or _evicted(preemption) > 0

    def gave_up(self, preemption: Preemption, gang: Gang, why: str) -> None:
        """Count a plan that was given up, of the gang as it is now."""
        looks, now = self._looks(gang), self._clocks.wall()
        found = self._give_ups.gave_up(preemption.key, looks, why, now)
        seats = self._settings.seats
        if found is None and preemption.refused and seats.give_ups and _evicted(preemption):
            names = [preemption.pods[uid].name for uid in preemption.refused]
            found = refused(preemption.key, names, why, looks, now, seats.suspend_seconds)
        if found is not None and preemption.plan.priority < SYSTEM_CRITICAL:
            self._suspend(found, gang.members or tuple(preemption.pods.values()))

    def _others_fault(self, preemption: Preemption) -> bool:
        """Whether a plan ended for victims of other namespaces that did not go, for pods of others
        that came to its seats without an offer, or for want of the API server. Whose they were is
        remembered."""
        stayed = self._note_others(preemption, preemption.stayed.values(), DID_NOT_GO)
        if stayed:
            self.counted["victims-stayed"] += 1
        displaced = self._note_others(preemption, preemption.displaced_by, TOOK_SEATS)
        if displaced:
            self.counted["seats-taken"] += 1
        return stayed or displaced or preemption.unsent

    def _note_others(self, preemption: Preemption, pods: Iterable[Victim | Pod], what: str) -> bool:
        """Remember what pods of other namespaces did to a plan; False where there are none."""
        others: dict[str, dict[str, str]] = {}
        for pod in pods:
            if pod.namespace != preemption.key.namespace:
                others.setdefault(pod.namespace, {})[pod.uid] = pod.name
        for namespace, names in others.items():
            self.stayed.note(preemption.key, namespace, names, self._clocks.monotonic(), what)
        return bool(others)

    def _nobody_asks(self, preemption: Preemption) -> bool:
        """Whether no question came about any pod at all since its seats are open."""
        opened = preemption.deadline - self._settings.seats.bind_seconds
        return preemption.deadline > 0 and self._evidence.asked_at < opened

    def _spend(self, preemption: Preemption) -> None:
        """Count what was evicted: pods that came to its seats without an offer are charged to their
        own namespace."""
        now = self._clocks.monotonic()
        sent = (victim for victim in preemption.plan.victims if victim.uid in preemption.sent)
        for namespace, evictions in Counter(
            _charged(victim, preemption) for victim in sent
        ).items():
            self.budget.spend(namespace, evictions, now)

    def _suspend(self, suspension: Suspension, pods: Iterable[Pod]) -> None:
        self.counted[f"suspended-{suspension.cause}"] += 1
        self.suspensions.add(suspension)
        self._notices.warn(pods, "GangSuspended", suspension.told)

    # -- telling --------------------------------------------------------------------------

    def most_planning(self, most: int) -> dict[str, float]:
        """Return the namespaces that have used most planning time lately, with the seconds."""
        used = self.turns.totals(self._clocks.monotonic())
        return dict(sorted(used.items(), key=lambda item: (-item[1], item[0]))[:most])

    def most_evictions(self, most: int) -> dict[str, float]:
        """Return the namespaces with most evictions within an hour, with their number."""
        sent = self.budget.totals(self._clocks.monotonic())
        return {
            name: float(sent[name])
            for name in sorted(sent, key=lambda name: (-sent[name], name))[:most]
        }

    def describe(self) -> CurrentLimits:
        """Return, for a person, what is limited now."""
        now = self._clocks.monotonic()
        return {
            "schedulers": sorted(self.schedulers()),
            "suspended": [
                {
                    "gang": str(held.gang),
                    "cause": held.cause,
                    "why": held.why,
                    "since": rfc3339(held.since),
                    "until": rfc3339(held.until),
                    "untilItChanges": bool(held.looks),
                }
                for held in self.suspensions.present()
            ],
            "planningSeconds": {
                namespace: round(seconds, 3)
                for namespace, seconds in sorted(self.turns.totals(now).items())
            },
            "evictionsLastHour": dict(sorted(self.budget.totals(now).items())),
            "counted": dict(sorted(self.counted.items())),
        }


def _charged(victim: Victim, preemption: Preemption) -> str:
    """Return the namespace that an eviction is charged to."""
    return victim.namespace if victim.uid in preemption.unadmitted else preemption.key.namespace


def _evicted(preemption: Preemption) -> int:
    return sum(victim.uid in preemption.sent for victim in preemption.plan.victims)
