"""Mistakes put back on purpose, to see that the simulation finds them.

Each is a patch of the extender as it runs in the simulation. The number is the case of the
reliability table in docs/reliability.md that it brings back, 0 for one of our own.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from extender.cache import backoff
from extender.gang.controller import executor, preconditions, records, scheduling_cycle
from extender.gang.controller.coordinator import Coordinator
from extender.gang.controller.executor import Executor
from extender.gang.controller.planner_thread import PlannerThread
from extender.gang.controller.preconditions import Preconditions
from extender.gang.controller.records import Records, RecordWriter
from extender.gang.controller.scheduling_cycle import SchedulingCycle
from extender.gang.core import record, victim_group
from extender.gang.core.last_check import LastCheck
from extender.gang.core.preemption import _Step, drafted
from extender.gang.core.reservations import Preemption
from extender.gang.core.victim_group import Tables
from extender.gang.leader_election.elector import Elector
from extender.gang.status.notices import Notices
from extender.kube.api_errors import Conflict
from extender.model.gang import UNIT_ALL, Gang
from tests.simulation.limits import SmallObjects
from tests.simulation.mutant import Mutant
from tests.simulation.size import LARGE
from tests.simulation.world_mutants import WORLD_MUTANTS

ASKED_SECONDS = 60.0


def _backoff_without_reset() -> list[tuple[Any, str, Any]]:
    """A watch's pause grows with every cut, however long it was open in between."""

    def delay(self: Any) -> float:
        base: float = getattr(self, "_mutant_next", backoff.FIRST)
        self._mutant_next = min(backoff.LONGEST, base * backoff.FACTOR)
        return float(base * (1.0 + backoff.JITTER * self._random()))

    return [(backoff.Backoff, "delay", delay)]


def _equal_priority_victims() -> list[tuple[Any, str, Any]]:
    """Who was asked to go counts as going for a minute, is a victim, and has no priority."""
    draft, evict, expected = drafted, Executor._evict, Tables.expected
    claimed = _Step._claimed

    def noted(self: Any, effect: Any) -> Any:
        asked = self.plans.victims.refusals.__dict__.setdefault("_mutant_asked", {})
        until = self._clocks.monotonic() + ASKED_SECONDS
        asked[effect.victim.uid] = (effect.victim.node, until)
        return evict(self, effect)

    def asked_for(self: Any) -> dict[str, str]:
        asked, now = self.refusals.__dict__.get("_mutant_asked", {}), self.refusals._now()
        return {u: node for u, (node, end) in asked.items() if now < end} | {**expected(self)}

    def with_waits(*args: Any) -> Any:
        preemption = draft(*args)
        preemption.victims.update(preemption.waits)
        preemption.waits.clear()
        return preemption

    def unsent(self: Any, *args: Any) -> Any:
        return claimed(self, *args)._replace(sent=frozenset())

    def permits(plans: Any, uid: str, view: Any) -> Any:
        return victim_group.permits(plans.victims, uid, view) is not False, None

    return [
        (Executor, "_evict", noted),
        (_Step, "_claimed", unsent),
        (Tables, "expected", asked_for),
        (scheduling_cycle, "drafted", with_waits),
        (executor, "permits", permits),
        (LastCheck, "of_victim", lambda self, victim, priority, *, alone: ""),
        (LastCheck, "of_unit", lambda self, victims, priority, shown: ""),
    ]


def _forgets_begun_units() -> list[tuple[Any, str, Any]]:
    """A plan that ends takes its evictions with it, whoever has gone already."""
    apply = victim_group._apply

    def forgetful(tables: Any, event: Any, now: float, view: Any, out: Any) -> None:
        apply(tables, event, now, view, out)
        if isinstance(event, victim_group.Released):
            for group in tables.of_plan(event.plan_id):
                for state in list(group.victims.values()):
                    victim_group._remove(tables, state, out)

    return [(victim_group, "_apply", forgetful)]


def _silent_refusals() -> list[tuple[Any, str, Any]]:
    """A real eviction that is refused is tried again and told to nobody."""
    return [
        (_Step, "_refused", lambda self, refused: None),
        (Notices, "broken", lambda self, refused, preemption: None),
    ]


def _resumes_blindly() -> list[tuple[Any, str, Any]]:
    """A recorded plan goes on after a restart without being compared with the cluster."""
    resumed: set[str] = set()
    problem, resume = Preconditions.problem, _Step._resume

    def blind(self: Any, preemption: Any) -> str:
        return "" if preemption.id in resumed else problem(self, preemption)

    def go(self: Any, preemption: Any) -> None:
        resumed.add(preemption.id)
        resume(self, preemption)

    return [(Preconditions, "problem", blind), (_Step, "_resume", go)]


def _record_not_read_back() -> list[tuple[Any, str, Any]]:
    """A record whose write has failed counts as not written, and is never looked for."""

    async def write(self: Any, preemption: Any, made: float, others: Any) -> None:
        kept = record.Record(
            id=preemption.id,
            epoch=self._epoch,
            plan=preemption.plan,
            made=made,
            others=others,
        )
        for document in records.documents_of(kept):
            await self._records._client.create(self._records._base, document)
        self.adopt(kept)

    async def sweep(self: Any) -> None:
        return

    return [(RecordWriter, "write", write), (RecordWriter, "sweep", sweep)]


def _never_compares() -> list[tuple[Any, str, Any]]:
    """Nothing is compared between the search and the last eviction."""

    async def outdated(self: Any, *args: Any) -> str:
        return ""

    return [
        (SchedulingCycle, "_outdated", outdated),
        (Preconditions, "problem", lambda self, preemption: ""),
    ]


def _takes_over_answered() -> list[tuple[Any, str, Any]]:
    """The seats of a gang whose members were answered are taken over."""
    return [(Preemption, "binding", property(lambda self: False))]


def _opens_blindly() -> list[tuple[Any, str, Any]]:
    """Seats are opened on nodes that are closed or gone."""
    problem = Preconditions.problem

    def blind(self: Any, preemption: Any) -> str:
        past = preemption.state.value in ("evicting", "waiting", "open")
        return "" if past else problem(self, preemption)

    async def unseen(self: Any, *asked: Any) -> str:
        return ""

    return [(Preconditions, "problem", blind), (PlannerThread, "check", unseen)]


def _two_pictures() -> list[tuple[Any, str, Any]]:
    """Pods that were asked to go terminate on their nodes, and not as members of their gangs."""
    shown = victim_group.shown_in

    def on_nodes_only(snapshot: Any, *args: Any) -> Any:
        seen = shown(snapshot, *args)
        return seen if seen is snapshot else replace(seen, members=snapshot.members)

    return [(preconditions, "shown_in", on_nodes_only)]


def _one_name_for_all_plans() -> list[tuple[Any, str, Any]]:
    """All plans of a gang have one record name; a slow deletion meets the next plan's."""

    async def create(self: Any, document: Any) -> None:
        try:
            await self._client.create(self._base, document)
        except Conflict:
            path = f"{self._base}/{document['metadata']['name']}"
            await self._client.replace(path, document)

    async def drop(self: Any, name: str, epoch: int) -> None:
        await self._delete(f"{self._base}/{name}")
        self._doomed.discard(name)

    return [
        (record, "record_name", lambda gang, plan_id: f"podgroup-plan-{gang.name}"),
        (Records, "_create", create),
        (Records, "_drop", drop),
    ]


def _waits_under_the_lock() -> list[tuple[Any, str, Any]]:
    """The record is written while the planner's lock is held, and deadlines wait for it."""
    plan = SchedulingCycle.plan

    async def holding(self: Any, *args: Any, **named: Any) -> Any:
        answer = await plan(self, *args, **named)
        if isinstance(answer, Preemption):
            await self._executor.acts(answer)
        return answer

    async def run(self: Any, stop: asyncio.Event, period: float = 0.25) -> None:
        while not stop.is_set():
            await self.tick()
            await self.rounds.round()
            await asyncio.sleep(period)

    return [(SchedulingCycle, "plan", holding), (Coordinator, "run", run)]


def _two_planners() -> list[tuple[Any, str, Any]]:
    """Every replica acts, whoever holds the lease."""

    async def at_once(self: Any) -> None:
        return

    async def never(self: Any) -> None:
        await asyncio.Event().wait()

    return [
        (Elector, "acts", property(lambda self: True)),
        (Elector, "gained", at_once),
        (Elector, "lost", never),
    ]


def _one_object() -> list[tuple[Any, str, Any]]:
    """A record is one object, however long it is."""
    return [(record, "PART_BYTES", 1 << 30), (SmallObjects, "part", 1 << 30)]


def _a_quorum_for_everybody() -> list[tuple[Any, str, Any]]:
    """Who runs of an Indexed Job is a single victim while one of its pods waits."""

    def goes_whole(self: Gang) -> bool:
        least = max(1, self.min_count)
        return not self.problems and self.unit == UNIT_ALL and len(self.bound) >= least

    return [(Gang, "goes_whole", property(goes_whole))]


MUTANTS = (
    Mutant("equal-priority-victims", 1, ("priority",), _equal_priority_victims, (18, 21)),
    Mutant("forgets-begun-units", 2, ("half-gone",), _forgets_begun_units, (115, 910)),
    Mutant("silent-refusals", 3, ("unreported",), _silent_refusals, (32, 57)),
    Mutant("resumes-blindly", 4, ("vain", "closed", "partial"), _resumes_blindly, (2349,)),
    Mutant("record-not-read-back", 5, ("record-left",), _record_not_read_back, (193, 351)),
    Mutant("never-compares", 6, ("vain", "closed"), _never_compares, (202,)),
    Mutant("takes-over-answered", 7, ("partial",), _takes_over_answered, (812,)),
    Mutant("opens-blindly", 8, ("partial",), _opens_blindly, (620,)),
    Mutant("two-pictures", 9, ("error",), _two_pictures, (199, 334)),
    Mutant(
        "one-name-for-all-plans", 10, ("record", "unrecorded"), _one_name_for_all_plans, (34, 377)
    ),
    Mutant("backoff-without-reset", 11, ("stale",), _backoff_without_reset, (40, 50)),
    Mutant("waits-under-the-lock", 12, ("deadline",), _waits_under_the_lock, (16, 609)),
    Mutant("one-object", 13, ("preempts", "room"), _one_object, (21, 50)),
    Mutant("two-planners", 14, ("doubled", "fenced"), _two_planners, (34, 80)),
    Mutant(
        "a-quorum-for-everybody",
        0,
        ("half-gone",),
        _a_quorum_for_everybody,
        (343, 2323),
        LARGE.name,
    ),
    *WORLD_MUTANTS,
)


def named(name: str) -> Mutant:
    """Return a mutant by its name."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)
