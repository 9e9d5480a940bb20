"""What is written down about a plan, and how it is packed into objects of the API.

A record holds what a later life needs and no more: seats, victims and whom to wait for,
without explanations. Packed and compressed it is cut into parts below the API server's limit
for one object (1 MiB of data in a ConfigMap; 1.5 MiB a request in etcd): 10,000 seats with
10,000 victims are two parts.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from extender.model.errors import InvalidInput
from extender.model.objects import GangKey
from extender.model.plan import Plan

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
    """None: the plan is in flight. Else it is over, and these pods (uids) of units that have
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
