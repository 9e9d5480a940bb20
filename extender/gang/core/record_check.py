"""What a plan record may ask for, compared with the cluster: it is checked as a new plan is.

A record that asks for what no plan of ours could say is not ours, or was changed; it is kept
aside whatever its signature says. What merely does not hold any more is no reason for doubt.
"""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.core.record import Record
from extender.gang.plan.single import SINGLE
from extender.gang.plan.validity import Resolves, present
from extender.model.plan import Victim
from extender.model.snapshot import Snapshot
from extender.settings.policy import SYSTEM_CRITICAL

HIGHEST = SYSTEM_CRITICAL + 1000
"""system-node-critical, the highest priority there is."""


def doubt(record: Record, snapshot: Snapshot, gangs: Resolves, *, signed: bool) -> str:
    """Return why a record that was read must not be acted on at all, "" when it may be.

    ``signed``: its signature is ours, so that what it says of a preemptor that is gone counts.
    """
    plan = record.plan
    if plan.priority > HIGHEST:
        return f"no pod has a priority of {plan.priority}"
    seats = {seat.uid for seat in plan.seats}
    victims = {victim.uid for victim in plan.victims}
    if not seats or len(seats) < len(plan.seats) or len(victims) < len(plan.victims):
        return "it names no member to seat, or one twice"
    if seats & victims:
        return "it names a member as a victim"
    if (
        not signed
        and plan.priority >= SYSTEM_CRITICAL
        and _justified(record, snapshot, gangs) < (SYSTEM_CRITICAL)
    ):
        return f"no pod of priority {plan.priority} is there, and it is not signed"
    for seat in plan.seats if plan.gang.dialect == SINGLE else ():
        pod = snapshot.pending.get(seat.uid)
        if pod is not None and (pod.namespace, pod.name) != (plan.gang.namespace, plan.gang.name):
            return f"{pod.key}, to be seated, is not of {plan.gang}"
    for victim in plan.victims:
        pod = present(victim, snapshot)
        if pod is None:
            continue
        if (pod.namespace, pod.name) != (victim.namespace, victim.name):
            return f"{pod.key} is called {victim.namespace}/{victim.name} in it"
    strangers = {victim.uid: victim for victim in plan.victims if _left(victim, snapshot, gangs)}
    if strangers and not any(
        victim.uid not in strangers and present(victim, snapshot) for victim in plan.victims
    ):
        first = next(iter(strangers.values()))
        return f"{first.namespace}/{first.name}, to be evicted with {first.unit}, is not of it"
    return ""


def without_strangers(record: Record, snapshot: Snapshot, gangs: Resolves) -> Record:
    """Return the record without victims that are not of the unit they are to go with.

    A pod's owner may have changed the label that names its gang. That is no reason to leave
    another unit, of which a part has gone, as it is.
    """
    kept = tuple(v for v in record.plan.victims if not _left(v, snapshot, gangs))
    return replace(record, plan=replace(record.plan, victims=kept))


def _left(victim: Victim, snapshot: Snapshot, gangs: Resolves) -> bool:
    pod = present(victim, snapshot) if victim.unit else None
    return pod is not None and str(gangs.unit_key(pod)) != victim.unit


def priority_of(record: Record, snapshot: Snapshot, gangs: Resolves, *, signed: bool) -> int:
    """Return at what priority begun units may be finished: the plan's, as far as it is justified.

    When members of the preemptor are there, by theirs; when not, only a signature, or the
    rights on our own namespace, vouch for what is written.
    """
    if signed:
        return record.plan.priority
    return min(record.plan.priority, _justified(record, snapshot, gangs))


def _justified(record: Record, snapshot: Snapshot, gangs: Resolves) -> int:
    """The preemptor's priority now; the highest of users' classes when it is gone."""
    key = record.plan.gang
    if key.dialect == SINGLE:
        for seat in record.plan.seats:
            pod = snapshot.pending.get(seat.uid)
            if pod is not None:
                return pod.priority
        return SYSTEM_CRITICAL - 1
    if key not in snapshot.members:
        return SYSTEM_CRITICAL - 1
    return gangs.resolve(key, snapshot).preemptor_priority
