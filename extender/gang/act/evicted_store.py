"""Who was evicted before, in the API: one ConfigMap beside the plan records, signed as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from extender.gang.act.evictor import answered
from extender.gang.act.leadership import Leadership
from extender.gang.act.signature import Signer, digest_of
from extender.gang.plan.evicted_before import Evicted
from extender.kube.api import KubeApi
from extender.kube.errors import ApiError, Conflict, NotFound

log = structlog.get_logger("gang")

NAME = "podgroup-extender-evicted"
KEY = "evicted.json"
SIGNATURE = "podgroup-extender.io/signature"
MOST_BYTES = 900_000
"""An object may have 1 MiB or so; who was evicted longest ago is left out."""
CLOCK_SECONDS = 300.0
"""What was written further in the future was written before the clock was set back."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
WRITE_SECONDS = 5.0


class EvictedStore:
    """Reads the ConfigMap, and writes it behind what happens while this process leads."""

    def __init__(
        self,
        client: KubeApi,
        namespace: str,
        signer: Signer,
        leadership: Leadership,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._client = client
        self._base = f"/api/v1/namespaces/{quote(namespace)}/configmaps"
        self._signer = signer
        self._leadership = leadership
        self._spawn = spawn
        self._wanted: Sequence[Evicted] | None = None
        """What is to be written; None: nothing else than what is there."""
        self._busy = False

    async def load(self, now: float) -> list[Evicted]:
        """Return what is written; what is not ours, or cannot be read, is told in the log and
        left out. Raises ApiError."""
        try:
            found = await answered(self._client.get(f"{self._base}/{NAME}"))
        except NotFound:
            return []
        text = (found.get("data") or {}).get(KEY, "[]")
        signature = (found["metadata"].get("annotations") or {}).get(SIGNATURE, "")
        why = self._signer.problem(NAME, 0, digest_of([text.encode()]), signature)
        if why:
            log.warning("who was evicted before is not known", config_map=NAME, why=why)
            return []
        try:
            kept = msgspec.json.decode(text, type=list[Evicted])
        except msgspec.DecodeError as error:
            log.warning("who was evicted before cannot be read", config_map=NAME, error=str(error))
            return []
        latest = now + CLOCK_SECONDS
        return [each for each in kept if max(each.at, each.resumed) <= latest and each.times > 0]

    def write(self, kept: Sequence[Evicted]) -> None:
        """Replace what is written, as soon as that can be done."""
        self._wanted = kept
        if not self._busy:
            self._busy = True
            self._spawn(self._bring_up())

    async def _bring_up(self) -> None:
        pause = FIRST_PAUSE
        try:
            while (wanted := self._wanted) is not None and self._leadership.acts:
                self._wanted = None
                try:
                    await self._save(_text(wanted))
                except ApiError as error:
                    self._wanted = wanted if self._wanted is None else self._wanted
                    if not isinstance(error, Conflict):
                        log.warning("who was evicted before is not written", error=str(error))
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            self._busy = False

    async def _save(self, text: str) -> None:
        signature = self._signer.sign(NAME, 0, digest_of([text.encode()]))
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "annotations": {SIGNATURE: signature} if signature else {}},
            "data": {KEY: text},
        }
        path = f"{self._base}/{NAME}"
        try:
            there = await answered(self._client.get(path), WRITE_SECONDS)
        except NotFound:
            await answered(self._client.create(self._base, body), WRITE_SECONDS)
            return
        body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
        await answered(self._client.replace(path, body), WRITE_SECONDS)


def _text(kept: Sequence[Evicted]) -> str:
    """Return them as JSON; who was evicted longest ago stands first, and is left out first."""
    text = msgspec.json.encode(list(kept))
    while len(text) > MOST_BYTES:
        kept = kept[max(1, len(kept) // 10) :]
        text = msgspec.json.encode(list(kept))
    return text.decode()
