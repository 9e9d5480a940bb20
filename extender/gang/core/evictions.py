"""Evictions on their way, unit by unit: once one pod of a unit has gone, all of it goes.

A unit is *begun* when its first request may leave, and *touched* once a pod of it has gone,
or will go, by our hand; whoever is in it then *must go*. A plan may end at any moment; whoever is
begun and need not go is let go of then, the others are evicted, whoever asks for it or not
(promise 2). How one pod is evicted is in ``driver.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from extender.gang.controller.dispatch import Dispatch
from extender.gang.controller.evictor import Evictor
from extender.gang.core.driver import WATCH_SECONDS, Driver
from extender.gang.core.joiners import Joiners
from extender.gang.core.last_check import LastCheck
from extender.gang.core.refusals import Refusals
from extender.gang.core.touched_units import TouchedUnits
from extender.gang.core.unit import EvictionListener, EvictionUnit, Fate, Fates
from extender.gang.leader_election.leadership import Leadership
from extender.model.objects import Pod
from extender.model.plan import Plan, Victim

RETURNED_SECONDS = 20.0
"""How long a pod whose eviction was accepted is shown to stay before that counts as undone."""


class Evictions:
    """Every unit that is begun and not gone."""

    def __init__(
        self,
        evictor: Evictor,
        check: LastCheck,
        leadership: Leadership,
        monotonic: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        listener: EvictionListener,
        refused_seconds: float,
    ) -> None:
        self._evictor = evictor
        self._check = check
        self._now = monotonic
        self._spawn = spawn
        self._listener = listener
        self._units: dict[str, dict[str, EvictionUnit]] = {}
        """Plan id -> unit name -> unit."""
        self._by_name: dict[str, list[EvictionUnit]] = {}
        self._by_pod: dict[str, list[EvictionUnit]] = {}
        self._stay: dict[str, float] = {}
        """Uid of a pod whose eviction was accepted -> since when it is shown to stay."""
        self._touched_units = TouchedUnits()
        self._joiners = Joiners(check, listener, monotonic)
        self.refusals = Refusals(monotonic)
        self._driver = Driver(
            evictor,
            check,
            leadership,
            monotonic,
            listener,
            self.refusals,
            refused_seconds,
            self._touch,
            self._spared,
            self._let_go,
            lambda pause: self._dispatch.rest(pause),
        )
        driver = self._driver
        self._dispatch = Dispatch(evictor.concurrency, spawn, driver.wanted, driver.drive)

    # -- reading --------------------------------------------------------------------------

    def expected(self) -> dict[str, str]:
        """Return uid -> node of pods that may go at any moment by what we have sent."""
        return {
            uid: victim.node
            for unit in self.unfinished()
            for uid, victim in unit.victims.items()
            if unit.fates[uid] in (Fate.ASKED, Fate.ACCEPTED)
        }

    def of_plan(self, plan_id: str) -> list[EvictionUnit]:
        """Return the plan's units that are begun and not gone."""
        return list(self._units.get(plan_id, {}).values())

    def owes(self, name: str) -> bool:
        """Whether pods of a unit must go and do not yet, or may by a request that is under way."""
        return any(unit.owes(self._now()) for unit in self._by_name.get(name, ()))

    def asks(self, plan_id: str) -> bool:
        """Whether a victim of the plan may go, or have gone, by a request that is under way."""
        if self._driver.asks(plan_id):
            return True
        return any(unit.waits_for_answers for unit in self.of_plan(plan_id))

    def broken(self) -> list[EvictionUnit]:
        """Return units of which a part has gone and the rest cannot be evicted."""
        return [unit for unit in self.unfinished() if unit.touched and unit.error]

    def unfinished(self) -> list[EvictionUnit]:
        """Return every unit that is begun and not gone."""
        return [unit for units in self._units.values() for unit in units.values()]

    def takes(self, uid: str) -> bool:
        """Whether the pod goes for sure: it must, or its request is under way."""
        return any(
            uid in unit.must_go or unit.fates.get(uid) in (Fate.ASKED, Fate.ACCEPTED)
            for unit in self._by_pod.get(uid, ())
        )

    def accepted(self, uid: str) -> bool:
        """Whether the API server has accepted the pod's eviction for one of the units."""
        return any(unit.fates.get(uid) is Fate.ACCEPTED for unit in self._by_pod.get(uid, ()))

    @property
    def waiting(self) -> int:
        """How many victims wait until others have been asked for, at most."""
        return self._dispatch.waiting

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
        doubtful: bool = False,
        sent: Iterable[str] = (),
        size: int = 0,
        beside: frozenset[str] | None = None,
    ) -> EvictionUnit:
        """Start to evict one unit. ``touched``: part of it went in a life before; ``doubtful``: a
        request of a life before may still arrive.

        ``sent`` are uids whose eviction is known to be accepted, ``size`` is how many pods it
        had when more than ``victims``, ``beside`` whoever of its gang was there then and stays;
        by default who is there now.
        """
        left = {victim.uid: victim for victim in victims}
        first = next(iter(left.values()))
        accepted = set(sent)
        if beside is None:
            gang = self._check.gang_of(first) if first.unit else None
            bound = () if gang is None else gang.bound
            beside = frozenset(pod.uid for pod in bound if pod.uid not in left)
        unit = EvictionUnit(
            plan_id=plan_id,
            preemptor=plan.gang,
            priority=plan.priority,
            name=first.unit or first.uid,
            whole=bool(first.unit),
            size=max(size, len(left)),
            beside=beside,
            victims=left,
            fates=Fates({u: Fate.ACCEPTED if u in accepted else Fate.WAITING for u in left}),
            budgeted=budgeted,
            message=message,
            must_go=set(left) if touched else set(),
            touched_at=self._now() if touched else 0.0,
            doubtful_until=self._now() + WATCH_SECONDS if doubtful else 0.0,
        )
        for each in [u for u in self._by_name.get(unit.name, ()) if u.released]:
            for victim in list(each.victims.values()):
                self._spared(each, victim)  # where the gang is whole again, all of it goes anew
        same = self._by_name.setdefault(unit.name, [])
        unit.must_go.update(uid for each in same for uid in each.must_go if uid in left)
        unit.touched_at = max(each.touched_at for each in (unit, *same))
        same.append(unit)
        self._units.setdefault(plan_id, {})[unit.name] = unit
        for uid in left:
            self._by_pod.setdefault(uid, []).append(unit)
        self._dispatch.add(unit)
        return unit

    def release(self, plan_id: str) -> None:
        """The plan is over: let go of those who need not go, evict the others."""
        for unit in self.of_plan(plan_id):
            unit.released = True
            self._let_go(unit)

    def look_after(self, *, fresh: bool) -> None:
        """See to it that every eviction that is wanted is worked on; now and then.

        ``fresh``: who is shown to stay does.
        """
        self._find_returned(self.unfinished() if fresh else [])
        for unit in self.unfinished():
            self._let_go(unit)  # where nobody drives it, its doubt may be over
            self._dispatch.add(unit)

    def _find_returned(self, units: list[EvictionUnit]) -> None:
        """Forget that evictions were accepted of pods that stay all the same: the storage was put
        back to before. They are victims as others are; a unit that all are back of owes nobody.
        """
        now = self._now()
        stay = {
            uid: self._stay.get(uid, now)
            for unit in units
            for uid, victim in unit.victims.items()
            if unit.fates[uid] is Fate.ACCEPTED and self._check.there(victim)
        }
        self._stay = stay
        back = {uid for uid, since in stay.items() if now - since > RETURNED_SECONDS}
        if back:
            self.refusals.found()
        for unit in units if back else ():
            for uid in back & unit.fates.keys():
                unit.fates[uid] = Fate.WAITING
                self._stay.pop(uid, None)
                whole = len(unit.victims) >= unit.size
                if whole and all(self._check.there(each) for each in unit.victims.values()):
                    unit.must_go.discard(uid)

    def going(self, uid: str) -> None:
        """A pod is seen terminating."""
        for unit in self._by_pod.get(uid, ()):
            self._note_going(unit, uid)
            doubt = self._doubt(unit, uid)
            if uid in unit.fates:
                unit.fates[uid] = Fate.ACCEPTED
            if doubt:
                self._touch(unit, uid)

    def gone(self, uid: str) -> None:
        """A pod is seen gone."""
        self.refusals.forget(uid)
        for unit in self._by_pod.pop(uid, []):
            self._note_going(unit, uid)
            doubt = self._doubt(unit, uid)
            victim = unit.victims.pop(uid, None)
            fate = unit.fates.pop(uid, None)
            ours = unit.whole and uid in unit.must_go and fate is Fate.ACCEPTED
            if ours and victim is not None:
                self._touched_units.gone(unit, victim)
            if unit.whole and uid in unit.undecided and victim is not None:
                # Whoever comes before that is answered may have been on its way to the unit.
                self._touched_units.touched(unit, victim)
            if doubt:
                self._touch(unit, uid)
            if not unit.victims:
                self._end(unit)

    def back(self, uid: str) -> None:
        """A pod is there that was not: if it had gone, the storage was put back to before that.

        Others of its unit may have gone for good, or be asked for at this moment. So it counts
        among them again, as one whose eviction was accepted, until that is undone.
        """
        known = self._touched_units.back(uid)
        if known is None:
            return
        unit = self._again(known[0])
        unit.victims[uid] = known[1]
        unit.fates[uid] = Fate.ACCEPTED
        unit.must_go.add(uid)
        self._by_pod.setdefault(uid, []).append(unit)

    def _again(self, unit: EvictionUnit) -> EvictionUnit:
        """Return what is under way of a unit: itself anew, if all of it had gone."""
        units = self._units.setdefault(unit.plan_id, {})
        if unit.name not in units:
            unit.released = True  # its plan, if there is one still, has counted on the room
            units[unit.name] = unit
            self._by_name.setdefault(unit.name, []).append(unit)
        return units[unit.name]

    # -- one unit -------------------------------------------------------------------------

    def _doubt(self, unit: EvictionUnit, uid: str) -> bool:
        """Whether a pod that goes may go by our hand, and nothing will tell."""
        asked = unit.fates.get(uid) is Fate.ASKED and uid not in unit.undecided
        return asked or self._now() < unit.doubtful_until

    def _note_going(self, unit: EvictionUnit, uid: str) -> None:
        """Should it be found to go by our hand, who comes from now on is not of the unit."""
        if unit.whole and uid in unit.victims and uid not in unit.must_go:
            unit.went.setdefault(uid, (self._now(), unit.victims[uid]))

    def _touch(self, unit: EvictionUnit, uid: str) -> None:
        """A pod of the unit goes by our hand: so does the rest, whichever plan counted on it.

        Not for one that had to go anyhow: the rest was told then, and who came since is not of it.
        """
        for each in self._by_pod.get(uid, ()):
            if each.fates[uid] is not Fate.ASKED:  # its own answer will tell
                each.fates[uid] = Fate.ACCEPTED
            if len(each.fates.those(Fate.ACCEPTED)) == len(each.fates):
                each.error = ""
        if uid in unit.must_go:
            return
        at, victim = unit.went.pop(uid, (self._now(), unit.victims.get(uid)))
        if victim is not None and unit.whole:
            self._touched_units.touched(unit, victim)
        # One that has nobody left is none of these, and others may have been on their way to it.
        for each in (unit, *(u for u in self._by_name.get(unit.name, ()) if u is not unit)):
            if not each.touched:
                each.touched_at = at
            each.must_go.update(each.victims, (uid,))
            for late in self._joiners.late(each, at):
                self._join(each, late)
            self._dispatch.hurry(each)

    def joined(self, name: str, pod: Pod, offered: float) -> None:
        """A member of a gang has a node now that it was offered at ``offered`` (monotonic).

        If that was before its gang went in part, it was on its way then: it goes with the rest,
        though all of these may have gone by now. Not where nothing is recorded any more.
        """
        units = [unit for unit in self._by_name.get(name, ()) if unit.victims]
        found = [(unit, next(iter(unit.victims.values()))) for unit in units]
        for unit, other in found or self._touched_units.last(name):
            victim = self._joiners.joins(unit, other, pod, offered)
            if victim is not None:
                self._join(unit, victim)
                self._dispatch.hurry(unit)

    def _join(self, unit: EvictionUnit, victim: Victim) -> None:
        unit = self._again(unit)
        unit.victims[victim.uid] = victim
        unit.fates[victim.uid] = Fate.WAITING
        unit.must_go.add(victim.uid)
        unit.joined.add(victim.uid)
        unit.budgeted |= self._check.budgeted([victim], unit.priority)
        self._by_pod.setdefault(victim.uid, []).append(unit)

    def _spared(self, unit: EvictionUnit, victim: Victim) -> bool:
        """Whether a unit that went in part stays as it is: its gang is whole again meanwhile.

        To finish it would break the gang a second time: a plan that still counts on it does not
        hold. It is let go of once no request can arrive any more; whoever evicts the gang anew
        until then evicts all of it. Not spared is what another plan wants gone as well, and what
        goes already.
        """
        if not unit.whole or victim.uid not in unit.must_go:
            return False
        refused = unit.error and unit.fates[victim.uid] is not Fate.ASKED
        if refused and self._listener.completing(unit):
            return True  # it would go from under those who are seated beside it
        same = self._by_name[unit.name]
        known = {uid for each in same for uid in each.victims}
        known |= frozenset.intersection(*(each.beside for each in same))
        size = max(each.size for each in same)
        if any(each.fates.those(fate) for each in same for fate in (Fate.ASKED, Fate.ACCEPTED)):
            return False
        if not unit.released and self._check.whole_again(victim, known, size):
            self._listener.whole_again(unit)
        if not all(each.released for each in same):
            return False
        if not self._check.whole_again(victim, known, size):
            return False
        for each in list(same):
            each.must_go.clear()
            self._let_go(each)
        return True

    def _let_go(self, unit: EvictionUnit) -> None:
        """Let go of whoever need not go in a released unit, once nobody may still go."""
        if unit.in_doubt(self._now()):
            return
        unit.came.clear()
        if not unit.released:
            return
        self._forget(unit, unit.victims.keys() - unit.must_go)
        if not unit.victims:
            self._end(unit)

    def _forget(self, unit: EvictionUnit, uids: AbstractSet[str]) -> None:
        """Take victims that are there out of a unit, and their condition back."""
        if uids:
            self.refusals.found()
        for uid in sorted(uids):
            victim = unit.victims.pop(uid)
            del unit.fates[uid]
            others = [u for u in self._by_pod.get(uid, []) if u is not unit]
            if others:
                self._by_pod[uid] = others
            else:
                self._by_pod.pop(uid, None)
            if uid in unit.marked:
                self._spawn(self._evictor.unmark(victim))

    def _end(self, unit: EvictionUnit) -> None:
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
        self._listener.unit_ended(unit)
