"""A gang's life as steps with a beginning and an end, put together from what is told anyway.

Fed with decisions, with the states that a plan went through, and with what becomes of its pods.
Bounded in lives, steps, units and pods; nothing here knows who wants to see it (app/traces.py).
Times are wall clock, seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GangKey
from extender.model.plan import Code, Victim
from extender.model.texts import cut

MOST_LIVES = 1024
"""Open at a time; the one that was begun first is ended for one more."""
MOST_STEPS = 320
MOST_MOMENTS = 32
MOST_REFUSED = 16
"""Refusals of one life that are kept, the first: a tenant can cause as many as it likes."""
MOST_UNITS = 64
"""Of one plan that have a step each."""
MOST_PODS = 2048
"""Of one plan that are followed."""
LONGEST = 256
SWEEP_SECONDS = 60.0

Value = str | int | float | bool


class LifeOutcome(StrEnum):
    """How a life ended."""

    DONE = Outcome.DONE.value
    GAVE_UP = Outcome.GAVE_UP.value
    SEATED = "seated"
    """Without a plan of ours: its members found nodes."""
    GONE = "gone"
    """Its pods are."""
    # Why it is no longer followed:
    FORGOTTEN = "forgotten"
    STOPPED = "the extender was stopped"
    LEASE_LOST = "the lease was lost"


class LifeStep(Struct, frozen=True, kw_only=True):
    """A part of a life."""

    name: str
    """search, resume, record, evict, wait for leaving pods, seats open, change; or a moment's."""
    start: float
    end: float
    moment: bool = False
    """It has no length."""
    attributes: Mapping[str, Value] = {}
    trouble: str = ""
    """What went wrong, in words."""


class Life(Struct, kw_only=True):
    """From the first question about a gang to its members' last binding, or to a plan given up."""

    gang: str
    began: float
    ended: float = 0.0
    outcome: LifeOutcome | None = None
    """None while it goes on."""
    message: str = ""
    priority: int | None = None
    steps: list[LifeStep] = field(default_factory=list)
    moments: list[LifeStep] = field(default_factory=list)
    refusals: int = 0
    left_out: int = 0
    """Steps and moments beyond what is kept."""
    preemption: Following | None = None

    def add(self, step: LifeStep) -> None:
        """Keep a step or a moment, if there is room."""
        kept, most = (self.moments, MOST_MOMENTS) if step.moment else (self.steps, MOST_STEPS)
        if len(kept) < most:
            kept.append(step)
        else:
            self.left_out += 1


class Flown(Struct, frozen=True):
    """A plan under way, as far as traces are concerned; ``path`` grows while it flies."""

    id: str
    priority: int
    path: Sequence[tuple[PreemptionState, float]]
    """(state, monotonic time at which it was entered)."""


class _Unit(Struct):
    pods: int = 0
    followed: set[str] = field(default_factory=set)
    began: float | None = None
    """When the first of them was seen to go."""
    ended: float = 0.0
    """When the last one was seen gone, so far."""


class Following(Struct, kw_only=True):
    """The plan of a life that is being followed."""

    planned: float
    leaving: int
    """Pods that have to go first."""
    seats: int
    units: dict[str, _Unit] = field(default_factory=dict)
    unit_of: dict[str, str] = field(default_factory=dict)
    """Uid of a followed victim -> its unit."""
    flown: Flown | None = None


class Lives:
    """One event loop. ``ended`` is given each life that is over."""

    def __init__(
        self,
        ended: Callable[[Life], None],
        there: Callable[[GangKey], bool],
        wall: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        """``there``: whether a gang has any pod."""
        self._ended = ended
        self._there = there
        self._wall = wall
        self._monotonic = monotonic
        self._lives: dict[str, Life] = {}
        self._wanted: dict[str, list[_Unit]] = {}
        """Uid of a followed victim -> the units that count on it."""
        self._swept = wall()

    def __len__(self) -> int:
        return len(self._lives)

    # -- what is told -----------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """Take note of a decision that is not a repetition."""
        self._sweep()
        life = self._lives.get(decision.gang)
        match decision.outcome:
            case Outcome.PLAN:
                self._planned(life or self._begin(decision), decision)
            case Outcome.REFUSAL if decision.code == Code.NOT_NEEDED:
                if life is not None:
                    self._end(life, LifeOutcome.SEATED, decision.message, decision.time)
            case Outcome.REFUSAL if decision.code != Code.NOT_ENFORCED:
                life = life or self._begin(decision)
                life.refusals += 1
                if life.refusals <= MOST_REFUSED:
                    life.add(_refused(decision))
                else:
                    life.left_out += 1
            case Outcome.DONE | Outcome.GAVE_UP if life is not None:
                outcome = LifeOutcome(decision.outcome)
                self._end(life, outcome, decision.message, decision.time)
            case Outcome.BROKEN | Outcome.IN_PART if life is not None:
                name, text = str(decision.outcome), cut(decision.message, LONGEST)
                at = decision.time
                life.add(LifeStep(name=name, start=at, end=at, moment=True, trouble=text))

    def flying(self, gang: str, flown: Flown) -> None:
        """Take note of the plan under way that the gang's last decision has begun."""
        life = self._lives.get(gang)
        if life is not None and life.preemption is not None and life.preemption.flown is None:
            life.preemption.flown = flown
            life.priority = flown.priority

    def going(self, uid: str) -> None:
        """A pod is seen terminating."""
        for unit in self._wanted.get(uid, ()):
            if unit.began is None:
                unit.began = self._wall()

    def gone(self, uid: str) -> None:
        """A pod is seen gone."""
        now = self._wall()
        for unit in self._wanted.get(uid, ()):
            unit.began = now if unit.began is None else unit.began
            unit.followed.discard(uid)
            unit.ended = now

    def follows(self, uid: str) -> bool:
        """Whether it matters what becomes of a pod."""
        return uid in self._wanted

    def close(self, why: LifeOutcome) -> None:
        """End every life: nobody follows them any more."""
        now = self._wall()
        for life in list(self._lives.values()):
            self._end(life, why, "", now)

    # -- lives ------------------------------------------------------------------------------

    def _begin(self, decision: Decision) -> Life:
        while len(self._lives) >= MOST_LIVES:
            oldest = next(iter(self._lives.values()))
            self._end(oldest, LifeOutcome.FORGOTTEN, f"{MOST_LIVES} others are open", self._wall())
        life = Life(gang=decision.gang, began=decision.time - decision.seconds)
        self._lives[decision.gang] = life
        return life

    def _planned(self, life: Life, decision: Decision) -> None:
        self._land(life, decision.time)
        units: dict[str, _Unit] = {}
        life.add(_searched(decision, len({_unit_of(each) for each in decision.victims})))
        following = Following(
            planned=decision.time,
            leaving=len(decision.victims) + len(decision.waits_for),
            seats=len(decision.seats),
            units=units,
        )
        for victim in decision.victims:
            name = _unit_of(victim)
            if name not in units and len(units) >= MOST_UNITS:
                continue
            unit = units.setdefault(name, _Unit())
            unit.pods += 1
            if len(following.unit_of) < MOST_PODS:
                following.unit_of[victim.uid] = name
                unit.followed.add(victim.uid)
                self._wanted.setdefault(victim.uid, []).append(unit)
        life.preemption = following

    def _end(self, life: Life, outcome: LifeOutcome, message: str, now: float) -> None:
        del self._lives[life.gang]
        self._land(life, now)
        life.ended, life.outcome, life.message = now, outcome, cut(message, LONGEST)
        self._ended(life)

    def _sweep(self) -> None:
        """End the lives of gangs that are gone."""
        now = self._wall()
        if now - self._swept < SWEEP_SECONDS:
            return
        self._swept = now
        for life in list(self._lives.values()):
            if life.preemption is None and not self._there(GangKey.read(life.gang)):
                self._end(life, LifeOutcome.GONE, "its pods are gone", now)

    # -- the steps of a plan ----------------------------------------------------------------

    def _land(self, life: Life, now: float) -> None:
        """Make steps of the plan that was followed, which is over."""
        following, life.preemption = life.preemption, None
        if following is None:
            return
        for uid, name in following.unit_of.items():
            others = [each for each in self._wanted[uid] if each is not following.units[name]]
            if others:
                self._wanted[uid] = others
            else:
                del self._wanted[uid]
        if following.flown is None:
            return
        for step in self._steps(following, following.flown, now):
            life.add(step)

    def _steps(self, following: Following, flown: Flown, now: float) -> list[LifeStep]:
        offset = self._wall() - self._monotonic()
        path = [(state, min(now, at + offset)) for state, at in flown.path]
        plan: dict[str, Value] = {"podgroup.plan": flown.id}
        ends = [*(at for _, at in path[1:]), now]
        acting = next((at for state, at in path if state is PreemptionState.EVICTING), None)
        steps = [
            LifeStep(
                name="record",
                start=following.planned,
                end=max(following.planned, path[0][1] if path else now),
                attributes=plan,
                trouble="" if acting is not None else "the plan was not begun",
            )
        ]
        opened = next((at for state, at in path if state is PreemptionState.OPEN), None)
        over = next(
            (
                at
                for state, at in path
                if state in (PreemptionState.CHANGING, PreemptionState.ENDED)
            ),
            now,
        )
        if acting is not None and following.leaving:
            steps += _evictions(following, plan, over)
            steps.append(
                LifeStep(
                    name="wait for leaving pods",
                    start=acting,
                    end=over if opened is None else opened,
                    attributes={**plan, "podgroup.pods": following.leaving},
                    trouble="not all of them terminated" if opened is None else "",
                )
            )
        for (state, start), end in zip(path, ends, strict=False):
            if state is PreemptionState.OPEN:
                seats = {**plan, "podgroup.seats": following.seats}
                steps.append(LifeStep(name="seats open", start=start, end=end, attributes=seats))
            elif state is PreemptionState.CHANGING:
                steps.append(LifeStep(name="change", start=start, end=end, attributes=plan))
        return steps


def _evictions(following: Following, plan: Mapping[str, Value], over: float) -> list[LifeStep]:
    """A step for each unit: from the first of its pods seen to go to the last one seen gone."""
    steps = []
    for name, unit in following.units.items():
        if unit.began is None:
            continue
        left = len(unit.followed)
        steps.append(
            LifeStep(
                name="evict",
                start=unit.began,
                end=max(unit.began, over if left else unit.ended),
                attributes={
                    **plan,
                    "podgroup.unit": cut(name, LONGEST),
                    "podgroup.pods": unit.pods,
                },
                trouble=f"{left} of its pods are still there" if left else "",
            )
        )
    return steps


def _unit_of(victim: Victim) -> str:
    return victim.unit or f"{victim.namespace}/{victim.name}"


def _searched(decision: Decision, units: int) -> LifeStep:
    costs = ", ".join(f"{cost.level}={cost.value}" for cost in decision.costs if cost.value)
    return LifeStep(
        name="resume" if decision.verb is Verb.RECOVERY else "search",
        start=decision.time - decision.seconds,
        end=decision.time,
        attributes={
            "podgroup.outcome": str(decision.outcome),
            "podgroup.asked_by": decision.verb,
            "podgroup.proof": decision.proof,
            "podgroup.seats": len(decision.seats),
            "podgroup.victims": len(decision.victims),
            "podgroup.units": units,
            "podgroup.generation": decision.generation,
            "podgroup.costs": cut(costs, LONGEST),
        },
    )


def _refused(decision: Decision) -> LifeStep:
    """Return the search that ended with no; a moment where none was needed."""
    return LifeStep(
        name="search" if decision.seconds > 0 else "refused",
        start=decision.time - decision.seconds,
        end=decision.time,
        moment=not decision.seconds > 0,
        attributes={
            "podgroup.outcome": str(decision.outcome),
            "podgroup.asked_by": decision.verb,
            "podgroup.code": decision.code,
            "podgroup.message": cut(decision.message, LONGEST),
            "podgroup.generation": decision.generation,
        },
    )
