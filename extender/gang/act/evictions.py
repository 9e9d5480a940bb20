"""Evictions on their way, unit by unit: once one pod of a unit has gone, all of it goes.

A unit is *begun* when its first request may leave, and *touched* once a pod of it has gone,
or will go, by our hand. A plan may end at any moment; what is begun and not touched is let go
of then, what is touched is finished, whoever asks for it or not (promise 2). Each request is
checked at the last moment against the present objects (promise 4) and against the lease.

An answer that says neither yes nor no (a timeout, a 5xx, a lost connection) is read back. A
request that was lost sight of may still arrive: its unit is watched for a while.

What the API server refuses for good is told (``Listener.eviction_refused``), remembered so that the
next plan takes somebody else, and tried again now and then as long as the unit is touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

import structlog
from msgspec import Struct, field

from extender.gang.act.evictor import FIRST_PAUSE, Evictor, Removal, passing, unclear
from extender.gang.act.last_check import LastCheck
from extender.gang.act.leadership import Leadership
from extender.gang.incremental.protection import BUDGET_REFUSED
from extender.kube.errors import ApiError
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.plan import Plan, Victim
from extender.model.snapshot import EMPTY

log = structlog.get_logger("gang")

REFUSED_PAUSE = 30.0
"""How often a refusal that was told already is asked for again."""
WATCH_SECONDS = 60.0
"""How long a request that was lost sight of may still arrive (the client's own limit is 30 s)."""
REFUSAL_SECONDS = 120.0
"""For how long other victims are taken after a right, a webhook or a rule said no ..."""
BUDGET_SECONDS = 60.0
"""... and after a disruption budget did, which may change its mind at any moment."""


class Fate(Enum):
    """What is known of one victim's eviction."""

    WAITING = "waiting"
    """Nothing was sent, or the pod was found unharmed after what was sent."""
    ASKED = "asked"
    """A request is on its way, or its answer was unclear: the pod may go at any moment."""
    ACCEPTED = "accepted"
    """The API server has said yes."""
    REFUSED = "refused"
    """The API server, or our own last check, keeps saying no."""


class Unit(Struct, kw_only=True):
    """A victim unit that is being evicted."""

    plan_id: str
    preemptor: GangKey
    priority: int
    """The plan's; nobody at or above it goes."""
    name: str
    """The gang that goes whole as text, or the pod's uid."""
    whole: bool
    """Its pods go together, or not at all."""
    victims: dict[str, Victim]
    """uid -> victim not yet seen gone."""
    fates: dict[str, Fate]
    budgeted: frozenset[str]
    message: str
    touched: bool = False
    doubtful_until: float = 0.0
    """Until when a request that was lost sight of may still arrive."""
    released: bool = False
    """Its plan is over."""
    error: str = ""
    """Why it cannot be finished now."""
    marked: set[str] = field(default_factory=set)
    """Victims that have their condition DisruptionTarget, or were to get it."""
    compared: Gang | None = None
    """The gang when its extent was last compared; another object when that changed."""
    driven: set[str] = field(default_factory=set)
    """Victims a task looks after."""

    @property
    def owed(self) -> bool:
        """Whether the unit may have gone in part by our hand: it cannot be forgotten."""
        return self.touched or self.doubtful_until > 0 or Fate.ASKED in self.fates.values()

    @property
    def unsent(self) -> tuple[Victim, ...]:
        """Victims that are there and whose eviction is not accepted."""
        return tuple(v for uid, v in self.victims.items() if self.fates[uid] is not Fate.ACCEPTED)


class Listener(Protocol):
    """Who is told how evictions go."""

    def still_holds(self, unit: Unit) -> bool:
        """Whether the plan of an untouched unit holds on the newest state."""

    def eviction_sent(self, unit: Unit, victim: Victim) -> None:
        """The API server has accepted one eviction."""

    def eviction_refused(self, unit: Unit, victim: Victim, why: str) -> None:
        """One eviction is refused for good. A touched unit is broken until it is finished."""

    def unit_ended(self, unit: Unit) -> None:
        """All pods of the unit are gone, or it is let go of untouched."""


class Evictions:
    """Every unit that is begun and not gone."""

    def __init__(
        self,
        evictor: Evictor,
        check: LastCheck,
        leadership: Leadership,
        monotonic: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        listener: Listener,
        refused_seconds: float,
    ) -> None:
        self._evictor = evictor
        self._check = check
        self._leadership = leadership
        self._now = monotonic
        self._spawn = spawn
        self._listener = listener
        self._refused_seconds = refused_seconds
        self._units: dict[str, dict[str, Unit]] = {}
        """Plan id -> unit name -> unit."""
        self._by_name: dict[str, list[Unit]] = {}
        self._by_pod: dict[str, list[Unit]] = {}
        self._refusals: dict[str, tuple[str, float]] = {}
        """uid -> why its eviction was refused, and until when that is remembered."""
        self._shown: Mapping[str, str] = EMPTY
        self.version = 0
        """Grows when what ``unevictable`` returns changes."""

    # -- reading --------------------------------------------------------------------------

    def expected(self) -> dict[str, str]:
        """Return uid -> node of pods that may go at any moment by what we have sent."""
        return {
            uid: victim.node
            for unit in self.unfinished()
            for uid, victim in unit.victims.items()
            if unit.fates[uid] in (Fate.ASKED, Fate.ACCEPTED)
        }

    def unevictable(self) -> Mapping[str, str]:
        """Return uid -> reason of pods whose eviction was lately refused for good.

        The same object as before while nothing changed; see Snapshot.unevictable.
        """
        now = self._now()
        present = {uid: why for uid, (why, until) in self._refusals.items() if now < until}
        if len(present) < len(self._refusals):
            self._refusals = {uid: self._refusals[uid] for uid in present}
        if present != self._shown:
            self._shown = present or EMPTY
            self.version += 1
        return self._shown

    def of_plan(self, plan_id: str) -> list[Unit]:
        """Return the plan's units that are begun and not gone."""
        return list(self._units.get(plan_id, {}).values())

    def broken(self) -> list[Unit]:
        """Return units of which a part has gone and the rest cannot be evicted."""
        return [unit for unit in self.unfinished() if unit.touched and unit.error]

    def unfinished(self) -> list[Unit]:
        """Return every unit that is begun and not gone."""
        return [unit for units in self._units.values() for unit in units.values()]

    def takes(self, uid: str) -> bool:
        """Whether the pod goes for sure: a touched unit has it, or its request is under way."""
        return any(
            unit.touched or unit.fates.get(uid) in (Fate.ASKED, Fate.ACCEPTED)
            for unit in self._by_pod.get(uid, ())
        )

    # -- doing ----------------------------------------------------------------------------

    def begin(
        self,
        plan: Plan,
        plan_id: str,
        victims: Iterable[Victim],
        budgeted: frozenset[str],
        message: str,
        *,
        touched: bool = False,
        sent: Iterable[str] = (),
    ) -> Unit:
        """Start to evict one unit. ``touched``: part of it went in a life before.

        ``sent`` are uids whose eviction is known to be accepted.
        """
        left = {victim.uid: victim for victim in victims}
        first = next(iter(left.values()))
        accepted = set(sent)
        unit = Unit(
            plan_id=plan_id,
            preemptor=plan.gang,
            priority=plan.priority,
            name=first.unit or first.uid,
            whole=bool(first.unit),
            victims=left,
            fates={uid: Fate.ACCEPTED if uid in accepted else Fate.WAITING for uid in left},
            budgeted=budgeted,
            message=message,
            touched=touched,
        )
        same = self._by_name.setdefault(unit.name, [])
        unit.touched |= any(each.touched for each in same)
        same.append(unit)
        self._units.setdefault(plan_id, {})[unit.name] = unit
        for uid in left:
            self._by_pod.setdefault(uid, []).append(unit)
        self._drive_all(unit)
        return unit

    def release(self, plan_id: str) -> None:
        """The plan is over: let go of what is untouched, finish the rest."""
        for unit in self.of_plan(plan_id):
            unit.released = True
            self._let_go(unit)

    def going(self, uid: str) -> None:
        """A pod is seen terminating."""
        for unit in self._by_pod.get(uid, ()):
            doubt = unit.fates.get(uid) is Fate.ASKED or self._now() < unit.doubtful_until
            if uid in unit.fates:
                unit.fates[uid] = Fate.ACCEPTED
            if doubt:
                self._touch(unit)

    def gone(self, uid: str) -> None:
        """A pod is seen gone."""
        self._refusals.pop(uid, None)
        for unit in self._by_pod.pop(uid, []):
            doubt = unit.fates.get(uid) is Fate.ASKED or self._now() < unit.doubtful_until
            unit.victims.pop(uid, None)
            unit.fates.pop(uid, None)
            if doubt:
                self._touch(unit)
            if not unit.victims:
                self._end(unit)

    # -- one unit -------------------------------------------------------------------------

    def _touch(self, unit: Unit) -> None:
        """A pod of the unit goes by our hand: so does the rest, whichever plan counted on it."""
        for each in self._by_name.get(unit.name, ()):
            if not each.touched:
                each.touched = True
                self._drive_all(each)

    def _drive_all(self, unit: Unit) -> None:
        for victim in unit.unsent:
            if victim.uid not in unit.driven:
                unit.driven.add(victim.uid)
                self._spawn(self._drive(unit, victim))

    def _let_go(self, unit: Unit) -> None:
        """End a released unit of which nobody has gone, once nobody may still go."""
        if not unit.released or unit.touched or Fate.ASKED in unit.fates.values():
            return
        if self._now() < unit.doubtful_until:
            return
        self._end(unit)

    def _end(self, unit: Unit) -> None:
        units = self._units.get(unit.plan_id, {})
        if units.pop(unit.name, None) is None:
            return
        if not units:
            del self._units[unit.plan_id]
        same = [each for each in self._by_name[unit.name] if each is not unit]
        if same:
            self._by_name[unit.name] = same
        else:
            del self._by_name[unit.name]
        for uid in unit.victims:
            others = [u for u in self._by_pod.get(uid, []) if u is not unit]
            if others:
                self._by_pod[uid] = others
            else:
                self._by_pod.pop(uid, None)
        for uid in sorted(unit.marked & unit.victims.keys()) if not unit.touched else ():
            self._spawn(self._evictor.unmark(unit.victims[uid]))
        unit.victims = {}
        self._listener.unit_ended(unit)

    def _wanted(self, unit: Unit, victim: Victim) -> bool:
        """Whether somebody still has to ask for the pod's eviction."""
        there = unit.fates.get(victim.uid, Fate.ACCEPTED) is not Fate.ACCEPTED
        return there and (unit.touched or not unit.released)

    # -- one pod --------------------------------------------------------------------------

    async def _drive(self, unit: Unit, victim: Victim) -> None:
        try:
            while True:
                try:
                    await self._persist(unit, victim)
                    break
                except Exception:  # a defect must not leave a unit gone in part
                    log.exception("an eviction is begun again", pod=victim.name)
                    await self._evictor.pause(1.0)
        finally:
            unit.driven.discard(victim.uid)
            self._let_go(unit)
        while unit.released and not unit.touched and self._now() < unit.doubtful_until:
            await asyncio.sleep(1.0)
            self._let_go(unit)

    async def _persist(self, unit: Unit, victim: Victim) -> None:
        """Try until the pod goes or nobody wants it any more."""
        uid, pause, noes = victim.uid, FIRST_PAUSE, 0
        told = told_broken = False
        began = self._now()
        while self._wanted(unit, victim):
            why, error = self._check.of_victim(victim, unit.priority, alone=unit.touched), None
            if not why:
                answer = await self._send(unit, victim)
                if answer is True or unit.fates.get(uid) is Fate.ACCEPTED:
                    return
                if isinstance(answer, ApiError):
                    error, why = answer, str(answer)
            if not self._wanted(unit, victim):
                return
            noes += bool(why) and (error is None or not passing(error))
            lasting = noes >= self._evictor.attempts or (
                self._now() - began > self._refused_seconds
            )
            if why and error is None and not unit.touched:
                lasting = True  # our own check: the plan does not hold any more
            if why and lasting and not (told_broken if unit.touched else told):
                told, told_broken = True, unit.touched
                self._refuse(unit, victim, why, error)
            longest = REFUSED_PAUSE if unit.error else 5.0
            await self._evictor.pause(pause, error, longest)
            pause = min(pause * 2, REFUSED_PAUSE)

    async def _send(self, unit: Unit, victim: Victim) -> bool | ApiError:
        """Send one request; return True when the pod goes, False when none was sent."""
        uid = victim.uid

        def allowed() -> bool:
            return (
                self._leadership.acts
                and self._wanted(unit, victim)
                and not self._check.of_victim(victim, unit.priority, alone=unit.touched)
                and (unit.touched or self._listener.still_holds(unit))
            )

        def asking() -> None:
            unit.fates[uid] = Fate.ASKED

        mark = "" if uid in unit.marked else unit.message
        unit.marked.add(uid)
        try:
            removal = await self._evictor.remove(
                victim,
                budgeted=uid in unit.budgeted,
                mark=mark,
                allowed=allowed,
                asking=asking,
            )
        except ApiError as error:
            if not unclear(error):
                self._not_done(unit, uid)
                return error
            unit.doubtful_until = self._now() + WATCH_SECONDS
            if await self._leaving(victim):
                self._accepted(unit, victim)
                return True
            self._not_done(unit, uid)
            return error
        if removal is None:
            return False
        if removal is Removal.ACCEPTED:
            self._accepted(unit, victim)
        elif uid in unit.fates:
            # Gone without us: room is free, and nothing was broken by our hand.
            unit.fates[uid] = Fate.ACCEPTED
            self._listener.eviction_sent(unit, victim)
        return True

    def _not_done(self, unit: Unit, uid: str) -> None:
        if unit.fates.get(uid) is Fate.ASKED:  # else it was seen going meanwhile
            unit.fates[uid] = Fate.WAITING

    async def _leaving(self, victim: Victim) -> bool:
        try:
            return await self._evictor.leaving(victim)
        except ApiError:
            return False

    def _accepted(self, unit: Unit, victim: Victim) -> None:
        if victim.uid in unit.fates:
            unit.fates[victim.uid] = Fate.ACCEPTED
        self._refusals.pop(victim.uid, None)
        self._touch(unit)
        if unit.error and not any(fate is Fate.REFUSED for fate in unit.fates.values()):
            unit.error = ""
        self._listener.eviction_sent(unit, victim)

    def _refuse(self, unit: Unit, victim: Victim, why: str, error: ApiError | None) -> None:
        """Tell that a pod cannot be evicted; the next plan takes somebody else."""
        if victim.uid in unit.fates:
            unit.fates[victim.uid] = Fate.REFUSED
        unit.error = f"{victim.namespace}/{victim.name}: {why}"
        if error is not None and not unclear(error):
            seconds = BUDGET_SECONDS if passing(error) else REFUSAL_SECONDS
            budget = passing(error) and victim.uid in unit.budgeted
            told = f"{BUDGET_REFUSED}{why}" if budget else why
            self._refusals[victim.uid] = (told, self._now() + seconds)
        self._evictor.refused()
        self._listener.eviction_refused(unit, victim, why)
