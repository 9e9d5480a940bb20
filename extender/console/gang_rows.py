"""One row a gang: where it stands, in the order a person wants to see. Not on the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from extender.console.capture import Capture, PreemptionSeen
from extender.console.pause import breathing
from extender.gang.incremental.gangs import Gangs
from extender.gang.tell.decisions import Decision
from extender.gang.tell.gang_status import (
    Facts,
    GangState,
    GangStatus,
    GangStatuses,
    described,
    light,
    under_way,
)
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


class GangRow(Struct, frozen=True):
    """What a list of gangs shows of one."""

    key: str
    dialect: str
    namespace: str
    name: str
    status: GangStatus
    since: float | None
    """Wall clock since when members wait for a node; None when none does."""

    @property
    def rank(self) -> tuple[int, int, str]:
        """Where it comes in a list."""
        return (_RANK.get(self.status.state, len(ORDER)), -self.status.priority, self.key)


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
        last: dict[str, Decision] = {}
        for each in capture.decisions:
            last.setdefault(each.gang, each)
        statuses = GangStatuses(facts_of(capture, last.values()))
        kept: dict[GangKey, tuple[Gang, Decision | None, GangRow]] = {}
        rows: list[GangRow] = []
        for key in breathing(snapshot.members):
            gang = self._gangs[key]
            decision = last.get(str(key))
            plain = not statuses.passes(str(key))
            before = self._kept.get(key) if capture.schedulers == self._schedulers else None
            if before is not None and plain and before[0] is gang and before[1] is decision:
                row = before[2]
            else:
                row = _row(gang, statuses, capture.schedulers)
            if plain:
                kept[key] = (gang, decision, row)
            rows.append(row)
        rows += [
            _row(gang_of(preemption), statuses, capture.schedulers)
            for preemption in capture.preemptions
            if preemption.plan.gang not in snapshot.members
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


def facts_of(capture: Capture, decisions: Iterable[Decision]) -> Facts:
    """Return what statuses are told from."""
    return Facts(
        gangs=(),
        reservations=[
            under_way(
                seen.plan,
                seen.state,
                seen.seats,
                seen.members,
                (seen.victims, seen.waits),
                capture.time - seen.since,
                seen.deadline - capture.time if seen.deadline else None,
            )
            for seen in capture.preemptions
        ],
        evictions=[
            {"unit": unit.name, "preemptor": unit.preemptor, "error": unit.error}
            for unit in capture.units
        ],
        decisions=[light(decision) for decision in decisions],
        suspended=capture.suspended,
        now=capture.time,
    )


def _row(gang: Gang, statuses: GangStatuses, schedulers: frozenset[str]) -> GangRow:
    status = statuses.of(described(gang, schedulers))
    waiting = [pod.created for pod in gang.pending if pod.created]
    since = min(waiting) if waiting and status.state != GangState.RUNNING else None
    return GangRow(str(gang.key), *gang.key, status, since)


def chosen(
    rows: tuple[GangRow, ...], text: str, states: frozenset[str], namespace: str
) -> Iterator[GangRow]:
    """Yield the rows that a person asks for; no states: all of them."""
    text = text.lower()
    for row in rows:
        if (
            (not states or row.status.state in states)
            and (not namespace or row.namespace == namespace)
            and (not text or text in row.key.lower())
        ):
            yield row
