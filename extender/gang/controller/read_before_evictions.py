"""What is read from the API server before a plan evicts pods, and is not watched."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote

import msgspec
import structlog
from cachetools import LRUCache
from msgspec import Struct, field
from msgspec.structs import replace

from extender.gang.plan.scale_up import REQUEST, REQUESTED, TOLD, Word, answer, told, waits
from extender.gang.plan.single import SINGLE
from extender.gang.plan.volumes import NamedClaim, claims_together
from extender.gang.runtime.clocks import Clocks
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, NotFound
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted
from extender.settings.settings import PlanSettings

ONE_POD = "ReadWriteOncePod"
CLAIM_SECONDS = 2.0
"""For how long an answer is waited for; others wait for their turn meanwhile."""
CLAIM_AGAIN_SECONDS = 10.0
"""After so long it is asked again what could not be read."""
MOST_CLAIMS = 32
"""Claims of one plan that are asked for."""


class _Spec(Struct):
    access_modes: list[str] = field(default_factory=list, name="accessModes")


class _Claim(Struct):
    spec: _Spec


_claim = msgspec.json.Decoder(_Claim)


class VolumeClaims:
    """Whether a claim that several members name may be used by several pods.

    No PersistentVolumeClaim is watched. Where a plan evicts pods and two of its seats name one
    claim, the API server is asked for that claim's access modes. One pod alone may use a claim of
    mode ReadWriteOncePod, so the second member would never start. One event loop only.

    Source: VolumeRestrictions of kube-scheduler 1.37. Which mode a claim has never changes.
    """

    def __init__(self, client: KubeApi) -> None:
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
            until=snapshot.now + CLAIM_AGAIN_SECONDS,
        )

    async def _why_not(self, claim: NamedClaim) -> str:
        """Return why two pods may not use the claim: its mode, or what kept it from being read."""
        namespace, name = map(quote, claim)
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        try:
            answer = await self._client.request("GET", path, timeout=CLAIM_SECONDS)
            modes = _claim.decode(answer).spec.access_modes
        except (ApiError, msgspec.DecodeError) as error:
            return str(error)
        if not modes:
            return "it has none"
        return ONE_POD if ONE_POD in modes else ""


log = structlog.get_logger("gang")

ASK_SECONDS = 1.0
"""For how long an answer is waited for; other gangs wait for their turn meanwhile."""
FRESH_SECONDS = 2.0
"""An answer is used for so long ..."""
SHARE = 10
"""... and for so many times as long as it took."""
AGAIN_SECONDS = 30.0
"""After so long it is read again what could not be read."""
PAGE, PAGES = 500, 4
"""Events that are asked for at once, and how often in a row."""
NAMESPACES = 256
"""Whose answers are kept."""
MOST_REQUESTS = 8
"""ProvisioningRequests of one gang that are read."""
SELECTOR = ",".join(
    (
        "involvedObject.kind=Pod",
        *(f"source!={each}" for each in ("kubelet", "default-scheduler", "podgroup-extender")),
    )
)


class _About(Struct):
    uid: str = ""


class _Source(Struct):
    component: str = ""


class _Series(Struct, rename="camel"):
    last_observed_time: datetime | None = None


class _Event(Struct, rename="camel"):
    """An event of core/v1, of either recorder of client-go (tools/record, tools/events)."""

    involved_object: _About = field(default_factory=_About)
    reason: str = ""
    message: str = ""
    source: _Source = field(default_factory=_Source)
    reporting_component: str = ""
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: _Series | None = None


class _Meta(Struct):
    next: str = field(default="", name="continue")


class _Events(Struct):
    items: list[_Event]
    metadata: _Meta = field(default_factory=_Meta)


class _Condition(Struct, rename="camel"):
    type: str
    status: str
    message: str = ""
    last_transition_time: datetime | None = None


class _Status(Struct):
    conditions: list[_Condition] = field(default_factory=list)


class _Request(Struct):
    status: _Status = field(default_factory=_Status)


class _Read(Struct):
    words: list[Word]
    until: float
    """Monotonic."""
    problem: str = ""


_events = msgspec.json.Decoder(_Events)
_request = msgspec.json.Decoder(_Request)


class AnnouncedNodes:
    """Whether a gang waits for a node instead of evicting: the API server is asked what autoscalers
    have said of its pods. One event loop only.

    Events are not watched: a cluster of 5,000 nodes writes hundreds a second. They are read where a
    plan with victims is about to begin, in one namespace, without those of the kubelet, of
    kube-scheduler and of this program. The answer is used for a while, longer where it took longer,
    so reading takes a tenth of the time at most.

    Nothing is kept that a restart would lose: the events are read again, and state their own times.
    """

    def __init__(self, client: KubeApi, settings: PlanSettings, clocks: Clocks) -> None:
        self._client = client if settings.scale_up == "auto" else None
        self._settings = settings
        self._clocks = clocks
        self._kept: LRUCache[str, _Read] = LRUCache(NAMESPACES)
        self._problem = ""

    async def awaited(self, plan: Plan, gang: Gang, snapshot: Snapshot) -> Plan | Refusal:
        """Return the refusal of a gang that waits for a node, else the plan.

        The plan says why no node is waited for, where that is known.
        """
        if self._client is None or not plan.victims or gang.key.dialect == SINGLE:
            return plan
        read = await self._events(self._client, gang.key.namespace)
        words, problem = read.words, read.problem
        requests = _requests(gang.pending)
        told_of = [self._request(self._client, gang.key.namespace, name) for name in requests]
        for word, uids in zip(await asyncio.gather(*told_of), requests.values(), strict=True):
            words = [*words, *(replace(word, uid=uid) for uid in uids if word is not None)]
        members = {pod.uid: pod.created for pod in gang.pending}
        first = 0.0 if problem else self._settings.scale_up_answer_seconds
        seconds = self._settings.scale_up_seconds
        result = answer(words, members, self._clocks.wall(), seconds, first)
        if result.until:
            return waits(plan, result, snapshot.generation)
        why = result.refused or problem
        return replace(plan, explanation=(*plan.explanation, why)) if why else plan

    async def _events(self, client: KubeApi, namespace: str) -> _Read:
        """Return what the events of a namespace say; nothing where they cannot be read."""
        kept: _Read | None = self._kept.get(namespace)
        began = self._clocks.monotonic()
        if kept is not None and began < kept.until:
            return kept
        words = [] if kept is None else kept.words  # they state their own times
        problem, pause, known = "", FRESH_SECONDS, ""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                words = await _read(client, namespace)
        except (ApiError, msgspec.DecodeError, TimeoutError) as error:
            why = str(error) or f"no answer in {ASK_SECONDS:g} s"
            problem = f"no announced node is waited for: events cannot be read: {told(why)}"
            pause, known = AGAIN_SECONDS, type(error).__name__
            if known != self._problem:
                log.warning("events of autoscalers are not known", namespace=namespace, why=why)
        self._problem = known
        now = self._clocks.monotonic()
        read = _Read(words, max(now + pause, now + SHARE * (now - began)), problem)
        self._kept[namespace] = read
        return read

    async def _request(self, client: KubeApi, namespace: str, name: str) -> Word | None:
        """Return what a ProvisioningRequest says, None where it says nothing or is not there."""
        where = f"/apis/autoscaling.x-k8s.io/v1/namespaces/{quote(namespace)}/provisioningrequests"
        try:
            text = await client.request("GET", f"{where}/{quote(name)}", timeout=ASK_SECONDS)
            conditions = _request.decode(text).status.conditions
        except NotFound:
            return None
        except (ApiError, msgspec.DecodeError) as error:
            log.warning("a ProvisioningRequest is not known", request=name, why=str(error))
            return None
        true = {each.type: each for each in conditions if each.status == "True"}
        for kind, yes in REQUESTED.items():
            if (said := true.get(kind)) is not None and said.last_transition_time is not None:
                at = said.last_transition_time.timestamp()
                by = f"ProvisioningRequest {name}"
                return Word("", yes=yes, by=by, first=at, last=at, why=told(said.message))
        return None


async def _read(client: KubeApi, namespace: str) -> list[Word]:
    path = f"/api/v1/namespaces/{quote(namespace)}/events"
    params: dict[str, str | int | bool] = {"fieldSelector": SELECTOR, "limit": PAGE}
    words: list[Word] = []
    for _ in range(PAGES):
        page = _events.decode(await client.request("GET", path, params=params))
        words += [word for event in page.items if (word := _word(event)) is not None]
        if not page.metadata.next:
            break
        params["continue"] = page.metadata.next
    return words


def _word(event: _Event) -> Word | None:
    """Return what an event says, None where it says nothing of nodes, or not when."""
    yes, begins = TOLD.get(event.reason, (False, None))
    if begins is None or not event.message.startswith(begins):
        return None
    series = event.series.last_observed_time if event.series else None
    times = (event.first_timestamp, event.last_timestamp, event.event_time, series)
    known = [each.timestamp() for each in times if each is not None and each.tzinfo is not None]
    if not known:
        return None
    by = event.source.component or event.reporting_component or "an autoscaler"
    return Word(
        event.involved_object.uid,
        yes=yes,
        by=told(by),
        first=min(known),
        last=max(known),
        why=told(event.message),
    )


def _requests(members: Iterable[Pod]) -> dict[str, list[str]]:
    """Return the ProvisioningRequests that members consume -> the uids of those members."""
    found: dict[str, list[str]] = {}
    for pod in members:
        name = pod.annotations.get(REQUEST, "")
        if name and (name in found or len(found) < MOST_REQUESTS):
            found.setdefault(name, []).append(pod.uid)
    return found
