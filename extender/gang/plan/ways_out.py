"""What would change a refusal, for whoever can do something about it. Pure.

Names no other pods: a member's owner may read this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.gang.incremental.preemptability import outranking
from extender.gang.plan.built import Built
from extender.groups.patience import PATIENCE
from extender.model.gang import Gang
from extender.model.owners import HIGHEST_USER
from extender.model.plan import Way
from extender.model.texts import cut, some
from extender.search.problem import Infeasible

MOST_CLASSES = 4
MOST_TIERS = 3
MOST_TEXT = 512
BOOKING = (
    "fairness.booking: true (off now): room that pods of the same priority leave is then kept for "
    "the gang that has waited longest, so that no smaller or later one takes it"
)


def ways_out(
    gang: Gang,
    built: Built,
    answer: Infeasible,
    stays: Sequence[str],
    *,
    struck: bool,
    quorum: int = 0,
    booking: bool = True,
    missing: Sequence[str] = (),
) -> tuple[Way, ...]:
    """Return what would change the refusal, each by itself.

    ``stays``: why pods on nodes that the members may use stay, as Build.stayers tells it.
    ``struck``: nodes were taken out of the question, so its shortage is no measure. ``quorum``: a
    smaller minCount that was tried and has a plan; 0: none. ``booking``: whether starts are booked
    (fairness.booking). ``missing``: resources that no node offers.
    """
    if struck or not answer.proved:
        return ()
    short = some(
        [f"{members} more of {built.problem.classes[cls].name}" for cls, members in answer.short],
        MOST_CLASSES,
        by=" and ",
    )
    if not built.usable:
        offer = f"offer {' and '.join(missing)} and " if missing else ""
        text = f"nodes that {offer}accept {short} by labels, taints and size"
        return (_way(text),) if short else ()
    if not gang.preempts:
        return (_way("free room, or a PriorityClass whose preemptionPolicy is not Never"),)
    found = []
    problem = built.problem
    # Room is what lacks only where no rule caps the members of a domain.
    if short and not problem.caps and not problem.spreads:
        place = f", all in one {gang.topology_key}" if gang.topology_key else ""
        found.append(_way(f"free room for {short}{place}"))
    if quorum:
        found.append(_way(f"a quorum (minCount) of {quorum} or less", min_count=quorum))
    if built.slow:
        found.append(
            _way(
                f"an owner that waits {max(pod.grace for pod in built.slow)} s or longer for its "
                f"pods to get a node, not {gang.patience:g} s (groups.patienceSeconds, or "
                f"annotation {PATIENCE}), or shorter grace periods"
            )
        )
    found += _priorities(stays)
    if short and not booking and gang.preemptor_priority in map(outranking, stays):
        found.append(_way(BOOKING))
    return tuple(found)


def _priorities(stays: Iterable[str]) -> list[Way]:
    # Above HIGHEST_USER only the system's own classes are, and the API server refuses others.
    found = {least for why in stays if (least := outranking(why)) is not None}
    tiers = sorted(least for least in found if least < HIGHEST_USER)
    ways = []
    for below, least in zip([None, *tiers], tiers[:MOST_TIERS], strict=False):
        # Each takes in the ones before: the lowest that is enough is the one to ask for.
        enough = (
            "which may be enough" if below is None else f"if those up to {below} are not enough"
        )
        text = f"a priority above {least}: pods that stay up to that priority could go, {enough}"
        ways.append(_way(text, priority=least + 1))
    return ways


def _way(text: str, priority: int | None = None, min_count: int | None = None) -> Way:
    return Way(cut(text, MOST_TEXT), priority, min_count)
