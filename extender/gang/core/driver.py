"""One pod's eviction, tried until the pod goes or nobody wants it any more.

Each request is checked at the last moment against the present objects (promise 4) and against
the lease. An answer that says neither yes nor no (a timeout, a 5xx, a lost connection) is read
back. A request that was lost sight of may still arrive: its unit is watched for a while.

What the API server refuses for good is told (``EvictionListener.eviction_refused``), remembered so
that the next plan takes somebody else, and tried again now and then as long as the pod must go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from extender.gang.controller.evictor import FIRST_PAUSE, Evictor, Removal, passing, unclear
from extender.gang.core.last_check import LastCheck
from extender.gang.core.refusals import Refusals
from extender.gang.core.unit import EvictionListener, EvictionUnit, Fate
from extender.gang.leader_election.leadership import Leadership
from extender.kube.api_errors import ApiError, Unavailable
from extender.model.plan import Victim

log = structlog.get_logger("gang")

REFUSED_PAUSE = 30.0
"""How often a refusal that was told already is asked for again."""
LOOK_SECONDS = 1.0
"""How often it is looked for meanwhile."""
WATCH_SECONDS = 60.0
"""How long a request that was lost sight of may still arrive (the client's own limit is 30 s)."""


class Driver:
    """Evicts single pods of units.

    ``touch(unit, uid)`` is told when a pod of it goes by our hand, ``spared(unit, victim)`` says
    whether the rest may stay after all, ``let_go(unit)`` is asked to let go of those who need not
    go when it is released, once nobody may still go. ``rest`` is how to wait without keeping
    others waiting.
    """

    def __init__(
        self,
        evictor: Evictor,
        check: LastCheck,
        leadership: Leadership,
        monotonic: Callable[[], float],
        listener: EvictionListener,
        refusals: Refusals,
        refused_seconds: float,
        touch: Callable[[EvictionUnit, str], None],
        spared: Callable[[EvictionUnit, Victim], bool],
        let_go: Callable[[EvictionUnit], None],
        rest: Callable[[Awaitable[None]], Awaitable[None]],
    ) -> None:
        self._evictor = evictor
        self._check = check
        self._leadership = leadership
        self._now = monotonic
        self._listener = listener
        self._refusals = refusals
        self._refused_seconds = refused_seconds
        self._touch = touch
        self._spared = spared
        self._let_go = let_go
        self._rest = rest
        self._sending: set[str] = set()
        """Uids of pods that a request is under way for."""
        self._left: dict[str, str] = {}
        """Uids of pods whose eviction has left and is not answered -> the plan's id."""

    def wanted(self, unit: EvictionUnit, victim: Victim) -> bool:
        """Whether somebody still has to ask for the pod's eviction."""
        there = unit.fates.get(victim.uid, Fate.ACCEPTED) is not Fate.ACCEPTED
        return there and (victim.uid in unit.must_go or not unit.released)

    async def drive(self, unit: EvictionUnit, victim: Victim) -> None:
        """Look after one victim until nobody has to any more."""
        while True:
            try:
                await self._persist(unit, victim)
                doubtful = self._now() < unit.doubtful_until
                self._let_go(unit)
            except Exception:  # a defect must not leave a unit gone in part
                log.exception("an eviction is begun again", pod=victim.name)
                await self._rest(self._evictor.pause(1.0))
                continue
            if self.wanted(unit, victim):
                continue  # another pod of its unit went after all
            unknown = unit.fates.get(victim.uid) is Fate.ASKED
            if not unit.released or victim.uid in unit.must_go or not (doubtful or unknown):
                return
            await self._rest(asyncio.sleep(LOOK_SECONDS))
            if unknown:
                await self._read_back(unit, victim)

    async def _persist(self, unit: EvictionUnit, victim: Victim) -> None:
        """Try until the pod goes or nobody wants it any more."""
        uid, pause, noes = victim.uid, FIRST_PAUSE, 0
        told: set[tuple[bool, bool]] = set()
        """Whether it must go, and then whether it was our own check that said no."""
        began = self._now()
        while self.wanted(unit, victim):
            if self._spared(unit, victim):
                await self._rest(asyncio.sleep(LOOK_SECONDS))
                continue
            error = None
            why = self._check.of_victim(victim, unit.priority, alone=uid in unit.must_go)
            if not why:
                answer = await self._send(unit, victim)
                if answer is True or unit.fates.get(uid) is Fate.ACCEPTED:
                    return
                if isinstance(answer, ApiError):
                    error, why = answer, str(answer)
            elif unit.fates.get(uid) is Fate.ASKED:
                # Nothing is sent any more, and searches count on its going until it is known.
                await self._read_back(unit, victim)
            if not self.wanted(unit, victim):
                return
            noes += bool(why) and (error is None or not passing(error))
            lasting = noes >= self._evictor.attempts or (
                self._now() - began > self._refused_seconds
            )
            if why and error is None and uid not in unit.must_go:
                lasting = True  # our own check: the plan does not hold any more
            if why and lasting:
                must = uid in unit.must_go
                telling = (must, must and error is None)
                if telling not in told:
                    told.add(telling)
                    self._refuse(unit, victim, why, error)
                elif unit.fates.get(uid) is Fate.WAITING:
                    unit.fates[uid] = Fate.REFUSED  # once more: it was asked for in between
            longest = REFUSED_PAUSE if unit.error else 5.0
            await self._rest(self._evictor.pause(pause, error, longest))
            pause = min(pause * 2, REFUSED_PAUSE)

    def asks(self, plan_id: str) -> bool:
        """Whether an eviction for the plan has left that is not answered."""
        return plan_id in self._left.values()

    async def _send(self, unit: EvictionUnit, victim: Victim) -> bool | ApiError:
        """Send one request; return True when the pod goes, False when none was sent."""
        if victim.uid in self._sending:
            # It may hang, and units of every plan that named the pod would take turns with it.
            return Unavailable(0, "Busy", "another plan's request for it is not answered yet")
        self._sending.add(victim.uid)
        try:
            return await self._send_alone(unit, victim)
        finally:
            self._sending.discard(victim.uid)
            self._left.pop(victim.uid, None)

    async def _send_alone(self, unit: EvictionUnit, victim: Victim) -> bool | ApiError:
        uid = victim.uid
        before = unit.fates.get(uid)
        sure = unit.whole and before is not Fate.ASKED and self._now() >= unit.doubtful_until
        asked = False

        def untouched() -> bool:
            """Whether it matters by whose hand the pod goes, and can be told."""
            return sure and uid not in unit.must_go

        def allowed() -> bool:
            return (
                self._leadership.acts
                and self.wanted(unit, victim)
                and not self._check.of_victim(victim, unit.priority, alone=uid in unit.must_go)
                and (uid in unit.must_go or self._listener.still_holds(unit))
            )

        def asking() -> None:
            nonlocal asked
            asked = True
            self._left[uid] = unit.plan_id
            unit.fates[uid] = Fate.ASKED
            if untouched() and uid not in unit.budgeted:
                unit.undecided.add(uid)

        # A budget may have come to cover it since the unit was begun.
        unit.budgeted |= self._check.budgeted([victim], unit.priority)
        mark = "" if uid in unit.marked else unit.message
        unit.marked.add(uid)
        try:
            removal = await self._evictor.remove(
                victim,
                budgeted=uid in unit.budgeted,
                mark=mark,
                allowed=allowed,
                asking=asking,
                untouched=untouched,
            )
        except ApiError as error:
            if not (asked and unclear(error)):
                self._not_done(unit, uid)
                return error
            unit.doubtful_until = self._now() + WATCH_SECONDS
            if unit.fates.get(uid) is Fate.ASKED:
                return await self._read_back(unit, victim) or error
            self._accepted(unit, victim)  # seen going meanwhile, perhaps by this request
            return True
        finally:
            unit.undecided.discard(uid)
        if removal is None:
            if before is not Fate.ASKED:  # else an earlier request may still arrive
                self._not_done(unit, uid)
            return False
        ours = before is Fate.ASKED or self._now() < unit.doubtful_until
        if removal is Removal.ACCEPTED or ours:  # an earlier request may have done it
            self._accepted(unit, victim)
        elif uid in unit.fates:
            # Gone without us: room is free, and nothing was broken by our hand.
            unit.fates[uid] = Fate.ACCEPTED
            self._listener.eviction_sent(unit, victim)
        return True

    def _not_done(self, unit: EvictionUnit, uid: str) -> None:
        if unit.fates.get(uid) is Fate.ASKED:  # else it was seen going meanwhile
            unit.fates[uid] = Fate.WAITING
            self._refusals.found()

    async def _read_back(self, unit: EvictionUnit, victim: Victim) -> bool:
        """Look what became of a request with an unclear answer; return whether the pod goes.

        As long as that cannot be read either, the pod may go at any moment (Fate.ASKED).
        """
        try:
            goes = await self._evictor.leaving(victim)
        except ApiError:
            return False
        if goes:
            self._accepted(unit, victim)
        else:
            self._not_done(unit, victim.uid)
        return goes

    def _accepted(self, unit: EvictionUnit, victim: Victim) -> None:
        if victim.uid in unit.fates:
            unit.fates[victim.uid] = Fate.ACCEPTED
        self._refusals.forget(victim.uid)
        self._touch(unit, victim.uid)
        if unit.error and not unit.fates.those(Fate.REFUSED):
            unit.error = ""
        self._listener.eviction_sent(unit, victim)

    def _refuse(self, unit: EvictionUnit, victim: Victim, why: str, error: ApiError | None) -> None:
        """Tell that a pod cannot be evicted; the next plan takes somebody else."""
        readable = unit.fates.get(victim.uid) is Fate.WAITING
        if readable:
            unit.fates[victim.uid] = Fate.REFUSED
        unit.error = f"{victim.namespace}/{victim.name}: {why}"
        if error is not None:
            budgeted = victim.uid in unit.budgeted
            self._refusals.note(victim.uid, why, error, budgeted=budgeted, readable=readable)
        self._evictor.refused()
        self._listener.eviction_refused(unit, victim, why)
