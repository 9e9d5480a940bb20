"""How the whole stands, as YAML that a person reads in a ConfigMap. Pure; bounded in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from extender.gang.tell.gang_status import GangStatus
from extender.gang.tell.last_hour import Trouble
from extender.model.texts import cut, rfc3339

MOST_BYTES = 16 * 1024
"""Of the text: a page or two. A ConfigMap may have a megabyte, which nobody reads."""
ENTRIES = (10, 5, 2, 0)
"""Entries of each list; fewer where the text gets too long."""
NAME_BYTES = 360
"""Above any DIALECT:NAMESPACE/NAME that kube-apiserver takes."""
WHY_BYTES = 240


class GangSeen(Struct, frozen=True):
    """A gang that does not run."""

    status: GangStatus
    since: float | None
    """Since when its members wait, wall clock."""


class PlanSeen(Struct, frozen=True, kw_only=True):
    """A plan under way."""

    gang: str
    plan: str
    priority: int
    state: str
    since: float
    seats: int
    victims: int
    """Not gone yet."""
    waits: int


class Said(Struct, frozen=True):
    """A name, and what there is to say of it."""

    name: str
    why: str


class Whole(Struct, frozen=True, kw_only=True):
    """One moment. Times are wall clock, seconds since the epoch."""

    leader: str
    leading_since: float
    epoch: int
    version: str
    mode: str
    namespaces: str
    """For whose gangs it acts."""
    problems: Sequence[str] = ()
    """Why verbs are not answered."""
    watches: int = 0
    down: Sequence[Said] = ()
    """Watches that are down."""
    fresh: bool = True
    """Whether what is known of the cluster is young enough to act on."""
    states: Mapping[str, int] = {}
    """State -> gangs in it."""
    waiting: Sequence[GangSeen] = ()
    """The most urgent first."""
    plans: Sequence[PlanSeen] = ()
    """The most urgent first."""
    seats: int = 0
    """Held and not taken."""
    evictions: Mapping[str, int] = {}
    """How those of the last hour ended."""
    counted_since: float = 0.0
    """They are not known from before."""
    broken: Sequence[Said] = ()
    suspended: Sequence[Said] = ()
    trouble: Trouble | None = None


def text_of(whole: Whole, most_bytes: int = MOST_BYTES) -> str:
    """Return the whole as YAML of at most ``most_bytes`` bytes of UTF-8.

    Equal moments give equal texts: nothing in it grows with time alone.
    """
    text = ""
    for entries in ENTRIES:
        text = _dump(_document(whole, entries))
        if len(text.encode()) <= most_bytes:
            return text
    return cut(text, most_bytes)


def _document(whole: Whole, entries: int) -> dict[str, Any]:
    return {
        "leader": {
            "identity": cut(whole.leader, NAME_BYTES) or "the only replica",
            "since": rfc3339(whole.leading_since),
            "epoch": whole.epoch,
        },
        "version": whole.version,
        "mode": whole.mode,
        "namespaces": cut(whole.namespaces, WHY_BYTES),
        "ready": not whole.problems,
        "problems": [cut(each, WHY_BYTES) for each in whole.problems[: max(entries, 2)]],
        "watches": {
            "number": whole.watches,
            "fresh": whole.fresh,
            "down": _said(whole.down, entries),
        },
        "gangs": {
            "byState": dict(whole.states),
            "waiting": len(whole.waiting),
            "mostUrgentWaiting": [
                {
                    "gang": cut(status.gang, NAME_BYTES),
                    "priority": status.priority,
                    "state": status.state,
                    "members": f"{status.bound} bound, {status.pending} pending, "
                    f"{status.min_count} needed",
                    "since": None if seen.since is None else rfc3339(seen.since),
                    "why": cut(status.what, WHY_BYTES),
                    "detail": cut(status.detail, WHY_BYTES),
                    "expectedToEnd": None if status.ends is None else rfc3339(status.ends),
                    "next": cut(status.next, WHY_BYTES),
                }
                for seen in whole.waiting[:entries]
                for status in (seen.status,)
            ],
            "broken": _listed(whole.broken, entries),
            "suspended": _listed(whole.suspended, entries),
        },
        "plans": {
            "underWay": len(whole.plans),
            "seatsHeld": whole.seats,
            "mostUrgent": [
                {
                    "gang": cut(plan.gang, NAME_BYTES),
                    "plan": plan.plan,
                    "priority": plan.priority,
                    "state": plan.state,
                    "since": rfc3339(plan.since),
                    "seatsNotTaken": plan.seats,
                    "victimsNotGone": plan.victims,
                    "waitsForTerminating": plan.waits,
                }
                for plan in whole.plans[:entries]
            ],
        },
        "evictionsLastHour": {
            "byResult": dict(whole.evictions),
            "countedSince": rfc3339(whole.counted_since),
        },
        "lastError": None
        if whole.trouble is None
        else {"time": rfc3339(whole.trouble.time), "what": cut(whole.trouble.what, 2 * WHY_BYTES)},
    }


def _said(entries: Sequence[Said], most: int) -> list[dict[str, str]]:
    return [
        {"name": cut(each.name, NAME_BYTES), "why": cut(each.why, WHY_BYTES)}
        for each in entries[:most]
    ]


def _listed(entries: Sequence[Said], most: int) -> dict[str, Any]:
    return {"number": len(entries), "some": _said(entries, most)}


def _dump(document: Mapping[str, Any]) -> str:
    """Return block style YAML; control characters come out as escapes."""
    plain = msgspec.to_builtins(document, str_keys=True)  # words that are enums, too
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    return text
