"""Gangs that are left alone for a while, in the API as well: a restart must not forget them.

One ConfigMap beside the plan records, written behind what happens. Who reads it is the next
life; while we live, what is in memory counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from extender.gang.act.background import Background
from extender.gang.act.evictor import answered
from extender.gang.act.leadership import Leadership
from extender.gang.plan.suspension import CLOCK_SECONDS, Suspension
from extender.kube.api import KubeApi
from extender.kube.errors import ApiError, Conflict, NotFound
from extender.model.objects import GangKey

log = structlog.get_logger("gang")

NAME = "podgroup-extender-suspended"
KEY = "suspensions.json"
MOST = 1000
"""More are not kept: those that end first are forgotten."""
LONGEST_WHY = 512
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
WRITE_SECONDS = 5.0


class SuspensionStore:
    """Reads and writes the ConfigMap. Raises ApiError."""

    def __init__(self, client: KubeApi, namespace: str) -> None:
        self._client = client
        self._base = f"/api/v1/namespaces/{quote(namespace)}/configmaps"

    async def load(self) -> list[Suspension]:
        """Return what is written; what cannot be read is told in the log and left out."""
        try:
            found = await answered(self._client.get(f"{self._base}/{NAME}"))
        except NotFound:
            return []
        text = (found.get("data") or {}).get(KEY, "[]")
        try:
            return msgspec.json.decode(text, type=list[Suspension])
        except msgspec.DecodeError as error:
            log.warning("suspended gangs cannot be read", config_map=NAME, error=str(error))
            return []

    async def save(self, suspensions: Iterable[Suspension]) -> None:
        """Replace what is written."""
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME},
            "data": {KEY: msgspec.json.encode(list(suspensions)).decode()},
        }
        path = f"{self._base}/{NAME}"
        try:
            there = await answered(self._client.get(path), WRITE_SECONDS)
        except NotFound:
            await answered(self._client.create(self._base, body), WRITE_SECONDS)
            return
        body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
        await answered(self._client.replace(path, body), WRITE_SECONDS)


class Suspensions:
    """Which gangs are suspended now. One event loop only; ``wall`` gives seconds."""

    def __init__(
        self,
        store: SuspensionStore | None,
        leadership: Leadership,
        background: Background,
        wall: Callable[[], float],
    ) -> None:
        """``store`` None: nothing is written, as in an offline question."""
        self._store = store
        self._leadership = leadership
        self._spawn = background.spawn
        self._wall = wall
        self._held: dict[GangKey, Suspension] = {}
        self._dirty = False
        self._busy = False

    async def recover(self, longest: float) -> list[Suspension]:
        """Take in what a life before has written, and could have: none of more than ``longest``
        seconds. Raises ApiError."""
        found = [] if self._store is None else await self._store.load()
        now = self._wall()
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
        if found.holds(looks() if found.looks else "", self._wall()):
            return found
        del self._held[key]
        self._write()
        return None

    def present(self) -> list[Suspension]:
        """Return all of them that have not run out, by gang."""
        now = self._wall()
        return [each for _, each in sorted(self._held.items()) if each.runs(now)]

    def _write(self) -> None:
        self._dirty = True
        if self._store is not None and not self._busy:
            self._busy = True
            self._spawn(self._bring_up(self._store))

    async def _bring_up(self, store: SuspensionStore) -> None:
        pause = FIRST_PAUSE
        try:
            while self._dirty and self._leadership.acts:
                self._dirty = False
                try:
                    await store.save(self.present())
                except ApiError as error:
                    self._dirty = True
                    if not isinstance(error, Conflict):
                        log.warning("suspended gangs not written", error=str(error))
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            self._busy = False
