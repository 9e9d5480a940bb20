"""Members that were on their way to a node when their unit went in part: no record names them.

While the process lives they go with the rest (``Evictions.joined``). A life after that finds them
in the cluster: a member that was made before the plan was recorded, and has a node, was there when
the unit went. Not where its gang runs, nor where one that was made since has a node: it is of its
gang's next life then. Nor where it had a node beside the unit when that was recorded: it is
shielded, and no part of it. When both were made is told by the API server's clock, never by ours. A
record that is gone is written anew, so it says besides when the newest of those members was made.
"""

from __future__ import annotations

from itertools import groupby

from msgspec.structs import replace

from extender.gang.core.record import Others, Record
from extender.gang.core.recorded_victims import RecordedVictims
from extender.gang.core.unit import beside
from extender.gang.plan.validity import Resolves, present, whole_again
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Victim
from extender.model.snapshot import Snapshot


def whole_units(record: Record) -> list[list[Victim]]:
    """Return the victims that go together or not at all, by unit."""
    whole = sorted((v for v in record.plan.victims if v.unit), key=lambda v: (v.unit, v.uid))
    return [list(unit) for _, unit in groupby(whole, key=lambda v: v.unit)]


def others_of(plan: Plan, snapshot: Snapshot) -> Others:
    """Return the members of the plan's units that are none of its victims."""
    named = {victim.uid for victim in plan.victims}
    units = sorted({victim.unit for victim in plan.victims if victim.unit})
    members = [pod for unit in units for pod in snapshot.members.get(GangKey.read(unit), ())]
    others = [pod for pod in members if pod.uid not in named]
    return Others(
        made=max((pod.created for pod in others), default=0.0),
        bound=tuple(pod.uid for pod in others if pod.node),
    )


def with_late_members(record: Record, recorded: RecordedVictims, gangs: Resolves) -> Record:
    """Return the record with those members among its victims."""
    late = [
        victim
        for unit in whole_units(record)
        if recorded.begun(unit)
        for victim in _late(unit, record, recorded, gangs)
    ]
    if not late:
        return record
    plan = replace(record.plan, victims=(*record.plan.victims, *late))
    owed = record.finishing
    if owed is not None:
        owed = tuple(sorted({*owed, *(victim.uid for victim in late)}))
    return replace(record, plan=plan, finishing=owed)


def _late(
    unit: list[Victim], record: Record, recorded: RecordedVictims, gangs: Resolves
) -> list[Victim]:
    gang = _gang_of(unit, recorded.snapshot, gangs)
    known = {victim.uid for victim in unit}.union(record.others.bound)
    if gang is None or whole_again(gang, known, len(unit)):
        return []
    others = [pod for pod in gang.bound if pod.uid not in known]
    if any(not _older(pod, record, recorded) for pod in others):
        return []
    return [beside(unit[0], pod) for pod in others]


def late_if_touched(
    unit: list[Victim], record: Record, recorded: RecordedVictims, gangs: Resolves
) -> list[Victim]:
    """Return who goes with an unharmed unit, should a request of the life before still arrive."""
    gang = _gang_of(unit, recorded.snapshot, gangs)
    known = {victim.uid for victim in unit}.union(record.others.bound)
    others = () if gang is None else gang.bound
    late = [pod for pod in others if pod.uid not in known and _older(pod, record, recorded)]
    return [beside(unit[0], pod) for pod in late]


def _gang_of(unit: list[Victim], snapshot: Snapshot, gangs: Resolves) -> Gang | None:
    """What the unit is now; by its name where nobody that the record names is left."""
    pod = next((pod for victim in unit if (pod := present(victim, snapshot)) is not None), None)
    key = GangKey.read(unit[0].unit) if pod is None else gangs.unit_key(pod)
    return gangs.resolve(key, snapshot) if key is not None and key in snapshot.members else None


def _older(pod: Pod, record: Record, recorded: RecordedVictims) -> bool:
    """Whether it was there for sure: what was made within one second is in no order."""
    return pod.created + 1.0 <= min(recorded.created, record.others.made + 1.0)
