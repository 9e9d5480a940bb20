"""Scripted cases before the random rounds: a victim gang of which one pod has gone goes whole.

A unit ``all`` of four, for a more urgent gang. The first eviction passes, the others are refused;
then the plan ends in one of several ways, and the refusals with it. Nobody else is about: no
launcher takes the rest away, no later plan wants its room. So a build that forgets what it has
begun leaves three pods for good. Random rounds hardly show that, for in them somebody always comes.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.chaos import groups
from tests.chaos.bed import Bed
from tests.chaos.groups import GROUP_LABEL, GroupSpec
from tests.chaos.history import Fault, History
from tests.chaos.invariants import Problem
from tests.chaos.proxy import Call, Rule
from tests.controlplane.processes import ProcessError

STEP_SECONDS = 30.0
"""How long each step may take: seating a gang, planning, ending a plan."""
FINISH_SECONDS = 30.0
"""How long the rest of a unit may take to go once nothing is refused any more."""
LOOK_SECONDS = 0.1
VICTIMS = 4


class _StepError(Exception):
    """A step of a case did not come about."""


class Cases:
    """Plays them one after the other on an empty cluster of ``nodes`` nodes of four cores."""

    def __init__(self, bed: Bed, history: History, nodes: int, say: Callable[[str], None]) -> None:
        self._bed = bed
        self._history = history
        self._nodes = nodes
        self._say = say
        self.count = 0
        """How many were played."""

    async def play(self) -> list[Problem]:
        """Play all; return what is wrong."""
        problems = []
        for number, (name, end) in enumerate(self._ends().items(), 1):
            began = time.time()
            found = await self._case(f"case{number}", name, end)
            problems += found
            self.count += 1
            told = "; ".join(each.text for each in found) or "in order"
            self._say(f"case {number}, {name}: {told} after {time.time() - began:.1f} s")
        return problems

    def _ends(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        return {
            "cancelled by its user": self._cancelled,
            "cancelled while the extender is killed": self._killed_and_cancelled,
            "cancelled, then the extender killed": self._cancelled_and_killed,
        }

    # -- how a plan ends ------------------------------------------------------------------------

    async def _cancelled(self, preemptor: str) -> None:
        await self._take_away(preemptor)
        await self._until_no_plan()

    async def _killed_and_cancelled(self, preemptor: str) -> None:
        await self._kill()
        await self._take_away(preemptor)

    async def _cancelled_and_killed(self, preemptor: str) -> None:
        await self._cancelled(preemptor)
        await self._kill()

    async def _kill(self) -> None:
        extender = self._bed.extender
        extender.meant_to_run = False
        extender.signal(signal.SIGKILL)
        await self._bed.in_thread(lambda: extender.end(0))

    # -- one case -------------------------------------------------------------------------------

    async def _case(
        self, name: str, how: str, end: Callable[[str], Awaitable[None]]
    ) -> list[Problem]:
        low = _gang(f"{name}-low", VICTIMS, min(groups.PRIORITIES))
        high = _gang(f"{name}-high", self._nodes, max(groups.PRIORITIES))
        through: set[str] = set()

        def refused(call: Call) -> bool:
            if call.kind == "eviction" and not through:
                through.add(call.name)
            return call.kind == "eviction" and call.name not in through

        rule = Rule("refuse", refused, status=429)
        fault = Fault("scripted case", how, time.time(), blinds=True)
        self._history.begin(fault)
        try:
            await self._bring(low)
            await self._until(lambda: self._seated(low) == VICTIMS, f"{low.name} runs")
            self._bed.proxy.impose(rule)
            await self._bring(high)
            await self._until(
                lambda: bool(rule.hits) and self._seated(low) < VICTIMS, "one pod has gone"
            )
            await end(high.name)
            if self._seated(low) != VICTIMS - 1:
                raise _StepError(f"{self._seated(low)} pods of {low.name} were left, not one less")
            self._bed.proxy.lift(rule)
            await self._start_extender()
            return await self._finished(low)
        except _StepError as wrong:
            return [Problem("case", name, str(wrong))]
        finally:
            self._bed.proxy.lift(rule)
            fault.hits = rule.hits
            self._history.end(fault, time.time())
            await self._start_extender()
            await self._clear(low, high)

    async def _finished(self, low: GroupSpec) -> list[Problem]:
        with suppress(_StepError):
            await self._until(lambda: not self._seated(low), "all go", FINISH_SECONDS)
            await self._until(lambda: not self._history.records, "the record goes", FINISH_SECONDS)
            return []
        left = self._seated(low)
        if not left:
            names = ", ".join(self._history.records)
            return [Problem("record left", low.name, f"plan records {names}")]
        text = f"{VICTIMS - left} of {VICTIMS} pods of {low.name} evicted, {left} left for good"
        return [Problem("half gone", low.name, text)]

    async def _start_extender(self) -> None:
        if not self._bed.extender.alive:
            with suppress(ProcessError):  # one that is never ready is told by what follows
                await self._bed.in_thread(self._bed.extender.start)

    # -- steps ----------------------------------------------------------------------------------

    async def _until(
        self, fine: Callable[[], bool], what: str, seconds: float = STEP_SECONDS
    ) -> None:
        end = time.time() + seconds
        while not fine():
            if time.time() > end:
                raise _StepError(f"it did not come about in {seconds:.0f} s that {what}")
            await asyncio.sleep(LOOK_SECONDS)

    def _seated(self, spec: GroupSpec) -> int:
        return sum(life.seated for life in self._history.of(spec.name))

    async def _until_no_plan(self) -> None:
        end = time.time() + STEP_SECONDS
        while await asyncio.to_thread(lambda: self._bed.extender.debug("reservations")) != []:
            if time.time() > end:
                raise _StepError(f"the plan did not end in {STEP_SECONDS:.0f} s")
            await asyncio.sleep(LOOK_SECONDS)

    async def _bring(self, spec: GroupSpec) -> None:
        self._history.arrive(spec, time.time())
        client, release = self._bed.client, self._bed.plane.release

        def make() -> None:
            client.create_all(
                *groups.group_objects(spec, release),
                *(groups.pod_object(spec, f"{spec.name}-{i}") for i in range(spec.size)),
            )

        await self._bed.in_thread(make)

    async def _take_away(self, name: str) -> None:
        """Delete a group's pods as its user would."""
        if self._history.groups[name].present:
            self._history.leave(name, time.time(), "is taken away")
        client = self._bed.client
        await self._bed.in_thread(
            lambda: client.delete_all("Pod", selector=f"{GROUP_LABEL}={name}")
        )

    async def _clear(self, *specs: GroupSpec) -> None:
        for spec in specs:
            await self._take_away(spec.name)
            for document in groups.group_objects(spec, self._bed.plane.release):
                kind = f"{document['apiVersion']}/{document['kind']}"
                delete = functools.partial(self._bed.client.delete, kind, spec.name)
                await self._bed.in_thread(functools.partial(delete, missing_ok=True))
        with suppress(_StepError):
            await self._until(
                lambda: not any(self._history.of(spec.name) for spec in specs), "all is gone"
            )
            await self._until_no_plan()
        # They stay known as groups that left: the audit log tells of their last evictions later.


def _gang(name: str, size: int, priority: int) -> GroupSpec:
    return GroupSpec(
        name=name,
        dialect=groups.POD_GROUP,
        size=size,
        priority=priority,
        cpu=3000,
        min_count=size,
        unit=groups.ALL,
    )
