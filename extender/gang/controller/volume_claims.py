"""Whether a claim that several members name may be used by several pods.

No PersistentVolumeClaim is watched. Where a plan evicts pods and two of its seats name one claim,
the API server is asked for that claim's access modes. One pod alone may use a claim of mode
ReadWriteOncePod, so the second member would never start.

Source: VolumeRestrictions of kube-scheduler 1.37. Which mode a claim has never changes.
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from extender.gang.plan.volumes import NamedClaim, claims_together
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError
from extender.model.gang import Gang
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

ONE_POD = "ReadWriteOncePod"
ASK_SECONDS = 2.0
"""For how long an answer is waited for; others wait for their turn meanwhile."""
AGAIN_SECONDS = 10.0
"""After so long it is asked again what could not be read."""
MOST_CLAIMS = 32
"""Claims of one plan that are asked for."""


class _Spec(Struct):
    access_modes: list[str] = field(default_factory=list, name="accessModes")


class _Claim(Struct):
    spec: _Spec


_claim = msgspec.json.Decoder(_Claim)


class VolumeClaims:
    """Asks the API server. One event loop only."""

    def __init__(self, client: KubeApi | None) -> None:
        """``client`` None: nothing can be read."""
        self._client = client

    async def refusal(self, plan: Plan, gang: Gang, snapshot: Snapshot) -> Refusal | None:
        """Return why no pod is evicted for the plan, None where none goes or each claim may be
        used by all members that name it."""
        together = claims_together(plan, gang) if plan.victims else {}
        if not together:
            return None
        asked = list(together)[:MOST_CLAIMS]
        answers = await asyncio.gather(*map(self._why_not, asked))
        whys = {claim: why for claim, why in zip(asked, answers, strict=True) if why}
        for claim in list(together)[MOST_CLAIMS:]:
            whys[claim] = f"more than {MOST_CLAIMS} claims of members are shared"
        if not whys:
            return None
        claim, why = min(whys.items(), key=lambda each: each[1] != ONE_POD)
        users = f"{counted(together[claim], 'member')} name PersistentVolumeClaim {claim[1]}"
        told = f"which is {ONE_POD}: one pod alone may use it"
        if why != ONE_POD:
            told = f"whose access modes are not known: {why}"
        return Refusal(
            gang=gang.key,
            code=Code.INFEASIBLE,
            message=f"does not fit without evictions, and no pod is evicted: {users}, {told}",
            generation=snapshot.generation,
            until=snapshot.now + AGAIN_SECONDS,
        )

    async def _why_not(self, claim: NamedClaim) -> str:
        """Return why two pods may not use the claim: its mode, or what kept it from being read."""
        if self._client is None:
            return "claims cannot be read here"
        namespace, name = map(quote, claim)
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        try:
            answer = await self._client.request("GET", path, timeout=ASK_SECONDS)
            modes = _claim.decode(answer).spec.access_modes
        except (ApiError, msgspec.DecodeError) as error:
            return str(error)
        if not modes:
            return "it has none"
        return ONE_POD if ONE_POD in modes else ""
