"""The facts of one weekly report, before anybody decides how they look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct, field

from extender.model.errors import InvalidInput
from extender.model.texts import counted
from extender.observe.file import Report, decode, decode_as
from extender.observe.sums import DAY, WEEK, OurAnswer, Sums, Told, Week, week_of

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
THEY, WE = "schedulers", "extender would"
"""Names of series."""
MOST_ROWS = 50
"""Gangs that a report tells of; the JSON has all that are kept."""


class SummaryRow(Struct, frozen=True):
    """One row of the summary."""

    what: str
    scheduler: str
    """What was done."""
    extender: str
    """What we would have done; "" where the question makes no sense."""


class Series(Struct, frozen=True):
    """One plot: seven numbers a series, by day."""

    title: str
    unit: str
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    """By name, then by day."""


class Weekly(Struct, frozen=True):
    """One week's report."""

    start: float
    until: float
    """Its end, or when it was written if it is not over."""
    since: float
    """When observing began, if that is within the week; else 0."""
    sums: Sums
    lines: tuple[SummaryRow, ...]
    series: tuple[Series, ...]
    gangs: tuple[Told, ...]
    more: int
    """Gangs that are counted and not told of."""
    findings: tuple[str, ...]
    """What the numbers say, in sentences."""

    @property
    def title(self) -> str:
        """The week in words."""
        over = "" if self.until >= self.start + WEEK else ", so far"
        return f"Week of {day(self.start)}{over}"


class DebugObserveAnswer(Report):
    """What /debug/observe answers."""

    open: list[Told] = field(default_factory=list)
    """The gangs that wait now."""


def read(data: bytes) -> tuple[Report, list[Told]]:
    """Return a report and the gangs that wait. Raises InvalidInput."""
    report = decode(data)
    return report, decode_as(data, DebugObserveAnswer).open


def start_of(wanted: str, now: float) -> float:
    """Return when the week wanted begins; ``now`` is within this one. Raises InvalidInput."""
    if wanted in ("this", "last"):
        return week_of(now if wanted == "this" else now - WEEK)
    try:
        return week_of(datetime.strptime(wanted, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise InvalidInput(f"--week {wanted!r} is none of this, last, YYYY-MM-DD") from None


def choose(report: Report, wanted: str) -> Week:
    """Return the week wanted: "this" (the newest), "last", or one with a day YYYY-MM-DD.

    Raises InvalidInput that says which there are.
    """
    weeks = sorted(report.weeks, key=lambda week: week.start)
    start = start_of(wanted, report.written)
    for week in weeks:
        if week.start == start:
            return week
    if wanted == "this":
        return Week(start)
    there = ", ".join(day(week.start) for week in weeks) or "none"
    raise InvalidInput(f"nothing is kept of the week of {day(start)}; weeks kept: {there}")


def weekly(report: Report, waiting: Sequence[Told], week: Week) -> Weekly:
    """Return the facts of one week of a report."""
    sums = week.sums
    present = week.start <= report.written < week.start + WEEK
    told = [*week.gangs, *(waiting if present else ())]
    told.sort(key=lambda gang: (-gang.weight, gang.since, gang.gang))
    return Weekly(
        start=week.start,
        until=min(week.start + WEEK, max(week.start, report.written)),
        since=report.since if report.since > week.start + 60 else 0.0,
        sums=sums,
        lines=_lines(sums),
        series=_series(week.days),
        gangs=tuple(told[:MOST_ROWS]),
        more=week.left_out + max(0, len(told) - MOST_ROWS),
        findings=tuple(_findings(sums)),
    )


def _lines(sums: Sums) -> tuple[SummaryRow, ...]:
    return (
        SummaryRow(
            "pods evicted for gangs", str(sums.evicted_for_gangs), str(sums.would_evict_pods)
        ),
        SummaryRow(
            "... of them for gangs that never had their quorum", str(sums.evicted_in_vain), ""
        ),
        SummaryRow(
            "GPU-hours of work lost with pods evicted for gangs",
            f"{sums.lost_for_gangs / 3600:.1f}",
            f"{sums.would_lose / 3600:.1f}",
        ),
        SummaryRow("pods evicted for others", str(sums.evicted_pods - sums.evicted_for_gangs), ""),
        SummaryRow(
            "gangs that lost their quorum to gangs",
            str(sums.broken_for_gangs),
            str(sums.would_break_gangs),
        ),
        SummaryRow("... and to others", str(sums.broken_gangs - sums.broken_for_gangs), ""),
        SummaryRow("... of both, with members left on nodes", str(sums.half_broken_gangs), ""),
        SummaryRow("gangs that ran in part for 10 s or more", str(sums.in_part_gangs), ""),
        SummaryRow("hours that their members ran so", f"{sums.in_part_pod_seconds / 3600:.1f}", ""),
        SummaryRow("seats of its plans that others took", str(sums.seats_lost), ""),
        SummaryRow(
            "gangs that waited for their quorum", str(sums.gangs), f"{sums.planned} planned"
        ),
        SummaryRow("... and had it in the end", str(sums.whole), ""),
        SummaryRow("... and ended before", str(sums.gone), f"{sums.refused} refused to the end"),
    )


def _series(days: Sequence[Sums]) -> tuple[Series, ...]:
    return (
        Series(
            "Pods evicted for gangs",
            "pods",
            (THEY, WE),
            (
                tuple(float(one.evicted_for_gangs) for one in days),
                tuple(float(one.would_evict_pods) for one in days),
            ),
        ),
        Series(
            "Gangs that lost their quorum to gangs",
            "gangs",
            (THEY, WE),
            (
                tuple(float(one.broken_for_gangs) for one in days),
                tuple(float(one.would_break_gangs) for one in days),
            ),
        ),
        Series(
            "Gangs that preemption left on nodes in part",
            "gangs",
            (THEY,),
            (tuple(float(one.half_broken_gangs) for one in days),),
        ),
        Series(
            "Members that ran without their quorum",
            "pod hours",
            (THEY,),
            (tuple(one.in_part_pod_seconds / 3600 for one in days),),
        ),
    )


def _findings(sums: Sums) -> list[str]:
    """Say what stands out; nothing is said that the sums do not show."""
    if not sums.gangs and not sums.evicted_pods:
        return ["No gang waited for its quorum, and no pod was evicted by preemption."]
    found = []
    if sums.half_broken_gangs:
        found.append(
            f"{counted(sums.half_broken_gangs, 'gang')} lost the quorum to a preemption that left "
            "other members on their nodes. The extender evicts such a gang completely or "
            "not at all."
        )
    if sums.evicted_in_vain:
        found.append(
            f"{counted(sums.evicted_in_vain, 'pod')} were evicted for gangs that never had their "
            "quorum. The extender evicts no pod for a gang that would not fit then."
        )
    if sums.in_part_gangs:
        hours = sums.in_part_pod_seconds / 3600
        found.append(
            f"{counted(sums.in_part_gangs, 'gang')} ran in part, for {hours:.1f} pod "
            "hours in all. The extender places the whole quorum or no member."
        )
    if sums.seats_lost:
        found.append(
            f"{counted(sums.seats_lost, 'seat')} of its plans were taken by pods of equal or lower "
            "priority, from which it would have kept them."
        )
    if sums.would_evict_pods > sums.evicted_for_gangs:
        found.append(
            f"The extender would have evicted more pods for gangs than was done "
            f"({sums.would_evict_pods}, {sums.evicted_for_gangs}): gangs that waited all the time "
            "would have had room."
        )
    return found or ["Nothing to report: no pod was evicted in vain, and no gang was left in part."]


def day(moment: float) -> str:
    """Return the date of a moment, in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


def clock(moment: float) -> str:
    """Return a moment, in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")


def lasted(gang: Told, until: float) -> str:
    """Return how long a gang has waited, for a person."""
    seconds = max(0.0, (gang.until or until) - gang.since)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} d"


def did(gang: Told) -> str:
    """Return in words what schedulers did for a gang."""
    parts = []
    if gang.evicted:
        parts.append(f"evicted {counted(gang.evicted, 'pod')}")
    if gang.broke:
        half = f", {len(gang.half_broke)} left in part" if gang.half_broke else ""
        parts.append(f"broke {_some(gang.broke)}{half}")
    if gang.in_part_seconds:
        parts.append(f"{gang.most_bound} of {gang.quorum} ran for {gang.in_part_seconds:.0f} s")
    if gang.seats_lost:
        parts.append(f"{counted(gang.seats_lost, 'seat')} lost")
    return "; ".join(parts) or "nothing"


def would(gang: Told) -> str:
    """Return in words what we would have done for it."""
    if gang.answer is not OurAnswer.PLAN:
        return gang.message or "was not asked"
    evicts = counted(gang.would_evict, "pod")
    broke = f", with {_some(gang.would_break)} whole" if gang.would_break else ""
    return f"{counted(gang.seats, 'seat')}, {evicts} evicted{broke}"


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{counted(len(names), 'gang')} ({names[0]}, ...)"


NOTES = (
    "What the extender would have done is the first plan for each gang, on the cluster as it was "
    "when the gang came, as if no other gang was waiting. What it would have changed later is not "
    "in the numbers.",
    "A pod counts as evicted by preemption when it has the condition DisruptionTarget with reason "
    "PreemptionByScheduler; the preemptor is known from nominations, bindings and, where "
    "kube-scheduler calls the extender, its calls.",
)
