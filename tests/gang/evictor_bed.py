"""An evictor and an API server that is told what to answer."""

from __future__ import annotations

import random
from typing import Any, cast

from msgspec.structs import replace

from extender.gang.controller.requests import Evictor
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.listener import Removal
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, Forbidden, NotFound, TooManyRequests
from extender.kube.api_errors import Unavailable as NoAnswer
from extender.kube.gate import leaves
from extender.model.plan import Victim
from extender.settings.settings import EvictionSettings
from tests.gang.hearing import Hearing

NOW = 1_000_000.0
VICTIM = Victim("u1", "a b", "p/1", "n0", 0, grace=40)
PATH = "/api/v1/namespaces/a%20b/pods/p/1"
FORBIDDEN = Forbidden(403, "Forbidden", "no")
CONFLICT = Conflict(409, "Conflict", "uid")
MISSING = NotFound(404, "NotFound", "gone")
BUSY = TooManyRequests(429, "TooManyRequests", "budget", retry_after=3.0)
SILENT = NoAnswer(0, "Timeout", "no answer")
THERE = {"metadata": {"uid": "u1", "resourceVersion": "7"}}


class Api:
    """``answers``: what evictions come to, one after the other, None for success; then success."""

    def __init__(self, *answers: ApiError | None, pod: Any = MISSING) -> None:
        self.answers = list(answers)
        self.pod = pod
        self.sent: list[tuple[Any, ...]] = []
        self.patched: list[dict[str, Any]] = []
        self.reads = 0
        self.unpatched: BaseException | None = None

    def _answer(self) -> None:
        leaves()
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    async def evict(self, namespace: str, name: str, *, uid: str, grace: int, dry_run: bool) -> Any:
        self.sent.append(("evict", f"{namespace}/{name}", uid, grace, dry_run))
        self._answer()

    async def delete(self, path: str, *, uid: str, grace: int, dry_run: bool) -> Any:
        self.sent.append(("delete", path, uid, grace, dry_run))
        self._answer()

    async def patch(self, path: str, body: dict[str, Any], kind: str) -> Any:
        assert (path, kind) == (f"{PATH}/status", "strategic")
        self.patched.append(body)
        if self.unpatched is not None:
            raise self.unpatched
        return THERE if isinstance(self.pod, ApiError) else self.pod

    async def get(self, path: str) -> Any:
        assert path == PATH
        self.reads += 1
        if isinstance(self.pod, ApiError):
            raise self.pod
        return self.pod


class Bed:
    """An evictor whose pauses are noted and over at once."""

    def __init__(self, api: Api, **settings: int) -> None:
        self.api = api
        self.pauses: list[float] = []
        self.listener = Hearing()
        self.ended = self.listener.ended
        self.asked: list[str] = []
        rng = random.Random()
        rng.random = lambda: 0.5  # type: ignore[method-assign]
        self.evictor = Evictor(
            cast(KubeApi, api),
            EvictionSettings(**settings),
            clocks=Clocks(wall=lambda: NOW, sleep=self._sleep),
            rng=rng,
            listener=self.listener,
        )

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def rehearse(self, *, budgeted: bool = False) -> None:
        uids = frozenset(["u1"]) if budgeted else frozenset[str]()
        await self.evictor.rehearse([VICTIM], uids, lambda victim: True)

    async def remove(
        self,
        *,
        budgeted: bool = False,
        mark: str = "",
        allowed: Any = lambda: True,
        lost: int = 0,
    ) -> Removal | None:
        return await self.evictor.remove(
            replace(VICTIM, lost=lost),
            budgeted=budgeted,
            mark=mark,
            allowed=allowed,
            asking=lambda: self.asked.append("now"),
        )
