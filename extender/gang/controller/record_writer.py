"""Keeps the record of every plan until nothing is owed for it any more.

The record outlives its plan while units that have gone in part are not finished: whoever
starts next finishes them. Every write is made by one task a record, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog
from msgspec import Struct
from msgspec.structs import replace

from extender.gang.controller.records import Loaded, Records, Superseded
from extender.gang.core.record import Others, Record
from extender.gang.core.reservations import Preemption
from extender.gang.leader_election.leadership import Leadership
from extender.gang.runtime.background import Background
from extender.kube.api_errors import ApiError
from extender.model.plan import Victim

log = structlog.get_logger("gang")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class Kept(Struct, kw_only=True):
    """A record that is, or may be, in the API."""

    record: Record
    over: bool = False
    """Its plan has ended."""
    owed: tuple[str, ...] = ()
    """Uids still to be evicted of units that have gone in part."""
    written: tuple[str, ...] | None = None
    """``owed`` as last written; None: the plan is written as in flight."""
    busy: bool = False
    """A task is writing it."""


class RecordWriter:
    """Writes, updates and deletes plan records as preemptions and units go on."""

    def __init__(self, records: Records, leadership: Leadership, background: Background) -> None:
        self._records = records
        self._leadership = leadership
        self._spawn = background.spawn
        self._epoch = leadership.epoch
        self._kept: dict[str, Kept] = {}
        """Plan id -> record."""

    async def write(self, preemption: Preemption, made: float, others: Others) -> None:
        """Write the record of a new plan. Raises ApiError when it is not surely there."""
        record = Record(
            id=preemption.id,
            epoch=self._epoch,
            plan=preemption.plan,
            made=made,
            others=others,
            completes=preemption.completes,
            evicted=tuple(sorted(preemption.evicted_before)),
            overdue=preemption.overdue,
        )
        kept = self._kept[preemption.id] = Kept(record=record, busy=True, over=preemption.over)
        try:
            await self._records.create(record)
        except ApiError:
            kept.over = True
            raise
        finally:
            kept.busy = False
            self._push(kept)

    async def load(self) -> Loaded:
        """Return the records of a life before, put under our epoch. Raises ApiError.

        To be called while the lease is ours: whatever epoch a record has, it is an older one.
        (Lease objects can be deleted, and their count of transitions then begins anew.)
        """
        loaded = await self._records.load()
        older = [record.epoch for record in loaded.records]
        self._epoch = max(self._leadership.epoch, 1 + max(older, default=-1))
        mine = [await self._records.claim(record, self._epoch) for record in loaded.records]
        return Loaded(mine, loaded.unreadable, loaded.created)

    @property
    def signed(self) -> bool:
        """Whether what is read is surely ours."""
        return self._records.signer.signs

    def keep_aside(self, record: Record, why: str) -> None:
        """Neither act on a record nor delete it, and tell why."""
        self._records.keep_aside(record, why)

    def adopt(self, record: Record) -> None:
        """Look after a record that was loaded."""
        self._kept[record.id] = Kept(record=record, written=record.finishing)

    def keeps(self, plan_id: str) -> bool:
        """Whether the plan's record is there and not about to be deleted."""
        kept = self._kept.get(plan_id)
        return kept is not None and (not kept.over or bool(kept.owed))

    def over(self, plan_id: str, owed: Callable[[str], Iterable[Victim]]) -> None:
        """The plan has ended; ``owed`` returns what of its victims has to be finished."""
        kept = self._kept.get(plan_id)
        if kept is not None:
            kept.over = True
            self.settle(plan_id, owed)

    def settle(self, plan_id: str, owed: Callable[[str], Iterable[Victim]]) -> None:
        """Take note of what an ended plan's units still owe; drop the record when it is nothing.

        Asked for after each eviction: while the plan is in flight nothing is counted.
        """
        kept = self._kept.get(plan_id)
        if kept is None or not kept.over:
            return
        kept.owed = tuple(sorted(victim.uid for victim in owed(plan_id)))
        self._push(kept)

    def _push(self, kept: Kept) -> None:
        if kept.over and not kept.busy:
            kept.busy = True
            self._spawn(self._bring_up(kept))

    async def _bring_up(self, kept: Kept) -> None:
        """Make the record say what is owed, or delete it; until that is done."""
        pause = FIRST_PAUSE
        try:
            while self._leadership.acts:
                try:
                    if not kept.owed:
                        await self._records.drop(kept.record)
                        if not kept.owed:
                            self._kept.pop(kept.record.id, None)
                            return
                    elif kept.written is not None:
                        return  # what was owed at first is written; the cluster shows the rest
                    else:
                        owed = kept.owed
                        await self._records.update(replace(kept.record, finishing=owed))
                        kept.written = owed
                except Superseded:
                    self._kept.pop(kept.record.id, None)
                    return
                except ApiError as error:
                    log.warning(
                        "plan record not up to date", config_map=kept.record.name, error=str(error)
                    )
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            kept.busy = False

    async def sweep(self) -> None:
        """Delete records that belong to no plan. Raises ApiError."""

        def live() -> set[str]:
            return {kept.record.name for kept in self._kept.values()}

        youngest = await self._records.sweep(live, self._epoch)
        if self._leadership.acts:
            # The lease was ours when they were read, so whatever is younger is of a term before
            # this one, as in load(): the storage was put back to before it was deleted.
            self._epoch = max(self._epoch, youngest)
