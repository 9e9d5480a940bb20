"""Observe mode: what schedulers did beside what would have been done, by week."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from extender.console.capture import Observed
from extender.console.gang_rows import key_of
from extender.console.missing import Missing
from extender.console.paging import page_of
from extender.console.picture import Picture
from extender.console.query import Query
from extender.observe.charts import chart
from extender.observe.sums import Told, Week
from extender.observe.weekly import NOTES, choose, day, did, lasted, weekly, would

PAGE = 25


def observed(picture: Picture, query: Query) -> dict[str, Any]:
    """Return what the page shows. Raises Missing where the process acts."""
    seen = picture.capture.observed
    if seen is None:
        raise Missing("nothing is observed here: that is for mode: observe (docs/observe.md)")
    week = choose(seen.report, query.text("week") or "this")
    facts = weekly(seen.report, seen.waiting, week)
    return {
        "facts": facts,
        "until": min(facts.until, seen.report.written),
        "page": page_of(facts.gangs, query.page(), PAGE),
        # Every text in it is ours or escaped (observe.charts).
        "charts": [(series.title, series.unit, Markup(chart(series))) for series in facts.series],
        "weeks": [(day(one.start), one.start == week.start) for one in _weeks(seen, week)],
        "tell": {"did": did, "would": would, "lasted": lasted},
        "key_of": key_of,
        "notes": NOTES,
    }


def beside(seen: Observed | None, name: str) -> dict[str, Any] | None:
    """Return what there is to say of one gang, None without anything."""
    if seen is None:
        return None
    told = next((one for one in _newest(seen) if one.gang == name), None)
    if told is None:
        return None
    return {"told": told, "did": did(told), "would": would(told)}


def _newest(seen: Observed) -> list[Told]:
    weeks = sorted(seen.report.weeks, key=lambda week: -week.start)
    return [*seen.waiting, *(told for week in weeks for told in reversed(week.gangs))]


def _weeks(seen: Observed, chosen: Week) -> list[Week]:
    """Return the weeks to choose from, the newest first."""
    found = {week.start: week for week in (*seen.report.weeks, chosen)}
    return sorted(found.values(), key=lambda week: -week.start)
