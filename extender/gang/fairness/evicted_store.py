"""Who was evicted before, in the API: one ConfigMap beside the plan records, signed as they are."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
import structlog

from extender.gang.controller.config_map_list import ConfigMapList
from extender.gang.controller.write_behind import WriteBehind
from extender.gang.core.signature import Signer, digest_of
from extender.gang.leader_election.leadership import Leadership
from extender.gang.plan.evicted_before import Evicted
from extender.kube.api import KubeApi

log = structlog.get_logger("gang")

NAME = "podgroup-extender-evicted"
KEY = "evicted.json"
SIGNATURE = "podgroup-extender.io/signature"
MOST_BYTES = 900_000
"""An object may have 1 MiB or so; who was evicted longest ago is left out."""
CLOCK_SECONDS = 300.0
"""What was written further in the future was written before the clock was set back."""


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
        self._list = ConfigMapList(client, namespace, NAME, KEY)
        self._signer = signer
        self._behind = WriteBehind(
            self._save, leadership, spawn, "who was evicted before is not written"
        )
        self._wanted: Sequence[Evicted] = ()
        """What is to be written."""

    async def load(self, now: float) -> list[Evicted]:
        """Return what is written; what is not ours, or cannot be read, is told in the log and
        left out. Raises ApiError."""
        found = await self._list.load()
        if found is None:
            return []
        text, annotations = found
        signature = annotations.get(SIGNATURE, "")
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
        self._behind.changed()

    async def _save(self) -> None:
        text = _text(self._wanted)
        signature = self._signer.sign(NAME, 0, digest_of([text.encode()]))
        await self._list.save(text, {SIGNATURE: signature} if signature else {})


def _text(kept: Sequence[Evicted]) -> str:
    """Return them as JSON; who was evicted longest ago stands first, and is left out first."""
    text = msgspec.json.encode(list(kept))
    while len(text) > MOST_BYTES:
        kept = kept[max(1, len(kept) // 10) :]
        text = msgspec.json.encode(list(kept))
    return text.decode()
