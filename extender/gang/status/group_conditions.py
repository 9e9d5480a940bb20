"""Condition podgroup-extender.io/Scheduled on PodGroup objects, for owners and controllers.

Only objects of scheduling.k8s.io: scheduler-plugins' have no conditions in their status. The type
is ours alone; kube-scheduler's own (PodGroupScheduled in v1alpha2, PodGroupInitiallyScheduled
later) are never written, and a strategic merge patch leaves entries of other types as they are.

Nothing rests on it. An object is written to once a minute at most and only on change, behind all
other writes; what happened meanwhile is told when the minute is over, as it is then.
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import structlog
from msgspec import Struct

from extender.cache.discovery import served
from extender.gang.core.last_check import KeptGangs
from extender.gang.leader_election.lease import Leadership
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.tell.decisions import Decision, Outcome
from extender.gang.tell.gang_status import status_after
from extender.gang.tell.listener import Listener
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, Forbidden, NotFound
from extender.kube.gate import hint
from extender.model.objects import GangKey, GroupObject
from extender.model.plan import Code
from extender.model.texts import cut, rfc3339

log = structlog.get_logger("gang")

TYPE = "podgroup-extender.io/Scheduled"
DIALECT = "pod-group"
PAUSE_SECONDS = 60.0
MOST_OBJECTS = 10_000
"""Objects of which it is remembered what was written."""
MOST_AT_ONCE = 8
"""Writes under way at a time."""
MAKING_SECONDS = 10.0
"""For how long members have been missing, or kube-scheduler has named no node, before that is said:
it is so of every gang while its pods are being made, and could not be taken back for a minute."""
LOOK_SECONDS = 30.0
"""How often it is looked who was seated without us."""
MOST_MISSING = 3
"""After so many writes in a row to objects that are there and not found nothing more is written."""
LONGEST = 1024

REASONS = {
    "conflict": "Invalid",
    "incomplete": "Incomplete",
    "infeasible": "Unschedulable",
    "unseen": "NoNodeNamed",
    "suspended": "Suspended",
    "budget": "EvictionBudgetUsed",
    "turn": "PlanningShareUsed",
    "scale-up": "NodeAnnounced",
}
"""Code of a refusal that says where a gang stands -> reason of the condition."""


class Condition(Struct, frozen=True):
    """What is said of a gang."""

    status: str
    reason: str
    message: str


SEATED = Condition("True", "Scheduled", "as many pods as the group needs have a node")


def condition_of(decision: Decision) -> Condition | None:
    """Return what a decision says of its gang, None where that is for a moment only."""
    if decision.outcome is Outcome.DONE or decision.code == Code.NOT_NEEDED:
        return SEATED
    if decision.outcome is Outcome.GAVE_UP:
        reason = "GaveUp"
    elif decision.outcome is Outcome.PLAN and decision.victims:
        reason = "Preempting"
    elif decision.outcome is Outcome.REFUSAL and decision.code in REASONS:
        reason = REASONS[decision.code]
    else:
        return None
    return Condition("False", reason, cut(status_after(decision).text, LONGEST))


class _Known(Struct):
    """One object."""

    wanted: Condition | None = None
    wanted_at: float = 0.0
    """Since when there is the reason for it, monotonic."""
    written: Condition | None = None
    at: float = float("-inf")
    """When it was written to, monotonic."""
    since: str = ""
    """When the status that was written last began."""
    busy: bool = False


class GroupConditions:
    """Writes conditions. ``source`` has the newest state."""

    def __init__(
        self,
        client: KubeApi | None,
        source: ClusterSource,
        gangs: KeptGangs,
        clocks: Clocks,
        leadership: Leadership,
        background: Background,
        listener: Listener,
    ) -> None:
        """``client`` None: nothing is written."""
        self._client = client
        self._source = source
        self._gangs = gangs
        self._clocks = clocks
        self._leadership = leadership
        self._spawn = background.spawn
        self._listener = listener
        self._known: dict[GangKey, _Known] = {}
        self._due: dict[GangKey, None] = {}
        """Objects of which another condition is wanted than was written."""
        self._gate = asyncio.Semaphore(MOST_AT_ONCE)
        self._under_way = 0
        self._path: str | None = None
        self._missing = 0
        self._looks = clocks.monotonic() + LOOK_SECONDS

    def decided(self, decision: Decision) -> None:
        """Take note of a decision; also of one that only repeats the last."""
        if self._client is None or not decision.gang.startswith(f"{DIALECT}:"):
            return
        wanted = condition_of(decision)
        if wanted is None:
            return
        self._want(GangKey.read(decision.gang), wanted)

    def _want(self, key: GangKey, wanted: Condition) -> None:
        known = self._known.get(key)
        if known is None:
            while len(self._known) >= MOST_OBJECTS:
                oldest = next(iter(self._known))
                self._due.pop(oldest, None)
                del self._known[oldest]
            known = self._known[key] = _Known()
        if known.wanted is None or known.wanted.reason != wanted.reason:
            known.wanted_at = self._clocks.monotonic()
        known.wanted = wanted
        if wanted == known.written:
            self._due.pop(key, None)
        else:
            self._due[key] = None

    def round(self) -> None:
        """Begin the writes that are due. Waits for nothing."""
        if self._client is None or not self._leadership.acts:
            return
        now = self._clocks.monotonic()
        if now >= self._looks:
            self._looks = now + LOOK_SECONDS
            self._look()
        for key in list(self._due) if self._under_way < MOST_AT_ONCE else ():
            known = self._known[key]
            if known.busy or now - known.at < PAUSE_SECONDS:
                continue
            group = self._source.snapshot().groups.get(("core", key.namespace, key.name))
            if group is None:
                self._due.pop(key, None)
                del self._known[key]
                continue
            if self._repaired(key, known):
                self._due.pop(key, None)
                continue
            if self._is_being_made(known, now):
                continue
            known.busy, known.at = True, now
            self._under_way += 1
            self._spawn(self._write(self._client, key, known, group))
            if self._under_way >= MOST_AT_ONCE:
                return

    def _repaired(self, key: GangKey, known: _Known) -> bool:
        """Whether what is wanted is untrue by now: its object came after its first pod, say."""
        if known.wanted is None or known.wanted.reason != REASONS[Code.CONFLICT]:
            return False
        return self._gangs.resolve(key, self._source.snapshot()).in_order

    def _is_being_made(self, known: _Known, now: float) -> bool:
        """Whether what is missing, members or a word of kube-scheduler, may only not have come."""
        reason = known.wanted.reason if known.wanted is not None else ""
        lacks = reason in (REASONS[Code.INCOMPLETE], REASONS[Code.UNSEEN])
        return lacks and now - known.wanted_at < MAKING_SECONDS

    def _look(self) -> None:
        """Correct what became untrue with no decision about it; forget objects that are gone."""
        snapshot = self._source.snapshot()
        for key, known in list(self._known.items()):
            if ("core", key.namespace, key.name) not in snapshot.groups:
                self._due.pop(key, None)
                del self._known[key]
            elif known.wanted is not None and known.wanted.status == "False":
                gang = self._gangs.resolve(key, snapshot)
                if not gang.problems and gang.missing == 0:
                    self._want(key, SEATED)

    async def _write(
        self, client: KubeApi, key: GangKey, known: _Known, group: GroupObject
    ) -> None:
        wanted = known.wanted
        try:
            if wanted is not None and await self._patch(client, key, known, group, wanted):
                known.written = wanted
                if known.wanted == wanted:
                    self._due.pop(key, None)
        except (Forbidden, NotFound) as error:
            self._refused(key, error)
        except Conflict:
            self._due.pop(key, None)  # another object of that name: its own decisions will be told
        except ApiError as error:
            self._listener.failed(f"condition of {key}", error)
        finally:
            known.busy = False
            self._under_way -= 1

    async def _patch(
        self,
        client: KubeApi,
        key: GangKey,
        known: _Known,
        group: GroupObject,
        wanted: Condition,
    ) -> bool:
        """Return whether it is written. Raises ApiError."""
        if self._path is None:
            self._path = await served(client, "core")
        if self._path is None:
            return False
        version = self._path.removesuffix("/podgroups")
        same = known.written is not None and known.written.status == wanted.status
        since = known.since if same else rfc3339(self._clocks.wall())
        condition = {
            "type": TYPE,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "lastTransitionTime": since,
        }
        body = {"metadata": {"uid": group.uid}, "status": {"conditions": [condition]}}
        where = f"{version}/namespaces/{quote(key.namespace)}/podgroups/{quote(key.name)}/status"
        with hint():
            await client.patch(where, body, kind="strategic")
        known.since = since
        self._missing = 0
        return True

    def _refused(self, key: GangKey, error: Forbidden | NotFound) -> None:
        """Stop for good where the API server has no such thing, or not for us."""
        if isinstance(error, NotFound):
            self._path = None  # another version may be served by now
            there = ("core", key.namespace, key.name) in self._source.snapshot().groups
            self._missing += there
            if self._missing < MOST_MISSING:
                return
        if self._client is not None:
            self._client = None
            self._known.clear()
            self._due.clear()
            log.warning("conditions of PodGroups are not written any more", error=str(error))
