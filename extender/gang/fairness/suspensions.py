"""Gangs that are left alone for a while, in the API as well: a restart must not forget them.

One ConfigMap beside the plan records, written behind what happens. Who reads it is the next
life; while we live, what is in memory counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import structlog

from extender.gang.fairness.kept_list import ConfigMapList, WrittenBehind
from extender.gang.leader_election.lease import Leadership
from extender.gang.plan.suspension import CLOCK_SECONDS, Suspension
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.kube.api import KubeApi
from extender.model.objects import GangKey

log = structlog.get_logger("gang")

NAME = "podgroup-extender-suspended"
KEY = "suspensions.json"
MOST = 1000
"""More are not kept: those that end first are forgotten."""
LONGEST_WHY = 512


class SuspensionStore:
    """Reads and writes the ConfigMap. Raises ApiError."""

    def __init__(self, client: KubeApi, namespace: str) -> None:
        self._list = ConfigMapList(client, namespace, NAME, KEY)

    async def load(self) -> list[Suspension]:
        """Return what is written; what cannot be read is told in the log and left out."""
        found = await self._list.load()
        if found is None:
            return []
        try:
            return msgspec.json.decode(found[0], type=list[Suspension])
        except msgspec.DecodeError as error:
            log.warning("suspended gangs cannot be read", config_map=NAME, error=str(error))
            return []

    async def save(self, suspensions: Iterable[Suspension]) -> None:
        """Replace what is written."""
        await self._list.save(msgspec.json.encode(list(suspensions)).decode())


class Suspensions(WrittenBehind):
    """Which gangs are suspended now. One event loop only."""

    def __init__(
        self,
        store: SuspensionStore | None,
        leadership: Leadership,
        background: Background,
        clocks: Clocks,
    ) -> None:
        """``store`` None: nothing is written, as in an offline question."""
        super().__init__(leadership, background, "suspended gangs not written")
        self._store = store
        self._clocks = clocks
        self._held: dict[GangKey, Suspension] = {}

    async def recover(self, longest: float) -> list[Suspension]:
        """Take in what a life before has written, and could have: none of more than ``longest``
        seconds. Raises ApiError."""
        found = [] if self._store is None else await self._store.load()
        now = self._clocks.wall()
        latest = now + longest + CLOCK_SECONDS
        self._held = {e.gang: e for e in found if e.runs(now) and e.until <= latest}
        return list(self._held.values())

    def add(self, suspension: Suspension) -> None:
        """Leave a gang alone; written as soon as that can be done."""
        why = suspension.why[:LONGEST_WHY]
        self._held[suspension.gang] = msgspec.structs.replace(suspension, why=why)
        while len(self._held) > MOST:
            soonest = min(self._held.values(), key=lambda each: (each.until, each.gang))
            del self._held[soonest.gang]
        self._write()

    def of(self, key: GangKey, looks: Callable[[], str]) -> Suspension | None:
        """Return the gang's suspension if it still stands; ``looks`` tells what it looks like now.

        One that does not is forgotten.
        """
        found = self._held.get(key)
        if found is None:
            return None
        if found.holds(looks() if found.looks else "", self._clocks.wall()):
            return found
        del self._held[key]
        self._write()
        return None

    def present(self) -> list[Suspension]:
        """Return all of them that have not run out, by gang."""
        now = self._clocks.wall()
        return [each for _, each in sorted(self._held.items()) if each.runs(now)]

    def _write(self) -> None:
        if self._store is not None:
            self.changed()

    async def save(self) -> None:
        """Write those that have not run out."""
        if self._store is not None:
            await self._store.save(self.present())
