"""Evicts the victims of one plan, all of them or (as far as can be known) none.

Steps
1. Rehearse: every eviction is sent as a dry run with the UID precondition. A
   budget, a right or an admission webhook that says no stops the plan before
   the first pod is lost.
2. Mark: condition DisruptionTarget (reason PreemptionByScheduler) on every
   victim, as kube-scheduler does, so that controllers and SkyPilot can tell.
3. Evict: DELETE with the UID precondition and the pod's own grace period, or
   the Eviction API for pods under a PodDisruptionBudget that is respected.

Up to step 2 a plan stops at the first lasting refusal, with no pod lost. From
step 3 on half a gang may be gone, so every error is met by trying again, until
the plan itself is ended (by its deadline, or because it is no longer wanted).

A victim that is gone, or whose name belongs to another pod by now, counts as
evicted: its room is free.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from itertools import count
from urllib.parse import quote

from extender.kube.api import KubeApi
from extender.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from extender.model.plan import Victim
from extender.model.settings import EvictionSettings

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0


class EvictionRefused(Exception):  # noqa: N818 - an answer of the API server, not a fault of ours
    """The API server said no before any pod was lost."""

    def __init__(self, victim: Victim, error: ApiError) -> None:
        super().__init__(f"{victim.namespace}/{victim.name}: {error}")
        self.victim = victim
        self.error = error


class Evictor:
    """Sends evictions. ``sleep`` and ``rng`` are injected for tests.

    ``ended`` is told how each victim ended: "evicted", "gone" or "refused".
    """

    def __init__(
        self,
        client: KubeApi,
        settings: EvictionSettings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        ended: Callable[[str], None] = lambda result: None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._sleep = sleep
        self.last_error = ""
        """The last error that was met by trying again, for whoever gives up later."""
        self._ended = ended
        self._rng = rng or random.Random()

    async def evict(
        self,
        victims: Iterable[Victim],
        budgeted: frozenset[str],
        message: str,
        wanted: Callable[[str], bool],
        asked: Callable[[str], None],
        sent: Callable[[str], None],
    ) -> None:
        """Evict ``victims``; raises EvictionRefused when the rehearsal is refused.

        ``budgeted`` are uids to evict through the Eviction API. ``wanted(uid)``
        is asked right before each request: False leaves the pod alone (the plan
        was cancelled, or the pod went by itself). ``asked(uid)`` is called right
        before the real request leaves, from when on the pod may go at any moment;
        ``sent(uid)`` once the API server has accepted it.
        """
        todo = [victim for victim in victims if wanted(victim.uid)]
        attempts = self._settings.attempts

        async def rehearse(victim: Victim) -> None:
            await self._remove(victim, victim.uid in budgeted, dry_run=True)

        await self._each(todo, rehearse, wanted, attempts)
        await self._each(todo, lambda victim: self._mark(victim, message), wanted, attempts)

        async def remove(victim: Victim) -> None:
            asked(victim.uid)
            try:
                await self._remove(victim, victim.uid in budgeted, dry_run=False)
            except (NotFound, Conflict):
                self._ended("gone")
            else:
                self._ended("evicted")
            sent(victim.uid)

        await self._each(todo, remove, wanted, None)

    async def _each(
        self,
        victims: Iterable[Victim],
        act: Callable[[Victim], Awaitable[None]],
        wanted: Callable[[str], bool],
        attempts: int | None,
    ) -> None:
        gate = asyncio.Semaphore(self._settings.concurrency)

        async def one(victim: Victim) -> None:
            async with gate:
                await self._persist(victim, act, wanted, attempts)

        results = await asyncio.gather(*(one(victim) for victim in victims), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            if isinstance(failure, EvictionRefused):
                self._ended("refused")
        if failures:
            raise failures[0]

    async def _persist(
        self,
        victim: Victim,
        act: Callable[[Victim], Awaitable[None]],
        wanted: Callable[[str], bool],
        attempts: int | None,
    ) -> None:
        """Try until it works, ``attempts`` times for what passes by itself (None: no limit)."""
        pause = FIRST_PAUSE
        for attempt in count(1):
            if not wanted(victim.uid):
                return
            try:
                await act(victim)
            except (NotFound, Conflict):
                # Gone, or the name is another pod's: the UID precondition held.
                return
            except ApiError as error:
                passing = isinstance(error, TooManyRequests | Unavailable)
                if attempts is not None and (not passing or attempt >= attempts):
                    raise EvictionRefused(victim, error) from error
                wait = max(pause, error.retry_after or 0.0)
                self.last_error = f"{victim.namespace}/{victim.name}: {error}"
                await self._sleep(min(wait, LONGEST_PAUSE) * (1 + self._rng.random()))
                pause *= 2
            else:
                return

    async def _mark(self, victim: Victim, message: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": message,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        await self._client.patch(
            f"{_pod_path(victim)}/status",
            {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}},
            kind="strategic",
        )

    async def _remove(self, victim: Victim, budgeted: bool, *, dry_run: bool) -> None:
        if budgeted:
            await self._client.evict(
                victim.namespace, victim.name, uid=victim.uid, grace=victim.grace, dry_run=dry_run
            )
        else:
            await self._client.delete(
                _pod_path(victim), uid=victim.uid, grace=victim.grace, dry_run=dry_run
            )


def _pod_path(victim: Victim) -> str:
    return f"/api/v1/namespaces/{quote(victim.namespace)}/pods/{quote(victim.name)}"
