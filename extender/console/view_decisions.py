"""Decisions, newest first, with filters."""

from __future__ import annotations

from collections import Counter
from typing import Any

from extender.console import words
from extender.console.bars import histogram
from extender.console.month import month
from extender.console.paging import page_of
from extender.console.picture import Picture
from extender.console.plan_parts import plan_parts
from extender.console.query import Query
from extender.gang.tell.decisions import Decision

PAGE = 30
BINS = 60
MOST_LINES = 24
KINDS = ("plan", "done", "refusal", "incomplete", "waits", "gave-up", "broken", "in-part")
OBSERVED = ("plan", "refusal", "observed")
"""Where nothing is done."""


def decisions(picture: Picture, query: Query) -> dict[str, Any]:
    """Return what the page shows."""
    text, outcome, victim = query.text("q").lower(), query.text("outcome"), query.text("victim")
    kept = picture.capture.decisions
    found = [
        one
        for one in kept
        if (not outcome or words.kind_of(one) == outcome)
        and (not text or text in one.gang.lower() or text in one.message.lower())
        and (not victim or _hits(one, victim))
    ]
    kinds = OBSERVED if picture.capture.observed is not None else KINDS
    page = page_of(words.folded(found), query.page(), PAGE)
    counts = Counter(map(words.kind_of, kept))
    return {
        "text": query.text("q"),
        "outcome": outcome if outcome in words.OUTCOMES else "",
        "victim": victim,
        "kinds": {kind: counts[kind] for kind in kinds},
        "page": page,
        "entries": [_entry(*entry) for entry in page.items],
        "replayable": picture.capture.replayable,
        "month": month(picture.capture),
        "counted_since": picture.capture.counted_since,
        "strip": histogram([(one.time, words.tone(words.kind_of(one))) for one in kept], BINS),
        "oldest": kept[-1].time if kept else None,
        "newest": kept[0].time if kept else None,
        "most_lines": MOST_LINES,
    }


def _entry(one: Decision, times: int) -> dict[str, Any]:
    return {
        "made": one,
        "kind": words.kind_of(one),
        "times": times,
        "lines": one.explanation[:MOST_LINES],
        "more": max(0, len(one.explanation) - MOST_LINES),
        "parts": plan_parts(one.seats, one.victims, one.waits_for, one.costs, one.spared),
    }


def _hits(one: Decision, victim: str) -> bool:
    return any(victim in (pod.gang, pod.uid, f"{pod.namespace}/{pod.name}") for pod in one.victims)
