"""Single requests that rehearse, mark, evict or bind one pod, and how each is tried again.

Which victims, in which order, and what follows from a refusal is not decided here
(extender.gang.core.victim_group).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from itertools import count
from typing import Any, TypeVar
from urllib.parse import quote

import structlog
from msgspec import Struct

from extender.decode.from_api import PREEMPTED
from extender.decode.from_json import decode_budget
from extender.gang.runtime.background import each
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.listener import Listener, Removal
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from extender.kube.gate import REQUEST_SECONDS, CalledOff, answered, while_wanted
from extender.model.objects import DisruptionBudget
from extender.model.plan import Victim
from extender.model.texts import rfc3339
from extender.settings.settings import EvictionSettings

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
MARK_SECONDS = 3.0
REHEARSAL_SECONDS = 5.0
LATE_SECONDS = 60.0
"""By how much clocks may differ where it is told whose DELETE a pod terminates by."""

Answer = TypeVar("Answer")
Meta = Mapping[str, Any]
"""A pod's metadata."""
log = structlog.get_logger("gang")


def passing(error: ApiError) -> bool:
    """Whether an error passes by itself: overload, an outage, no answer."""
    return isinstance(error, TooManyRequests | Unavailable)


class EvictionRefused(Exception):  # noqa: N818 - an answer of the API server, not a fault of ours
    """The API server said no in the rehearsal: no pod is lost.

    ``readable``: the pod was read after that, so its eviction is what fails and not the API.
    """

    def __init__(self, victim: Victim, error: ApiError, *, readable: bool) -> None:
        super().__init__(f"{victim.namespace}/{victim.name}: {error}")
        self.victim = victim
        self.error = error
        self.readable = readable


class Evictor:
    """Sends evictions, pod by pod. ``clocks`` and ``rng`` are injected for tests.

    Rehearsal: every eviction of a plan as a dry run with the UID precondition. A budget, a right
    or an admission webhook that says no stops the plan before the first pod is lost.
    Mark: condition DisruptionTarget (reason PreemptionByScheduler), as kube-scheduler does, so
    that controllers and SkyPilot can tell.
    Evict: DELETE with the UID precondition and the pod's own grace period, or the Eviction API
    for pods under a PodDisruptionBudget that is respected.
    """

    def __init__(
        self,
        client: KubeApi,
        settings: EvictionSettings,
        *,
        clocks: Clocks | None = None,
        rng: random.Random | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._client = client
        self.attempts = settings.attempts
        self._clocks = clocks or Clocks()
        self._listener = listener or Listener()
        self._rng = rng or random.Random()
        self.concurrency = settings.concurrency
        self._gate = asyncio.Semaphore(settings.concurrency)
        self._rehearsals = asyncio.Semaphore(settings.concurrency)
        """A gate of their own: what has gone in part must not wait for what may yet begin."""

    async def rehearse(
        self,
        victims: Sequence[Victim],
        budgeted: frozenset[str],
        wanted: Callable[[Victim], bool],
    ) -> None:
        """Ask for every eviction as a dry run; raises EvictionRefused at the first lasting no.

        ``budgeted`` are uids to evict through the Eviction API. ``wanted(victim)`` turns False
        when the plan is over or the pod has gone by itself: that one is not asked for.
        """

        async def one(victim: Victim) -> None:
            budget = victim.uid in budgeted
            seconds = REQUEST_SECONDS if budget else REHEARSAL_SECONDS

            async def ask() -> None:
                try:
                    await self._remove(victim, budgeted=budget, seconds=seconds, dry_run=True)
                except NotFound:
                    pass
                except Conflict:
                    if not await self._left(victim):
                        raise

            try:
                await self._tried(
                    ask,
                    lambda: wanted(victim),
                    lambda error: isinstance(error, Conflict) or passing(error),
                )
            except ApiError as error:
                self._listener.evicted(Removal.REFUSED)
                readable = not unclear(error) or await self._readable(victim)
                raise EvictionRefused(victim, error, readable=readable) from error

        await each(victims, self.concurrency, one)

    async def budgets(
        self, names: Sequence[tuple[str, str]], wanted: Callable[[], bool]
    ) -> list[DisruptionBudget]:
        """Return disruption budgets, by namespace and name, as the API server has them.

        One that is gone is left out. ``wanted()`` turns False when no more is to be asked. It is a
        list of one, which needs no other right than the cache does. Raises ApiError, after several
        tries, and InvalidInput.
        """
        found: list[DisruptionBudget] = []

        async def one(named: tuple[str, str]) -> None:
            namespace, name = named
            path = f"/apis/policy/v1/namespaces/{quote(namespace)}/poddisruptionbudgets"
            params = {"fieldSelector": f"metadata.name={name}"}

            async def ask() -> list[dict[str, Any]]:
                listed = await answered(self._client.get(path, params=params))
                if "items" not in listed:
                    raise Unavailable(200, "NoList", f"GET {path}: the answer is no list")
                return listed["items"] or []

            found.extend(map(decode_budget, await self._tried(ask, wanted) or ()))

        await each(names, self.concurrency, one)
        return found

    async def _tried(
        self,
        ask: Callable[[], Awaitable[Answer]],
        wanted: Callable[[], bool],
        again: Callable[[ApiError], bool] = passing,
    ) -> Answer | None:
        """Ask before the first eviction, ``attempts`` times at most where an error is such that it
        is asked ``again``; None when it is not ``wanted`` any more. Raises ApiError."""
        pause = FIRST_PAUSE
        for attempt in count(1):
            if not wanted():
                break
            try:
                async with self._rehearsals:
                    return await ask()
            except ApiError as error:
                if not again(error) or attempt >= self.attempts:
                    raise
                await self.pause(pause, error)
                pause *= 2
        return None

    async def remove(
        self,
        victim: Victim,
        *,
        budgeted: bool,
        mark: str,
        allowed: Callable[[], bool],
        asking: Callable[[], None],
    ) -> Removal | None:
        """Evict one pod, one try. Raises ApiError.

        ``mark`` is the message of its condition, "" when it has that already. ``allowed()`` is
        asked after every wait, right before a request leaves (the client's gate included); when
        it says no, nothing is sent and None returned. ``asking()`` is called when the eviction
        itself is about to leave.
        """
        async with self._gate:
            if mark and allowed():
                await self._condition(victim, "True", mark)
            if not allowed():
                return None
            asking()
            try:
                with while_wanted(allowed):
                    await self._remove(
                        victim, budgeted=budgeted, seconds=REQUEST_SECONDS, dry_run=False
                    )
            except CalledOff:
                return None
            except NotFound:
                return self._gone()
            except Conflict:
                if await self._left(victim):
                    return self._gone()
                raise  # a webhook may answer with a conflict as well
            self._listener.evicted(Removal.ACCEPTED, victim)
            return Removal.ACCEPTED

    def _gone(self) -> Removal:
        self._listener.evicted(Removal.GONE)
        return Removal.GONE

    async def unmark(self, victim: Victim) -> None:
        """Take the condition back from a pod that stays after all, if that can be done now."""
        async with self._gate:
            await self._condition(victim, "False", "its preemption was called off")

    async def _condition(self, victim: Victim, status: str, message: str) -> None:
        """Set condition DisruptionTarget, right before a pod goes or when it stays after all.

        A courtesy to controllers: half a gang gone must not wait for it. On a pod that stays
        after all, kube-controller-manager takes the condition back after two minutes
        (stalePodDisruptionTimeout in pkg/controller/disruption).
        """
        condition = {
            "type": "DisruptionTarget",
            "status": status,
            "reason": PREEMPTED,
            "message": message,
            "lastTransitionTime": rfc3339(self._clocks.wall()),
        }
        body = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        path = f"{_pod_path(victim)}/status"
        try:
            async with asyncio.timeout(MARK_SECONDS):
                await self._client.patch(path, body, kind="strategic")
        except (ApiError, TimeoutError) as error:
            log.warning(
                "condition not written",
                status=status,
                pod=victim.name,
                error=str(error) or "no answer",
            )

    async def leaving(self, victim: Victim) -> bool:
        """Read back, after an unclear answer, whether the pod goes or is gone. Raises ApiError.

        One that goes much later than its eviction would have it was not asked by us.
        """
        try:
            return self._leaves(await self._read(victim), victim)
        except NotFound:
            return True

    def _leaves(self, seen: Meta, victim: Victim) -> bool:
        if seen.get("uid") != victim.uid:
            return True
        ends: str = seen.get("deletionTimestamp", "")
        latest = self._clocks.wall() + victim.grace + LATE_SECONDS
        return bool(ends) and datetime.fromisoformat(ends).timestamp() <= latest

    async def _read(self, victim: Victim) -> Meta:
        """Return the metadata of the pod that has the victim's name. Raises ApiError."""
        return _meta_of(await answered(self._client.get(_pod_path(victim))))

    async def _left(self, victim: Victim) -> bool:
        """Whether a conflict was the UID precondition's; a webhook may answer with one as well."""
        try:
            return await self.leaving(victim)
        except ApiError:
            return False

    async def _readable(self, victim: Victim) -> bool:
        try:
            return not await self.leaving(victim)
        except ApiError:
            return False

    async def pause(
        self, seconds: float, error: ApiError | None = None, longest: float = LONGEST_PAUSE
    ) -> None:
        """Wait before the next try: at least as long as the server asked for, never in step."""
        asked = (error.retry_after if error is not None else None) or 0.0
        await self._clocks.sleep(min(max(seconds, asked), longest) * (1 + self._rng.random()))

    def refused(self) -> None:
        """Count an eviction that the API server refuses for good."""
        self._listener.evicted(Removal.REFUSED)

    async def _remove(
        self,
        victim: Victim,
        *,
        budgeted: bool,
        seconds: float,
        dry_run: bool,
    ) -> None:
        grace, uid = victim.grace, victim.uid
        if budgeted:
            request = self._client.evict(
                victim.namespace, victim.name, uid=uid, grace=grace, dry_run=dry_run
            )
        else:
            request = self._client.delete(_pod_path(victim), uid=uid, grace=grace, dry_run=dry_run)
        await answered(request, seconds)


def unclear(error: ApiError) -> bool:
    """Whether the request may have been done although it failed: no answer, or a 5xx."""
    return isinstance(error, Unavailable)


def _meta_of(pod: Mapping[str, Any]) -> Meta:
    meta: Meta = pod.get("metadata", {})
    return meta


def _pod_path(victim: Victim) -> str:
    return f"/api/v1/namespaces/{quote(victim.namespace)}/pods/{quote(victim.name)}"


LONGEST_BIND_PAUSE = 2.0
BIND_REQUEST_SECONDS = 5.0
CONCURRENCY = 64
"""Bindings of one gang under way at a time; the client's gate bounds all of them together."""
NO_DRY_RUN = "does not support dry run"
"""What kube-apiserver says where a webhook with side effects is asked for a dry run."""


class Binding(Struct, frozen=True):
    """A pod and the node it is to have."""

    uid: str
    namespace: str
    name: str
    node: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} to {self.node}"


class BindingOutcome(Enum):
    """How a binding ended."""

    BOUND = "bound"
    REFUSED = "refused"
    """The API server says no, and would again: the pod has not this node and will not get it."""
    LATE = "late"
    """It did not work in time; the last request may yet be done."""
    STOPPED = "stopped"
    """Not allowed any more before it was sent: not bound by us."""


class Ended(Struct, frozen=True):
    """How one binding ended, and why it is not bound."""

    binding: Binding
    ending: BindingOutcome
    why: str = ""


class Binder:
    """Posts bindings. ``seconds`` is how long one may be tried.

    A binding carries the pod's UID (Binding.metadata.uid): the API server refuses it with a
    conflict when the name is another pod's by now, when the pod has a node, and when it is being
    deleted (assignPod in pkg/registry/core/pod/storage). What an unclear answer has done is read
    back.
    """

    def __init__(
        self,
        client: KubeApi,
        seconds: float,
        *,
        clocks: Clocks,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._seconds = seconds
        self._clocks = clocks
        self._rng = rng or random.Random()

    async def rehearse(
        self, bindings: Sequence[Binding], wanted: Callable[[], bool]
    ) -> list[Ended]:
        """Ask for every binding as a dry run; return those that are not accepted.

        ``wanted()`` turns False when the answer is of no use any more.
        """
        failed: list[Ended] = []

        async def one(binding: Binding) -> None:
            if not failed and wanted():
                ended = await self._try(binding, wanted, dry_run=True)
                if ended.ending is not BindingOutcome.BOUND:
                    failed.append(ended)

        await each(bindings, CONCURRENCY, one)
        return failed

    async def bind(self, binding: Binding, allowed: Callable[[], bool]) -> Ended:
        """Bind one pod. ``allowed()`` is asked right before each request leaves."""
        return await self._try(binding, allowed, dry_run=False)

    async def settled(self, binding: Binding) -> Ended:
        """Return how a binding has ended that somebody else has made, or nobody."""
        unbound = Unavailable(0, "Unbound", "it is not bound")
        found = await self._read_back(binding, unbound)
        return found or Ended(binding, BindingOutcome.STOPPED, "it was not bound")

    async def _try(self, binding: Binding, allowed: Callable[[], bool], *, dry_run: bool) -> Ended:
        until, pause = self._clocks.monotonic() + self._seconds, FIRST_PAUSE
        doubtful = False
        while True:
            if not allowed():
                return Ended(
                    binding,
                    BindingOutcome.LATE if doubtful else BindingOutcome.STOPPED,
                    "it was called off",
                )
            try:
                with while_wanted(allowed):
                    await answered(self._post(binding, dry_run=dry_run), BIND_REQUEST_SECONDS)
                return Ended(binding, BindingOutcome.BOUND)
            except CalledOff:
                continue
            except ApiError as error:
                if dry_run and NO_DRY_RUN in error.message:
                    return Ended(binding, BindingOutcome.BOUND)
                again = error
            if isinstance(again, Conflict) or (unclear(again) and not dry_run):
                doubtful = doubtful or unclear(again)
                settled = await self._read_back(binding, again)
                if settled is not None:
                    return settled
            elif not passing(again):
                return Ended(binding, BindingOutcome.REFUSED, str(again))
            wait = max(pause, again.retry_after or 0.0)
            if self._clocks.monotonic() + wait >= until:
                why = f"not accepted within {self._seconds:g} s: {again}"
                return Ended(binding, BindingOutcome.LATE, why)
            await self._clocks.sleep(wait * (1 + self._rng.random() / 2))
            pause = min(2 * pause, LONGEST_BIND_PAUSE)

    async def _post(self, binding: Binding, *, dry_run: bool) -> None:
        path = f"/api/v1/namespaces/{quote(binding.namespace)}/pods/{quote(binding.name)}/binding"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": binding.name,
                "namespace": binding.namespace,
                "uid": binding.uid,
            },
            "target": {"kind": "Node", "name": binding.node},
        }
        await self._client.create(path, body, dry_run=dry_run)

    async def _read_back(self, binding: Binding, error: ApiError) -> Ended | None:
        """Return how it ended as the pod tells, None when it may be tried again."""
        path = f"/api/v1/namespaces/{quote(binding.namespace)}/pods/{quote(binding.name)}"
        try:
            pod: dict[str, Any] = await answered(self._client.get(path), BIND_REQUEST_SECONDS)
        except NotFound:
            return Ended(binding, BindingOutcome.REFUSED, "the pod is gone")
        except ApiError as unread:
            log.warning("a binding cannot be read back", pod=binding.name, error=str(unread))
            return None
        meta = pod.get("metadata") or {}
        node = (pod.get("spec") or {}).get("nodeName") or ""
        if meta.get("uid") != binding.uid:
            return Ended(binding, BindingOutcome.REFUSED, "the name is another pod's by now")
        if node == binding.node:
            return Ended(binding, BindingOutcome.BOUND)
        if node:
            return Ended(binding, BindingOutcome.REFUSED, f"the pod is on {node} already")
        if meta.get("deletionTimestamp"):
            return Ended(binding, BindingOutcome.REFUSED, f"the pod is being deleted: {error}")
        return None
