"""Labels the leader's pod, so that a Service selects the one replica that answers.

Readiness cannot say it: a standby that is never ready would block roll-outs and disruption
budgets, which count ready pods.
"""

from __future__ import annotations

from urllib.parse import quote

import structlog

from extender.gang.runtime.clocks import LEASE_CLOCKS, Clocks
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, NotFound

log = structlog.get_logger("leadership")

LABEL = "podgroup-extender.io/leader"
RETRY_SECONDS = 1.0


class LeaderLabel:
    """The label on our own pod, and on nobody else's."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        pod: str,
        clocks: Clocks = LEASE_CLOCKS,
    ) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{quote(namespace)}/pods"
        self._pod = pod
        self._clocks = clocks

    async def claim(self) -> None:
        """Take the label from all others and put it on our pod; tries until it works."""
        while True:
            try:
                found = await self._api.get(self._pods, params={"labelSelector": f"{LABEL}=true"})
                for item in found.get("items", []):
                    if item["metadata"]["name"] != self._pod:
                        await self._remove(item["metadata"]["name"])
                await self._write(self._pod, "true")
                return
            except ApiError as error:
                log.warning("the leader's label cannot be written", error=str(error))
                await self._clocks.sleep(RETRY_SECONDS)

    async def _remove(self, pod: str) -> None:
        try:
            await self._write(pod, None)
        except NotFound:
            return  # Its pod is gone, and the label with it.

    async def _write(self, pod: str, value: str | None) -> None:
        patch = {"metadata": {"labels": {LABEL: value}}}
        await self._api.patch(f"{self._pods}/{quote(pod)}", patch)
