"""Writes how the whole stands into one ConfigMap, as cluster-autoscaler does with its own.

Only who leads writes, behind everything else, and nothing rests on it: what the API server refuses
is told once and tried again much later. A ConfigMap of that name that is somebody else's is left
as it is. Written at most every ``status.seconds``, and only when it says something else, but for a
heartbeat by which a reader sees that the writer lives.
"""

from __future__ import annotations

from collections.abc import Awaitable
from math import inf
from typing import Any, Final, Protocol
from urllib.parse import quote

import structlog

from extender.gang.leader_election.lease import Leadership
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions_per_day import Days
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from extender.kube.gate import CalledOff, answered, hint, while_wanted
from extender.model.errors import ExtenderError
from extender.model.texts import rfc3339
from extender.settings.status import MARK_LABEL, StatusSettings

log = structlog.get_logger("status")

KEY: Final = "status"
DAYS_KEY: Final = "decisions-by-day"
"""Read by whoever leads next (gang.tell.decisions_per_day)."""
UPDATED_ANNOTATION: Final = "podgroup-extender.io/last-updated"
LOOK_SECONDS: Final = 1.0
"""How often it is looked whether this process leads and something is due."""
WRITE_SECONDS: Final = 10.0
SELDOM_SECONDS: Final = 600.0
"""After a refusal that does not pass by itself."""
TELL_SECONDS: Final = 3600.0
"""The same kind of trouble is not told again for so long."""


class StatusText(Protocol):
    """What is to be said."""

    async def text(self, since: float) -> str | None:
        """Return it without the time it is written at, None: not now; ``since``: wall clock time
        since when this process leads. Equal texts: nothing has changed."""


class Foreign(ExtenderError):  # noqa: N818 - reads as the condition it is
    """A ConfigMap of our name that we have not made."""


class StatusMap:
    """One ConfigMap. One event loop; ``run`` goes on until it is cancelled."""

    def __init__(
        self,
        client: KubeApi,
        namespace: str,
        settings: StatusSettings,
        leadership: Leadership,
        source: StatusText,
        *,
        days: Days | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        self._client = client
        self._base = f"/api/v1/namespaces/{quote(namespace)}/configmaps"
        self._named = f"{namespace}/{settings.name}"
        self._settings = settings
        self._leadership = leadership
        self._source = source
        self._days = days
        self._adopted = False
        """What the one before has counted is read; not before that is it replaced."""
        self._clocks = clocks or Clocks()
        self._since: float | None = None
        """Wall clock since when this process leads."""
        self._next = -inf
        """Not looked at before this time, monotonic."""
        self._written: tuple[str, str] | None = None
        """What it says, as far as we know, and the decisions by day."""
        self._written_at = -inf
        self._told: dict[str, float] = {}
        """Kind of trouble -> when it was told."""

    async def run(self) -> None:
        """Keep the ConfigMap as it should be while this process leads. Raises nothing."""
        while True:
            try:
                await self.look()
            except Exception as error:
                self._tell("defect", error, SELDOM_SECONDS)
            await self._clocks.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Write what is due."""
        if not self._leadership.acts:
            # Another one writes meanwhile: what it says is not known, and not ours to change.
            self._since = self._written = None
            self._adopted = False
            return
        if self._since is None:
            self._since = self._clocks.wall()
        now = self._clocks.monotonic()
        if now < self._next:
            return
        self._next = now + self._settings.seconds
        text = await self._source.text(self._since)
        if text is None:
            return
        beat = now - self._written_at >= self._settings.heartbeat_seconds
        said, self._written = self._written, None
        if self._adopted and (text, self._taken()) == said and not beat:
            self._written = said
            return
        try:
            days = await self._write(text)
        except CalledOff:
            return  # The lease was lost while it waited for its turn.
        except (ApiError, Foreign) as error:
            if isinstance(error, Conflict):
                self._adopted = False  # Somebody else has written, and may have counted.
            self._tell(type(error).__name__, error, _pause(error))
            return
        if self._days is not None:
            self._days.kept()
        self._written, self._written_at = (text, days), now

    def _taken(self) -> str:
        return "" if self._days is None else self._days.take()

    def _adopt(self, text: object) -> None:
        """Go on counting where the one who led before has stopped."""
        if self._days is not None and not self._adopted:
            self._days.adopt(text if isinstance(text, str) else "", self._clocks.wall())
        self._adopted = True

    async def _write(self, text: str) -> str:
        """Create or replace it; return the decisions by day.

        Raises ApiError, CalledOff, Foreign.
        """
        time = rfc3339(self._clocks.wall())
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self._settings.name,
                "labels": {MARK_LABEL: "true"},
                "annotations": {UPDATED_ANNOTATION: time},
            },
            "data": {KEY: f"time: '{time}'\n{text}"},
        }
        path = f"{self._base}/{quote(self._settings.name)}"
        try:
            there = await self._sent(self._client.get(path))
        except NotFound:
            self._adopt("")
            days = self._put(body)
            await self._sent(self._client.create(self._base, body))
            return days
        found = there["metadata"]
        if MARK_LABEL not in (found.get("labels") or {}) and (
            there.get("data") or there.get("binaryData")
        ):
            raise Foreign(
                f"ConfigMap {self._named} has no label {MARK_LABEL}: it belongs to others, and "
                "left as it is; delete it, or choose another status.name"
            )
        body["metadata"]["resourceVersion"] = found["resourceVersion"]
        self._adopt((there.get("data") or {}).get(DAYS_KEY))
        days = self._put(body)
        await self._sent(self._client.replace(path, body))
        return days

    def _put(self, body: dict[str, Any]) -> str:
        days = self._taken()
        if days:
            body["data"][DAYS_KEY] = days
        return days

    async def _sent(self, request: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Send behind evictions and records, and only while this process leads."""
        with hint(), while_wanted(lambda: self._leadership.acts):
            return await answered(request, WRITE_SECONDS)

    def _tell(self, kind: str, error: Exception, pause: float) -> None:
        now = self._clocks.monotonic()
        self._next = max(self._next, now + pause)
        if now - self._told.get(kind, -inf) >= TELL_SECONDS:
            self._told[kind] = now
            log.warning(
                "the status is not written, which costs nothing else",
                config_map=self._named,
                error=str(error),
                kind=kind,
                next_try_seconds=round(self._next - now),
            )


def _pause(error: Exception) -> float:
    """Return how long to leave the API server alone, beyond what is usual."""
    if isinstance(error, Conflict):
        return 0.0
    if isinstance(error, TooManyRequests | Unavailable):
        return min(error.retry_after or 0.0, SELDOM_SECONDS)
    return SELDOM_SECONDS
