"""What would change a refusal, for whoever can do something about it. Pure.

Names no other pods: a member's owner may read this.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.gang.plan.built import Built
from extender.gang.plan.changes import HelpfulChanges
from extender.groups.patience import PATIENCE
from extender.model.gang import Gang
from extender.model.plan import Way
from extender.model.texts import cut, some
from extender.search.problem import Infeasible

MOST_CLASSES = 4
MOST_TEXT = 512
BOOKING = (
    "fairness.booking: true (off now): room that pods of the same priority leave is then kept for "
    "the gang that has waited longest, so that no smaller or later one takes it"
)


def ways_out(
    gang: Gang,
    built: Built,
    answer: Infeasible,
    changes: HelpfulChanges,
    *,
    missing: Sequence[str] = (),
    unfit: bool = True,
    closed: bool = False,
    behind_equals: bool = False,
) -> tuple[Way, ...]:
    """Return what would change a refusal that is proved, each by itself.

    ``changes``: those that were tried. ``missing``: resources that no node offers.
    ``closed``: some of the members that found no seat may use no node beside the pods that are
    there, whatever room it has. ``unfit``: labels, taints or size keep all those off every node.
    ``behind_equals``: pods of the gang's own priority stay, and starts are not booked
    (fairness.booking).
    """
    short = some(
        [f"{members} more of {built.problem.classes[cls].name}" for cls, members in answer.short],
        MOST_CLASSES,
        by=" and ",
    )
    offer = f"offer {' and '.join(missing)} and " if missing else ""
    nodes = f"nodes that {offer}accept {short} by labels, taints and size"
    if not built.usable:
        return (_way(nodes),) if short and unfit else ()
    if not gang.preempts:
        policy = ", or a PriorityClass whose preemptionPolicy is not Never"
        return (_way("free room" + (policy if changes.preempts else "")),)
    found = []
    if changes.room and closed:
        found += [_way(nodes)] if unfit else []
    elif changes.room:
        place = f", all in one {gang.topology_key}" if gang.topology_key else ""
        found.append(_way(f"free room for {short}{place}"))
    if changes.quorum:
        text = f"a quorum (minCount) of {changes.quorum} or less"
        found.append(_way(text, min_count=changes.quorum))
    if changes.patience:
        found.append(
            _way(
                f"an owner that waits {changes.patience} s or longer for its "
                f"pods to get a node, not {gang.patience:g} s (groups.patienceSeconds, or "
                f"annotation {PATIENCE}), or shorter grace periods"
            )
        )
    least = changes.outranks
    if least is not None:
        text = f"a priority above {least}: enough pods that stay could then be evicted"
        found.append(_way(text, priority=least + 1))
    if short and behind_equals:
        found.append(_way(BOOKING))
    return tuple(found)


def _way(text: str, priority: int | None = None, min_count: int | None = None) -> Way:
    return Way(cut(text, MOST_TEXT), priority, min_count)
