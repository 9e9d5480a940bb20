"""Single requests that bind one pod, and how each is tried again.

A binding carries the pod's UID (Binding.metadata.uid): the API server refuses it with a conflict
when the name is another pod's by now, when the pod has a node, and when it is being deleted
(assignPod in pkg/registry/core/pod/storage). What an unclear answer has done is read back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any
from urllib.parse import quote

import structlog
from msgspec import Struct

from extender.gang.controller.evictor import FIRST_PAUSE, passing, unclear
from extender.gang.runtime.background import each
from extender.gang.runtime.clocks import Clocks
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, NotFound, Unavailable
from extender.kube.gate import CalledOff, answered, while_wanted

LONGEST_PAUSE = 2.0
REQUEST_SECONDS = 5.0
CONCURRENCY = 64
"""Bindings of one gang under way at a time; the client's gate bounds all of them together."""
NO_DRY_RUN = "does not support dry run"
"""What kube-apiserver says where a webhook with side effects is asked for a dry run."""
log = structlog.get_logger("gang")


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
    """Posts bindings. ``seconds`` is how long one may be tried."""

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
                    await answered(self._post(binding, dry_run=dry_run), REQUEST_SECONDS)
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
            pause = min(2 * pause, LONGEST_PAUSE)

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
            pod: dict[str, Any] = await answered(self._client.get(path), REQUEST_SECONDS)
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
