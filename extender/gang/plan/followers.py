"""A gang some of whose pods are made only once others run: nobody goes for a part alone.

What waits now is planned as ever, but only while there is a plan for the whole, with the pods to
come as their owner's template has them. The seats that are given must leave room for the rest:
first the best ones by themselves are tried, then those that the plan for the whole has. Nothing
is held for the pods to come, so what was free for them may be taken before they are there.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from extender.gang.incremental.classes import classes_of
from extender.gang.plan import exclusive
from extender.gang.plan.question import Masks, both
from extender.model.gang import Gang
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import cut

Planned = Callable[[Gang, Masks], Plan | Refusal]


def with_followers(
    gang: Gang, snapshot: Snapshot, masks: Masks, planned: Planned
) -> Plan | Refusal:
    """Return the plan for those that wait now, or why there is none for the whole."""
    alone, whole = replace(gang, followers=()), _whole(gang)
    best = planned(whole, masks)
    if isinstance(best, Refusal):
        those = "pod that is created" if len(gang.followers) == 1 else "pods that are created"
        text = f"with the {len(gang.followers)} {those} once these run: {best.message}"
        return replace(best, message=cut(text))
    key = exclusive.topology_key(gang)
    if key:
        found = _apart(gang, best, key, snapshot, masks, planned)
        if found is not None or best.victims:
            return found or _no_domains(gang, key, snapshot)
    first = planned(alone, masks)
    if isinstance(first, Refusal):
        return first
    if isinstance(planned(whole, _kept_to(first, gang, snapshot, masks)), Plan):
        return first
    return planned(alone, _kept_to(best, gang, snapshot, masks))


def _whole(gang: Gang) -> Gang:
    return replace(
        gang,
        followers=(),
        members=(*gang.members, *gang.followers),
        min_count=gang.min_count + len(gang.followers),
    )


def _apart(
    gang: Gang, best: Plan, key: str, snapshot: Snapshot, masks: Masks, planned: Planned
) -> Plan | None:
    """Return a plan for those that wait now in which each Job has a domain of its own."""
    jobs = exclusive.jobs_of(gang)
    for domains in exclusive.choices(jobs, best, key, snapshot) if jobs else ():
        marked, inside = exclusive.apart(gang, jobs, domains, key, snapshot)
        whole = planned(_whole(marked), both(masks, inside))
        if isinstance(whole, Plan):
            seats = exclusive.at_its_seats(whole, marked, snapshot)
            found = planned(replace(marked, followers=()), both(masks, seats))
            if isinstance(found, Plan):
                return exclusive.unproved(found)
    return None


def _no_domains(gang: Gang, key: str, snapshot: Snapshot) -> Refusal:
    return Refusal(
        gang=gang.key,
        code=Code.INFEASIBLE,
        message=f"exclusive topology: each of its Jobs needs a {key} of its own with room for all "
        "of its pods, and no such choice was found; no pod is evicted for a part",
        generation=snapshot.generation,
    )


def _kept_to(plan: Plan, gang: Gang, snapshot: Snapshot, masks: Masks) -> Masks:
    """Return masks that leave the waiting no nodes but those the plan has for their class."""
    seats = {seat.uid: seat.node for seat in plan.seats}
    kept = dict(masks)
    for group in classes_of(gang.pending):
        nodes = {seats[pod.uid] for pod in group if pod.uid in seats}
        refused = frozenset(snapshot.nodes.keys() - nodes)
        for pod in group:
            kept[pod.uid] = kept.get(pod.uid, frozenset()) | refused
    return kept
