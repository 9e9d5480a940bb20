"""One row a gang: where it stands, in the order a person wants to see. Not on the event loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from extender.console.capture import Capture, PreemptionSeen
from extender.console.pause import breathing
from extender.gang.incremental.gangs import Gangs
from extender.gang.tell.decisions import Decision
from extender.gang.tell.gang_status import GangState, described, standings
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey

ORDER = (
    GangState.EVICTING,
    GangState.WAITING,
    GangState.CHANGING,
    GangState.PLANNED,
    GangState.OPEN,
    GangState.LEAVING,
    GangState.REFUSED,
    GangState.SUSPENDED,
    GangState.PENDING,
    GangState.INCOMPLETE,
    GangState.REPAIR,
    GangState.RUNNING,
)
"""Of states: what moves, then what waits, then what is well."""
_RANK: Mapping[str, int] = {state: at for at, state in enumerate(ORDER)}

IN_FLIGHT = frozenset(ORDER[:5])
STUCK = frozenset((GangState.REFUSED, GangState.SUSPENDED, GangState.REPAIR))


class GangRow(Struct, frozen=True, kw_only=True):
    """What a list of gangs shows of one."""

    key: str
    dialect: str
    namespace: str
    name: str
    state: str
    why: str
    priority: int
    min_count: int
    members: int
    bound: int
    pending: int
    seats: int
    victims_left: int
    since: float | None
    """Wall clock since when members wait for a node; None when none does."""

    @property
    def rank(self) -> tuple[int, int, str]:
        """Where it comes in a list."""
        return (_RANK.get(self.state, len(ORDER)), -self.priority, self.key)


class GangReader:
    """Makes the rows, and keeps those of gangs that stay the same. One thread only."""

    def __init__(self, resolver: Resolver) -> None:
        self._gangs = Gangs(resolver)
        self._kept: dict[GangKey, tuple[Gang, Decision | None, GangRow]] = {}
        self._schedulers: frozenset[str] = frozenset()
        """With whom what is kept was told."""

    def read(self, capture: Capture) -> tuple[GangRow, ...]:
        """Return every gang's row, those that want attention first."""
        snapshot = capture.snapshot
        self._gangs.renew(snapshot)
        last = _last(capture)
        preemptions = {preemption.plan.gang: preemption for preemption in capture.preemptions}
        robbed = _robbed(capture)
        kept: dict[GangKey, tuple[Gang, Decision | None, GangRow]] = {}
        rows: list[GangRow] = []
        for key in breathing(snapshot.members):
            gang = self._gangs[key]
            decision = last.get(str(key))
            preemption = preemptions.get(key)
            suspended = capture.suspended.get(str(key), "")
            robber = robbed.get(str(key), "")
            plain = preemption is None and not suspended and not robber
            before = self._kept.get(key) if capture.schedulers == self._schedulers else None
            if before is not None and plain and before[0] is gang and before[1] is decision:
                row = before[2]
            else:
                row = _row(gang, preemption, decision, suspended, robber, capture.schedulers)
            if plain:
                kept[key] = (gang, decision, row)
            rows.append(row)
        rows += [
            _row(gang_of(preemption), preemption, last.get(str(key)), "")
            for key, preemption in preemptions.items()
            if key not in snapshot.members
        ]
        self._kept, self._schedulers = kept, capture.schedulers
        return tuple(sorted(rows, key=lambda row: row.rank))

    def gang(self, name: str, capture: Capture) -> Gang | None:
        """Return the gang of that key as text, in the capture that was read last."""
        key = key_of(name)
        if key is not None and key in capture.snapshot.members:
            return self._gangs[key]
        for preemption in capture.preemptions:
            if preemption.plan.gang == key:
                return gang_of(preemption)
        return None


def key_of(text: str) -> GangKey | None:
    """Return the key that a text is, None when it cannot be one."""
    dialect, colon, rest = text.partition(":")
    namespace, slash, name = rest.partition("/")
    return GangKey(dialect, namespace, name) if colon and slash and name else None


def gang_of(preemption: PreemptionSeen) -> Gang:
    """Return what is planned for where that is no gang of the cluster: a pod of its own."""
    members = tuple(preemption.members.values())
    return Gang(
        key=preemption.plan.gang,
        members=members,
        min_count=max(1, len(members)),
        preemptor_priority=preemption.plan.priority,
        victim_priority=preemption.plan.priority,
    )


def light_flight(preemption: PreemptionSeen) -> dict[str, object]:
    """Return of a plan in flight what a standing is told from."""
    return {
        "gang": str(preemption.plan.gang),
        "plan": preemption.id,
        "state": preemption.state,
        "seats": [
            {
                "namespace": preemption.members[uid].namespace,
                "name": preemption.members[uid].name,
                "node": node,
            }
            for uid, node in preemption.seats.items()
        ],
        "victimsLeft": [msgspec.to_builtins(victim) for victim in preemption.victims],
        "waitsFor": [msgspec.to_builtins(victim) for victim in preemption.waits],
    }


def light_decision(decision: Decision) -> dict[str, object]:
    """Return of a decision what a standing is told from."""
    return {
        "gang": decision.gang,
        "outcome": str(decision.outcome),
        "verb": str(decision.verb),
        "code": decision.code,
        "message": decision.message,
        "time": decision.time,
    }


def _row(
    gang: Gang,
    preemption: PreemptionSeen | None,
    decision: Decision | None,
    suspended: str,
    robber: str = "",
    schedulers: frozenset[str] = frozenset(),
) -> GangRow:
    standing = standings(
        [described(gang, schedulers)],
        [light_flight(preemption)] if preemption is not None else [],
        [light_decision(decision)] if decision is not None else [],
    )[0]
    state, why = standing.state, standing.why
    if suspended and state in (GangState.REFUSED, GangState.PENDING):
        state, why = GangState.SUSPENDED, suspended
    if robber and preemption is None and state != GangState.RUNNING:
        state, why = GangState.LEAVING, f"its pods are evicted for {robber}"
    waiting = [pod.created for pod in gang.pending if pod.created]
    return GangRow(
        key=str(gang.key),
        dialect=gang.key.dialect,
        namespace=gang.key.namespace,
        name=gang.key.name,
        state=state,
        why=why,
        priority=gang.preemptor_priority,
        min_count=gang.min_count,
        members=len(gang.members),
        bound=standing.bound,
        pending=standing.pending,
        seats=standing.seats,
        victims_left=standing.victims_left,
        since=min(waiting) if waiting and state != GangState.RUNNING else None,
    )


def _robbed(capture: Capture) -> Mapping[str, str]:
    """Return gang -> the one for which its pods go now."""
    return {
        victim.gang: str(preemption.plan.gang)
        for preemption in capture.preemptions
        for victim in preemption.plan.victims
        if victim.gang
    }


def _last(capture: Capture) -> Mapping[str, Decision]:
    found: dict[str, Decision] = {}
    for decision in capture.decisions:
        found.setdefault(decision.gang, decision)
    return found


def chosen(
    rows: tuple[GangRow, ...], text: str, states: frozenset[str], namespace: str
) -> Iterator[GangRow]:
    """Yield the rows that a person asks for; no states: all of them."""
    text = text.lower()
    for row in rows:
        if (
            (not states or row.state in states)
            and (not namespace or row.namespace == namespace)
            and (not text or text in row.key.lower())
        ):
            yield row
