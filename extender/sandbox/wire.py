"""The scheduler's side of the extender protocol, as pkg/scheduler/extender.go speaks it.

Written apart from the extender's own wire room, so that one misreading is not
made on both ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from extender.sandbox.api_status import Obj


class ExtenderFailed(Exception):  # noqa: N818 - reads as what has happened
    """The extender did not answer, answered other than 200, or answered nonsense."""


class Filtered(Struct, frozen=True):
    """What filter left over."""

    nodes: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


Victims = Mapping[str, tuple[tuple[str, ...], int]]
"""Node name -> (victims' uids, most important first; how many violate a budget)."""


class ExtenderClient:
    """One extender: nodeCacheCapable true, ignorable false. ``timeout`` is httpTimeout."""

    def __init__(self, url: str, *, weight: int = 1, timeout: float = 5.0) -> None:
        self.url = url.rstrip("/")
        self.weight = weight
        # Go's transport reuses idle connections for 90 s; so does this one.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(keepalive_timeout=90),
            timeout=aiohttp.ClientTimeout(total=timeout),
        )

    async def close(self) -> None:
        """Close idle connections."""
        await self._session.close()

    async def filter(self, pod: Obj, nodes: Sequence[str]) -> Filtered:
        """Ask which of the nodes the pod may use."""
        answer = await self._post("filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
        if not isinstance(answer, dict):
            raise ExtenderFailed(f"filter answered {type(answer).__name__}, not an object")
        if answer.get("Error"):
            raise ExtenderFailed(str(answer["Error"]))
        left = tuple(answer.get("NodeNames") or ())
        unknown = sorted(set(left) - set(nodes))
        if unknown:
            raise ExtenderFailed(f"filter answered nodes it was not offered: {unknown}")
        return Filtered(
            left, answer.get("FailedNodes") or {}, answer.get("FailedAndUnresolvableNodes") or {}
        )

    async def prioritize(self, pod: Obj, nodes: Sequence[str]) -> dict[str, int]:
        """Ask for scores 0..10; whatever goes wrong counts as no opinion."""
        try:
            body = {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
            answer = await self._post("prioritize", body)
            return {item["Host"]: int(item["Score"]) for item in answer}
        except (ExtenderFailed, TypeError, KeyError, ValueError):
            return {}

    async def preempt(self, pod: Obj, candidates: Victims) -> Victims:
        """Show victims on each node and take the extender's view of them."""
        shown = {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
            for node, (uids, violations) in candidates.items()
        }
        body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": shown}
        answer = await self._post("preempt", body)
        try:
            wanted = answer.get("NodeNameToMetaVictims") or {}
            found = {}
            for node, victims in wanted.items():
                uids = tuple(item["UID"] for item in (victims or {}).get("Pods") or ())
                found[node] = (uids, int((victims or {}).get("NumPDBViolations") or 0))
            return found
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise ExtenderFailed(f"preempt answered nonsense: {error!r}") from error

    async def _post(self, verb: str, body: Obj) -> Any:
        try:
            async with self._session.post(
                f"{self.url}/{verb}",
                data=msgspec.json.encode(body),
                headers={"Content-Type": "application/json"},
            ) as answer:
                if answer.status != 200:
                    raise ExtenderFailed(f"{verb} answered status {answer.status}")
                return msgspec.json.decode(await answer.read())
        except (TimeoutError, aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            raise ExtenderFailed(f"{verb}: {str(error) or type(error).__name__}") from error
