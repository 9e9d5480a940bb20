"""What is written down about a plan, and how it is packed into objects of the API.

A record holds what a later life needs and no more: seats, victims and whom to wait for,
without explanations. Packed and compressed it is cut into parts below the API server's limit
for one object (1 MiB of data in a ConfigMap; 1.5 MiB a request in etcd): 10,000 seats with
10,000 victims are two parts.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable
from itertools import groupby

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from extender.gang.plan.single import SINGLE
from extender.gang.plan.validity import Resolves, present
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Victim
from extender.model.snapshot import Snapshot
from extender.settings.policy import SYSTEM_CRITICAL

FORMAT = 2
PART_BYTES = 512 * 1024
MOST_BYTES = 256 * 1024 * 1024
"""What a record may unpack to; a forged one must not fill the memory."""


class Others(Struct, frozen=True, kw_only=True):
    """Members of a plan's victim units that are no victims, when the plan was recorded."""

    bound: tuple[str, ...] = ()
    """Uids of those that had a node: they stay where the unit goes."""


class Record(Struct, frozen=True, kw_only=True):
    """The stored form of a plan. ``format`` changes when a reader could misunderstand it."""

    format: int = FORMAT
    id: str
    """The plan's; a gang's next plan has another one, and other objects."""
    epoch: int = 0
    """Of the lease under which it was written last."""
    plan: Plan
    made: float
    """Wall clock of the replica that made it."""
    others: Others = Others()
    """Empty where a version before has not written them."""
    completes: bool = False
    """Members sit by a plan before, which it took the place of: it completes their start."""
    evicted: bool | tuple[str, ...] = ()
    """Nodes that pods have gone from for a plan before, which it took the place of. A version
    before wrote only whether some have."""
    overdue: bool = False
    """Pods did not go in time for a plan before, which it took the place of: no further pod is
    evicted."""
    finishing: tuple[str, ...] | None = None
    """None: the plan is under way. Else it is over, and these pods (uids) of units that have
    gone in part are still to be evicted."""

    @property
    def evicted_from(self) -> frozenset[str]:
        """As ``evicted``; all nodes with a seat where it is only known that pods have gone."""
        if isinstance(self.evicted, bool):
            return frozenset(seat.node for seat in self.plan.seats if self.evicted)
        return frozenset(self.evicted)

    @property
    def name(self) -> str:
        """The name of its first ConfigMap; further parts append -1, -2, ..."""
        return record_name(self.plan.gang, self.id)


def record_name(gang: GangKey, plan_id: str) -> str:
    """Return the ConfigMap name of one plan of a gang."""
    digest = hashlib.sha256(str(gang).encode()).hexdigest()[:16]
    return f"podgroup-plan-{digest}-{plan_id}"


def pack(record: Record) -> list[bytes]:
    """Return the record's parts, each of PART_BYTES at most."""
    plan = record.plan if record.finishing is None else _owed(record.plan, record.finishing)
    bare = replace(
        plan,
        explanation=(),
        spared="",
        victims=tuple(replace(victim, reason="", owner=None) for victim in plan.victims),
        waits_for=tuple(replace(victim, reason="", owner=None) for victim in plan.waits_for),
    )
    packed = zlib.compress(msgspec.msgpack.encode(replace(record, plan=bare)))
    return [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]


def _owed(plan: Plan, uids: Iterable[str]) -> Plan:
    """Return what matters of a plan that is over: the units that are owed, each with all its pods.

    How many of them are gone tells whether it has begun. One seat says for whom it was.
    """
    wanted = set(uids)
    units = {victim.unit for victim in plan.victims if victim.uid in wanted}
    victims = tuple(v for v in plan.victims if v.uid in wanted or (v.unit and v.unit in units))
    return replace(plan, victims=victims, seats=plan.seats[:1], waits_for=())


def unpack(parts: list[bytes]) -> Record:
    """Return the record these parts hold. Raises InvalidInput."""
    inflater = zlib.decompressobj()
    try:
        packed = inflater.decompress(b"".join(parts), MOST_BYTES)
        if inflater.unconsumed_tail or not inflater.eof:
            raise InvalidInput("the record is cut off or too large")
        record = msgspec.msgpack.decode(packed, type=Record)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the record cannot be read: {error}") from error
    if record.format != FORMAT:
        raise InvalidInput(f"the record has format {record.format}, only {FORMAT} can be read")
    return record


HIGHEST = SYSTEM_CRITICAL + 1000
"""system-node-critical, the highest priority there is."""


def doubt(record: Record, snapshot: Snapshot, gangs: Resolves, *, signed: bool) -> str:
    """Return why a record that was read must not be acted on at all, "" when it may be.

    A record that asks for what no plan of ours could say is not ours, or was changed; it is kept
    aside whatever its signature says. What merely does not hold any more is no reason for doubt.
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


class RecordedVictims:
    """The victims that a record names, and what has become of them by a snapshot.

    ``created``: when the record was made, in whole seconds of the API server's clock; 0: unknown.
    ``leaves``: whether a pod's end is near, at a wall time.
    """

    def __init__(
        self, snapshot: Snapshot, created: float, leaves: Callable[[Pod, float], bool]
    ) -> None:
        self.snapshot = snapshot
        self.created = created
        self._leaves = leaves

    def leaves(self, victim: Victim) -> bool:
        """Whether a victim is there and on its way out.

        Its end may be far off by a clock that was set back meanwhile; it was not when the record
        was made, by the API server's clock.
        """
        pod = present(victim, self.snapshot)
        moments = (self.snapshot.now, self.created)
        return pod is not None and any(self._leaves(pod, now) for now in moments)

    def begun(self, unit: Iterable[Victim]) -> bool:
        """Whether a pod of a unit has gone, or is about to."""
        return any(not present(v, self.snapshot) or self.leaves(v) for v in unit)


def whole_units(record: Record) -> list[list[Victim]]:
    """Return the victims that go together or not at all, by unit."""
    whole = sorted((v for v in record.plan.victims if v.unit), key=lambda v: (v.unit, v.uid))
    return [list(unit) for _, unit in groupby(whole, key=lambda v: v.unit)]


def others_of(plan: Plan, snapshot: Snapshot) -> Others:
    """Return the members of the plan's units that are none of its victims."""
    named = {victim.uid for victim in plan.victims}
    units = sorted({victim.unit for victim in plan.victims if victim.unit})
    members = [pod for unit in units for pod in snapshot.members.get(GangKey.read(unit), ())]
    return Others(bound=tuple(pod.uid for pod in members if pod.node and pod.uid not in named))
